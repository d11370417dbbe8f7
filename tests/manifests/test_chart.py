"""The Helm chart: the base with values."""

import json

import programs
import pytest
import yaml
from rendered import BASE, CHART, MONITORING, configs, helm, kustomize, one

import device_plugin
from device_plugin import config

RELEASE = {"app.kubernetes.io/instance", "app.kubernetes.io/version"}
RELEASE |= {"app.kubernetes.io/managed-by", "helm.sh/chart"}


def bare(thing):
    """Without what a release adds, and with the config as its meaning, not as its text."""
    text = json.loads(json.dumps(thing), object_hook=_without_release)
    if text["kind"] == "ConfigMap":
        text["data"] = yaml.safe_load(text["data"]["config.yaml"])
    return text


def _without_release(pairs):
    return {
        key: value
        for key, value in ((k, v) for k, v in pairs.items() if k not in RELEASE)
        if not (key in {"labels", "annotations"} and set(value) <= {"app.kubernetes.io/name"})
    }


def container(found):
    (only,) = one(found, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    return only


def refused(values):
    with pytest.raises(AssertionError) as why:
        helm(values)
    return str(why.value)


def test_lint():
    programs.run("helm", "lint", "--strict", str(CHART))


def test_its_defaults_are_the_base():
    """Up to a release's labels, and the Namespace, which Helm leaves to people."""
    of_base = {t["kind"]: bare(t) for t in kustomize(BASE) if t["kind"] != "Namespace"}
    assert {t["kind"]: bare(t) for t in helm()} == of_base


def test_its_version_is_the_daemons():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == device_plugin.__version__


@pytest.mark.parametrize(
    "env",
    [
        {"A": "0403", "B": "1e3", "C": "true", "D": "2026-01-01", "E": "null", "F": "0x1f"},
        {"G": "{id}", "H": "{{literal}}", "I": "a: b", "J": "# no comment", "K": " spaces "},
        {"L": "a,b: c", "M": "über", "N": "'\"", "O": "{attribute.edition}"},
    ],
)
def test_a_config_arrives_as_it_was_given(env):
    """Neither Helm's templates nor YAML make anything else of it."""
    given = {
        "version": 1,
        "resources": [
            {
                "name": "example.com/licence",
                "devices": [{"virtual": {"count": 1, "attributes": {"edition": "0403"}}}],
                "container": {"env": env},
            }
        ],
    }
    (text,) = configs(helm({"config": given}))
    assert yaml.safe_load(text) == given
    assert config.check(text.encode(), "config.yaml").problems == ()


def test_folders_of_other_distributions():
    values = {"kubelet": {"root": "/var/lib/k0s/kubelet"}, "stateDir": "/srv/state"}
    volumes = one(helm(values), "DaemonSet")["spec"]["template"]["spec"]["volumes"]
    paths = {v["name"]: v["hostPath"]["path"] for v in volumes if "hostPath" in v}
    assert paths["pod-resources"] == "/var/lib/k0s/kubelet/pod-resources"
    assert paths["device-plugins"] == "/var/lib/kubelet/device-plugins"
    assert paths["state"] == "/srv/state"


def test_the_port_is_the_same_everywhere():
    found = container(helm({"http": {"port": 9100}}))
    assert "--http=:9100" in found["args"]
    assert found["ports"] == [{"name": "http", "containerPort": 9100}]


def test_privileged():
    context = container(helm({"privileged": True}))["securityContext"]
    assert context["privileged"]
    assert "allowPrivilegeEscalation" not in context


def test_an_image_of_ones_own():
    image = {"repository": "registry.example.com/device-plugin", "tag": "1.2.3"}
    assert container(helm({"image": image}))["image"] == "registry.example.com/device-plugin:1.2.3"


def test_a_service_account_of_ones_own():
    found = helm({"serviceAccount": {"create": False, "name": "mine"}})
    assert "ServiceAccount" not in {thing["kind"] for thing in found}
    spec = one(found, "DaemonSet")["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "mine"


def test_two_releases_meet_nowhere():
    names = [{(t["kind"], t["metadata"]["name"]) for t in helm(release=r)} for r in ("a", "b")]
    assert not names[0] & names[1]


@pytest.mark.parametrize("release", ["y", "1e3", "null"])
def test_a_release_is_a_name_whatever_yaml_thinks_of_it(release):
    values = {"serviceAccount": {"name": release}, "seLinuxType": release}
    for thing in helm(values | {"priorityClassName": release}, release):
        assert thing["metadata"]["labels"]["app.kubernetes.io/instance"] == release
        if thing["kind"] == "DaemonSet":
            spec = thing["spec"]["template"]["spec"]
            assert spec["serviceAccountName"] == spec["priorityClassName"] == release


def test_rollouts_only_where_they_are_wanted():
    def annotations(values):
        template = one(helm(values), "DaemonSet")["spec"]["template"]
        return template["metadata"].get("annotations")

    changed = {"config": {"version": 1, "resources": []}}
    assert annotations(changed) is None
    roll = {"rollOnConfigChange": True}
    assert annotations(roll) != annotations(roll | changed)


def test_the_monitor_is_that_of_the_monitoring_folder():
    found = one(helm({"podMonitor": {"enabled": True}}), "PodMonitor")["spec"]
    expected = one(kustomize(MONITORING), "PodMonitor")["spec"]
    assert found["selector"]["matchLabels"].pop("app.kubernetes.io/instance")
    assert expected.pop("namespaceSelector")  # that of a release looks only after its own
    assert found == expected


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"confg": {}}, "confg"),
        ({"config": {"resources": None}}, "resources"),
        ({"config": {"version": 2, "resources": []}}, "version"),
        ({"config": {"version": 1, "resources": [{"name": "fuse", "devices": []}]}}, "name"),
        ({"image": {"tagg": "1"}}, "tagg"),
        ({"image": {"tag": 1.0}}, "tag"),
        ({"kubelet": {"root": "var/lib/kubelet"}}, "root"),
        ({"http": {"port": "8080"}}, "port"),
        ({"privileged": "yes"}, "privileged"),
        ({"tolerations": {"operator": "Exists"}}, "tolerations"),
        ({"podMonitor": {"interval": "often"}}, "interval"),
        ({"nodeSelector": {"a": True}}, "nodeSelector"),
    ],
)
def test_a_wrong_value_is_refused_and_named(values, named):
    said = refused(values)
    assert named in said
    assert "values don't meet the specifications of the schema" in said


def test_the_schema_knows_every_value():
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema) - {"global"}
    for name, value in values.items():
        if name != "config" and "properties" in schema[name]:
            assert set(value) == set(schema[name]["properties"]), name
