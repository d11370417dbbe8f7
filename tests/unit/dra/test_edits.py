"""What containers get by a claim: the same as by the device plugin, a request for a container."""

import json

import pytest
import yaml

from device_plugin.attribute import Quantity
from device_plugin.config import Mount
from device_plugin.device import Device, Node
from device_plugin.listing import Listed
from tests.unit.dra.claimed import ClaimNode, parameters, result, stick
from tests.unit.dra.made import HALF


@pytest.fixture
def node(tree):
    return ClaimNode(tree)


def env(node, name, request="gpu"):
    return node.spec(name)[request]["env"]


def test_devices_of_a_request_are_joined_in_natural_order(node):
    node.offer(
        *(stick(f"gpu-{i}", values={"n": "7"}, attributes={"serial": "S"}) for i in (2, 10)),
        env={"IDS": "{id}", "INDEX_{index}": "{n} {attribute.serial}", "PATHS": "{path}"},
    )
    node.prepared("a", result("gpu-10"), result("gpu-2"))
    assert env(node, "a") == [
        "IDS=gpu-2,gpu-10",
        "INDEX_0=7 S",
        "INDEX_1=7 S",
        "PATHS=/dev/gpu-2,/dev/gpu-10",
    ]


def test_each_request_counts_by_itself(node):
    node.offer(stick("gpu-0"), stick("gpu-1"), env={"GPU_{index}": "{id}"})
    node.prepared("a", result("gpu-0", "one"), result("gpu-1", "two/small"))
    assert (env(node, "a", "one"), env(node, "a", "two")) == (["GPU_0=gpu-0"], ["GPU_0=gpu-1"])


def test_a_request_over_two_resources(node):
    timer = Node("/dev/timer", permissions="r")
    both = Node("/dev/timer", permissions="w")
    node.offer(Listed(Device("a", (Node("/dev/a"), timer))), env={"X": "{id}", "A": "1"})
    node.offer(
        Listed(Device("b", (Node("/dev/b"), both))),
        name="example.com/b",
        env={"X": "{id}", "INDEX": "{index}"},
    )
    node.prepared("a", result("b"), result("a"))
    assert env(node, "a") == ["X=a", "INDEX=0", "A=1"]
    assert [one["path"] for one in node.spec("a")["gpu"]["deviceNodes"]] == [
        "/dev/a",
        "/dev/timer",
        "/dev/b",
    ]
    assert node.spec("a")["gpu"]["deviceNodes"][1]["permissions"] == "rw"


def test_nodes_are_where_the_config_says(node):
    nodes = (Node("/dev/a", "/dev/gpu{index}", "rwm"), Node("/dev/b", "/dev/b", "r"))
    node.offer(Listed(Device("a", nodes)))
    node.prepared("a", result("a"))
    assert node.spec("a")["gpu"]["deviceNodes"] == [
        {"path": "/dev/gpu0", "permissions": "rwm", "hostPath": "/dev/a"},
        {"path": "/dev/b", "permissions": "r"},
    ]


def test_two_nodes_at_one_path(node):
    node.offer(*(Listed(Device(x, (Node(f"/dev/{x}", "/dev/gpu"),))) for x in "ab"))
    text = node.refused("a", result("a"), result("b"))
    assert text == (
        "/dev/a and /dev/b are both to be /dev/gpu in the container: ask for one device, or put"
        " {index} into the `to` of the config"
    )
    node.prepared("b", result("a", "one"), result("b", "two"))  # they may be two containers'


def test_mounts(node):
    node.tree.folder("/dev/shared")
    node.offer(
        stick("gpu-0"),
        mounts=(
            Mount("/opt/{id}", "/opt/gpu", read_only=True),
            Mount("/dev/shared", "/shared"),
        ),
    )
    node.prepared("a", result("gpu-0"))
    assert node.spec("a")["gpu"]["mounts"] == [
        {
            "hostPath": "/opt/gpu-0",
            "containerPath": "/opt/gpu",
            "options": ["rbind", "rprivate", "ro"],
        },
        {
            "hostPath": "/dev/shared",
            "containerPath": "/shared",
            "options": ["rbind", "rprivate", "rw"],
        },
    ]


def test_a_mount_that_is_seen_to_be_missing(node):
    node.offer(stick("gpu-0"), mounts=(Mount("/dev/gone", "/gone"),))
    assert node.refused("a", result("gpu-0")) == "mount /dev/gone of the claim does not exist"


def test_a_placeholder_that_the_device_cannot_fill(node):
    node.offer(stick("gpu-0"), env={"SERIAL": "{attribute.serial}"})
    text = "device gpu-0 has no {attribute.serial}, which '{attribute.serial}' asks for"
    assert node.refused("a", result("gpu-0")) == text


def test_a_device_with_nothing_to_give_says_that_it_is_there(node):
    node.offer(Listed(Device("licence-0")), Listed(Device("licence-1")))
    node.prepared("a", result("licence-1"), result("licence-0"))
    assert node.spec("a") == {"gpu": {"env": ["DEVICE_PLUGIN_CLAIM=licence-0,licence-1"]}}


def test_a_part_says_what_it_has(node):
    attributes = {"memory": Quantity.parse("80Gi"), "model": "A"}
    node.offer(
        stick("gpu-0", attributes=attributes),
        partitions=(HALF,),
        env={"GPU": "{id} {attribute.model} {attribute.memory}"},
    )
    node.prepared("a", result("gpu-0-half-1"))
    assert env(node, "a") == ["GPU=gpu-0-half-1 A 40Gi"]
    assert node.spec("a")["gpu"]["deviceNodes"][0]["path"] == "/dev/gpu-0"


def test_a_replica_has_its_own_name(node):
    node.offer(stick("gpu-0", replicas=2), env={"GPU": "{id} {host_path} {local_path}"})
    node.prepared("a", result("gpu-0-r1"))
    local = node.tree.at("/dev/gpu-0")
    assert env(node, "a") == [f"GPU=gpu-0-r1 /dev/gpu-0 {local}"]


def test_whatever_is_in_it_is_json_and_yaml(node):
    odd = "é \U0001f600 \"'\\ :#-{}[]\u00ad\u200b\ufeff\x7f"
    node.offer(stick("gpu-0", attributes={"name": odd}), env={"NAME": "{attribute.name}"})
    node.prepared("a", result("gpu-0"))
    data = (node.cdi / node.files()[0]).read_bytes()
    assert yaml.safe_load(data) == json.loads(data)
    assert env(node, "a") == [f"NAME={odd}"]


def test_parameters_are_over_the_config_and_the_claims_over_the_class(node):
    node.tree.folder("/dev/shared")
    node.offer(
        stick("gpu-0"),
        env={"A": "config", "B": "config", "C": "config", "GPU": "{id}"},
        mounts=(Mount("/opt/a", "/data"), Mount("/opt/b", "/b")),
    )
    config = [
        parameters(env={"C": "claim", "D": "{id}"}),
        parameters(
            "FromClass",
            env={"B": "class", "C": "class"},
            mounts=[{"host_path": "/opt/{id}", "path": "/data", "read_only": True}],
        ),
    ]
    node.prepared("a", result("gpu-0"), config=config)
    assert sorted(env(node, "a")) == ["A=config", "B=class", "C=claim", "D=gpu-0", "GPU=gpu-0"]
    mounts = {one["containerPath"]: one for one in node.spec("a")["gpu"]["mounts"]}
    assert mounts["/data"]["hostPath"] == "/opt/gpu-0"
    assert mounts["/b"]["hostPath"] == "/opt/b"


def test_parameters_are_for_their_requests(node):
    node.offer(*(stick(f"gpu-{i}") for i in range(3)))
    config = [
        parameters("FromClass", env={"ALL": "1"}),
        parameters("FromClaim", "one", env={"ONE": "1"}),
        parameters("FromClaim", "two", env={"TWO": "1"}),
        parameters("FromClaim", "two/small", env={"SMALL": "1"}),
        parameters("FromClaim", "two/large", env={"LARGE": "1"}),
        {**parameters(env={"OTHER": "1"}), "opaque": {"driver": "nic.example.com"}},
        {"source": "FromClaim"},
    ]
    results = [result("gpu-0", "one"), result("gpu-1", "two/small"), result("gpu-2", "two/small")]
    node.prepared("a", *results, config=config)
    assert env(node, "a", "one") == ["ALL=1", "ONE=1"]
    assert env(node, "a", "two") == ["ALL=1", "TWO=1", "SMALL=1"]
    node.restart()
    node.claims.renew()
    assert env(node, "a", "two") == ["ALL=1", "TWO=1", "SMALL=1"]


def test_what_a_claim_gets_stays_although_the_config_says_otherwise_by_now(node):
    node.offer(stick("gpu-0"), env={"A": "before"})
    node.prepared("a", result("gpu-0"))
    node.offer(stick("gpu-0"), env={"A": "after"})
    node.claims.renew()
    assert env(node, "a") == ["A=before"]
    node.unprepare(node.api.allocate("a"))
    node.prepared("a", result("gpu-0"))
    assert env(node, "a") == ["A=after"]
