"""Any Linux device as a Kubernetes extended resource."""

__version__ = "0.1.0"
