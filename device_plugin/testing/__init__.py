"""An embedded kubelet to test device plugins against, in any language, without a cluster."""

from device_plugin.testing.container_config import ContainerConfig, DeviceConfig, MountConfig
from device_plugin.testing.dra.claims import PrepareError
from device_plugin.testing.dra.records import (
    ClaimCall,
    DeviceHealth,
    DraTimes,
    Instance,
    PreparedDevice,
)
from device_plugin.testing.kubelet import FakeKubelet
from device_plugin.testing.podresources import PodResources
from device_plugin.testing.pods import (
    Container,
    ContainerClaim,
    ContainerStatus,
    ExtendedClaim,
    Pod,
    PodClaim,
    PodRecord,
)
from device_plugin.testing.records import (
    AdmissionError,
    Call,
    ContainerError,
    DeviceList,
    Handshake,
    KubeletPanic,
    NodeStatus,
    Panic,
    Query,
    Registration,
    RuntimeRefusal,
)
from device_plugin.testing.runtime import Created, CreatedDevice, Runtime

__all__ = [
    "AdmissionError",
    "Call",
    "ClaimCall",
    "Container",
    "ContainerClaim",
    "ContainerConfig",
    "ContainerError",
    "ContainerStatus",
    "Created",
    "CreatedDevice",
    "DeviceConfig",
    "DeviceHealth",
    "DeviceList",
    "DraTimes",
    "ExtendedClaim",
    "FakeKubelet",
    "Handshake",
    "Instance",
    "KubeletPanic",
    "MountConfig",
    "NodeStatus",
    "Panic",
    "Pod",
    "PodClaim",
    "PodRecord",
    "PodResources",
    "PrepareError",
    "PreparedDevice",
    "Query",
    "Registration",
    "Runtime",
    "RuntimeRefusal",
]
