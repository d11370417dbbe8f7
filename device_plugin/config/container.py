"""Rules of `container`: what it gets besides the device nodes."""

from collections.abc import Iterator

from device_plugin.config import names
from device_plugin.config.decode import known
from device_plugin.config.nodes import Handed
from device_plugin.config.placeholders import PATHS, Offers, shape, template
from device_plugin.config.problem import PLACEHOLDER, Report, Where, listed
from device_plugin.config.types import Container, Mount
from device_plugin.template import Template


def check(
    container: Container, where: Where, report: Report, offers: Offers | None
) -> list[Handed]:
    """Report everything; the mounts come back, because devices may meet there."""
    if known(container.env):
        _env(container.env, (*where, "env"), report, offers)
    if known(container.annotations):
        for key, value in container.annotations.items():
            place = (*where, "annotations", key)
            if message := names.annotation(key):
                report.at(place, message, key=True)
            _text(value, place, report, offers)
    if known(container.mounts):
        return list(_mounts(container.mounts, (*where, "mounts"), report, offers))
    return []


def _env(env: dict[str, str], where: Where, report: Report, offers: Offers | None) -> None:
    first: dict[str, str] = {}  # what a key is for the first device -> the key
    for key, value in env.items():
        place = (*where, key)
        _text(value, place, report, offers)
        name = template(key, place, report, offers, key=True)
        if name is None:
            continue
        if paths := PATHS & name.fields:
            what = listed(sorted(paths), "and", PLACEHOLDER)
            report.at(place, f"{what} holds a `/`, which a variable's name may not", key=True)
            continue
        shape(name, names.env, place, report, key=True)
        if name.fields <= {"index"}:
            meaning = name.render({"index": "0"})
            if (other := first.setdefault(meaning, key)) != key:
                line = report.line((*where, other))
                message = f"for the first device this is `{meaning}`, as in {line}"
                report.at(place, message, key=True)


def _mounts(
    mounts: tuple[Mount, ...], where: Where, report: Report, offers: Offers | None
) -> Iterator[Handed]:
    seen: dict[Template, Where] = {}
    for index, mount in enumerate(mounts):
        if not known(mount):
            continue
        place = (*where, index, "path")
        host = _text(mount.host_path, (*where, index, "host_path"), report, offers)
        shape(host, names.host_path, (*where, index, "host_path"), report)
        path = _text(mount.path, place, report, offers)
        shape(path, names.path, place, report)
        if path is None:
            continue
        if path in seen:
            report.at(place, f"the mount in {report.line(seen[path])} is at this path already")
        seen.setdefault(path, place)
        yield Handed(place, host, path)


def _text(text: str, where: Where, report: Report, offers: Offers | None) -> Template | None:
    return template(text, where, report, offers) if known(text) else None
