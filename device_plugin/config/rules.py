"""What the types cannot say: every rule on meaning, over a config as far as it could be read."""

from collections.abc import Iterator, Sequence
from typing import Any

from device_plugin.config import cdi, conflicts, container, devices, dra, names, runtimes
from device_plugin.config.conflicts import Examined
from device_plugin.config.decode import known
from device_plugin.config.placeholders import Offers
from device_plugin.config.problem import Report, Where
from device_plugin.config.types import Config, Resource

MAX_RESOURCES = 128  # some 400 threads and 300 open files
MAX_SELECTORS = 1000  # a tenth of a second at every look
_EACH = ("version", "resources")  # what every file has; all else stands once

Drafts = Sequence[Config | None]  # by file; None: it could not be read


def check(drafts: Drafts, report: Report) -> None:
    _once(drafts, report)
    _amount(drafts, report)
    dra.driver(drafts, report)
    every = [_resource(resource, where, report) for where, resource in resources(drafts)]
    conflicts.between(every, report)


def resources(drafts: Drafts) -> Iterator[tuple[Where, Resource]]:
    """Every resource that could be read, also those with mistakes, and where it stands."""
    for file, draft in enumerate(drafts):
        for index, resource in enumerate(_known_resources(draft)):
            if known(resource):
                yield (file, "resources", index), resource


def settings(drafts: Drafts, report: Report) -> dict[str, Any]:
    """What the files say besides their resources."""
    return {
        key: getattr(draft, key)
        for file, draft in enumerate(drafts)
        for key in _settings()
        if report.has((file, key))
    }


def _settings() -> list[str]:
    return [key for key in Config.__struct_fields__ if key not in _EACH]


def _known_resources(draft: Config | None) -> tuple[Resource, ...]:
    return draft.resources if draft is not None and known(draft.resources) else ()


def _once(drafts: Drafts, report: Report) -> None:
    for key in _settings():
        places = [(file, key) for file in range(len(drafts)) if report.has((file, key))]
        for other in places[1:]:
            message = f"`{key}` is set in {report.line(places[0], other)} already; keep one of them"
            report.at(other, message, key=True)


def _amount(drafts: Drafts, report: Report) -> None:
    if any(draft is None or not known(draft.resources) for draft in drafts):
        return
    count = selectors = 0
    for file, draft in enumerate(drafts):
        resources = _known_resources(draft)
        before, count = count, count + len(resources)
        if before <= MAX_RESOURCES < count:
            why = "each takes threads and a socket of its own; use several daemons"
            report.at((file, "resources"), f"more than {MAX_RESOURCES} resources: {why}")
        known_devices = [r.devices for r in resources if known(r) and known(r.devices)]
        before, selectors = selectors, selectors + sum(map(len, known_devices))
        if before <= MAX_SELECTORS < selectors:
            why = "each is asked at every look; let globs and captures find several devices"
            report.at((file, "resources"), f"more than {MAX_SELECTORS} selectors: {why}")
    if count:
        return
    places = [(file, "resources") for file in range(len(drafts))]
    written = [place for place in places if report.has(place)]
    if written:
        report.at(written[0], "`resources` is empty; there is nothing to offer")
    else:
        report.at((0,), "no file of the folder has `resources`; there is nothing to offer")


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
    cdi.check(examined, report)
    dra.check(examined, report)
    runtimes.check(examined, report)
    return examined
