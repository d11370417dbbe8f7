"""Who a device is outlives its numbers: replugging, renumbering, reboots, other drivers."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from device_plugin.host import Host
from tests.unit.hosts import machines
from tests.unit.hosts.described import amd_apu, coral, ftdi_hub, iommu_group, two_sockets
from tests.unit.hosts.expected import found, look

EVERYTHING = """
  - name: example.com/stick
    devices: [{usb: {vendor: "0403"}}, {usb: {vendor: "1a86"}}]
"""


def ids(machine, resources):
    """Of each described device that is found the ID, and whether something is wrong with it."""
    return {
        machine.thing(device.attributes.get("port") or device.attributes["address"]): (
            device.id,
            bool(device.problem),
        )
        for discovered in look(machine, resources).values()
        for device in found(discovered)
        if {"port", "address"} & set(device.attributes)
    }


def one(machine, resources, **which):
    """The one device that has these attributes."""
    devices = [
        device
        for discovered in look(machine, resources).values()
        for device in found(discovered)
        if device.is_which(which)
    ]
    assert len(devices) == 1, devices
    return devices[0]


def real(machine, device):
    """The kernel's nodes behind what is handed out."""
    host = Host(str(machine.root)).look()
    return [host.entry(host_path).real for host_path, _, _ in device.nodes]


def cases(name):
    """The configs that name no place that a reboot renumbers, and no path."""
    return [
        case
        for case in machines.CASES[name]
        if "port:" not in case.resources and "path:" not in case.resources
    ]


@pytest.mark.parametrize("name", machines.NAMES)
def test_identity_survives_a_reboot_with_all_numbers_anew(boot, name):
    machine = boot(machines.TEXTS[name])
    before = [ids(machine, case.resources) for case in cases(name)]
    for seed in range(2):
        machine.reboot(seed)
        assert [ids(machine, case.resources) for case in cases(name)] == before


@pytest.mark.parametrize("name", machines.NAMES)
def test_the_order_in_which_folders_are_listed_says_nothing(standing, use, name):
    machine = standing(name)
    for case in machines.CASES[name]:
        use(machine)
        first = {key: found(one) for key, one in look(machine, case.resources).items()}
        use(machine, seed=7)
        assert {key: found(one) for key, one in look(machine, case.resources).items()} == first


def test_a_stick_keeps_its_name_wherever_it_is_plugged_in(boot):
    machine = boot(ftdi_hub.TEXT)
    before = one(machine, EVERYTHING, serial="A10KZP3U")
    stick = machine.unplug("1-4.1")
    assert stick not in ids(machine, EVERYTHING)
    machine.unplug("1-4.3")
    for into, port in (("usb2", 4), ("1-4.4", 3), ("usb1", 9)):
        machine.plug(stick, into, port)
        there = one(machine, EVERYTHING, serial="A10KZP3U")
        assert (there.id, there.nodes[0][0]) == (before.id, before.nodes[0][0])
        assert real(machine, there) == ["/dev/ttyUSB0"]
        machine.unplug(stick.name)


def test_without_a_serial_number_the_port_is_the_name(boot):
    machine = boot(ftdi_hub.TEXT)
    here = one(machine, EVERYTHING, vendor="1a86")
    machine.replug("1-4.4.2")
    again = one(machine, EVERYTHING, vendor="1a86")
    assert again.id == here.id
    machine.replug("1-4.4.2", "usb1", 3)
    there = one(machine, EVERYTHING, vendor="1a86")
    assert there.id != here.id
    machine.replug("1-3", "1-4.4", 2)
    assert one(machine, EVERYTHING, vendor="1a86").id == here.id


def test_two_sticks_change_ports_and_names(boot):
    machine = boot(ftdi_hub.TEXT)
    before = {
        serial: one(machine, EVERYTHING, serial=serial) for serial in ("A10KZP3U", "A10KZQ7X")
    }
    first, second = machine.unplug("1-4.1"), machine.unplug("1-4.2")
    machine.plug(second, "1-4", 1)
    machine.plug(first, "1-4", 2)
    for serial, node in (("A10KZP3U", "/dev/ttyUSB1"), ("A10KZQ7X", "/dev/ttyUSB0")):
        device = one(machine, EVERYTHING, serial=serial)
        assert (device.id, device.nodes[0][0]) == (before[serial].id, before[serial].nodes[0][0])
        assert real(machine, device) == [node]


def test_counterfeits_are_two_whoever_has_the_link_of_both(boot):
    machine = boot(ftdi_hub.TEXT)
    before = ids(machine, ftdi_hub.STICKS)
    for name in ("1-4.3", "1-4.4.1", "1-4.3"):
        machine.trigger(name)
        assert ids(machine, ftdi_hub.STICKS) == before
        for port, node in (("1-4.3", "/dev/ttyUSB2"), ("1-4.4.1", "/dev/ttyUSB3")):
            assert real(machine, one(machine, ftdi_hub.STICKS, port=port)) == [node]


def test_the_link_that_names_a_model_is_nobodys(boot):
    """Else a container that restarts gets the CH340 that was plugged in last."""
    machine = boot(ftdi_hub.TEXT)
    old = one(machine, EVERYTHING, vendor="1a86")
    new = '9-9 1a86:7523 product="USB Serial" class=ff\n  1.0 ff/01/02 ch341\n    ttyUSB0'
    machine.plug(new, "usb1", 3)
    again = one(machine, EVERYTHING, port="1-4.4.2")
    assert (again.id, again.nodes) == (old.id, old.nodes)
    assert real(machine, again) == ["/dev/ttyUSB4"]
    other = one(machine, EVERYTHING, port="1-3")
    assert other.id != old.id
    assert real(machine, other) == ["/dev/ttyUSB5"]


def test_a_device_that_is_not_authorized_is_not_offered_and_comes_back(boot):
    machine = boot(ftdi_hub.TEXT)
    before = ids(machine, EVERYTHING)
    stick = machine.thing("1-4.1")
    machine.authorize("1-4.1", allowed=False)
    assert ids(machine, EVERYTHING).get(stick) != before[stick]
    machine.authorize("1-4.1", allowed=True)
    assert ids(machine, EVERYTHING) == before


def test_a_driver_that_lets_go_takes_the_nodes(boot):
    """What is left is the raw node; handing that out instead would be another device."""
    machine = boot(ftdi_hub.TEXT)
    resources = ftdi_hub.STICKS.replace("}}]", "}, nodes: [{subsystem: tty}]}]")
    before = ids(machine, resources)
    stick = machine.thing("1-4.1")
    machine.bind("1-4.1:1.0")
    assert ids(machine, resources).get(stick) != before[stick]
    machine.bind("1-4.1:1.0", "ftdi_sio")
    assert ids(machine, resources) == before


def test_a_coral_that_gets_its_firmware_is_one_device_before_and_after(boot):
    machine = boot(coral.TEXT)
    tpu = machine.unplug("1-2")
    assert len(ids(machine, coral.USB)) == 1
    tpu.words[0] = "18d1:9302"
    machine.plug(tpu, "usb1")
    assert len(ids(machine, coral.USB)) == 2
    device = one(machine, coral.USB, port="1-2")
    assert real(machine, device) == ["/dev/bus/usb/001/003"]


def test_cards_change_names(boot):
    machine = boot(amd_apu.TEXT)
    before = ids(machine, amd_apu.GPU)
    machine.renumber({"drm/card0": 1, "drm/card1": 0, "renderD128": 129, "renderD129": 128})
    assert ids(machine, amd_apu.GPU) == before
    radeon = one(machine, amd_apu.GPU, address="0000:03:00.0")
    assert set(real(machine, radeon)) == {"/dev/dri/card1", "/dev/dri/renderD129", "/dev/kfd"}


def test_a_gpu_given_to_a_virtual_machine_and_back(boot):
    machine = boot(amd_apu.TEXT)
    both = (
        amd_apu.GPU
        + """
  - name: example.com/passthrough
    devices: [{vfio: {vendor: "1002", class: "03"}}]
"""
    )
    before = ids(machine, both)
    radeon, apu = machine.thing("03:00.0"), machine.thing("05:00.0")
    assert set(before) == {radeon, apu}
    machine.bind("03:00.0", "vfio-pci")
    there = {key: found(value) for key, value in look(machine, both).items()}
    assert [device.attributes["address"] for device in there["gpu"] if not device.problem] == [
        "0000:05:00.0"
    ]
    (passed,) = there["passthrough"]
    assert (passed.problem, passed.attributes["addresses"]) == ("", "0000:03:00.0")
    machine.bind("03:00.0", "amdgpu")
    assert ids(machine, both) == before


def test_a_group_is_whole_only_while_all_of_it_is_with_vfio(boot):
    machine = boot(iommu_group.TEXT)
    before = one(machine, iommu_group.GPU, iommu_group="1")
    machine.bind("01:00.1", "snd_hda_intel")
    taken = one(machine, iommu_group.GPU, iommu_group="1")
    assert taken.id == before.id
    assert "01:00.1" in taken.problem
    # The group can be opened all the same: vfio_dev_viable() in the kernel.
    for harmless in ("", "pci-stub"):
        machine.bind("01:00.1", harmless)
        alone = one(machine, iommu_group.GPU, iommu_group="1")
        assert (alone.id, alone.problem) == (before.id, "")
    machine.bind("01:00.1", "vfio-pci")
    assert one(machine, iommu_group.GPU, iommu_group="1").nodes == before.nodes


def test_without_an_iommu_there_is_nothing_to_pass_through(boot):
    machine = boot(iommu_group.TEXT)
    machine.set_iommu()
    assert not ids(machine, iommu_group.GPU)
    machine.set_iommu("DMA-FQ")
    assert len(ids(machine, iommu_group.GPU)) == 1


def test_the_group_form_alone_and_the_newer_form_alone(boot):
    group = boot("vfio group\n" + iommu_group.TEXT)
    nodes = one(group, iommu_group.GPU, iommu_group="1").nodes
    assert [path for path, _, _ in nodes] == ["/dev/vfio/1", "/dev/vfio/vfio"]
    cdev = boot("vfio cdev\n" + iommu_group.TEXT)
    nodes = one(cdev, iommu_group.GPU, iommu_group="1").nodes
    assert {path for path, _, _ in nodes} == {
        *("/dev/vfio/devices/vfio0", "/dev/vfio/devices/vfio1", "/dev/iommu"),
    }


NVIDIA = """
  - name: example.com/gpu
    devices: [{gpu: {vendor: nvidia}}]
"""


def test_never_another_gpus_node(boot):
    """The driver counts what it has, first come, first served: by address says nothing."""
    machine = boot(two_sockets.TEXT)
    before = ids(machine, NVIDIA)
    for address in ("1a:00.0", "88:00.0"):
        machine.bind(address, "vfio-pci")
    _nvidia_nodes_are_its_own(machine)
    machine.bind("88:00.0", "nvidia")
    machine.bind("1a:00.0", "nvidia")
    _nvidia_nodes_are_its_own(machine)
    assert ids(machine, NVIDIA) == before


def _nvidia_nodes_are_its_own(machine):
    devices = [one for one in found(look(machine, NVIDIA)["gpu"]) if not one.problem]
    assert devices
    for device in devices:
        own = machine.nodes(device.attributes["address"])
        assert {node for node in real(machine, device) if node[-1].isdecimal()} == {*own}


def test_a_virtual_function_comes_and_goes(boot):
    machine = boot(machines.TEXTS["sriov_nic"])
    resources = machines.CASES["sriov_nic"][0].resources
    before = ids(machine, resources)
    function = machine.unplug("81:00.5")
    assert ids(machine, resources) == {
        thing: id_ for thing, id_ in before.items() if thing is not function
    }
    machine.plug(function, "80:02.0")
    assert ids(machine, resources) == before


MOVES = ("replug", "move", "swap names", "reboot", "trigger", "unplug another")


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=st.randoms(use_true_random=False), moves=st.lists(st.sampled_from(MOVES), max_size=6))
def test_whatever_happens_a_device_is_itself_and_gets_its_own_node(boot, chance, moves):
    machine = boot(ftdi_hub.TEXT)
    with_serial = {serial: one(machine, EVERYTHING, serial=serial).id for serial in SERIALS}
    for move in moves:
        _move(machine, move, chance)
        for serial in SERIALS:
            (stick,) = (thing for thing in machine.things() if _serial(thing) == serial)
            device = one(machine, EVERYTHING, serial=serial)
            assert device.id == with_serial[serial]
            assert real(machine, device) == machine.nodes(stick.name)[1:]


SERIALS = ("A10KZP3U", "A10KZQ7X")


def _serial(thing):
    return thing.options.get("serial")


def _move(machine, move, chance):
    serial = chance.choice(SERIALS)
    (stick,) = (thing for thing in machine.things() if _serial(thing) == serial)
    if move == "replug":
        machine.replug(stick.name)
    elif move == "move":
        (hub,) = (thing for thing in machine.things() if thing.options.get("bcdDevice") == "0111")
        machine.replug(stick.name, hub.name, 5 + SERIALS.index(serial))
    elif move == "swap names":
        names = sorted({t.name for t in machine.things() if t.name.startswith("ttyUSB")})
        numbers = list(range(len(names)))
        chance.shuffle(numbers)
        machine.renumber({name: number + 10 for name, number in zip(names, numbers, strict=True)})
    elif move == "reboot":
        machine.reboot(chance.randint(0, 99))
    elif move == "trigger":
        machine.trigger(stick.name)
    else:
        fakes = [thing.name for thing in machine.things() if _serial(thing) == "A50285BI"]
        if fakes:
            machine.unplug(chance.choice(fakes))
