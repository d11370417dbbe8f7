"""The kind `acme`: cards of an imaginary maker, which its driver lists in /sys/class/acme."""

from collections.abc import Iterator

import msgspec

from device_plugin.sdk import Device, Kind, Look, Node, Quantity, Unusable, Version

CLASS = "/sys/class/acme"


class Acme(msgspec.Struct, frozen=True):
    """Cards of Acme."""

    model: str | None = None
    """Only this model, as its label has it; else all."""


def find(look: Look, wanted: Acme) -> Iterator[Device]:
    for name in look.names(CLASS):
        try:
            card = read(look, name)
        except (Unusable, ValueError):  # it goes while we look
            continue
        if wanted.model in (None, card.attributes["model"]):
            yield card


def read(look: Look, name: str) -> Device:
    said = {key: look.read(f"{CLASS}/{name}/{key}") for key in ("serial", "model", "state")}
    firmware = Version.parse(look.read(f"{CLASS}/{name}/firmware"))
    memory = Quantity.parse(look.read(f"{CLASS}/{name}/memory"))
    return Device(
        id=said["serial"],
        nodes=[Node(f"/dev/{name}")],
        attributes={"model": said["model"], "firmware": firmware, "memory": memory},
        sysfs=f"{CLASS}/{name}",
        problem="" if said["state"] == "ok" else f"its driver says {said['state']}",
    )


KIND = Kind(Acme, find, attributes={"model": str, "firmware": Version, "memory": Quantity})
