"""What the types cannot say: every rule on meaning, over a config as far as it could be read."""

from device_plugin.config import conflicts, container, devices, names
from device_plugin.config.conflicts import Examined
from device_plugin.config.decode import known
from device_plugin.config.placeholders import Offers
from device_plugin.config.problem import Report, Where
from device_plugin.config.types import Config, Resource

MAX_RESOURCES = 128  # some 400 threads and 300 open files


def check(draft: Config, report: Report) -> None:
    if not known(draft.resources):
        return
    if not draft.resources:
        report.at(("resources",), "`resources` is empty; there is nothing to offer")
    if len(draft.resources) > MAX_RESOURCES:
        message = f"more than {MAX_RESOURCES} resources: each takes threads and a socket of its own"
        report.at(("resources",), f"{message}; use several daemons")
    every = [
        _resource(resource, ("resources", index), report)
        for index, resource in enumerate(draft.resources)
        if known(resource)
    ]
    conflicts.between(every, report)


def _resource(resource: Resource, where: Where, report: Report) -> Examined:
    if known(resource.name) and (message := names.resource(resource.name)):
        report.at((*where, "name"), message)
    selected = []
    if known(resource.devices):
        if not resource.devices:
            report.at((*where, "devices"), "`devices` is empty; name at least one")
        selected = [
            devices.check(selector, (*where, "devices", index), report) if known(selector) else None
            for index, selector in enumerate(resource.devices)
        ]
    good = [one for one in selected if one is not None]
    offers = Offers([one.offer for one in good]) if len(good) == len(selected) else None
    mounts = []
    if known(resource.container):
        mounts = container.check(resource.container, (*where, "container"), report, offers)
    examined = Examined(where, resource, good, mounts)
    conflicts.within(examined, report)
    return examined
