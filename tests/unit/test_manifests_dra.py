"""What `manifests` prints for `api: dra`."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin import cli
from device_plugin.config import read
from device_plugin.config.names import resource as resource_problem
from device_plugin.manifests import make

MANIFESTS = Path(__file__).parents[2] / "manifests"
COMPONENT = MANIFESTS / "components" / "dra"
IMAGE = "registry.example.com/device-plugin:0.1.0"
DRIVER = "gpu.example.com"
CONFIG = f"""\
version: 1
dra: {{driver: {DRIVER}}}
resources:
- {{name: example.com/fuse, devices: [{{path: /dev/fuse}}]}}
- name: example.com/gpu
  api: dra
  devices: [{{virtual: {{count: 2, capacity: {{memory: 80Gi}}}}}}]
  partitions: [{{name: half, count: 2, capacity: {{memory: 40Gi}}}}]
- {{name: example.com/Tty_USB, api: dra, devices: [{{path: "/dev/ttyUSB*"}}]}}
"""
PREPARED = f"""\
version: 1
dra: {{driver: {DRIVER}}}
resources: [{{name: example.com/gpu, devices: [{{virtual: {{count: 2}}}}]}}]
"""


def documents(tmp_path: Path, config: str = CONFIG, namespace: str = "devices") -> list[Any]:
    path = tmp_path / "mine.yaml"
    path.write_text(config)
    checked = read(path)
    assert checked.config is not None
    assert checked.problems == ()
    return list(yaml.safe_load_all(make(path, checked.config, namespace, IMAGE, pods=True)))


def of_kind(found: list[Any], kind: str) -> list[Any]:
    return [one for one in found if one["kind"] == kind]


def test_what_is_printed(tmp_path):
    kinds = [one["kind"] for one in documents(tmp_path)]
    assert kinds == [
        *["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"],
        *["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
        *["ConfigMap", "DaemonSet", "DeviceClass", "DeviceClass", "DeviceClass"],
        *["Pod"],  # fuse
        *["Pod", "ResourceClaimTemplate", "Pod", "ResourceClaimTemplate", "Pod"],  # gpu, half
        *["Pod", "ResourceClaimTemplate", "Pod"],
    ]


def test_a_driver_alone_prepares_everything(tmp_path):
    """The first step of a move: no resource goes by claims yet."""
    found = documents(tmp_path, PREPARED)
    kinds = {one["kind"] for one in found}
    assert {"ClusterRole", "ValidatingAdmissionPolicy"} <= kinds
    assert not {"DeviceClass", "ResourceClaimTemplate"} & kinds
    assert of_kind(found, "DaemonSet") == of_kind(documents(tmp_path), "DaemonSet")


def test_nothing_of_it_without_a_driver(tmp_path):
    given = "version: 1\nresources: [{name: a.b/c, devices: [{path: /dev/c}]}]\n"
    kinds = [one["kind"] for one in documents(tmp_path, given)]
    assert kinds == ["Namespace", "ServiceAccount", "ConfigMap", "DaemonSet", "Pod"]
    (daemon_set,) = of_kind(documents(tmp_path, given), "DaemonSet")
    assert daemon_set["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_the_classes_alone(tmp_path, capsys):
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG)
    assert cli.main(["manifests", "--config", str(path), "--only-classes"]) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert found == of_kind(documents(tmp_path), "DeviceClass")
    assert len(found) == 3
    for one in found:
        assert one["metadata"]["labels"] == {"app.kubernetes.io/name": "device-plugin"}


def test_no_classes_are_an_answer_too(tmp_path, capsys):
    path = tmp_path / "c.yaml"
    path.write_text(
        "version: 1\ndra: {driver: a.b}\nresources: [{name: a.b/c, devices: [{path: /dev/c}]}]\n"
    )
    assert cli.main(["manifests", "--config", str(path), "--only-classes"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("no resource has `api: dra`")


def test_the_daemon_set_is_that_of_the_component(tmp_path):
    """But for one folder: here the driver, and so its own folder, is known."""
    daemon_set = yaml.safe_load((MANIFESTS / "base" / "daemonset.yaml").read_text())
    patch = yaml.safe_load((COMPONENT / "daemonset-dra.yaml").read_text())
    spec, more = (one["spec"]["template"]["spec"] for one in (daemon_set, patch))
    spec["automountServiceAccountToken"] = more["automountServiceAccountToken"]
    (container,), (other,) = spec["containers"], more["containers"]
    container["env"] += other["env"]
    container["resources"]["requests"] |= other["resources"]["requests"]
    container["volumeMounts"] = other["volumeMounts"] + container["volumeMounts"]
    spec["volumes"] = more["volumes"] + spec["volumes"]
    assert set(more) == {"automountServiceAccountToken", "containers", "volumes"}
    assert set(other) == {"name", "env", "resources", "volumeMounts"}
    own = copy.deepcopy(of_kind(documents(tmp_path), "DaemonSet")[0])
    made = own["spec"]["template"]["spec"]
    (mount,) = (m for m in made["containers"][0]["volumeMounts"] if m["name"] == "plugins")
    (volume,) = (v for v in made["volumes"] if v["name"] == "plugins")
    folder = f"/var/lib/kubelet/plugins/{DRIVER}"
    assert mount["mountPath"] == volume["hostPath"]["path"] == folder
    mount["mountPath"] = "/var/lib/kubelet/plugins"
    volume["hostPath"] = {"path": "/var/lib/kubelet/plugins", "type": "Directory"}
    container["image"] = IMAGE
    assert made == spec


def test_access_is_of_the_namespace(tmp_path):
    for namespace in ("device-plugin", "1", "on"):
        found = documents(tmp_path, namespace=namespace)
        (binding,) = of_kind(found, "ClusterRoleBinding")
        subject = {"kind": "ServiceAccount", "name": "device-plugin", "namespace": namespace}
        assert binding["subjects"] == [subject]
        (policy,) = of_kind(found, "ValidatingAdmissionPolicy")
        (condition,) = policy["spec"]["matchConditions"]
        assert f"'^system:serviceaccount:{namespace}:device-plugin$'" in condition["expression"]


def test_access_is_that_of_the_component_otherwise(tmp_path):
    given = [
        one
        for name in ("rbac", "policy")
        for one in yaml.safe_load_all((COMPONENT / f"{name}.yaml").read_text())
    ]
    found = [one for one in documents(tmp_path) if one["metadata"]["name"] == "device-plugin-dra"]
    assert [one["kind"] for one in found] == [one["kind"] for one in given]
    for made, component in zip(found, given, strict=True):
        if made["kind"] in ("ClusterRole", "ValidatingAdmissionPolicyBinding"):
            assert made == component


def test_a_class_is_a_resource_of_the_driver(tmp_path):
    whole, serial, half = of_kind(documents(tmp_path), "DeviceClass")
    assert [one["metadata"]["name"] for one in (whole, serial, half)] == [
        "gpu.example.com",
        "tty-usb.example.com",
        "gpu-half.example.com",
    ]
    assert expression(serial) == (
        "device.driver == 'gpu.example.com'"
        " && device.attributes['gpu.example.com'].resource == 'example.com/Tty_USB'"
    )
    assert expression(whole).endswith("&& !has(device.attributes['gpu.example.com'].partition)")
    assert expression(half).endswith(".?partition.orValue('') == 'half'")


def test_pods_with_limits_get_whole_devices(tmp_path):
    classes = of_kind(documents(tmp_path), "DeviceClass")
    names = [one["spec"].get("extendedResourceName") for one in classes]
    assert names == ["example.com/gpu", "example.com/Tty_USB", None]


def expression(device_class: Any) -> str:
    (selector,) = device_class["spec"]["selectors"]
    found: str = selector["cel"]["expression"]
    return found


def test_claims_are_of_the_classes_and_pods_have_them(tmp_path):
    found = documents(tmp_path)
    classes = {one["metadata"]["name"] for one in of_kind(found, "DeviceClass")}
    templates = {}
    for one in of_kind(found, "ResourceClaimTemplate"):
        (request,) = one["spec"]["spec"]["devices"]["requests"]
        templates[one["metadata"]["name"]] = request["exactly"]["deviceClassName"]
    assert sorted(templates.values()) == sorted(classes)
    by_claim = [one for one in of_kind(found, "Pod") if "resourceClaims" in one["spec"]]
    for pod in by_claim:
        (claim,) = pod["spec"]["resourceClaims"]
        (container,) = pod["spec"]["containers"]
        assert claim["resourceClaimTemplateName"] in templates
        assert container["resources"] == {"claims": [{"name": claim["name"]}]}
    assert len(by_claim) == len(templates)


def test_names_are_unique_and_none_is_a_number(tmp_path):
    names = ["5/1", "a.b/X", "a.b/x", "half.gpu.b/x", "gpu.b/x-half", "gpu.b/x"]
    assert [resource_problem(name) for name in names] == [None] * len(names)
    part = {"name": "half", "count": 1, "capacity": {"memory": "1Gi"}}
    virtual = {"virtual": {"count": 1, "capacity": {"memory": "1Gi"}}}
    resources = [
        {"name": name, "api": "dra", "devices": [virtual], "partitions": [part]}
        for name in names
        if name != "a.b/x"  # `check` refuses names that differ only in case
    ]
    config = {"version": 1, "dra": {"driver": "a.b"}, "resources": resources}
    found = documents(tmp_path, yaml.safe_dump(config))
    for kind in ("DeviceClass", "Pod", "ResourceClaimTemplate"):
        called = [one["metadata"]["name"] for one in of_kind(found, kind)]
        assert all(isinstance(name, str) for name in called)
        assert len(set(called)) == len(called), kind


@pytest.mark.parametrize("flag", [[], ["--without-pods"]])
def test_classes_are_no_trial(tmp_path, capsys, flag):
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG)
    assert cli.main(["manifests", "--config", str(path), *flag]) == 0
    found = [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)]
    assert found.count("DeviceClass") == 3
    assert ("Pod" in found) == ("ResourceClaimTemplate" in found) == (not flag)
