"""ResourceClaims as the scheduler leaves them: tests say what was allocated."""

from collections.abc import Sequence
from typing import Any

from device_plugin.testing.apiserver.refusals import JSON


def result(request: str, device: str, *, driver: str, pool: str, **more: Any) -> JSON:  # noqa: ANN401
    """Make one device of an allocation; `more`: adminAccess, shareID, consumedCapacity, ..."""
    return {"request": request, "driver": driver, "pool": pool, "device": device, **more}


def allocated_claim(
    name: str,
    results: Sequence[JSON],
    *,
    namespace: str = "default",
    uid: str = "",
    config: Sequence[JSON] = (),
    requests: Sequence[JSON] | None = None,
    owner: JSON | None = None,
) -> JSON:
    """Make a claim with these results; without results it is not allocated.

    `config` is `status.allocation.devices.config`; `owner` an owner reference, as the controller of
    templates sets it.
    """
    wanted = requests
    if wanted is None:
        names = dict.fromkeys(str(one["request"]).partition("/")[0] for one in results)
        wanted = [{"name": one, "exactly": {"deviceClassName": "any"}} for one in names]
    metadata: JSON = {"name": name, "namespace": namespace}
    if uid:
        metadata["uid"] = uid
    if owner:
        metadata["ownerReferences"] = [owner]
    claim: JSON = {"metadata": metadata, "spec": {"devices": {"requests": list(wanted)}}}
    if results:
        devices: JSON = {"results": list(results)}
        if config:
            devices["config"] = list(config)
        claim["status"] = {"allocation": {"devices": devices}}
    return claim
