"""What Dynamic Resource Allocation takes: the component, and the chart with `dra.enabled`."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rendered import BASE, MANIFESTS, ROOT, helm, kustomize, objects, one

CONFIG = {
    "version": 1,
    "dra": {"driver": "gpu.example.com"},
    "resources": [
        {"name": "example.com/fuse", "devices": [{"path": "/dev/fuse"}]},
        {
            "name": "example.com/gpu",
            "api": "dra",
            "devices": [{"virtual": {"count": 2, "capacity": {"memory": "80Gi"}}}],
            "partitions": [{"name": "half", "count": 2, "capacity": {"memory": "40Gi"}}],
        },
        {"name": "example.com/Tty_USB", "api": "dra", "devices": [{"path": "/dev/ttyUSB*"}]},
    ],
}
VALUES = {"config": CONFIG, "dra": {"enabled": True}}
_KUSTOMIZATION = re.compile(r"```yml\n(apiVersion: kustomize.*?)```", re.DOTALL)
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What `device-plugin manifests` prints for the config."""
    path = tmp_path_factory.mktemp("made") / "config.yaml"
    path.write_text(yaml.safe_dump(CONFIG))
    command = [sys.executable, "-m", "device_plugin", "manifests", f"--config={path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(objects(done.stdout))


def overlay(folder: Path, namespace: str = "device-plugin", components: tuple[str, ...] = ("dra",)):
    """The base with components, as an overlay of somebody's."""
    copy = shutil.copytree(MANIFESTS, folder / "manifests")
    mine = copy / "overlays" / "mine"
    mine.mkdir()
    kustomization = {
        "namespace": namespace,
        "resources": ["../../base"],
        "components": [f"../../components/{name}" for name in components],
    }
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return kustomize(mine)


def spec_of(found):
    return one(found, "DaemonSet")["spec"]["template"]["spec"]


def folders(found):
    """By name, where a folder is inside and where on the node."""
    spec = spec_of(found)
    (container,) = spec["containers"]
    outside = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
    return {m["name"]: (m["mountPath"], outside.get(m["name"])) for m in container["volumeMounts"]}


def env(found):
    (container,) = spec_of(found)["containers"]
    return {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in container["env"]}


def test_only_dra_has_a_token_and_rights(tmp_path):
    for found, expected in ((kustomize(BASE), False), (overlay(tmp_path), True)):
        assert spec_of(found)["automountServiceAccountToken"] is expected
        assert one(found, "ServiceAccount")["automountServiceAccountToken"] is False
        assert ("ClusterRole" in {thing["kind"] for thing in found}) is expected


def test_the_rights_are_no_more_than_it_takes(tmp_path):
    rules = one(overlay(tmp_path), "ClusterRole")["rules"]
    rights = {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    slices = {"list", "watch", "create", "update", "delete"}
    assert rights == {("resourceslices", verb) for verb in slices} | {
        ("resourceclaims", "get"),
        ("nodes", "get"),
    }
    assert [rule["apiGroups"] for rule in rules] == [["resource.k8s.io"], ["resource.k8s.io"], [""]]


def test_rights_follow_the_namespace(tmp_path):
    found = overlay(tmp_path, "elsewhere", ("dra", "cdi"))
    (subject,) = one(found, "ClusterRoleBinding")["subjects"]
    account = one(found, "ServiceAccount")["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    assert account["namespace"] == "elsewhere"


def test_the_component_beside_that_of_cdi(tmp_path):
    """Both have the folder of CDI: it is mounted once."""
    names = [v["name"] for v in spec_of(overlay(tmp_path, components=("dra", "cdi")))["volumes"]]
    assert len(set(names)) == len(names)
    assert "cdi" in names


def test_sockets_are_at_the_same_path_inside_and_outside(tmp_path):
    """The kubelet is told the path that the daemon sees."""
    k0s = VALUES | {"kubelet": {"root": "/var/lib/k0s/kubelet"}}
    for found in (overlay(tmp_path), helm(VALUES), helm(k0s)):
        for name in ("registry", "plugins", "pod-resources"):
            inside, outside = folders(found)[name]
            assert inside == outside
        assert env(found)["DEVICE_PLUGIN_NODE_NAME"] == "spec.nodeName"
    (container,) = spec_of(helm(k0s))["containers"]
    assert "--kubelet-root=/var/lib/k0s/kubelet" in container["args"]
    assert folders(helm(k0s))["device-plugins"][1] == "/var/lib/kubelet/device-plugins"


def test_the_chart_is_the_component(tmp_path):
    component, chart = overlay(tmp_path), helm(VALUES)
    assert one(chart, "ClusterRole")["rules"] == one(component, "ClusterRole")["rules"]
    policies = [one(found, POLICY)["spec"] for found in (chart, component)]
    for policy in policies:
        assert policy.pop("matchConditions")
    assert policies[0] == policies[1]
    assert one(chart, BINDING)["spec"]["validationActions"] == ["Deny"]
    assert one(chart, BINDING)["spec"]["policyName"] == one(chart, POLICY)["metadata"]["name"]
    whole, own = folders(component), folders(chart)
    assert own.pop("plugins") == ("/var/lib/kubelet/plugins/gpu.example.com",) * 2
    assert whole.pop("plugins") == ("/var/lib/kubelet/plugins",) * 2
    assert own == whole
    assert env(chart) == env(component)


def test_the_chart_binds_its_own_account():
    values = VALUES | {"serviceAccount": {"create": False, "name": "mine"}}
    for given, account in ((VALUES, "device-plugin"), (values, "mine")):
        found = helm(given)
        (subject,) = one(found, "ClusterRoleBinding")["subjects"]
        assert (subject["name"], subject["namespace"]) == (account, "device-plugin")
        (condition,) = one(found, POLICY)["spec"]["matchConditions"]
        assert f"'system:serviceaccount:device-plugin:{account}'" in condition["expression"]


def test_the_chart_has_the_classes_that_the_command_prints(made):
    def classes(found):
        return {
            thing["metadata"]["name"]: thing["spec"]
            for thing in found
            if thing["kind"] == "DeviceClass"
        }

    assert classes(helm(VALUES)) == classes(made)
    assert len(classes(made)) == 3
    without = VALUES | {"dra": {"enabled": True, "deviceClasses": False}}
    assert classes(helm(without)) == {}


def test_the_command_prints_the_folders_of_the_chart(made):
    assert folders(made) == folders(helm(VALUES))
    assert env(made) == env(helm(VALUES))


def test_the_class_of_the_example_is_the_one_that_the_command_prints(tmp_path):
    example = MANIFESTS / "overlays" / "dra-example"
    command = [sys.executable, "-m", "device_plugin", "manifests", "--without-pods"]
    command.append(f"--config={example / 'config.yaml'}")
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    made = one(list(objects(printed)), "DeviceClass")
    found = one(kustomize(example), "DeviceClass")
    assert found["spec"] == made["spec"]
    for key in ("name", "labels"):
        assert found["metadata"][key] == made["metadata"][key]


def test_the_example_asks_for_a_class_that_there_is():
    template, pod = objects((ROOT / "examples" / "gpu-claim.yaml").read_text())
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    there = one(kustomize(MANIFESTS / "overlays" / "dra-example"), "DeviceClass")
    assert request["exactly"]["deviceClassName"] == there["metadata"]["name"]
    (claim,) = pod["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]


def test_what_has_no_namespace_is_another_one_in_each():
    releases = [helm(VALUES, release=release) for release in ("a", "b")]
    named = [
        {
            (thing["kind"], thing["metadata"]["name"])
            for thing in found
            if "namespace" not in thing["metadata"] and thing["kind"] != "DeviceClass"
        }
        for found in releases
    ]
    assert len(named[0]) == 4
    assert not named[0] & named[1]


def test_all_is_prepared_before_a_resource_moves():
    """The first step of a move, as docs/dra.md has it."""
    before = [{"name": "example.com/gpu", "devices": [{"virtual": {"count": 2}}]}]
    prepared = {"config": CONFIG | {"resources": before}, "dra": {"enabled": True}}
    found = helm(prepared)
    assert folders(found) == folders(helm(VALUES))
    assert "DeviceClass" not in {thing["kind"] for thing in found}


def test_kinds_of_nodes_beside_each_other(tmp_path):
    """As docs/dra.md says how nodes move one by one: a folder, or a release, each."""
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    (text,) = _KUSTOMIZATION.findall((ROOT / "docs" / "dra.md").read_text())
    found = []
    for nodes in ("claims", "limits"):
        folder = tmp_path / nodes
        folder.mkdir()
        mine = text.replace("../device-plugin/manifests", "../manifests").replace("claims", nodes)
        (folder / "kustomization.yaml").write_text(mine)
        (folder / "config.yaml").write_text((BASE / "config.yaml").read_text())
        found.append(kustomize(folder))
    for one_kind, nodes in zip(found, ("claims", "limits"), strict=True):
        binding = one(one_kind, "ClusterRoleBinding")
        assert binding["metadata"]["name"] == f"device-plugin-dra-{nodes}"
        assert binding["subjects"][0]["namespace"] == f"device-plugin-{nodes}"
        assert spec_of(one_kind)["nodeSelector"]["example.com/devices"] == nodes
        assert one(one_kind, "Namespace")["metadata"]["name"] == f"device-plugin-{nodes}"
    shared, other = (
        {json.dumps(one(f, kind)["spec"]) for kind in (POLICY, BINDING)} for f in found
    )
    assert shared == other, "whichever is applied last"
    assert one(found[0], "ClusterRole")["rules"] == one(found[1], "ClusterRole")["rules"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"config": CONFIG}, "example.com/gpu has api: dra, which needs dra.enabled"),
        ({"dra": {"enabled": True}}, "dra.enabled needs config.dra.driver"),
        ({"dra": {"enabled": "yes"}}, "enabled"),
        ({"dra": {"driver": "a.b"}}, "driver"),
        ({"config": CONFIG | {"dra": {}}, "dra": {"enabled": True}}, "driver"),
        ({"config": CONFIG | {"dra": {"driver": "Gpu.example.com"}}}, "driver"),
        ({"config": CONFIG | {"dra": {"driver": "1.example.com"}}}, "driver"),
        ({"config": CONFIG | {"dra": {"driver": "gpu." + "a" * 52}}}, "driver"),
    ],
)
def test_what_is_said_by_half_is_refused(values, said):
    with pytest.raises(AssertionError) as why:
        helm(json.loads(json.dumps(values)))
    assert said in str(why.value)
