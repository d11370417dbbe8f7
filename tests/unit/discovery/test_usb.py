"""USB devices: which ones a selector means, what they are called, and what they hand over."""

import pytest

from device_plugin.discovery import discover
from device_plugin.host import Host

STICKS = """
pci0000:00 numa=1
  00:14.0 8086:a36d 0c0330 xhci_hcd
    usb1
      1-1 0403:6001 manufacturer=FTDI product="FT232R USB UART" serial=a10k
        1.0 ff/ff/ff ftdi_sio
          ttyUSB0
      1-2 1a86:7523 product="USB Serial"
        1.0 ff/01/02 ch341
          ttyUSB1
      1-3 05e3:0608 hub
        1-3.1 0403:6001 serial=A10K
          1.0 ff/ff/ff ftdi_sio
            ttyUSB2
        1-3.2 1a6e:089a
          1.0 fe/01/02
"""


def ids(discovered):
    return [candidate.device.id for candidate in discovered.candidates]


def by_port(discovered):
    return {c.device.attributes["port"]: c for c in discovered.candidates}


def test_ids_are_read_easily_and_tell_devices_apart(boot, find):
    found = ids(find(boot(STICKS), 'usb: {vendor: "*"}'))
    assert found[0] == "usb-0403-6001-a10k"  # its serial number as it is
    assert found[1].rpartition("-")[0] == "usb-1a86-7523-port-2"  # without one: the port
    assert found[2].rpartition("-")[0] == "usb-0403-6001-a10k"  # in capitals: with a hash
    assert found[3].rpartition("-")[0] == "usb-1a6e-089a-port-3-2"
    assert len(set(found)) == len(found) == 4


@pytest.mark.parametrize(
    ("selector", "ports"),
    [
        ('vendor: "0403"', ["1-1", "1-3.1"]),
        ('vendor: "0403", serial: a10k', ["1-1"]),
        ('vendor: "0*"', ["1-1", "1-3.1"]),
        ('product: "[67]*"', ["1-1", "1-2", "1-3.1"]),
        ('serial: "?10k"', ["1-1"]),
        ('serial: "*"', ["1-1", "1-3.1"]),
        ('port: "1-[12]"', ["1-1", "1-2"]),
        ('port: "*.1"', ["1-3.1"]),
        ("port: 1-3.1", ["1-3.1"]),
        ('class: "ff"', ["1-1", "1-2", "1-3.1"]),
        ('class: "ff01"', ["1-2"]),
        ('class: "ff0102"', ["1-2"]),
        ('class: "f[ef]01??"', ["1-2", "1-3.2"]),
        ('class: "*02"', ["1-2", "1-3.2"]),
        ('class: "01"', []),
        ('vendor: "05e3"', []),
        ('vendor: "05e3", product: "060*"', []),
        ('vendor: "05e3", product: "0608"', ["1-3"]),
        ('class: "09"', ["1-3", "usb1"]),
    ],
)
def test_selectors(boot, find, selector, ports):
    assert list(by_port(find(boot(STICKS), f"usb: {{{selector}}}"))) == ports


def test_where_it_hangs_is_said_and_told_to_the_kubelet(boot, find):
    device = by_port(find(boot(STICKS), 'usb: {vendor: "0403"}'))["1-3.1"].device
    assert device.attributes["numa"] == 1
    assert device.attributes["pcie_root"] == "pci0000:00"
    assert device.numa_nodes == (1,)
    nowhere = boot(STICKS.replace("numa=1", ""))
    device = by_port(find(nowhere, 'usb: {vendor: "0403"}'))["1-1"].device
    assert "numa" not in device.attributes
    assert device.numa_nodes == ()


def test_nodes_without_a_word_are_those_of_its_drivers_or_else_its_own(boot, find, paths):
    found = by_port(find(boot(STICKS), 'usb: {vendor: "*"}'))
    assert paths(found["1-1"]) == ["/dev/ttyUSB0"]
    assert paths(found["1-3.2"]) == ["/dev/bus/usb/001/006"]


ARM = """
platform
  {first}.usb dwc3
    xhci-hcd.7{auto} xhci-hcd
      usb1 480
        1-1 1a86:7523
          1.0 ff/ff/ff ch341
            ttyUSB0
  {second}.usb dwc3
    xhci-hcd.8{auto} xhci-hcd
      usb2 480
        2-1 1a86:7523
          1.0 ff/ff/ff ch341
            ttyUSB1
"""


@pytest.mark.parametrize("auto", ["", ".auto"])
def test_controllers_are_known_by_what_does_not_change(boot, find, auto):
    """The kernel numbers these as it finds them: 7 is the one at boot that is 8 at the next."""
    ids = []
    for first, second in (("fc000000", "fc400000"), ("fc400000", "fc000000")):
        machine = boot(ARM.format(first=first, second=second, auto=auto))
        found = by_port(find(machine, 'usb: {vendor: "1a86"}'))
        ids.append([found[port].device.id for port in ("1-1", "2-1")])
    assert ids[0] == ids[1][::-1]
    assert len(set(ids[0])) == 2


COMPOSITE = """
platform
  3f980000.usb dwc2
    usb1 480
      1-1 046d:0825 serial=CAM
        1.0 0e/01/00 uvcvideo
          media0
          video0 index=0
          video1 index=1
          input2
            event5
        1.1 01/01/00 snd-usb-audio
          sound/card1
            controlC1
            pcmC1D0c
        1.2 03/00/00 usbhid
          0003:046D:0825.0001 hid-generic
            hidraw0
"""


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (
            "",
            [
                *("/dev/input/event5", "/dev/media0", "/dev/video0", "/dev/video1"),
                *("/dev/snd/controlC1", "/dev/snd/pcmC1D0c", "/dev/hidraw0"),
            ],
        ),
        ("{subsystem: video4linux}", ["/dev/video0", "/dev/video1"]),
        ("{subsystem: video4linux, to: /dev/cam}", ["/dev/cam"]),
        (
            "{subsystem: video4linux, to: /dev/a}, {subsystem: video4linux, to: /dev/b}",
            ["/dev/a", "/dev/b"],
        ),
        (
            "{subsystem: video4linux, to: /dev/a}, {subsystem: video4linux}",
            ["/dev/a", "/dev/video1"],
        ),
        (
            "{subsystem: hidraw}, {subsystem: sound}",
            ["/dev/hidraw0", "/dev/snd/controlC1", "/dev/snd/pcmC1D0c"],
        ),
        ("{subsystem: usb}", ["/dev/bus/usb/001/002"]),
        ("{subsystem: hidraw}, {subsystem: tty, optional: true}", ["/dev/hidraw0"]),
    ],
)
def test_nodes_by_subsystem(boot, find, paths, nodes, expected):
    (one,) = find(
        boot(COMPOSITE), f'usb: {{vendor: "046d"}}{f", nodes: [{nodes}]" if nodes else ""}'
    ).candidates
    assert one.problem == ""
    assert paths(one) == expected


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ("{subsystem: tty}", "it has no tty node"),
        (
            "{subsystem: hidraw, to: /a}, {subsystem: hidraw, to: /b}",
            "it has too few hidraw nodes",
        ),
    ],
)
def test_without_a_node_that_it_must_have_it_is_not_offered(boot, find, nodes, problem):
    (one,) = find(boot(COMPOSITE), f'usb: {{vendor: "046d"}}, nodes: [{nodes}]').candidates
    assert one.problem == problem


def test_permissions_and_companions(boot, find):
    (one,) = find(
        boot(COMPOSITE),
        'usb: {vendor: "046d"}, nodes: [{subsystem: hidraw, permissions: r}],'
        " with: [/dev/fuse, {path: /dev/nothing, optional: true}, {path: /dev/null, to: /dev/n}]",
    ).candidates
    assert one.problem == ""
    assert [(n.host_path, n.to, n.permissions) for n in one.device.nodes] == [
        ("/dev/hidraw0", "", "r"),
        ("/dev/fuse", "", "rw"),
        ("/dev/null", "/dev/n", "rw"),
    ]
    assert not {"/dev/fuse", "/dev/null"} & set(one.owned)
    (one,) = find(boot(COMPOSITE), 'usb: {vendor: "046d"}, with: [/dev/nothing]').candidates
    assert one.problem == "/dev/nothing does not exist"


def test_the_class_is_that_of_every_interface(boot, find):
    (one,) = find(boot(COMPOSITE), 'usb: {class: "03"}').candidates
    assert one.device.attributes["class"] == "0e0100,010100,030000"


def test_a_device_has_one_owner_whatever_is_handed_over(boot, find):
    machine = boot(STICKS)
    first, second = find(
        machine,
        'usb: {vendor: "0403", serial: a10k}, nodes: [{subsystem: tty}]',
        'usb: {vendor: "0403", serial: a10k}, nodes: [{subsystem: usb}]',
    ).selectors
    assert [c.problem for c in first.candidates] == [""]
    assert second.candidates == ()
    assert "already belongs to a.b/c" in second.lost[0].reason


def test_a_path_and_a_stick_that_meet(boot, find):
    found = find(boot(STICKS), "path: /dev/ttyUSB0", 'usb: {vendor: "0403"}')
    assert [bool(one.problem) for one in found.candidates] == [False, True, False]
    assert found.candidates[1].problem == (
        f"/dev/ttyUSB0 already belongs to a.b/c (device {found.candidates[0].device.id})"
    )


def test_two_of_one_kind_with_one_serial_number_are_known_by_their_ports(boot, find):
    machine = boot(STICKS.replace("serial=A10K\n", "serial=a10k\n"))
    found = by_port(find(machine, 'usb: {vendor: "0403"}'))
    assert {one.device.attributes["serial"] for one in found.values()} == {"a10k"}
    assert [one.device.id.rpartition("-")[0] for one in found.values()] == [
        "usb-0403-6001-port-1",
        "usb-0403-6001-port-3-1",
    ]
    # Their by-id links lead to either.
    assert all("by-path" in one.device.nodes[0].host_path for one in found.values())


def test_one_serial_number_for_two_kinds_is_no_matter(boot, find):
    machine = boot(STICKS.replace("1a86:7523", "1a86:7523 serial=a10k"))
    assert ids(find(machine, "usb: {serial: a10k}")) == [
        "usb-0403-6001-a10k",
        "usb-1a86-7523-a10k",
    ]


def test_known_by_its_serial_number_it_may_be_plugged_in_anywhere(boot, find):
    machine = boot(STICKS)
    before = ids(find(machine, "usb: {serial: a10k}"))
    machine.replug("1-1", "1-3", 4)
    after = find(machine, "usb: {serial: a10k}")
    assert ids(after) == before
    assert after.candidates[0].device.attributes["port"] == "1-3.4"


def test_known_by_its_port_it_may_have_any_number(boot, find):
    machine = boot(STICKS)
    before = ids(find(machine, 'usb: {vendor: "1a86"}'))
    machine.replug("1-2")
    assert ids(find(machine, 'usb: {vendor: "1a86"}')) == before
    machine.replug("1-2", "1-3", 4)
    assert ids(find(machine, 'usb: {vendor: "1a86"}')) != before


TWO_CONTROLLERS = """
pci0000:00
  00:14.0 8086:a36d 0c0330 xhci_hcd
    usb{a} 480
      {a}-1 1a86:7523
        1.0 ff/01/02
    usb{b} 5000
      {b}-1 1a86:7523
        1.0 ff/01/02
  00:1a.0 8086:1c2d 0c0320 ehci-pci
    usb{c} 480
      {c}-1 1a86:7523
        1.0 ff/01/02
"""


def test_numbers_of_buses_are_no_part_of_a_place(boot, find):
    """Which controller is found first is a matter of chance."""
    seen = [
        set(ids(find(boot(TWO_CONTROLLERS.format(a=a, b=b, c=c)), 'usb: {vendor: "1a86"}')))
        for a, b, c in ((1, 2, 3), (2, 3, 1), (10, 11, 2))
    ]
    assert len(seen[0]) == 3
    assert seen[0] == seen[1] == seen[2]


def test_a_device_that_is_not_ready_is_not_known_by_its_port(boot, find):
    """Interfaces come last and go first; the serial number is there for less long than itself."""
    machine = boot(STICKS)
    machine.authorize("1-2", allowed=False)
    found = find(machine, 'usb: {vendor: "1a86"}')
    assert found.candidates == []
    (lost,) = found.selectors[0].lost
    assert lost.reason == "it has no interfaces: it comes or goes, or is not authorized"


def test_a_device_that_is_not_authorized_keeps_its_name(boot, find):
    machine = boot(STICKS)
    machine.authorize("1-1", allowed=False)
    (one,) = find(machine, "usb: {serial: a10k}").candidates
    assert one.device.id == "usb-0403-6001-a10k"
    assert one.problem == "it has no interfaces: is it authorized?"


def test_what_matches_nothing_says_so(boot, find):
    found = find(boot(STICKS), 'usb: {vendor: "dead", serial: "a b"}')
    assert found.notes == ['usb: {vendor: dead, serial: "a b"} matches nothing']


def test_where(boot, find):
    found = find(
        boot(STICKS),
        'usb: {vendor: "*"}, where: [{key: serial, operator: Exists},'
        ' {key: numa, operator: AtMost, values: ["0"]}]',
    )
    assert found.candidates == []
    reasons = [lost.reason for lost in found.selectors[0].lost]
    assert reasons == [
        "numa is 1, and must be at most 0",
        "there is no attribute serial",
        "numa is 1, and must be at most 0",
        "there is no attribute serial",
    ]
    assert found.notes == [
        "usb: {vendor: *}: nothing that matches can be taken: numa is 1, and must be at most 0"
    ]


def test_where_new_devices_show_is_watched(boot, load):
    look = Host(str(boot(STICKS).root)).look()
    discover(look, load('usb: {vendor: "dead"}'))
    assert look.folders == {"/dev", "/dev/bus/usb", "/dev/bus/usb/001"}
