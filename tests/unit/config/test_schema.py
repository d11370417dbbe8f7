"""The JSON Schema: it takes what `check` takes, and finds what an editor ought to mark."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.config import check
from device_plugin.config.schema import schema

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).with_name("golden")
SCHEMA = schema()


def examples():
    """Configs of the documents and manifests."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for match in re.finditer(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL):
            if "kind: " not in match[1]:  # ours, not Kubernetes'
                yield (
                    f"{path.name}:{path.read_text()[: match.start()].count(chr(10)) + 1}",
                    match[1],
                )
    for path in (*(ROOT / "manifests").rglob("config.yaml"), ROOT / "tests/e2e/config.yaml"):
        yield str(path.relative_to(ROOT)), path.read_text()


def golden():
    """Configs of the golden files that are good, or but for what only `check` can know."""
    for file in sorted(GOLDEN.glob("*.txt")):
        head, *parts = file.read_text().split("\n## ")
        frame = head.rpartition("\n\n")[2]
        for part in parts:
            name, _, body = part.strip("\n").partition("\n")
            if "\n=> " not in f"\n{body}":
                yield f"{file.stem}: {name}", frame.replace("...", body)


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=name) for name, text in (*examples(), *golden())]
)
def test_what_check_takes(text):
    assert check(text.encode(), "c.yaml").problems == ()
    assert fits(yaml.safe_load(text))


GOOD = """\
version: 1
audit_interval: 1m30s
resources:
  - name: example.com/a
    api: device-plugin
    devices:
      - path: "/dev/x{n}"
        to: /dev/y
        permissions: rw
        with: ["/dev/z{n}", {path: /dev/t, optional: true}]
        where: [{key: n, operator: AtLeast, values: ["2"]}, {key: n, operator: Exists}]
        replicas: 2
      - virtual:
          count: 1
          attributes: {a: text, b: 5, c: true, d: {version: 1.2.3}}
          capacity: {memory: 80Gi}
      - usb: {vendor: "10c4", product: "ea6?", serial: A*, port: "1-4.1", class: "0806"}
        nodes: [{subsystem: tty, to: /dev/zig, permissions: r, optional: true}]
      - pci: {vendor: "10de", device: "1eb8", class: "03", driver: nv*, address: "0000:3b:00.0"}
      - vfio: {subsystem_vendor: "10de", subsystem_device: "12a2"}
      - gpu: {vendor: amd}
      - exec: {command: [/list, --all], interval: 60s, timeout: 10s}
    allocation: {prefer: spread}
    runtimes: [runc, kata]
    per_container: {max: 1, distinct: true}
    container:
      env: {A: "{id}"}
      mounts: [{host_path: "/opt/{id}", path: /x, read_only: true}]
  - name: example.com/d
    api: dra
    devices: [{virtual: {count: 1, capacity: {memory: 9Gi}}}]
    partitions: [{name: third, count: 3, capacity: {memory: 3Gi}}]
dra: {driver: gpu.example.com, unhealthy: NoExecute}
"""
MISTAKES = {
    "version: 1": ["version: 2", 'version: "1"', "versoin: 1", ""],
    "1m30s": ["10", "10 s", "1d", "-1s"],
    "resources:": ["resources: []\nothers:"],
    "example.com/a": ["a", "example.com/", "Example.com/a", "my.kubernetes.io/a", "a.b/c/d", "5"],
    "api: device-plugin": ["api: dar", "api: [dra]", "apis: dra"],
    "partitions: [{name: third, ": ["partitions: [{", "partitions: [{nam: third, "],
    "name: third": ["name: Third", "name: 5", "name: a.b", "name: a12345678901234567"],
    "count: 3": ["count: 0", "count: 65", "count: many", "cuont: 3"],
    "capacity: {memory: 3Gi}": ["capacity: {}", "capacity: 3Gi", "capacity: {memory: 3GB}"],
    "dra: {driver": ["dra: {drive", "dra: {driver: x, drivers"],
    "driver: gpu.example.com": [
        "driver: Gpu",
        "driver: a/b",
        "driver: 3d.a",
        f"driver: {'a' * 56}",
    ],
    "unhealthy: NoExecute": ["unhealthy: PreferNoSchedule", "unhealthy: true"],
    "\n    devices:\n": ["\n    devices: []\n    others:\n", "\n    devices: x\n    others:\n"],
    '"/dev/x{n}"': ["dev/x", "5", "[/dev/x]", "{n}"],
    "to: /dev/y": ["to: y", "too: /dev/y", "virtual: {count: 1}"],
    "permissions: rw": ["permissions: rx", "permissions: rr", 'permissions: ""'],
    "{path: /dev/t, optional: true}": ["{path: /dev/t, optional: maybe}", "{to: /x}", "5"],
    "operator: AtLeast": ["operator: Gt", "operator: Exists", "op: In"],
    'values: ["2"]}': ["values: [2]}", "values: []}", 'values: ["2", "3"]}', "values: 2}", "}"],
    "operator: Exists": ["operator: In", "operator: Exists, values: [a]"],
    "replicas: 2": ["replicas: 0", "replicas: 10001", 'replicas: "2"', "replicas: true"],
    "virtual:": ["path: /dev/a\n        virtual:", "with: []\n        virtual:", "vitual:"],
    'vendor: "10c4"': ["vendor: 10", 'vendor: "10C4"', 'vendor: "0x10c4"', 'vendro: "10c4"'],
    '"ea6?"': ['"ea"', '"ea60?g"', '""', "[ea60]"],
    "serial: A*": ['serial: ""', "serial: 5"],
    '"1-4.1"': ['"1.4"', '"usb1"', '""'],
    '"0806"': ['"806"', '"vga"', '"0806500"'],
    "subsystem: tty": ["subsystem: TTY", "subsystem: /dev/x", "to: /dev/y"],
    "to: /dev/zig": ["to: zig", "too: /dev/zig"],
    "permissions: r,": ["permissions: x,"],
    "nodes: [{subsystem: tty, to: /dev/zig, permissions: r, optional: true}]": [
        "nodes: []",
        "permissions: rw",
        "nodes: [tty]",
    ],
    '"0000:3b:00.0"': ['"3b:00.0"', '"0000:3B:00.0"', "0000:03:02.0"],
    "device: ": ["product: ", "devise: "],
    '{subsystem_vendor: "10de", subsystem_device: "12a2"}': ["{}", '{product: "12a2"}', "[]"],
    "vendor: amd": ["vendor: Amd", "vendor: matrox", 'vendor: amd, device: "1"'],
    "[/list, --all]": ["[]", "/list", "[5]"],
    "60s": ["60", "1 minute"],
    "count: 1\n": ["count: -1\n", "cuont: 1\n", "count: many\n"],
    "a: text": ["a-b: text", "a: [text]", "a: 1.5"],
    "1.2.3": ['"1.2"', "v1.2.3", "1.2.3, x: y", "5"],
    "memory: 80Gi": ["memory: 80GB", "memory: 80", "2m: 80Gi"],
    "runtimes: [runc, kata]": ["runtimes: kata", "runtimes: [gvisor]", "runtime: [kata]"],
    "prefer: spread": ["prefer: near", "perfer: spread"],
    "max: 1": ["max: 0", "max: many", "maximum: 1"],
    'A: "{id}"': ["A: 5", "A: {id}"],
    '"/opt/{id}"': ["opt", "5"],
    "path: /x": ["path: x", "to: /x"],
    "container:": ["containers:"],
}


def test_the_good_one_is_good():
    assert check(GOOD.encode(), "c.yaml").problems == ()
    assert fits(yaml.safe_load(GOOD))


@pytest.mark.parametrize(
    ("good", "bad"), [(good, bad) for good, some in MISTAKES.items() for bad in some]
)
def test_mistakes(good, bad):
    assert GOOD.count(good) >= 1
    text = GOOD.replace(good, bad, 1)
    assert check(text.encode(), "c.yaml").problems
    assert not fits(yaml.safe_load(text))


def test_every_key_is_described():
    found = 0

    def walk(part):
        nonlocal found
        if isinstance(part, dict):
            for name, one in part.get("properties", {}).items():
                found += 1
                assert one.get("description"), name
            assert part.get("properties") is None or part["additionalProperties"] is False
            part = list(part.values())
        for one in part if isinstance(part, list) else ():
            walk(one)

    walk(SCHEMA)
    assert found > 30
    assert all(one.get("description") for one in SCHEMA["$defs"].values())


def test_the_daemon_needs_none_of_it():
    """Schema and reference read source text: too slow for every start."""
    code = (
        "import sys; from device_plugin import config; config.check(b'', 'c');"
        "print([name for name in sys.modules if name.startswith('device_plugin.config.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "config.rules" in done.stdout
    for name in ("schema", "describe", "reference"):
        assert f"config.{name}" not in done.stdout


def fits(value: object, part: dict[str, Any] = SCHEMA) -> bool:
    """Judge by as much of JSON Schema 2020-12 as ours uses; an unknown keyword is an error."""
    return all(JUDGES[keyword](argument, value, part) for keyword, argument in part.items())


TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def of_type(name: str, value: object, _: object) -> bool:
    return isinstance(value, TYPES[name]) and isinstance(value, bool) == (name == "boolean")


def others(argument: Any, value: Any, part: Any) -> bool:
    rest = [one for key, one in value.items() if key not in part.get("properties", {})]
    return all(argument is not False and fits(one, argument) for one in rest)


def of(kind: type, judge):
    """Keywords about one type hold for every other."""
    return lambda argument, value, part: not isinstance(value, kind) or judge(argument, value, part)


JUDGES = {
    **dict.fromkeys(("$schema", "$defs", "title", "description", "default"), lambda *_: True),
    "$ref": lambda a, v, _: fits(v, SCHEMA["$defs"][a.removeprefix("#/$defs/")]),
    "type": of_type,
    "enum": lambda a, v, _: any(v == one and type(v) is type(one) for one in a),
    "anyOf": lambda a, v, _: any(fits(v, one) for one in a),
    "oneOf": lambda a, v, _: sum(fits(v, one) for one in a) == 1,
    "properties": of(dict, lambda a, v, _: all(fits(v[k], one) for k, one in a.items() if k in v)),
    "additionalProperties": of(dict, others),
    "propertyNames": of(dict, lambda a, v, _: all(fits(key, a) for key in v)),
    "required": of(dict, lambda a, v, _: all(key in v for key in a)),
    "items": of(list, lambda a, v, _: all(fits(one, a) for one in v)),
    "minItems": of(list, lambda a, v, _: len(v) >= a),
    "maxItems": of(list, lambda a, v, _: len(v) <= a),
    "minProperties": of(dict, lambda a, v, _: len(v) >= a),
    "minLength": of(str, lambda a, v, _: len(v) >= a),
    "pattern": of(str, lambda a, v, _: re.search(a, v) is not None),
    "minimum": of(int, lambda a, v, _: v >= a),
    "maximum": of(int, lambda a, v, _: v <= a),
}
