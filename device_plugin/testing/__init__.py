"""An embedded kubelet to test device plugins against, in any language, without a cluster."""

from device_plugin.testing.kubelet import FakeKubelet
from device_plugin.testing.podresources import PodResources
from device_plugin.testing.pods import Container, ContainerStatus, Pod, PodRecord
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
from device_plugin.testing.runtime import (
    ContainerConfig,
    Created,
    CreatedDevice,
    DeviceConfig,
    MountConfig,
    Runtime,
)

__all__ = [
    "AdmissionError",
    "Call",
    "Container",
    "ContainerConfig",
    "ContainerError",
    "ContainerStatus",
    "Created",
    "CreatedDevice",
    "DeviceConfig",
    "DeviceList",
    "FakeKubelet",
    "Handshake",
    "KubeletPanic",
    "MountConfig",
    "NodeStatus",
    "Panic",
    "Pod",
    "PodRecord",
    "PodResources",
    "Query",
    "Registration",
    "Runtime",
    "RuntimeRefusal",
]
