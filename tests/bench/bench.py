"""The design's aims, measured: ours and a bare grpcio plugin in turn, behind the embedded kubelet.

`make bench` prints a Markdown table. Nodes are pseudo terminals and links to them, so no root is
needed. Milliseconds depend on the machine; the ratios are what to compare.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2_grpc as pb_grpc
from device_plugin.testing import FakeKubelet

BARE = [sys.executable, str(Path(__file__).with_name("bare.py"))]
OURS = [str(Path(sys.executable).with_name("device-plugin")), "run", "--http", "127.0.0.1:0"]
RESOURCES, DEVICES = 8, 100  # for memory and idle CPU
MANY = 256  # devices in one Allocate
STARTS, RESTARTS, EVENTS, CALLS = 11, 15, 200, 400
IDLE = 20.0  # seconds


def main() -> None:
    print("| figure | ours | bare grpcio | ratio | aim |\n|---|---|---|---|---|")
    start()
    with ptys(DEVICES) as nodes:
        footprint(nodes)
    with ptys(MANY) as nodes:
        allocate(nodes, [1, MANY])
    events()
    restarts()
    many_ids()


def start() -> None:
    """Process start -> first list received; in turn."""
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(STARTS):
        for times, command in ((ours, OURS), (bare, BARE)):
            with kubelet() as (k, folder):
                started = time.monotonic()
                with plugin(command, folder, one(folder, "/dev/null"), 1, 1):
                    k.wait_for(lambda k: k.capacity("example.com/r0") == 1, timeout=20)
                    times.append(k.lists("example.com/r0")[0].received - started)
    row("process start → list sent", ms(median(ours)), ms(median(bare)), ratio(ours, bare), "≤ 1.6")


def footprint(nodes: list[str]) -> None:
    """Memory and idle CPU with 8 resources of 100 devices in all."""
    rss, cpu = {}, {}
    config = by_resource(nodes)
    for name, command in (("ours", OURS), ("bare", BARE)):
        with kubelet() as (k, folder):
            per_resource = DEVICES // RESOURCES + 1
            with plugin(command, folder, config, RESOURCES, per_resource) as process:
                k.wait_for(
                    lambda k: all(k.capacity(f"example.com/r{i}") for i in range(RESOURCES)),
                    timeout=20,
                )
                time.sleep(1)  # the benchmark's only rest: start-up work must be over
                before = cpu_seconds(process.pid)
                time.sleep(IDLE)
                cpu[name] = (cpu_seconds(process.pid) - before) * 1000 / IDLE
                rss[name] = memory(process.pid)
    for key in ("Rss", "Anonymous"):
        ours, bare = rss["ours"][key], rss["bare"][key]
        title = f"{key} memory, {RESOURCES} resources, {DEVICES} devices"
        row(
            title,
            f"{ours / 1024:.1f} MiB",
            f"{bare / 1024:.1f} MiB",
            f"{ours / bare:.2f}",
            "≤ 1.25" if key == "Rss" else "",
        )
    each = [f"{cpu[name]:.2f} ms/s" for name in ("ours", "bare")]
    row("idle CPU", *each, f"{cpu['ours'] / max(cpu['bare'], 0.01):.2f}", "≤ 1.25")


def allocate(nodes: list[str], sizes: list[int]) -> None:
    """Allocate of one and of many devices, in turn."""
    with kubelet() as (k1, f1), kubelet() as (k2, f2):
        ours_plugin = plugin(OURS, f1, everything(nodes), 1, len(nodes))
        with ours_plugin, plugin(BARE, f2, "", 1, len(nodes)):
            stubs = [stub(k) for k in (k1, k2)]
            ids = [list(k.devices("example.com/r0")) for k in (k1, k2)]
            for size in sizes:
                times: tuple[list[float], list[float]] = ([], [])
                for _ in range(CALLS):
                    for which in (0, 1):
                        request = pb.AllocateRequest(
                            container_requests=[
                                pb.ContainerAllocateRequest(devices_ids=ids[which][:size])
                            ]
                        )
                        started = time.monotonic()
                        stubs[which].Allocate(request)
                        times[which].append(time.monotonic() - started)
                row(
                    f"Allocate, {size} device{'s' if size > 1 else ''}, p50",
                    ms(median(times[0])),
                    ms(median(times[1])),
                    ratio(*times),
                    "≤ 1.2",
                )


def events() -> None:
    """Unlinked, created and renamed away -> list received."""
    with kubelet() as (k, folder):
        link, aside = folder / "stick", folder / "aside"
        link.symlink_to("/dev/null")
        with plugin(OURS, folder, one(folder, str(link)), 1, 1):
            k.wait_for(lambda k: k.allocatable("example.com/r0") == 1, timeout=20)
            gone, back, renamed = [], [], []
            for i in range(EVENTS):
                if i % 2:
                    gone.append(told(k, link.unlink, 0))
                else:
                    renamed.append(told(k, lambda: link.rename(aside), 0))
                back.append(told(k, lambda: link.symlink_to("/dev/null"), 1))
    for title, times in (("unlinked", gone), ("created", back), ("renamed away", renamed)):
        aim = "p50 ≤ 5 ms, p99 ≤ 50 ms" if title != "renamed away" else "≤ 600 ms"
        row(
            f"device {title} → kubelet told, p50 / p99",
            f"{ms(median(times))} / {ms(p99(times))}",
            "-",
            "-",
            aim,
        )


def restarts() -> None:
    """New kubelet.sock -> every resource's list received again."""
    with ptys(DEVICES) as nodes, kubelet() as (k, folder):
        names = [f"example.com/r{i}" for i in range(RESOURCES)]
        with plugin(OURS, folder, by_resource(nodes), RESOURCES, 0):
            k.wait_for(lambda k: all(k.allocatable(name) for name in names), timeout=20)
            times = []
            for _ in range(RESTARTS):
                k.stop()
                k.start()
                started = time.monotonic()
                k.wait_for(lambda k: all(k.allocatable(name) for name in names), timeout=20)
                times.append(max(k.lists(name)[-1].received for name in names) - started)
    row(
        f"kubelet restarted → {RESOURCES} lists sent again, p50",
        ms(median(times)),
        "-",
        "-",
        "≤ 100 ms",
    )


def many_ids() -> None:
    """10,000 IDs, one flips -> list received."""
    with kubelet() as (k, folder):
        link = folder / "stick"
        link.symlink_to("/dev/null")
        config = f"""
version: 1
resources:
  - name: example.com/r0
    devices: [{{path: {link}}}, {{virtual: {{count: 9999}}}}]
"""
        with plugin(OURS, folder, config, 1, 0):
            k.wait_for(lambda k: k.allocatable("example.com/r0") == 10_000, timeout=20)
            times = []
            for _ in range(20):
                times.append(told(k, link.unlink, 9_999))
                times.append(told(k, lambda: link.symlink_to("/dev/null"), 10_000))
    row("10,000 IDs, one flips → list sent, p50", ms(median(times)), "-", "-", "≤ 30 ms")


def told(k: FakeKubelet, act: Callable[[], object], count: int) -> float:
    started = time.monotonic()
    act()
    k.wait_for(lambda k: k.allocatable("example.com/r0") == count, timeout=20)
    return k.lists("example.com/r0")[-1].received - started


@contextmanager
def kubelet() -> Iterator[tuple[FakeKubelet, Path]]:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        with FakeKubelet(folder / "plugins") as k:
            yield k, folder


@contextmanager
def plugin(
    command: list[str], folder: Path, config: str, resources: int, devices: int
) -> Iterator[subprocess.Popen[bytes]]:
    if command is BARE:
        command = [*BARE, str(folder / "plugins"), str(resources), str(devices)]
    else:
        (folder / "config.yaml").write_text(config)
        flags = {"config": "config.yaml", "device-plugin-dir": "plugins", "state-dir": "state"}
        command = [*OURS, *(f"--{flag}={folder / name}" for flag, name in flags.items())]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def ptys(count: int) -> Iterator[list[str]]:
    pairs = [os.openpty() for _ in range(count)]
    try:
        yield [os.ttyname(end) for _, end in pairs]
    finally:
        for end in (end for pair in pairs for end in pair):
            os.close(end)


def one(folder: Path, path: str) -> str:
    return everything([path])


def everything(nodes: list[str]) -> str:
    return f"version: 1\nresources:\n{resource(0, nodes)}"


def by_resource(nodes: list[str]) -> str:
    parts = (resource(i, nodes[i::RESOURCES]) for i in range(RESOURCES))
    return "version: 1\nresources:\n" + "".join(parts)


def resource(number: int, nodes: list[str]) -> str:
    devices = "".join(f"      - path: {node}\n" for node in nodes)
    return f"  - name: example.com/r{number}\n    devices:\n{devices}"


def stub(k: FakeKubelet) -> pb_grpc.DevicePluginStub:
    k.wait_for(lambda k: k.capacity("example.com/r0"), timeout=20)
    path = k.directory / k.registrations[-1].endpoint
    return pb_grpc.DevicePluginStub(grpc.insecure_channel(f"unix:{path}"))


def memory(pid: int) -> dict[str, int]:
    """KiB by /proc/PID/smaps_rollup."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def cpu_seconds(pid: int) -> float:
    """Of all threads, to the nanosecond: /proc/PID/task/TID/schedstat."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def median(times: list[float]) -> float:
    return statistics.median(times)


def p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def ratio(ours: list[float], bare: list[float]) -> str:
    return f"{median(ours) / median(bare):.2f}"


def row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
