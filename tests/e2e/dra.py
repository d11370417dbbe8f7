"""Dynamic Resource Allocation as an admin and a user write it, and what the cluster has of it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deployment import Deployment
from kubectl import Kubectl, Object, eventually

HERE = Path(__file__).parent
API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
GPUS = (HERE / "dra.yaml").read_text()
DEVICES = (HERE / "dra-devices.yaml").read_text()
_SPECS = "/var/run/cdi/device-plugin-claim-*.json"


def device_class(name: str, *conditions: str, **more: object) -> Object:
    """Devices of our driver, of which each CEL expression holds."""
    said = [f'device.driver == "{DRIVER}"', *conditions]
    spec = {"selectors": [{"cel": {"expression": one}} for one in said], **more}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def of_resource(name: str) -> str:
    """The CEL expression for the devices of one resource of the config."""
    return f'device.attributes["{DRIVER}"].resource == "{name}"'


def memory(at_least: str) -> str:
    """The same for at least so much memory."""
    return f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{at_least}")) >= 0'


def request(of: str, *conditions: str, **more: object) -> Object:
    """One device of a DeviceClass."""
    selectors = [{"cel": {"expression": one}} for one in conditions]
    exactly = {"deviceClassName": of, "selectors": selectors, **more}
    return {"name": "wanted", "exactly": exactly}


def claim(name: str, *requests: Object, config: Sequence[Object] = ()) -> Object:
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": _spec(requests, config),
    }


def template(name: str, *requests: Object, config: Sequence[Object] = ()) -> Object:
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": _spec(requests, config)},
    }


def parameters(**content: object) -> Object:
    """Opaque parameters for our driver, of a claim or a class."""
    given = {"apiVersion": f"{DRIVER}/v1", "kind": "Container", **content}
    return {"opaque": {"driver": DRIVER, "parameters": given}}


def _spec(requests: Sequence[Object], config: Sequence[Object]) -> Object:
    devices: Object = {"requests": list(requests)}
    if config:
        devices["config"] = list(config)
    return {"devices": devices}


def by(name: str) -> Mapping[str, Object]:
    """A Pod's claim that is made from a template."""
    return {"gpu": {"resourceClaimTemplateName": name}}


def shared(name: str) -> Mapping[str, Object]:
    """A Pod's claim that is there already."""
    return {"gpu": {"resourceClaimName": name}}


def slices(kubectl: Kubectl) -> list[Object]:
    """The node's ResourceSlices of our driver, in the order of the allocator."""
    which = [f"--field-selector=spec.driver={DRIVER},spec.nodeName={kubectl.node()}"]
    items: list[Object] = kubectl.get("resourceslices", *which)["items"]
    return sorted(items, key=lambda one: str(one["metadata"]["name"]))


def devices(kubectl: Kubectl, resource: str) -> dict[str, Object]:
    """What the slices say of the devices of one resource, by name."""
    return {
        device["name"]: device
        for one in slices(kubectl)
        for device in one["spec"].get("devices", [])
        if device["attributes"]["resource"] == {"string": resource}
    }


def free(kubectl: Kubectl, resource: str) -> list[str]:
    """The devices without a taint."""
    return [name for name, one in devices(kubectl, resource).items() if not one.get("taints")]


def wait_whole(
    kubectl: Kubectl,
    fact: Callable[[list[Object]], object] = bool,
    timeout: float = 30,
) -> list[Object]:
    """Until the pool is whole, as consumers see it, and `fact` holds of its slices."""

    def look() -> list[Object] | None:
        found = slices(kubectl)
        pools = [one["spec"]["pool"] for one in found]
        newest = max((pool["generation"] for pool in pools), default=0)
        whole = all(
            (pool["generation"], pool["resourceSliceCount"]) == (newest, len(found))
            for pool in pools
        )
        return found if whole and fact(found) else None

    return eventually(look, timeout, lambda: slices(kubectl))


def results(kubectl: Kubectl, name: str) -> list[Object]:
    """The devices that a ResourceClaim was given."""
    status = kubectl.get("resourceclaim", name).get("status", {})
    found: list[Object] = status.get("allocation", {}).get("devices", {}).get("results", [])
    return found


def prepared(driver: Deployment) -> int:
    """How many claims have a CDI spec on the node."""
    return len(driver.files(_SPECS))


def wait_prepared(driver: Deployment, count: int, timeout: float = 30) -> None:
    eventually(
        lambda: prepared(driver) == count, timeout, lambda: f"{prepared(driver)} prepared claims"
    )
