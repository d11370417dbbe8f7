"""CDI devices in the fake runtime."""

import json

import pytest

from device_plugin.testing import ContainerConfig, DeviceConfig, Runtime, RuntimeRefusal


@pytest.fixture
def root(tmp_path):
    for name in ("dev", "cdi", "late"):
        (tmp_path / name).mkdir()
    (tmp_path / "dev" / "a").touch()
    return tmp_path


@pytest.fixture
def runtime(root):
    return Runtime(root, files_as_devices=True, cdi_directories=["/cdi", "/late"])


@pytest.fixture
def spec(root):
    """Write a spec; of each device the edits."""

    def write(name="spec.json", /, folder="cdi", common=None, **devices):
        listed = [{"name": key, "containerEdits": edits} for key, edits in devices.items()]
        content = {"cdiVersion": "0.6.0", "kind": "v.com/c", "devices": listed}
        if common:
            content["containerEdits"] = common
        (root / folder / name).write_text(json.dumps(content))

    return write


def test_edits_are_applied(runtime, spec):
    edits = {
        "env": ["GPU=a"],
        "deviceNodes": [{"path": "/dev/inside", "hostPath": "/dev/a", "permissions": "rw"}],
        "mounts": [{"hostPath": "/dev", "containerPath": "/host", "options": ["ro", "bind"]}],
    }
    spec(one=edits)
    created = runtime.create(ContainerConfig(cdi_devices=["v.com/c=one"]))
    assert created.envs == {"GPU": "a"}
    [device] = created.devices
    assert (device.container_path, device.real_path) == ("/dev/inside", "/dev/a")
    assert device.permissions == "rw"
    assert created.mounts == (("/host", "/dev", True),)


def test_a_node_without_more_is_itself_with_all_rights(runtime, spec):
    spec(one={"deviceNodes": [{"path": "/dev/a"}]})
    [device] = runtime.create(ContainerConfig(cdi_devices=["v.com/c=one"])).devices
    assert (device.host_path, device.permissions) == ("/dev/a", "rwm")


def test_edits_win_over_the_pod_and_the_plugin(runtime, spec):
    spec(one={"env": ["A=cdi"], "deviceNodes": [{"path": "/dev/a", "permissions": "r"}]})
    config = ContainerConfig(
        envs=[("A", "pod"), ("B", "pod")],
        devices=[DeviceConfig("/dev/a", "/dev/a", "rw")],
        cdi_devices=["v.com/c=one"],
    )
    created = runtime.create(config)
    assert created.env_order == (("B", "pod"), ("A", "cdi"))
    assert [device.permissions for device in created.devices] == ["r"]


def test_edits_of_the_file_come_with_each_of_its_devices(runtime, spec):
    spec(common={"env": ["ALL=1"]}, one={"env": ["A=1"]}, two={"env": ["A=2"]})
    created = runtime.create(ContainerConfig(cdi_devices=["v.com/c=two", "v.com/c=two"]))
    assert created.envs == {"ALL": "1", "A": "2"}


def test_unknown_devices(runtime, spec):
    spec(one={"env": ["A=1"]})
    with pytest.raises(RuntimeRefusal, match=r"unresolvable CDI devices v\.com/c=two"):
        runtime.create(ContainerConfig(cdi_devices=["v.com/c=one", "v.com/c=two"]))


def test_one_name_in_two_files_of_a_folder_is_nobody(runtime, spec):
    spec("a.json", one={"env": ["A=1"]}, two={"env": ["B=1"]})
    spec("b.json", one={"env": ["A=2"]})
    assert runtime.create(ContainerConfig(cdi_devices=["v.com/c=two"])).remarks == (
        "CDI device v.com/c=one is ignored: it is in a.json, b.json",
    )
    with pytest.raises(RuntimeRefusal, match=r"unresolvable CDI devices v\.com/c=one"):
        runtime.create(ContainerConfig(cdi_devices=["v.com/c=one"]))


def test_a_later_folder_wins(runtime, spec):
    spec(one={"env": ["A=1"]})
    spec(folder="late", one={"env": ["A=2"]})
    assert runtime.create(ContainerConfig(cdi_devices=["v.com/c=one"])).envs == {"A": "2"}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"kind": "v.com/c", "devices": []}',
        '{"cdiVersion": "0.6.0", "kind": "v.com/c", "devices": [{"name": "two"}]}',
        '{"cdiVersion": "1", "kind": "c", "devices": [{"name": "a", "containerEdits": {"a": 1}}]}',
    ],
    ids=["no JSON", "no object", "no version", "no edits", "no kind"],
)
def test_a_broken_spec_is_ignored(runtime, spec, root, text):
    spec(one={"env": ["A=1"]})
    (root / "cdi" / "broken.json").write_text(text)
    created = runtime.create(ContainerConfig(cdi_devices=["v.com/c=one"]))
    assert created.envs == {"A": "1"}
    assert [one.startswith("CDI spec broken.json is ignored: ") for one in created.remarks] == [
        True
    ]
