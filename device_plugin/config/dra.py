"""Rules of `dra` and `api: dra`: what Dynamic Resource Allocation needs, and what it cannot say."""

from collections.abc import Mapping, Sequence

from device_plugin.config import names, partitions
from device_plugin.config.conflicts import Examined
from device_plugin.config.decode import known
from device_plugin.config.nodes import attributes
from device_plugin.config.problem import Report
from device_plugin.config.types import Config

_NAME_LIMIT = 64  # of an attribute's text: the resource's name is one
_OURS = ("resource", "partition", "replicas")  # what this plugin itself says of each device
_UNFIT: Mapping[tuple[str, ...], str] = {
    ("allocation",): "the scheduler chooses the device; remove it",
    ("per_container",): "each claim says how many it wants; remove it",
    ("container", "annotations"): "none reach a container by it; write them in the Pod",
    ("container", "cdi"): "its devices always reach a container by CDI; remove it",
}


def driver(drafts: Sequence[Config | None], report: Report) -> None:
    """Report what is wrong with `dra`, and who lacks it where it is missing."""
    for file, draft in enumerate(drafts):
        name = _driver(draft)
        if name is not None and (message := names.driver(name)):
            report.at((file, "dra", "driver"), message)
    if None not in drafts and not any(report.has((file, "dra")) for file in range(len(drafts))):
        _missing(drafts, report)


def _driver(draft: Config | None) -> str | None:
    found = draft.dra if draft is not None else None
    return found.driver if found is not None and known(found) and known(found.driver) else None


def _missing(drafts: Sequence[Config | None], report: Report) -> None:
    for file, draft in enumerate(drafts):
        resources = draft.resources if draft is not None and known(draft.resources) else ()
        for index, resource in enumerate(resources):
            if known(resource) and resource.api == "dra":
                message = "`api: dra` needs `dra: {driver: gpu.example.com}` at the top of the file"
                report.at((file, "resources", index, "api"), message)


def check(one: Examined, report: Report) -> None:
    """Report everything else that is wrong with a resource."""
    resource, where = one.resource, one.where
    if resource.api == "dra":
        _by_claim(one, report)
    elif known(resource.api) and report.has(inside := (*where, "partitions")):
        report.at(inside, "`partitions` needs `api: dra`; else a device is whole", key=True)
    partitions.check(resource, where, report)


def _by_claim(one: Examined, report: Report) -> None:
    name = one.resource.name
    if known(name) and len(name) > _NAME_LIMIT:
        limit = f"at most {_NAME_LIMIT} are allowed with `api: dra`"
        report.at((*one.where, "name"), f"the name has {len(name)} characters; {limit}")
    for keys, instead in _UNFIT.items():
        if report.has(inside := (*one.where, *keys)):
            message = f"`{keys[-1]}` does not fit `api: dra`: {instead}"
            report.at(inside, message, key=True)
    for selected in one.selected:
        for ours, placeholder in zip(_OURS, attributes(_OURS), strict=True):
            if placeholder in selected.offer.names:
                message = f"`{ours}` is an attribute that `api: dra` makes itself"
                report.at(selected.where, f"{message}; take another name")
