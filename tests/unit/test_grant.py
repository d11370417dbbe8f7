"""What a container gets for its IDs: nodes, env, mounts, annotations."""

import pytest

from device_plugin.allocation import Grant, Refused, grant, inside, shares
from device_plugin.config import Container, Mount, PerContainer, Resource
from device_plugin.device import REMOVED, Device, Node
from device_plugin.listing import Listed, Snapshot
from device_plugin.plugin import grant_message

R = "example.com/r"


def given(resource, *devices, ids=None):
    """The grant for all IDs of the devices, or for some."""
    snapshot = Snapshot(tuple(map(Listed, devices)))
    chosen = shares(resource, snapshot, snapshot.by_id if ids is None else ids)
    return grant(resource, chosen, lambda path: f"/host{path}")


def with_env(**env):
    return Resource(R, (), container=Container(env=env))


def env(text, *devices, ids=None):
    return given(with_env(X=text), *devices, ids=ids).env["X"]


def refused(resource, snapshot, ids):
    with pytest.raises(Refused) as why:
        shares(resource, snapshot, ids)
    return str(why.value)


A = Device("a", (Node("/dev/a"),), 2, {"n": "1"}, {"serial": "S1", "big": True, "size": 5})
B = Device("b", (Node("/dev/b", "/dev/in-b", "r"), Node("/dev/timer")), 2, {"n": "2"}, {})
LICENCE = Device("licence-0", attributes={"edition": "full"})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{id}", "a,a-r1,b,b-r1"),
        ("{index}", "0,1"),
        ("{host_path}", "/dev/a,/dev/b"),
        ("{local_path}", "/host/dev/a,/host/dev/b"),
        ("{path}", "/dev/a,/dev/in-b"),
        ("{n}-{n}", "1-1,2-2"),
        ("x", "x"),
        ("{{{n}}}", "{1},{2}"),
        ("", ""),
    ],
)
def test_values_are_joined_in_natural_order_and_said_once(text, values):
    assert env(text, A, B) == env(text, A, B, ids=["b-r1", "a-r1", "b", "a", "a"]) == values


def test_devices_that_say_the_same_each_say_it():
    more = Device("c", (Node("/dev/c"),), 1, {"n": "1"})
    assert env("{n}", A, more) == "1,1"


def test_attributes_are_text_as_in_the_config():
    assert env("{attribute.serial} {attribute.big} {attribute.size}", A) == "S1 true 5"
    assert env("{attribute.x}", Device("v", attributes={"x": False})) == "false"


def test_keys_are_templates_too():
    resource = with_env(**{"P_{index}": "{path}", "{n}": "{id}", "C": "c"})
    expected = {"P_0": "/dev/a", "P_1": "/dev/in-b", "1": "a,a-r1", "2": "b,b-r1", "C": "c"}
    assert given(resource, A, B).env == expected


def test_nodes_are_handed_over_once_where_the_config_says():
    companion = Device("c", (Node("/dev/c"), Node("/dev/timer", "/else", "rwm")))
    assert given(Resource(R, ()), A, B, companion).nodes == (
        Node("/dev/a", "/dev/a"),
        Node("/dev/b", "/dev/in-b", "r"),
        Node("/dev/timer", "/dev/timer", "rwm"),  # what each of its devices permits
        Node("/dev/c", "/dev/c"),
    )


def test_a_place_may_be_named_by_index_id_capture_and_attribute():
    to = "/dev/{index}/{id}/{n}/{attribute.serial}{{}}"
    device = Device("a", (Node("/dev/a", to),), 1, {"n": "1"}, {"serial": "S"})
    assert given(Resource(R, ()), device, B).nodes[0].to == "/dev/0/a/1/S{}"
    assert inside(device) == [(device.nodes[0], "/dev/{index}/a/1/S{}")]


def test_path_is_where_the_node_is_also_for_a_second_replica():
    device = Device("a", (Node("/dev/a", "/dev/x-{id}"),), replicas=3)
    got = given(with_env(P="{path}"), device, ids=["a-r1", "a-r2"])
    assert [node.to for node in got.nodes] == ["/dev/x-a-r1"]
    assert got.env == {"P": "/dev/x-a-r1"}


def test_replicas_share_an_index_and_devices_have_their_own():
    snapshot = Snapshot(tuple(map(Listed, (A, B))))
    got = shares(Resource(R, ()), snapshot, ["b", "a-r1", "a"])
    assert [(share.id, share.index) for share in got] == [("a", 0), ("a-r1", 0), ("b", 1)]


def test_two_nodes_at_one_place_are_refused():
    one, other = (Device(name, (Node(f"/dev/{name}", "/dev/x"),)) for name in "cd")
    with pytest.raises(Refused, match="/dev/c and /dev/d are both to be /dev/x in the container"):
        given(Resource(R, ()), one, other)


def test_two_folders_at_one_place_are_refused():
    resource = Resource(R, (), container=Container(mounts=(Mount("/run/{id}", "/run/x"),)))
    with pytest.raises(
        Refused, match="/run/a and /run/b are both to be /run/x in the container: ask"
    ):
        given(resource, A, B, ids=["a", "b"])


def test_mounts_and_annotations():
    container = Container(
        mounts=(Mount("/opt/x", "/opt/x", read_only=True), Mount("/run/{n}", "/r/{n}")),
        annotations={"example.com/nodes": "{path}", "example.com/{n}": "x"},
    )
    got = given(Resource(R, (), container=container), A, B, ids=["b", "a", "a-r1"])
    assert got.mounts == (
        Mount("/opt/x", "/opt/x", read_only=True),
        Mount("/run/1", "/r/1"),
        Mount("/run/2", "/r/2"),
    )
    assert got.annotations == {
        "example.com/nodes": "/dev/a,/dev/in-b",
        "example.com/1": "x",
        "example.com/2": "x",
    }


@pytest.mark.parametrize("name", ["path", "host_path", "local_path", "attribute.gone", "capture"])
@pytest.mark.parametrize("key", [True, False])
def test_a_device_that_lacks_what_a_template_asks_for_is_refused(name, key):
    text = f"{{{name}}}"
    with pytest.raises(Refused) as why:
        given(with_env(**({f"X_{text}": "x"} if key else {"X": text})), LICENCE)
    assert f"device licence-0 has no {text}, which " in str(why.value)


def test_a_place_that_asks_for_what_is_not_there_is_refused():
    device = Device("a", (Node("/dev/a", "/x/{gone}"),))
    with pytest.raises(Refused, match=r"^device a has no \{gone\}, which '/x/\{gone\}' asks for$"):
        given(Resource(R, ()), device)


def test_virtual_devices_have_values_and_no_nodes():
    got = given(with_env(X="{id}={attribute.edition}"), LICENCE)
    assert got == Grant(env={"X": "licence-0=full"})


def test_nothing_asked_is_nothing_given():
    assert given(with_env(X="{id}"), A, ids=[]) == Grant(env={})


def test_unknown_ids_are_refused_by_name():
    snapshot = Snapshot((Listed(A),))
    expected = "example.com/r has no device 'x': did another plugin list it?"
    assert refused(Resource(R, ()), snapshot, ["a", "x", "y"]) == expected
    for strange in ("", "a-r2", "\n\x1b", "\ud800", "x" * 100_000):
        why = refused(Resource(R, ()), snapshot, [strange])
        assert why.isprintable()
        assert len(why) < 500


def test_unhealthy_devices_are_refused_with_the_reason():
    snapshot = Snapshot((Listed(A, REMOVED),))
    why = refused(Resource(R, ()), snapshot, ["a-r1"])
    assert why == "device a-r1 of example.com/r is unhealthy: removed"


def test_rules_of_a_container_are_enforced():
    snapshot = Snapshot(tuple(map(Listed, (A, B))))
    few = Resource(R, (), per_container=PerContainer(max=1))
    assert refused(few, snapshot, ["a", "b"]) == (
        "a container may have at most 1 of example.com/r and asks for 2: "
        "lower its limit, or raise per_container.max"
    )
    distinct = Resource(R, (), per_container=PerContainer(distinct=True))
    assert refused(distinct, snapshot, ["a", "a-r1", "b"]) == (
        "a container may not have two replicas of one device of example.com/r, and 3 come from 2:"
        " lower its limit, or drop per_container.distinct"
    )
    assert len(shares(distinct, snapshot, ["a", "b-r1"])) == 2
    assert len(shares(few, snapshot, ["a", "a"])) == 1


def test_a_grant_on_the_wire():
    container = Container(env={"E": "{n}"}, mounts=(Mount("/h", "/c", read_only=True),))
    message = grant_message(given(Resource(R, (), container=container), B))
    assert dict(message.envs) == {"E": "2"}
    assert [(m.host_path, m.container_path, m.read_only) for m in message.mounts] == [
        ("/h", "/c", True)
    ]
    assert [(d.host_path, d.container_path, d.permissions) for d in message.devices] == [
        ("/dev/b", "/dev/in-b", "r"),
        ("/dev/timer", "/dev/timer", "rw"),
    ]
