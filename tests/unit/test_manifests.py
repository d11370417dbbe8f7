"""What `manifests` prints is what `manifests/base` means, with the config at hand in it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from device_plugin import cli, commands, manifests
from device_plugin.config import read
from device_plugin.config.source import Source
from device_plugin.manifests import Unfit, make, warnings

PACKAGED = Path(manifests.__file__).parent
BASE = Path(__file__).parents[2] / "manifests" / "base"
IMAGE = "registry.example.com/device-plugin:0.1.0"
CONFIG = (BASE / "config.yaml").read_text()
COMPONENT = {"rbac.yaml", "policy.yaml"}  # of components/dra; test_manifests_dra.py has its tests
NAMES = ["example.com/fuse", "example.com/Tty_USB", "other.example/fuse"]


def documents(path: Path, namespace: str = "devices", image: str = IMAGE) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text(path, namespace, image)))


def text(path: Path, namespace: str = "devices", image: str = IMAGE) -> str:
    config = read(path).config
    assert config is not None
    return make(path, config, namespace, image, pods=True)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize("name", sorted(path.name for path in PACKAGED.glob("*.yaml")))
def test_the_packaged_texts_are_those_of_the_folders(name):
    folder = BASE.parent / "components" / "dra" if name in COMPONENT else BASE
    assert (PACKAGED / name).read_bytes() == (folder / name).read_bytes()


def test_all_resources_of_the_base_are_there(config):
    """A new one in kustomization.yaml must come here too."""
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    assert {path.name for path in PACKAGED.glob("*.yaml")} - COMPONENT == set(listed["resources"])
    kinds = [document["kind"] for document in documents(config)]
    assert kinds == ["Namespace", "ServiceAccount", "ConfigMap", "DaemonSet", "Pod"]


def test_a_config_with_cdi_names_has_their_folder_mounted(config):
    """As the component does it: without, the plugin could write none, and offer no device."""
    component = yaml.safe_load(
        (BASE.parent / "components" / "cdi" / "kustomization.yaml").read_text()
    )
    (patch,) = component["patches"]
    more = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]
    plain = documents(config)[3]["spec"]["template"]["spec"]
    config.write_text(CONFIG + "    container: {cdi: true}\n")
    by_name = documents(config)[3]["spec"]["template"]["spec"]
    plain["volumes"][:0] = more["volumes"]
    plain["containers"][0]["volumeMounts"][:0] = more["containers"][0]["volumeMounts"]
    assert by_name == plain


@pytest.mark.parametrize(("runtimes", "told"), [("kata, runsc", True), ("kata, runc", False)])
def test_a_trial_pod_says_which_runtime_its_resource_is_meant_for(config, runtimes, told):
    config.write_text(f"{CONFIG}    runtimes: [{runtimes}]\n")
    assert ("  # runtimeClassName: one of kata, runsc, by which" in text(config)) == told


def test_only_namespace_and_image_differ_from_the_base(config):
    namespace, account, _, daemon_set, *_ = documents(config)
    for made, name in (
        (namespace, "namespace"),
        (account, "serviceaccount"),
        (daemon_set, "daemonset"),
    ):
        base = yaml.safe_load((BASE / f"{name}.yaml").read_text())
        if name == "namespace":
            base["metadata"]["name"] = "devices"
        else:
            base["metadata"]["namespace"] = "devices"
        if name == "daemonset":
            base["spec"]["template"]["spec"]["containers"][0]["image"] = IMAGE
        assert made == base


def test_the_default_image_is_that_of_the_base():
    [image] = yaml.safe_load((BASE / "kustomization.yaml").read_text())["images"]
    default = commands.parser("manifests").parse_args(["manifests", "--config", "x"]).image
    assert default == f"{image['newName']}:{image['newTag']}"


def test_the_daemon_reads_the_key_of_the_config_map(config):
    _, _, config_map, daemon_set, *_ = documents(config)
    assert config_map["metadata"] == {"name": "device-plugin", "namespace": "devices"}
    assert config_map["data"] == {"config.yaml": CONFIG}
    spec = daemon_set["spec"]["template"]["spec"]
    [volume] = [volume for volume in spec["volumes"] if volume["name"] == "config"]
    assert volume["configMap"] == {"name": "device-plugin"}
    [mount] = [m for m in spec["containers"][0]["volumeMounts"] if m["name"] == "config"]
    assert f"--config={mount['mountPath']}" in spec["containers"][0]["args"]


def test_a_folder_is_a_key_for_each_file(tmp_path):
    (tmp_path / "20-grace.yaml").write_text("version: 1\nremoved_grace: 2h\n")
    (tmp_path / "10-fuse.yaml").write_text(CONFIG)
    (tmp_path / "notes.txt").write_text("no config")
    _, _, config_map, daemon_set, *_ = documents(tmp_path)
    assert list(config_map["data"]) == ["10-fuse.yaml", "20-grace.yaml"]
    args = daemon_set["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [arg for arg in args if arg.startswith("--config")] == ["--config=/etc/device-plugin"]


def test_a_file_whose_name_is_no_key_is_refused(tmp_path):
    (tmp_path / "my config.yaml").write_text(CONFIG)
    with pytest.raises(Unfit, match=r"my config.yaml: a ConfigMap's keys have letters, digits"):
        text(tmp_path)


def test_a_config_over_the_limit_of_a_config_map_is_refused():
    sources = [Source("a.yaml", b"#" * (1 << 19)), Source("b.yaml", b"#" * (1 << 19) + b"\n")]
    with pytest.raises(Unfit, match="the config has 1048577 bytes, and a ConfigMap at most"):
        manifests._config_map(sources, "devices", is_folder=True)


@given(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
        | st.sampled_from(" \t\n#"),
        max_size=40,
    )
)
def test_the_config_arrives_byte_for_byte(given_text):
    source = Source("c.yaml", given_text.encode())
    made = manifests._config_map([source], "devices", is_folder=False)
    assert yaml.safe_load(made)["data"] == {"config.yaml": given_text}


def test_the_config_stays_readable(config):
    assert "\n".join(f"    {line}" for line in CONFIG.splitlines()) in text(config)


def test_there_is_a_trial_pod_for_each_resource(tmp_path):
    path = tmp_path / "c.yaml"
    resources = [{"name": name, "devices": [{"virtual": {"count": 1}}]} for name in NAMES]
    path.write_text(yaml.safe_dump({"version": 1, "resources": resources}))
    pods = documents(path)[4:]
    assert [pod["metadata"]["name"] for pod in pods] == ["try-fuse", "try-tty-usb", "try-fuse-2"]
    limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in pods]
    assert limits == [{name: 1} for name in NAMES]
    assert {pod["spec"]["restartPolicy"] for pod in pods} == {"Never"}


def test_trial_pods_are_left_out_if_nobody_wants_them(config, capsys):
    assert cli.main(["manifests", "--config", str(config), "--without-pods"]) == 0
    kinds = [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["Namespace", "ServiceAccount", "ConfigMap", "DaemonSet"]


@pytest.mark.parametrize("namespace", ["1", "1e3", "null", "on"])
def test_a_namespace_that_looks_like_a_number_stays_text(config, namespace):
    made = documents(config, namespace=namespace)
    assert made[0]["metadata"]["name"] == namespace
    assert made[3]["metadata"]["namespace"] == namespace


@pytest.mark.parametrize(
    ("image", "warned"),
    [
        ("device-plugin", True),
        ("registry.example.com:5000/device-plugin", True),
        ("registry.example.com/device-plugin:latest", True),
        ("registry.example.com:5000/device-plugin:1.0", False),
        (f"device-plugin@sha256:{'0' * 64}", False),
    ],
)
def test_an_image_without_a_release_is_warned_of(image, warned):
    assert bool(warnings(image)) == warned
