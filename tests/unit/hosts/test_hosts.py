"""What is found on machines modelled on real ones, compared with what their hardware is."""

import json

import pytest

from device_plugin.dry_run import Survey, discovered_json
from device_plugin.host import Host
from tests.unit.hosts import machines
from tests.unit.hosts.expected import check, check_ids, found, load, look

CASES = [
    pytest.param(name, case, id=f"{name}: {case.name}")
    for name in machines.NAMES
    for case in machines.CASES[name]
]
# Nodes that any device of their kind needs, and none owns.
SHARED = {
    *("/dev/kfd", "/dev/vfio/vfio", "/dev/iommu"),
    *("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
}


@pytest.mark.parametrize(("name", "case"), CASES)
def test_every_device_is_what_the_hardware_is(standing, name, case):
    there = look(standing(name), case.resources)
    assert set(there) == set(case.devices)
    for resource, expected in case.devices.items():
        check(expected, found(there[resource]))
    devices = [one for discovered in there.values() for one in found(discovered)]
    check_ids([one for one in devices if not one.problem])


@pytest.mark.parametrize(("name", "case"), CASES)
def test_whatever_link_is_handed_out_leads_to_a_node_of_the_device(standing, name, case):
    machine = standing(name)
    host = Host(str(machine.root)).look()
    for discovered in look(machine, case.resources).values():
        for device in found(discovered):
            places = [device.attributes.get(key) for key in ("port", "address")]
            own = [node for place in places if place for node in machine.nodes(place)]
            group = device.attributes.get("iommu_group")
            addresses = device.attributes.get("addresses", "").split(",")
            own += [f"/dev/vfio/{group}"]
            own += [node for address in addresses if address for node in machine.nodes(address)]
            for host_path, _, _ in device.nodes if any(places) else ():
                assert host.entry(host_path).real in {*own, *SHARED}, device


@pytest.mark.parametrize("name", machines.NAMES)
def test_without_root_the_same(standing, boot, name):
    case = machines.CASES[name][0]
    real = look(standing(name), case.resources)
    pretended = look(boot(machines.TEXTS[name], pretend=True), case.resources)
    assert {key: found(one) for key, one in real.items()} == {
        key: found(one) for key, one in pretended.items()
    }


@pytest.mark.parametrize("name", machines.NAMES)
def test_discover_prints_what_was_found(standing, name):
    machine, case = standing(name), machines.CASES[name][0]
    printed = json.loads(discovered_json(Survey(load(case.resources), str(machine.root))))
    there = look(machine, case.resources)
    for resource in printed["resources"]:
        devices = {one.id: one for one in found(there[resource["name"].rpartition("/")[2]])}
        assert {one["id"] for one in resource["devices"]} == set(devices)
        for one in resource["devices"]:
            device = devices[one["id"]]
            assert one["reason"] == device.problem
            assert one["numa_nodes"] == list(device.numa)
            assert [tuple(node.values()) for node in one["nodes"]] == list(device.nodes)
            attributes = {key: str(value) for key, value in one["attributes"].items()}
            assert attributes == device.attributes


def test_numa_is_a_number(standing):
    machine, case = standing("two_sockets"), machines.CASES["two_sockets"][0]
    printed = json.loads(discovered_json(Survey(load(case.resources), str(machine.root))))
    devices = [one for resource in printed["resources"] for one in resource["devices"]]
    assert sorted(one["attributes"]["numa"] for one in devices) == [0] * 4 + [1] * 4


@pytest.mark.parametrize(("name", "case"), CASES)
def test_where_there_is_nothing_nothing_is_found(boot, name, case):
    """Neither the described devices nor a bus to have them on."""
    for discovered in look(boot("platform"), case.resources).values():
        assert not discovered.candidates
        assert not [note for note in discovered.notes if "please report" in note]
