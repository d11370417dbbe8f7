"""examples/kind: kind takes its config, the objects fit together, the demo ends as it should."""

import os
import re
import signal
import subprocess
import tomllib

import pytest
import yaml
from programs import program
from rendered import ROOT, kustomize, objects, one

import device_plugin
from device_plugin import config

FOLDER = ROOT / "examples" / "kind"
DEMO = FOLDER / "demo.sh"
FOUND = list(objects((FOLDER / "pod.yaml").read_text()))
KUBECONFIG = "{clusters: [{name: c}], users: [{name: u}], contexts: [{name: x}], kind: Config}"


def create(path, folder):
    """`kind create cluster`, where docker starts nothing."""
    (folder / "docker").symlink_to(ROOT / "tests" / "e2e" / "docker.sh")
    (folder / "admin").write_text(KUBECONFIG)
    told = {"STATE": folder, "NODE": "", "ADMIN": folder / "admin", "SERVER": "a:1"}
    told |= {"VERSION": "1.37"}
    environment = {f"E2E_{name}": str(value) for name, value in told.items()}
    environment |= {"PATH": f"{folder}:/usr/bin:/bin", "KUBECONFIG": str(folder / "kubeconfig")}
    return subprocess.run(
        [program("kind"), "create", "cluster", "--name=trial", f"--config={path}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_kind_takes_the_config_and_puts_cdi_on(tmp_path):
    done = create(FOLDER / "cluster.yaml", tmp_path)
    assert done.returncode == 0, done.stderr
    containerd = tomllib.loads((tmp_path / "config.toml").read_text())
    assert containerd["version"] == 2, "as in kind's images: the patch is for this one"
    assert containerd["plugins"]["io.containerd.grpc.v1.cri"] == {"enable_cdi": True}


def test_kind_would_notice_a_misspelt_key(tmp_path):
    text = (FOLDER / "cluster.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text(text.replace("containerdConfigPatches", "patches"))
    done = create(tmp_path / "cluster.yaml", tmp_path)
    assert done.returncode != 0
    assert "field patches not found" in done.stderr


def test_the_config_is_good_and_has_both_kinds_of_resources(tmp_path):
    for name, text in one(kustomize(FOLDER), "ConfigMap")["data"].items():
        (tmp_path / name).write_text(text)
    checked = config.read(tmp_path)
    assert checked.problems == ()
    assert checked.config is not None
    assert {resource.api for resource in checked.config.resources} == {"device-plugin", "dra"}


def test_the_pod_asks_for_one_of_each():
    (container,) = one(FOUND, "Pod")["spec"]["containers"]
    found = kustomize(FOLDER)
    offered = yaml.safe_load(one(found, "ConfigMap")["data"]["licence.yaml"])["resources"]
    assert list(container["resources"]["limits"]) == [resource["name"] for resource in offered]
    (claim,) = one(FOUND, "Pod")["spec"]["resourceClaims"]
    template = one(FOUND, "ResourceClaimTemplate")
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    name = one(found, "DeviceClass")["metadata"]["name"]
    assert request["exactly"]["deviceClassName"] == name


def test_the_pods_image_is_the_one_that_is_loaded():
    (container,) = one(FOUND, "Pod")["spec"]["containers"]
    assert container["image"] == f"localhost/device-plugin:{device_plugin.__version__}"


@pytest.fixture
def demo(tmp_path):
    """Run the demo with programs that only note how they are called, or fail."""

    def run(*there, fails="nothing", says="", hangs="nothing", number=0, **more):
        for name in there:
            lines = [
                "#!/bin/sh",
                f'echo "{name} $*" >>{tmp_path}/called',
                'echo "${IMAGE:+IMAGE=$IMAGE}"',
                f'case "{name} $*" in "{fails}"*) exit 3;; esac',
                f'case "{name} $*" in "kind get"*) echo "{says}";; esac',
                # As Ctrl-C does it: the shell and what it waits for.
                f'case "{name} $*" in "{hangs}"*) kill -{int(number)} $PPID; exit 1;; esac',
            ]
            (tmp_path / name).write_text("\n".join(lines))
            (tmp_path / name).chmod(0o755)
        (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
        (tmp_path / "called").touch()
        done = subprocess.run(
            DEMO,
            env={"PATH": str(tmp_path)} | more,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, (tmp_path / "called").read_text().splitlines()

    return run


ALL = ("kind", "kubectl", "make")
DELETED = "kind delete cluster --name device-plugin"


def test_what_is_called_is_what_is_printed(demo):
    done, called = demo(*ALL)
    assert done.returncode == 0, done.stderr
    printed = re.findall(r"^\$ (.*)$", done.stdout, re.MULTILINE)
    printed.remove("export KUBECONFIG=build/kind.kubeconfig")
    assert called[0] == "kind get clusters"
    assert [line.replace("'", "") for line in printed] == [
        line.replace("'", "") for line in called[1:]
    ]
    assert called[-3:] == [
        "kubectl delete -f examples/kind/pod.yaml",
        "kubectl delete -k examples/kind",
        DELETED,
    ]


@pytest.mark.parametrize(
    ("there", "fails", "said"),
    [
        (("kubectl", "make"), "nothing", "kind is missing"),
        (("kind", "make"), "nothing", "kubectl is missing"),
        (ALL, "kind get", "kind finds no Docker engine that runs"),
    ],
)
def test_what_is_missing_is_one_line_before_anything_is_done(demo, there, fails, said):
    done, called = demo(*there, fails=fails)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kind-demo: {said}")
    assert line.endswith("without Docker, as root: make kind-demo ON=e2e")
    assert called in ([], ["kind get clusters"])


@pytest.mark.parametrize("fails", ["kind load", "kubectl apply -k", "kubectl delete -f"])
def test_a_command_that_fails_is_the_last_and_the_cluster_goes(demo, fails):
    done, called = demo(*ALL, fails=fails)
    assert done.returncode == 3
    assert called[-2].startswith(fails)
    assert called[-1] == DELETED


def test_a_cluster_that_was_there_before_stays(demo):
    """The image is not even made."""
    done, called = demo(*ALL, says="a\ndevice-plugin")
    assert done.returncode == 1
    assert f"already: {DELETED}" in done.stderr
    assert called == ["kind get clusters"]


def test_one_of_another_name_is_none_of_ours(demo):
    done, called = demo(*ALL, says="my-device-plugin")
    assert done.returncode == 0
    assert called[-1] == DELETED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("during", ["kind create", "kubectl wait pod"])
def test_an_interrupt_takes_the_cluster_away(demo, during, number):
    """Also one in the midst of its making, which takes longest."""
    done, called = demo(*ALL, hangs=during, number=number)
    assert called[-2].startswith(during)
    assert called[-1] == DELETED
    assert done.returncode == 130


def test_the_image_is_where_the_demo_looks_for_it(demo):
    done, _ = demo(*ALL, IMAGE="/elsewhere.tar")
    assert done.returncode == 0
    assert "IMAGE=" not in done.stdout + done.stderr


def test_keep_leaves_everything(demo):
    done, called = demo(*ALL, KEEP="1")
    assert done.returncode == 0
    assert not [line for line in called if "delete" in line]
    assert done.stdout.endswith(f": {DELETED}\n")


def test_other_programs_may_be_named(demo):
    done, called = demo("other-kind", "oc", "make", KIND="other-kind", KUBECTL="oc")
    assert done.returncode == 0
    assert {line.split()[0] for line in called} == {"other-kind", "oc", "make"}


def test_make_says_the_same():
    """The Makefile's target, where kind is not there."""
    done = subprocess.run(
        ["make", "kind-demo"],
        cwd=ROOT,
        env=os.environ | {"KIND": "no-such-kind", "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.splitlines()[0].startswith("kind-demo: no-such-kind is missing")
