"""What `discover` finds on the machine that runs the tests, beside what other tools list there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

R = "example.com/r"
BUSES = Path("/sys/bus")


def discovered(tmp_path, *devices):
    """The devices of a resource with these selectors."""
    config = tmp_path / "config.yaml"
    resources = [{"name": R, "devices": devices}]
    config.write_text(json.dumps({"version": 1, "resources": resources}))
    command = [sys.executable, "-m", "device_plugin", "discover", "--config", config, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    [resource] = json.loads(done.stdout)["resources"]
    return resource["devices"]


def nodes_of(devices):
    return {node["host_path"] for device in devices for node in device["nodes"]}


def find(*words):
    """What find(1) prints, line by line; what vanishes meanwhile is no matter."""
    done = subprocess.run(["find", *words], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def says(folder, key):
    """What the kernel tells udev of a device; `discover` reads other files."""
    found = re.search(rf"^{key}=(.*)$", (folder / "uevent").read_text(), re.MULTILINE)
    return found[1] if found else ""


def test_device_nodes(tmp_path):
    """Those of fixed names: PTYs, loop and zram devices come and go by other tests."""
    there = find("/dev", "-maxdepth", "1", "(", "-type", "c", "-o", "-type", "b", ")")
    fixed = {path for path in there if not re.match("/dev/(loop|zram)[0-9]", path)}
    assert len(fixed) > 5
    found = nodes_of(discovered(tmp_path, {"path": "/dev/*"}))
    links = {path for path in found if os.path.islink(path)}
    assert {path for path in found - links if not re.match("/dev/(loop|zram)[0-9]", path)} == fixed


def test_links_are_devices_by_their_own_names(tmp_path):
    links = [path for path in find("/dev", "-maxdepth", "1", "-type", "l") if os.path.exists(path)]
    devices = {
        path for path in links if Path(path).is_char_device() or Path(path).is_block_device()
    }
    for path in devices:
        assert nodes_of(discovered(tmp_path, {"path": path})) == {path}


def test_pci_functions(tmp_path):
    folders = list((BUSES / "pci" / "devices").glob("*"))
    if not folders:
        pytest.skip("this machine has no PCI bus: tests/unit/hosts has")
    found = discovered(tmp_path, {"pci": {"vendor": "*"}})
    by_address = {one["attributes"]["address"]: one["attributes"] for one in found}
    assert by_address.keys() == {folder.name for folder in folders}
    for folder in folders:
        its = by_address[folder.name]
        assert f"{its['vendor']}:{its['device']}".upper() == says(folder, "PCI_ID")
        assert its["class"].lstrip("0").upper() == says(folder, "PCI_CLASS").lstrip("0")
        assert its.get("driver", "") == says(folder, "DRIVER")


def test_nodes_of_pci_functions(tmp_path):
    folders = [one.resolve() for one in (BUSES / "pci" / "devices").glob("*")]
    if not folders:
        pytest.skip("this machine has no PCI bus: tests/unit/hosts has")
    expected: dict[str, set[str]] = {}
    for path in find("/sys/devices", "-name", "dev", "-type", "f"):
        above = [folder for folder in folders if folder in Path(path).parents]
        if above and not re.search(r"/usb[0-9]", path):
            nearest = max(above, key=lambda folder: len(folder.parts))
            expected.setdefault(nearest.name, set()).add(Path(path).read_text().strip())
    found = discovered(tmp_path, {"pci": {"vendor": "*"}})
    assert expected == {
        one["attributes"]["address"]: {numbers(node["host_path"]) for node in one["nodes"]}
        for one in found
        if one["nodes"]
    }


def numbers(path):
    number = os.stat(path).st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def test_usb_devices(tmp_path):
    folders = [one for one in (BUSES / "usb" / "devices").glob("*") if ":" not in one.name]
    if not folders:
        pytest.skip("this machine has no USB bus: tests/unit/hosts has")
    found = discovered(tmp_path, {"usb": {"product": "*"}}, {"usb": {"class": "09"}})
    ports = {one["attributes"]["port"]: one for one in found}
    assert ports.keys() == {folder.name for folder in folders}
    for folder in folders:
        attributes = ports[folder.name]["attributes"]
        vendor, product, _ = says(folder, "PRODUCT").split("/")
        assert (int(attributes["vendor"], 16), int(attributes["product"], 16)) == (
            int(vendor, 16),
            int(product, 16),
        )
