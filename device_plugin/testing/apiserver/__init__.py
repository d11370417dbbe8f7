"""A small API server to test DRA drivers against, in any language, without a cluster."""

from device_plugin.testing.apiserver.claims import allocated_claim, result
from device_plugin.testing.apiserver.refusals import Refusal
from device_plugin.testing.apiserver.server import ApiServer
from device_plugin.testing.apiserver.troubles import Request

__all__ = ["ApiServer", "Refusal", "Request", "allocated_claim", "result"]
