"""The machines are as the kernel and udev would have them, so that what is found on them counts."""

import os
import stat
from pathlib import Path

import pytest

from tests.unit.hosts import consistency, machines
from tests.unit.hosts.kernel import Link
from tests.unit.hosts.language import parse

PCI = Path("/sys/bus/pci/devices")


@pytest.mark.parametrize("name", machines.NAMES)
def test_sys_and_dev_tell_the_same_story(standing, name):
    consistency.check(standing(name))


def test_without_root_too(boot):
    consistency.check(boot(machines.TEXTS["desk"], pretend=True))


# Lines that were seen on real machines: what `ls -l` in /sys and `udevadm info` showed there.
SEEN = {
    "ftdi_hub": {
        "/sys/bus/usb/devices/1-4.1": "../../../devices/pci0000:00/0000:00:14.0/usb1/1-4/1-4.1",
        "usb1/1-4/1-4.1/driver": "../../../../../../bus/usb/drivers/usb",
        "usb1/1-4/1-4.1/port": "../1-4:1.0/1-4-port1",
        "usb1/1-4/port": "../1-0:1.0/usb1-port4",
        "usb1/1-4/1-4.1/1-4.1:1.0/driver": "../../../../../../../bus/usb/drivers/ftdi_sio",
        "1-4.1:1.0/ttyUSB0/subsystem": "../../../../../../../../bus/usb-serial",
        "1-4.1:1.0/ttyUSB0/tty/ttyUSB0/device": "../../../ttyUSB0",
    },
    "zigbee_zwave": {
        "/sys/class/tty/ttyUSB1": (
            "../../devices/platform/scb/fd500000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0"
            "/usb1/1-1/1-1.4/1-1.4:1.1/ttyUSB1/tty/ttyUSB1"
        ),
        "/dev/serial/by-path/platform-fd500000.pcie-pci-0000:01:00.0-usb-0:1.4:1.1-port0": (
            "../../ttyUSB1"
        ),
        "/dev/serial/by-id/usb-Silicon_Labs_HubZ_Smart_Home_Controller_31200A7C-if01-port0": (
            "../../ttyUSB1"
        ),
    },
    "intel_arc": {
        "/sys/class/drm/card2": (
            "../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:03:00.0/drm/card2"
        ),
        "0000:03:00.0/drm/card2/device": "../../../0000:03:00.0",
        "/sys/class/drm/card1-DP-1": "../../devices/pci0000:00/0000:00:02.0/drm/card1/card1-DP-1",
        "/sys/dev/char/226:129": "../../devices/pci0000:00/0000:00:02.0/drm/renderD129",
        "/dev/dri/by-path/pci-0000:00:02.0-render": "../renderD129",
        "/sys/kernel/iommu_groups/7/devices/0000:03:00.0": (
            "../../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:03:00.0"
        ),
    },
    "sriov_nic": {
        "0000:81:00.0/virtfn0": "../0000:81:00.2",
        "0000:81:00.0/virtfn6": "../0000:81:01.0",
        "0000:81:01.0/physfn": "../0000:81:00.0",
        "0000:81:00.2/iommu_group": "../../../../kernel/iommu_groups/3",
    },
    "cloud_vm": {
        "/sys/block/vda": "../devices/pci0000:00/0000:00:02.0/virtio1/block/vda",
        "virtio1/block/vda/device": "../../../virtio1",
        "virtio1/block/vda/subsystem": "../../../../../../class/block",
        "/sys/dev/char/10:232": "../../devices/virtual/misc/kvm",
    },
    "desk": {
        "0003:1050:0120.0002/hidraw/hidraw1/device": "../../../0003:1050:0120.0002",
        "0003:1050:0120.0002/driver": "../../../../../../../bus/hid/drivers/hid-generic",
        "/dev/snd/by-id/usb-046d_HD_Pro_Webcam_C920_6BBD9C6F-02": "../controlC1",
        "/dev/input/by-path/pci-0000:00:14.0-usb-0:2:1.0-event-kbd": "../event3",
        "/dev/input/by-path/pci-0000:00:14.0-usbv2-0:2:1.0-event-kbd": "../event3",
        "/dev/disk/by-id/usb-SanDisk_Ultra_Fit_4C530001-0:0-part1": "../../sda1",
    },
    "raspberry_pi": {
        "/sys/bus/gpio/devices/gpiochip0": "../../../devices/platform/soc/fe200000.gpio/gpiochip0",
        "/sys/class/spidev/spidev0.1": (
            "../../devices/platform/soc/fe204000.spi/spi_master/spi0/spi0.1/spidev/spidev0.1"
        ),
        "/sys/class/i2c-dev/i2c-1": ("../../devices/platform/soc/fe804000.i2c/i2c-1/i2c-dev/i2c-1"),
    },
    "two_sockets": {
        "/sys/class/block/nvme0n1": (
            "../../devices/pci0000:d7/0000:d7:00.0/0000:d8:00.0/nvme/nvme0/nvme0n1"
        ),
    },
    "tpm": {"/sys/class/tpm/tpm0": "../../devices/platform/MSFT0101:00/tpm/tpm0"},
    "iommu_group": {"/sys/class/vfio/1": "../../devices/virtual/vfio/1"},
}


@pytest.mark.parametrize(
    ("name", "path", "target"),
    [(name, path, target) for name, lines in SEEN.items() for path, target in lines.items()],
)
def test_links_are_as_seen_on_real_machines(standing, name, path, target):
    entries = standing(name).entries()
    (whole,) = (one for one in entries if one == path or one.endswith(f"/{path.lstrip('/')}"))
    assert entries[whole] == Link(target)


def test_numbers_are_as_seen_on_real_machines(boot):
    entries = boot("""
        pci0000:00
          00:14.0 8086:02ed 0c0330 xhci_hcd
            usb3
              3-2 27c6:5840 devnum=8 class=ef
                1.0 ff/00/00
        platform
          MSFT0101:00 tpm_crb
            tpm0
            tpmrm0
    """).entries()
    usb = "/sys/devices/pci0000:00/0000:00:14.0/usb3"
    assert consistency.text(entries, f"{usb}/dev") == "189:256\n"
    assert consistency.text(entries, f"{usb}/3-2/dev") == "189:263\n"
    assert consistency.text(entries, f"{usb}/3-2/uevent").splitlines() == [
        *("MAJOR=189", "MINOR=263", "DEVNAME=bus/usb/003/008", "DEVTYPE=usb_device"),
        *("DRIVER=usb", "PRODUCT=27c6/5840/100", "TYPE=239/0/0", "BUSNUM=003", "DEVNUM=008"),
    ]
    tpm = "/sys/devices/platform/MSFT0101:00"
    assert consistency.text(entries, f"{tpm}/tpm/tpm0/dev") == "10:224\n"
    assert consistency.text(entries, f"{tpm}/tpmrm/tpmrm0/dev") == "253:65536\n"


@pytest.mark.skipif(not PCI.is_dir() or not any(PCI.iterdir()), reason="this machine has no PCI")
def test_a_pci_function_reads_as_those_of_this_machine(boot):
    """Describe the functions of this very machine: the files must be the same, byte for byte."""
    real = sorted(PCI.iterdir())
    roots = {one.resolve().parts[3] for one in real}
    tops = [one for one in real if one.resolve().parts[3] == one.resolve().parent.name]
    lines = []
    for root in sorted(roots):
        lines.append(root)
        lines += [_described(one) for one in tops if one.resolve().parent.name == root]
    machine = boot("node0 0\n" + "\n".join(lines))
    for one in tops:
        made = machine.local(machine.path(one.name))
        for name in ("vendor", "device", "class", "subsystem_vendor", "subsystem_device"):
            assert (made / name).read_bytes() == (one / name).read_bytes()
        for name in ("modalias", "numa_node", "uevent"):
            assert (made / name).read_bytes() == (one / name).read_bytes()
        for name in ("driver", "subsystem"):
            assert os.path.lexists(made / name) == os.path.lexists(one / name)
            if os.path.lexists(one / name):
                assert os.readlink(made / name) == os.readlink(one / name)
        assert os.readlink(machine.local(f"{PCI}/{one.name}")) == os.readlink(one)
        assert {entry.name for entry in made.iterdir()} <= {entry.name for entry in one.iterdir()}


def _described(function: Path) -> str:
    def text(name: str) -> str:
        return (function / name).read_text().strip().removeprefix("0x")

    driver = os.path.basename(os.readlink(function / "driver")) if _bound(function) else ""
    sub = f"{text('subsystem_vendor')}:{text('subsystem_device')}"
    ids, node = f"{text('vendor')}:{text('device')}", text("numa_node")
    return f"  {function.name} {ids} {text('class')} {driver} sub={sub} numa={node}"


def _bound(function: Path) -> bool:
    return os.path.lexists(function / "driver")


@pytest.mark.root
def test_nodes_are_real_ones_for_root(boot, real_nodes):
    machine = boot(machines.TEXTS["cloud_vm"])
    status = machine.local("/dev/vda1").lstat()
    if not real_nodes:
        pytest.skip("this root may make no device nodes")
    assert stat.S_ISBLK(status.st_mode)
    assert (os.major(status.st_rdev), os.minor(status.st_rdev)) == (254, 1)


def test_a_line_that_hangs_on_nothing_is_refused():
    with pytest.raises(ValueError, match=r"line 2 hangs on nothing: 00:14\.0 8086:a36d"):
        parse("# nothing above\n    00:14.0 8086:a36d 0c0330\npci0000:00\n")
