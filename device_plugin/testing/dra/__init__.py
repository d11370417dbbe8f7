"""The embedded kubelet's side of Dynamic Resource Allocation (C)."""
