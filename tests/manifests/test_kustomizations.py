"""The base and its overlays."""

import re
import shutil

import pytest
import yaml
from rendered import BASE, MANIFESTS, MONITORING, OVERLAYS, configs, kustomize, one, short

import device_plugin
from device_plugin import config

DAEMONS = (BASE, *OVERLAYS)
# Everything else is the base's, whatever the overlay is for.
POD_RESOURCES = {
    "overlays/distros/k0s": "/var/lib/k0s/kubelet/pod-resources",
    "overlays/distros/microk8s": "/var/snap/microk8s/common/var/lib/kubelet/pod-resources",
}
# What a component adds.
BY_CLAIMS = {
    "registry": "/var/lib/kubelet/plugins_registry",
    "plugins": "/var/lib/kubelet/plugins",
    "cdi": "/var/run/cdi",
}
# These are the base for other places, and have no config of their own.
INHERITING = {"overlays/privileged", "overlays/distros/k3s", *POD_RESOURCES}


def daemon_sets(folder):
    return [thing for thing in kustomize(folder) if thing["kind"] == "DaemonSet"]


def host_paths(daemon_set):
    volumes = daemon_set["spec"]["template"]["spec"]["volumes"]
    return {v["name"]: v["hostPath"]["path"] for v in volumes if "hostPath" in v}


@pytest.mark.parametrize("folder", DAEMONS, ids=short)
def test_the_config_is_good(folder):
    found = configs(kustomize(folder))
    assert found
    for text in found:
        assert config.check(text.encode(), "config.yaml").problems == ()


def test_configs_that_are_not_deployed_as_they_stand_are_good_too():
    for path in MANIFESTS.rglob("overlays/*/*.yaml"):
        if path.name != "kustomization.yaml" and "apiVersion: " not in path.read_text():
            assert config.check(path.read_bytes(), path.name).problems == (), path


@pytest.mark.parametrize("folder", DAEMONS, ids=short)
def test_the_image_has_the_daemons_version(folder):
    """A tag that says what runs; `latest` never does."""
    for daemon_set in daemon_sets(folder):
        (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"localhost/device-plugin:{device_plugin.__version__}"


@pytest.mark.parametrize("folder", DAEMONS, ids=short)
def test_the_namespace_lets_the_pods_mount_host_folders(folder):
    found = kustomize(folder)
    namespaces = {n["metadata"]["name"]: n for n in found if n["kind"] == "Namespace"}
    for daemon_set in daemon_sets(folder):
        labels = namespaces[daemon_set["metadata"]["namespace"]]["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


@pytest.mark.parametrize("folder", DAEMONS, ids=short)
def test_a_changed_config_is_read_in_place(folder):
    """One name whatever is in it, and the folder mounted: a subPath is never updated."""
    for daemon_set in daemon_sets(folder):
        spec = daemon_set["spec"]["template"]["spec"]
        (volume,) = (v for v in spec["volumes"] if v["name"] == "config")
        assert volume["configMap"]["name"] == "device-plugin"
        (mount,) = (m for m in spec["containers"][0]["volumeMounts"] if m["name"] == "config")
        assert "subPath" not in mount


@pytest.mark.parametrize("folder", DAEMONS, ids=short)
def test_every_file_of_the_config_map_is_config(folder):
    """The daemon reads the folder, not one file in it."""
    for daemon_set in daemon_sets(folder):
        (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
        (mount,) = (m for m in container["volumeMounts"] if m["name"] == "config")
        assert f"--config={mount['mountPath']}" in container["args"]


@pytest.mark.parametrize("folder", sorted(INHERITING))
def test_the_config_of_the_base_is_theirs(folder, tmp_path):
    """What is written into the base's config.yaml arrives."""
    copy = shutil.copytree(MANIFESTS, tmp_path / "manifests")
    (copy / "base" / "config.yaml").write_text("version: 1\nresources: []\n")
    assert configs(kustomize(copy / folder)) == ["version: 1\nresources: []\n"]


@pytest.mark.parametrize("folder", OVERLAYS, ids=short)
def test_only_the_folders_that_a_distribution_moves_are_elsewhere(folder):
    expected = host_paths(one(kustomize(BASE), "DaemonSet"))
    if short(folder) in POD_RESOURCES:
        expected |= {"pod-resources": POD_RESOURCES[short(folder)]}
    if short(folder) == "overlays/dra-example":
        expected |= BY_CLAIMS
    for daemon_set in daemon_sets(folder):
        assert host_paths(daemon_set) == expected


def test_the_privileged_overlay_contradicts_itself_nowhere():
    """Kubernetes refuses `privileged` beside `allowPrivilegeEscalation: false`."""
    (daemon_set,) = daemon_sets(MANIFESTS / "overlays" / "privileged")
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"] == {
        "privileged": True,
        "readOnlyRootFilesystem": True,
        "runAsUser": 0,
        "runAsGroup": 0,
    }


def test_no_node_gets_two_daemons():
    """Two on a node would fight for the state folder: one label key, another value each."""
    selectors = [
        daemon_set["spec"]["template"]["spec"]["nodeSelector"]
        for daemon_set in daemon_sets(MANIFESTS / "overlays" / "per-node")
    ]
    assert len(selectors) > 1
    values = [selector["example.com/devices"] for selector in selectors]
    assert len(set(values)) == len(values)


def test_the_monitor_finds_the_daemons():
    (endpoint,) = one(kustomize(MONITORING), "PodMonitor")["spec"]["podMetricsEndpoints"]
    selector = one(kustomize(MONITORING), "PodMonitor")["spec"]["selector"]["matchLabels"]
    for folder in DAEMONS:
        for daemon_set in daemon_sets(folder):
            template = daemon_set["spec"]["template"]
            assert selector.items() <= template["metadata"]["labels"].items()
            (container,) = template["spec"]["containers"]
            assert endpoint["port"] in {port["name"] for port in container["ports"]}


def test_every_overlay_says_what_it_is_for():
    for folder in OVERLAYS:
        text = (folder / "kustomization.yaml").read_text()
        if folder.parent.name != "per-node":
            assert re.match(r"# \w", text), folder
        assert yaml.safe_load(text)["kind"] == "Kustomization"
