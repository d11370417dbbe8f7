"""A node belongs to one device and an ID to one resource: who has it where several want it."""

import pytest

from device_plugin.attribute import Quantity
from device_plugin.config import Config, Resource, Selector, Virtual
from device_plugin.discovery import discover
from device_plugin.inventory import Inventory

A, B = "example.com/a", "example.com/b"


def config(**resources):
    """By letter, the selectors of each resource; a selector is a path or itself."""
    return Config(
        version=1,
        resources=tuple(
            Resource(
                f"example.com/{letter}",
                tuple(s if isinstance(s, Selector) else Selector(path=s) for s in selectors),
            )
            for letter, selectors in resources.items()
        ),
    )


def look(tree, **resources):
    return discover(tree.host.look(), config(**resources))


def problems(discovered):
    return {c.device.id: c.problem for c in discovered.candidates}


def test_of_two_resources_the_first_in_the_file_has_it(tree):
    tree.node("/dev/x0")
    tree.node("/dev/x1")
    found = look(tree, a=["/dev/x1"], b=["/dev/x*"])
    assert problems(found[A]) == {"x1": ""}
    assert problems(found[B]) == {"x0": "", "x1": f"/dev/x1 already belongs to {A} (device x1)"}


def test_the_same_device_again_in_one_resource_is_said_and_changes_nothing(tree):
    tree.node("/dev/x0")
    tree.node("/dev/x1")
    found = look(tree, a=[Selector(path="/dev/x1", replicas=5), "/dev/x*", "/dev/x{n}"])[A]
    assert [(c.device.id, c.device.replicas, c.problem) for c in found.candidates] == [
        ("x1", 5, ""),
        ("x0", 1, ""),
    ]
    assert len(found.notes) == 3
    assert found.notes[0] == f"x1 matches again: /dev/x1 already belongs to {A} (device x1)"


def test_a_device_that_two_selectors_match_stays_healthy_at_every_look(tree):
    tree.node("/dev/x1")
    inventory = Inventory([A])
    for _ in range(3):
        found = look(tree, a=["/dev/x1", "/dev/x*"])[A]
        inventory.replace(A, found.candidates)
        assert [d.reason for d in inventory.snapshot(A).devices] == [""]


def test_two_links_to_one_node_are_one_device(tree):
    tree.node("/dev/sda")
    tree.link("/dev/disk/by-id/ata", "../../sda")
    tree.link("/dev/disk/by-id/wwn", "../../sda")
    (first, second) = look(tree, a=["/dev/disk/by-id/*"])[A].candidates
    assert first.problem == ""
    assert second.problem == f"/dev/sda already belongs to {A} (device {first.device.id})"


def test_a_node_in_a_folder_device_is_taken(tree):
    tree.node("/dev/snd/timer")
    found = look(tree, a=["/dev/snd"], b=["/dev/snd/*"])
    assert problems(found[A]) == {"snd": ""}
    (candidate,) = found[B].candidates
    assert candidate.problem == f"/dev/snd/timer already belongs to {A} (device snd)"


def test_companions_are_shared(tree):
    for name in ("a", "b", "timer"):
        tree.node(f"/dev/{name}")
    found = look(
        tree,
        a=[Selector(path="/dev/a", with_=("/dev/timer",))],
        b=[Selector(path="/dev/b", with_=("/dev/timer",)), "/dev/timer"],
    )
    assert problems(found[A]) == {"a": ""}
    assert problems(found[B]) == {"b": "", "timer": ""}


def test_a_device_with_a_problem_keeps_its_node_from_others(tree):
    tree.node("/dev/x")
    found = look(tree, a=[Selector(path="/dev/x", with_=("/dev/gone",))], b=["/dev/x*"])
    assert problems(found[A]) == {"x": "/dev/gone does not exist"}
    assert problems(found[B]) == {"x": f"/dev/x already belongs to {A} (device x)"}


def test_notes_come_with_the_resource_that_they_are_about(tree):
    tree.node("/dev/x")
    found = look(tree, a=["/dev/x", "/dev/y"], b=["/dev/z*"])
    assert found[A].notes == ["/dev/y matches nothing"]
    assert found[B].notes == ["/dev/z* matches nothing"]


def test_a_name_for_people_to_read_is_printable(tree):
    tree.node("/dev/evil\n")
    tree.link("/dev/x", "evil\n")
    found = look(tree, a=["/dev/x"], b=["/dev/x*"])
    assert problems(found[B])["x"].isprintable()


def test_a_selector_that_fails_does_not_stop_the_others(tree, monkeypatch):
    tree.node("/dev/x")
    monkeypatch.setattr("device_plugin.discovery.virtual.find", lambda *_: 1 / 0)
    found = look(tree, a=[virtual(1), "/dev/x"], b=[virtual(1)])
    assert problems(found[A]) == {"x": ""}
    assert problems(found[B]) == {}
    failed = "devices[0] failed, please report: ZeroDivisionError('division by zero') ("
    for [note] in [discovered.notes for discovered in found.values()]:
        assert note.startswith(failed)
        assert note.endswith(")")


def virtual(count, **options):
    return Selector(virtual=Virtual(count, **options))


def test_virtual_devices_are_numbered_and_have_their_attributes(tree):
    selector = virtual(3, attributes={"edition": "full", "seats": 5}, capacity={"memory": "8Gi"})
    found = look(tree, a=[selector])[A]
    ids = [c.device.id for c in found.candidates]
    assert ids == ["a-0-7de8ae2a", "a-1-70b1e6c9", "a-2-66e664c7"]
    (device, *_) = (c.device for c in found.candidates)
    assert dict(device.attributes) == {
        "edition": "full",
        "seats": 5,
        "memory": Quantity.parse("8Gi"),
    }
    assert not device.nodes
    assert not any(c.owned for c in found.candidates)


def test_virtual_devices_of_resources_that_read_alike_differ(tree):
    pair = Config(
        version=1,
        resources=(
            Resource("a.com/licence", (virtual(2), virtual(2))),
            Resource("b.com/licence", (virtual(2),)),
        ),
    )
    found = discover(tree.host.look(), pair)
    ids = [c.device.id for d in found.values() for c in d.candidates]
    assert len(ids) == len(set(ids)) == 6
    assert not any(c.problem for d in found.values() for c in d.candidates)


@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_as_many_virtual_devices_as_asked_for(tree, count):
    found = look(tree, a=[virtual(count)])[A]
    assert len({c.device.id for c in found.candidates}) == count


def test_fewer_virtual_devices_leave_the_others_their_names(tree):
    few = look(tree, a=[virtual(2)])[A].candidates
    many = look(tree, a=[virtual(5)])[A].candidates
    assert many[:2] == few


def test_attributes_of_other_types_are_other_attributes(tree):
    for value in (1, True, "1"):
        (candidate,) = look(tree, a=[virtual(1, attributes={"x": value})])[A].candidates
        assert repr(candidate.device.attributes["x"]) == repr(value)
