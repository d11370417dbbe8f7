"""Reading and writing: what is kept, what comes back, and who is too late."""

import json

import pytest

from device_plugin.testing.apiserver import Refusal, allocated_claim, result

TOKEN = "of-the-test"  # noqa: S105
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def test_a_slice_from_creation_to_deletion(ask, made):
    code, one = ask("POST", SLICES, made("a"))
    assert (code, one["kind"], one["apiVersion"]) == (201, "ResourceSlice", "resource.k8s.io/v1")
    metadata = one["metadata"]
    assert metadata["generation"] == 1
    assert ask("GET", f"{SLICES}/one") == (200, one)
    one["spec"]["devices"].append({"name": "b"})
    code, changed = ask("PUT", f"{SLICES}/one", one)
    assert (code, changed["metadata"]["generation"]) == (200, 2)
    assert int(changed["metadata"]["resourceVersion"]) > int(metadata["resourceVersion"])
    assert changed["metadata"]["uid"] == metadata["uid"]
    code, listed = ask("GET", SLICES)
    assert (code, listed["kind"]) == (200, "ResourceSliceList")
    assert "kind" not in listed["items"][0]
    assert listed["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    assert ask("DELETE", f"{SLICES}/one")[0] == 200
    code, answer = ask("GET", f"{SLICES}/one")
    assert (code, answer["reason"]) == (404, "NotFound")
    assert answer["message"] == 'resourceslices.resource.k8s.io "one" not found'


def test_an_update_that_changes_nothing_is_no_update(ask, made):
    _, one = ask("POST", SLICES, made("a"))
    assert ask("PUT", f"{SLICES}/one", one) == (200, one)


def test_labels_change_without_a_new_generation(ask, made):
    _, one = ask("POST", SLICES, made("a"))
    one["metadata"]["labels"] = {"a": "b"}
    _, changed = ask("PUT", f"{SLICES}/one", one)
    assert changed["metadata"]["generation"] == 1
    assert changed["metadata"]["resourceVersion"] != one["metadata"]["resourceVersion"]


def test_names_are_completed_and_long_ones_cut_first(ask, made):
    body = made("a")
    del body["metadata"]["name"]
    body["metadata"]["generateName"] = "n" * 60 + "-"
    names = [ask("POST", SLICES, body)[1]["metadata"]["name"] for _ in range(3)]
    assert {name[:58] for name in names} == {"n" * 58}
    assert {len(name) for name in names} == {63}
    assert len(set(names)) == 3


def test_who_is_too_late(ask, made):
    _, old = ask("POST", SLICES, made("a"))
    ask("PUT", f"{SLICES}/one", made("b"))  # without a version: whatever is there
    code, answer = ask("PUT", f"{SLICES}/one", old)
    assert (code, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == (
        'Operation cannot be fulfilled on resourceslices.resource.k8s.io "one": the object has '
        "been modified; please apply your changes to the latest version and try again"
    )
    code, answer = ask("POST", SLICES, made("a"))
    assert (code, answer["reason"]) == (409, "AlreadyExists")
    assert answer["message"] == 'resourceslices.resource.k8s.io "one" already exists'
    assert ask("PUT", f"{SLICES}/two", made("a", name="two"))[0] == 404


def test_preconditions_of_a_deletion(ask, made):
    _, one = ask("POST", SLICES, made("a"))
    code, answer = ask("DELETE", f"{SLICES}/one", {"preconditions": {"uid": "other"}})
    assert (code, answer["reason"]) == (409, "Conflict")
    assert "UID in precondition: other" in answer["message"]
    conditions = {"uid": one["metadata"]["uid"]}
    assert ask("DELETE", f"{SLICES}/one", {"preconditions": conditions})[0] == 200


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", ["a", "b", "c"]),
        ("spec.nodeName=node-1", ["a", "b"]),
        ("spec.nodeName==node-1,spec.driver=gpu.example.com", ["a"]),
        ("spec.driver!=gpu.example.com", ["b"]),
        ("metadata.name=c", ["c"]),
    ],
)
def test_field_selectors(ask, made, selector, names):
    for name, driver, node in (
        ("a", "gpu.example.com", "node-1"),
        ("b", "nic.example.com", "node-1"),
        ("c", "gpu.example.com", "node-2"),
    ):
        ask("POST", SLICES, made(name=name, driver=driver, nodeName=node))
    _, listed = ask("GET", f"{SLICES}?fieldSelector={selector}")
    assert [one["metadata"]["name"] for one in listed["items"]] == names
    code, deleted = ask("DELETE", f"{SLICES}?fieldSelector={selector}")
    assert (code, len(deleted["items"])) == (200, len(names))


def test_what_a_slice_comes_back_as(ask, made):
    """Quantities spelled anew, what is empty or unknown gone, a taint with its time."""
    device = {
        "name": "a",
        "attributes": {"x": {"int": 0}, "y": {"bool": False}},
        "capacity": {"memory": {"value": "1024Mi"}, "cores": {"value": 4}},
        "taints": [{"key": "a", "effect": "NoSchedule"}],
        "consumesCounters": [],
        "unknown": 1,
    }
    code, one = ask("POST", SLICES, made(device, sharedCounters=None))
    assert code == 201
    [kept] = one["spec"]["devices"]
    [taint] = kept.pop("taints")
    assert taint.pop("timeAdded").endswith("Z")
    assert taint == {"key": "a", "effect": "NoSchedule"}
    assert kept == {
        "name": "a",
        "attributes": {"x": {"int": 0}, "y": {"bool": False}},
        "capacity": {"memory": {"value": "1Gi"}, "cores": {"value": "4"}},
    }


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ({"name": "a", "capacity": {"m": {"value": "much"}}}, "quantities must match"),
        ({"name": "a", "attributes": {"x": {"int": "1"}}}, "cannot unmarshal string into"),
        ({"name": "a", "attributes": {"x": {"int": True}}}, "cannot unmarshal bool into"),
        ({"name": "a", "attributes": []}, "cannot unmarshal array into"),
    ],
)
def test_what_cannot_be_read(ask, made, device, text):
    code, answer = ask("POST", SLICES, made(device))
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert text in answer["message"]


def test_bodies_that_are_no_objects(ask):
    assert ask("POST", SLICES, b"{")[0] == 400
    assert ask("POST", SLICES, b"[]")[0] == 400
    assert ask("POST", SLICES, {"kind": "Pod"})[0] == 400


def test_paths_and_methods_that_are_not_served(ask, api):
    assert ask.raw("GET", "/apis/apps/v1/deployments")[::2] == (404, b"404 page not found\n")
    assert ask("PATCH", f"{SLICES}/one", {})[1]["reason"] == "MethodNotAllowed"
    api.serves_resources = False
    code, headers, _ = ask.raw("GET", SLICES)
    assert (code, headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert ask("GET", "/api/v1/nodes/node-1")[0] == 200


def test_nodes_and_claims(ask, api):
    uid = api.add_node("node-2")
    assert ask("GET", "/api/v1/nodes/node-2")[1]["metadata"]["uid"] == uid
    results = [result("gpu", "a", driver="gpu.example.com", pool="node-1", shareID="s")]
    old = api.put_claim(allocated_claim("c", results, namespace="team"))
    path = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c"
    _, got = ask("GET", path)
    assert got["status"]["allocation"]["devices"]["results"] == results
    assert [one["name"] for one in got["spec"]["devices"]["requests"]] == ["gpu"]
    got["status"]["devices"] = [{"device": "a"}]
    got["spec"] = {}
    _, changed = ask("PUT", f"{path}/status", got)
    assert changed["status"]["devices"] == [{"device": "a"}]
    assert changed["spec"] == old["spec"]
    again = api.put_claim(allocated_claim("c", results, namespace="team"))
    assert again["metadata"]["uid"] != old["metadata"]["uid"]
    api.delete_claim("team", "c")
    assert ask("GET", path)[0] == 404
    with pytest.raises(Refusal, match=r'resourceclaims\.resource\.k8s\.io "c" not found'):
        api.claim("team", "c")


def test_requests_are_written_down(ask, api, made):
    ask("POST", SLICES, made("a"), Authorization=f"Bearer {TOKEN}")
    ask("GET", f"{SLICES}/one")
    first, second = api.requests
    assert (first.verb, first.kind.plural, first.code) == ("create", "resourceslices", 201)
    assert first.body == made("a")
    assert first.token == TOKEN
    assert (second.verb, second.name, second.code) == ("get", "one", 200)
    assert api.writes == [first]


def test_the_release_can_be_asked(ask):
    assert ask("GET", "/version")[1]["gitVersion"] == "v1.37.2"


def test_the_file_for_clients(api, tmp_path):
    config = json.loads(api.kubeconfig(tmp_path / "config").read_text())
    assert config["clusters"][0]["cluster"] == {"server": api.url}
    assert config["current-context"] == config["contexts"][0]["name"]
