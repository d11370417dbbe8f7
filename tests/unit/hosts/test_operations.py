"""What happens to a machine changes /sys and /dev as the kernel and udev would."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.hosts import consistency, machines
from tests.unit.hosts.kernel import File

STICKS = machines.TEXTS["ftdi_hub"]
BY_ID = "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART"


def leads_to(machine, link):
    return consistency.end(machine.entries(), link)


def test_an_unplugged_device_is_gone_everywhere(boot):
    machine = boot(STICKS)
    stick = machine.unplug("1-4.1")
    assert stick.name == "1-4.1"
    left = [path for path in machine.entries() if "1-4.1" in path or "ttyUSB0" in path]
    assert left == []
    assert f"{BY_ID}_A10KZP3U-if00-port0" not in machine.entries()
    consistency.check(machine)


def test_with_a_hub_goes_what_is_plugged_into_it(boot):
    machine = boot(STICKS)
    machine.unplug("1-4.4")
    assert [path for path in machine.entries() if path.startswith("/dev/ttyUSB")] == [
        f"/dev/ttyUSB{n}" for n in range(3)
    ]
    consistency.check(machine)


def test_it_comes_back_with_the_next_device_number_and_the_lowest_free_name(boot):
    machine = boot(STICKS)
    before = machine.thing("1-4.3").options["devnum"]
    first, third = machine.unplug("1-4.1"), machine.unplug("1-4.3")
    machine.plug(third, "1-4")
    machine.plug(first, "1-4")
    assert machine.thing("1-4.3").options["devnum"] > before
    assert leads_to(machine, f"{BY_ID}_A10KZP3U-if00-port0") == "/dev/ttyUSB2"
    assert machine.nodes("1-4.3") == ["/dev/bus/usb/001/009", "/dev/ttyUSB0"]
    consistency.check(machine)


def test_plugged_in_elsewhere_all_its_paths_are_other_ones(boot):
    machine = boot(STICKS)
    machine.replug("1-4.1", "usb1", 7)
    assert machine.path("1-7:1.0").endswith("/usb1/1-7/1-7:1.0")
    assert machine.path("ttyUSB0").endswith("/usb1/1-7/1-7:1.0/ttyUSB0")
    by_path = "/dev/serial/by-path/pci-0000:00:14.0-usb-0:7:1.0-port0"
    assert leads_to(machine, by_path) == "/dev/ttyUSB0"
    consistency.check(machine)


def test_a_hub_that_moves_takes_its_devices_along(boot):
    machine = boot(STICKS)
    machine.replug("1-4.4", "usb1", 2)
    assert machine.path("1-2.1").endswith("/usb1/1-2/1-2.1")
    assert len(machine.nodes("1-2")) == 5
    consistency.check(machine)


def test_something_new(boot):
    machine = boot(STICKS)
    machine.plug("9-9 0403:6015 serial=NEW\n  1.0 ff/ff/ff ftdi_sio\n    ttyUSB0", "usb2", 3)
    assert machine.nodes("2-3") == ["/dev/bus/usb/002/002", "/dev/ttyUSB5"]
    consistency.check(machine)


def test_names_change_hands(boot):
    machine = boot(STICKS)
    machine.renumber({"ttyUSB0": 1, "ttyUSB1": 0})
    assert leads_to(machine, f"{BY_ID}_A10KZP3U-if00-port0") == "/dev/ttyUSB1"
    assert leads_to(machine, f"{BY_ID}_A10KZQ7X-if00-port0") == "/dev/ttyUSB0"
    consistency.check(machine)


def test_names_that_hold_a_number_of_another_follow_it(boot):
    machine = boot(machines.TEXTS["desk"])
    machine.renumber({"sound/card1": 3})
    machine.renumber({"host6": 0, "sda": 2})
    assert {"/dev/snd/controlC3", "/dev/snd/pcmC3D0c", "/dev/sdc", "/dev/sdc1"} <= {
        *machine.entries()
    }
    assert machine.path("sdc1").endswith("/host0/target0:0:0/0:0:0:0/block/sdc/sdc1")
    consistency.check(machine)


def test_shared_links_lead_to_whom_udev_looked_at_last(boot):
    machine = boot(STICKS)
    link = f"{BY_ID}_A50285BI-if00-port0"
    assert leads_to(machine, link) == "/dev/ttyUSB3"
    machine.trigger("1-4.3")
    assert leads_to(machine, link) == "/dev/ttyUSB2"
    machine.unplug("1-4.3")
    assert leads_to(machine, link) == "/dev/ttyUSB3"
    consistency.check(machine)


def test_a_gpu_for_a_virtual_machine_and_back(boot):
    machine = boot(machines.TEXTS["amd_apu"])
    before = machine.entries()
    machine.bind("03:00.0", "vfio-pci")
    there = machine.entries()
    gone = {"/dev/dri/card0", "/dev/dri/renderD128", "/dev/dri/by-path/pci-0000:03:00.0-card"}
    assert gone.isdisjoint(there)
    group = consistency.end(there, f"{machine.path('03:00.0')}/iommu_group").rpartition("/")[2]
    new = {f"/dev/vfio/{group}", "/dev/vfio/vfio", "/dev/vfio/devices/vfio0", "/dev/iommu"}
    assert new <= {*there}
    assert leads_to(machine, f"{machine.path('03:00.0')}/driver") == (
        "/sys/bus/pci/drivers/vfio-pci"
    )
    consistency.check(machine)
    machine.bind("03:00.0", "amdgpu")
    modules = [path for path in {*machine.entries()} ^ {*before} if "/misc" not in path]
    assert sorted(path for path in modules if path.startswith("/dev/")) == [
        *("/dev/iommu", "/dev/vfio", "/dev/vfio/vfio"),
    ]
    consistency.check(machine)


def test_vfio_without_the_newer_form(boot):
    """The kernel then has the folder all the same, without a number."""
    machine = boot("vfio group\n" + machines.TEXTS["iommu_group"])
    assert "/dev/iommu" not in machine.entries()
    assert f"{machine.path('vfio0')}/uevent" in machine.entries()
    assert f"{machine.path('vfio0')}/dev" not in machine.entries()
    consistency.check(machine)


def test_a_driver_that_lets_go(boot):
    machine = boot(STICKS)
    machine.bind("1-4.1:1.0")
    assert machine.nodes("1-4.1") == ["/dev/bus/usb/001/003"]
    assert f"{machine.path('1-4.1:1.0')}/driver" not in machine.entries()
    consistency.check(machine)
    machine.bind("1-4.1:1.0", "ftdi_sio")
    assert machine.nodes("1-4.1") == ["/dev/bus/usb/001/003", "/dev/ttyUSB0"]


def test_a_device_that_is_not_authorized(boot):
    machine = boot(STICKS)
    machine.authorize("1-4.1", allowed=False)
    assert machine.nodes("1-4.1") == ["/dev/bus/usb/001/003"]
    assert machine.entries()[f"{machine.path('1-4.1')}/authorized"] == File(b"0\n")
    consistency.check(machine)
    machine.authorize("1-4.1", allowed=True)
    assert machine.nodes("1-4.1") == ["/dev/bus/usb/001/003", "/dev/ttyUSB0"]


def test_without_an_iommu_there_are_no_groups(boot):
    machine = boot(machines.TEXTS["iommu_group"])
    machine.set_iommu()
    assert not [path for path in machine.entries() if path.endswith("/iommu_group")]
    assert "/dev/vfio/1" not in machine.entries()
    consistency.check(machine)
    machine.set_iommu("identity")
    assert machine.entries()["/sys/kernel/iommu_groups/1/type"] == File(b"identity\n")


def test_nvidia_numbers_are_first_come_first_served_and_nodes_stay(boot):
    """Its driver's nodes are made by a tool, which removes none."""
    machine = boot(machines.TEXTS["two_sockets"])
    for address in ("1a:00.0", "88:00.0"):
        machine.bind(address, "vfio-pci")
    assert {"/dev/nvidia0", "/dev/nvidia4"} <= {*machine.entries()}
    machine.bind("88:00.0", "nvidia")
    machine.bind("1a:00.0", "nvidia")
    information = "/proc/driver/nvidia/gpus/0000:{}/information"
    for address, minor in (("88:00.0", 0), ("1a:00.0", 4), ("1b:00.0", 1)):
        text = consistency.text(machine.entries(), information.format(address))
        assert text.endswith(f"Device Minor: \t {minor}\n")


@pytest.mark.parametrize("name", machines.NAMES)
def test_after_a_reboot_all_numbers_are_other_ones_and_fit(boot, name):
    machine = boot(machines.TEXTS[name])
    for seed in range(3):
        machine.reboot(seed)
        consistency.check(machine)


def test_reboots_are_alike_with_the_same_chance(boot):
    one, other = (boot(machines.TEXTS["desk"]) for _ in range(2))
    for machine in (one, other):
        machine.reboot(7)
    assert one.entries() == other.entries()
    assert one.entries() != boot(machines.TEXTS["desk"]).entries()


def test_what_does_not_change_is_not_touched(boot):
    machine = boot(STICKS)
    watched = [machine.local(path) for path in ("/dev", "/dev/serial/by-id", "/dev/ttyUSB1")]
    inodes = [os.lstat(path).st_ino for path in watched]
    machine.replug("1-4.1")
    assert [os.lstat(path).st_ino for path in watched] == inodes


STEPS = {
    "replug": lambda machine, stick, chance: machine.replug(stick),
    "move": lambda machine, stick, chance: machine.replug(
        stick, machine.thing("1-4" if chance.random() < 0.5 else "1-4.4").name, chance.randint(5, 9)
    ),
    "let go": lambda machine, stick, chance: machine.bind(f"{stick}:1.0"),
    "bind": lambda machine, stick, chance: machine.bind(f"{stick}:1.0", "ftdi_sio"),
    "forbid": lambda machine, stick, chance: machine.authorize(stick, allowed=False),
    "allow": lambda machine, stick, chance: machine.authorize(stick, allowed=True),
    "reboot": lambda machine, stick, chance: machine.reboot(chance.randint(0, 99)),
    "trigger": lambda machine, stick, chance: machine.trigger(stick),
}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chance=st.randoms(use_true_random=False), steps=st.lists(st.sampled_from([*STEPS]), max_size=8)
)
def test_whatever_happens_the_story_stays_the_same(boot, chance, steps):
    machine = boot(STICKS)
    for step in steps:
        (stick,) = (one for one in machine.things() if one.options.get("serial") == "A10KZP3U")
        if "authorized" not in stick.options or step not in ("let go", "bind"):
            STEPS[step](machine, stick.name, chance)
        consistency.check(machine)
