"""Kernel uevents: what counts, and a real socket with the events of the real kernel."""

import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from device_plugin import uevents
from device_plugin.uevents import Uevents, matters

NULL = Path("/sys/class/mem/null/uevent")  # writing to it lets the kernel send an event
CPU = Path("/sys/devices/system/cpu/cpu0/uevent")
WAIT = 5  # seconds that no good run needs
not_rootless = pytest.mark.skipif(
    Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"],
    reason="in a container with a user namespace: the kernel tells it nothing",
)

# An own network namespace, then nobody without any capability: an ordinary Pod.
POD = """
import os, sys, threading
from device_plugin.uevents import Uevents
if sys.argv[1:]:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
came = threading.Event()
uevents = Uevents(came.set)
print("open", uevents.open(), flush=True)
sys.stdin.read()
print("came", came.wait(5 if sys.argv[1:] else 0.2))
uevents.close()
"""


def message(*fields: str, header: str = "add@/devices/x") -> bytes:
    return b"".join(field.encode() + b"\0" for field in (header, *fields))


@pytest.mark.parametrize(
    "subsystem", ["usb", "pci", "tty", "block", "vfio", "drm", "net", "cpuid", "slabs"]
)
@pytest.mark.parametrize("action", ["add", "remove", "change", "bind", "unbind", "move"])
def test_events_of_devices_count(subsystem, action):
    header = f"{action}@/devices/pci0000:00/0000:00:14.0/usb1/1-2"
    devpath = header.partition("@")[2]
    fields = (f"ACTION={action}", f"DEVPATH={devpath}", f"SUBSYSTEM={subsystem}", "SEQNUM=7")
    assert matters(message(*fields, header=header))


@pytest.mark.parametrize(
    "subsystem", ["bdi", "cgroup", "cpu", "memory", "module", "power_supply", "queues", "slab"]
)
def test_other_events_do_not(subsystem):
    assert not matters(message("ACTION=add", f"SUBSYSTEM={subsystem}", "SEQNUM=7"))


@pytest.mark.parametrize(
    "malformed",
    [
        b"",
        b"\0",
        b"\0" * 8192,
        b"\xff" * 8192,
        b"add@/devices/x",
        b"add@/devices/x\0",
        message("ACTION=add", "SEQNUM=7"),
        message("ACTION=add", "SUBSYSTEM=", "SEQNUM=7"),
        message("ACTION=add", "SUBSYSTEM=tty")[:-1],  # cut off
        message("ACTION=add", "X=SUBSYSTEM=tty"),
        message("SUBSYSTEM=tty", header="devices"),
        message("SUBSYSTEM=tty", header="@/devices/x"),
        message("SUBSYSTEM=tty", header="libudev\0\xfe\xed"),  # what udev makes of it
    ],
)
def test_what_is_no_event_does_not(malformed):
    assert not matters(malformed)


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(noise):
    matters(noise)
    assert matters(message("ACTION=add", "SUBSYSTEM=usb") + noise)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(st.lists(TEXT), st.lists(TEXT))
def test_the_subsystem_is_found_among_any_fields(before, after):
    before = [field for field in before if not field.startswith("SUBSYSTEM=")]
    assert matters(message(*before, "SUBSYSTEM=usb", *after))
    assert not matters(message(*before, "SUBSYSTEM=cpu", *after))


@not_rootless
def test_closing_while_nothing_happens():
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    listening = Uevents(lambda: None)
    assert listening.open()
    assert threading.active_count() == threads + 1
    assert len(os.listdir("/proc/self/fd")) == files + 2
    started = time.monotonic()
    listening.close()
    assert time.monotonic() - started < 1
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == files


def test_closing_what_was_never_open():
    Uevents(lambda: None).close()


@not_rootless
def test_a_closed_netlink_is_said(monkeypatch):
    monkeypatch.setattr(uevents, "_KOBJECT_UEVENT", 31)  # no kernel has it
    listening = Uevents(lambda: None)
    files = len(os.listdir("/proc/self/fd"))
    with capture_logs() as logs:
        assert not listening.open()
    listening.close()
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("no kernel events, the audit looks instead", "warning")
    ]
    assert "Protocol not supported" in logs[0]["error"]
    assert len(os.listdir("/proc/self/fd")) == files


def test_a_pod_with_a_user_namespace_hears_nothing_and_says_so():
    """Its socket opens as any other: only the namespace's owner tells."""
    output = run_in("--user", "--map-root-user", "--net")
    assert "open False" in output
    assert "no kernel events, the audit looks instead" in output
    assert "its user namespace is not the host's" in output


@not_rootless
def test_a_user_namespace_in_the_hosts_network_hears_all():
    assert "open True" in run_in("--user", "--map-root-user")


@pytest.mark.root
def test_a_pod_without_privileges_hears_the_kernel():
    assert run_in("--net", privileged=False) == "open True\ncame True\n"


@pytest.mark.root
def test_what_the_kernel_sends_is_read_right():
    """Its own words: of a device, and of a processor."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as raw:
        raw.settimeout(WAIT)
        raw.bind((0, 1))
        assert matters(synthetic(raw, NULL))
        assert not matters(synthetic(raw, CPU))


@pytest.mark.root
def test_an_event_is_told_at_once():
    with listener() as told:
        started = time.monotonic()
        NULL.write_text("change")
        assert told.get(timeout=WAIT) - started < 1


@pytest.mark.root
def test_a_storm_is_told_first_at_once_then_seldom_and_last_for_sure():
    with listener() as told:
        started = last = time.monotonic()
        count = 0
        with NULL.open("wb", buffering=0) as event:
            while last < started + 0.5:
                last = time.monotonic()
                event.write(b"change")
                count += 1
        words = [told.get(timeout=WAIT)]
        while words[-1] < last:
            words.append(told.get(timeout=WAIT))
    assert count > 1000
    assert words[0] - started < 1
    assert words[-1] - last < 2
    assert len(words) <= 6  # after 0, 50, 150, 350 and 750 ms


@pytest.mark.root
def test_events_that_the_kernel_dropped_are_looked_for():
    """Its buffer is full of what does not count when the one comes that does."""
    blocked, proceed, told_again = threading.Event(), threading.Event(), threading.Event()

    def changed():
        if blocked.is_set():
            told_again.set()
        blocked.set()
        proceed.wait(WAIT)

    listening = Uevents(changed)
    assert listening.open()
    try:
        NULL.write_text("change")
        assert blocked.wait(WAIT)
        dropped = drops()
        with CPU.open("wb", buffering=0) as event:
            while drops() == dropped:
                event.write(b"change")
        NULL.write_text("change")
        proceed.set()
        assert told_again.wait(WAIT)
    finally:
        proceed.set()
        listening.close()


@pytest.mark.root
def test_closing_in_a_storm():
    stop = threading.Event()

    def blow():
        with NULL.open("wb", buffering=0) as event:
            while not stop.is_set():
                event.write(b"change")

    storm = threading.Thread(target=blow)
    storm.start()
    try:
        with listener() as told:
            told.get(timeout=WAIT)
            started = time.monotonic()
        assert time.monotonic() - started < 1
    finally:
        stop.set()
        storm.join()


@contextmanager
def listener():
    """A queue of the times at which something was told."""
    told: queue.SimpleQueue[float] = queue.SimpleQueue()
    listening = Uevents(lambda: told.put(time.monotonic()))
    assert listening.open()
    try:
        yield told
    finally:
        listening.close()


def run_in(*namespaces, privileged=True):
    """Listen in new namespaces while an event comes; returns what is printed."""
    command = ["unshare", *namespaces, sys.executable, "-c", POD]
    if subprocess.run([*command[:-3], "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"needs unshare {' '.join(namespaces)}")
    with subprocess.Popen(
        command if privileged else [*command, "nobody"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as pod:
        assert pod.stdin is not None
        assert pod.stdout is not None
        first = pod.stdout.readline()
        if not privileged:
            NULL.write_text("change")
        pod.stdin.close()
        return first + pod.stdout.read()


def synthetic(raw, path):
    """Let the kernel send an event that is known among all others; returns it."""
    mark = str(uuid.uuid4())
    path.write_text(f"change {mark}")
    while True:
        event: bytes = raw.recv(8192)
        if f"SYNTH_UUID={mark}".encode() in event:
            return event


def drops():
    """How many events the kernel has dropped for this process's sockets."""
    inodes = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:  # the one that listed them
            continue
    lines = [line.split() for line in Path("/proc/net/netlink").read_text().splitlines()[1:]]
    return sum(int(line[8]) for line in lines if line[9] in inodes)
