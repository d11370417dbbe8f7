"""Any Linux device as a Kubernetes extended resource."""
