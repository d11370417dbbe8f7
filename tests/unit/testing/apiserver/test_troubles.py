"""What can be made to go wrong."""

import contextlib
import threading
import time
from http.client import HTTPException

import pytest

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
NODE = "/api/v1/nodes/node-1"
USER = "system:serviceaccount:kube-system:device-plugin"


def test_a_server_that_is_away(api, client, made):
    one, url = client(), api.url
    assert one("POST", SLICES, made("a"))[0] == 201
    watching = client().watch()
    assert watching.readline()
    api.go_away()
    with pytest.raises(OSError, match=r"refused|reset|closed"):
        one("GET", SLICES)
    one.close()
    with pytest.raises(ConnectionRefusedError):
        one("GET", SLICES)
    api.start()
    assert api.url == url
    one.close()
    assert len(one("GET", SLICES)[1]["items"]) == 1


def test_a_server_that_is_slow(api, ask):
    api.slow(0.3, times=1)
    started = time.monotonic()
    assert ask("GET", NODE)[0] == 200
    assert time.monotonic() - started > 0.25
    started = time.monotonic()
    assert ask("GET", NODE)[0] == 200
    assert time.monotonic() - started < 0.25


def test_recovering_lets_go_of_who_waits(api, client):
    api.slow(60)
    codes = []
    thread = threading.Thread(target=lambda: codes.append(client()("GET", NODE)[0]))
    thread.start()
    while not codes:
        api.recover()
        thread.join(0.05)
    assert codes == [200]


def test_going_away_does_so_too(api, client):
    api.slow(60)
    one = client()

    def ask():
        with contextlib.suppress(OSError, HTTPException):
            one("GET", NODE)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.1)
    api.go_away()
    thread.join(5)
    assert not thread.is_alive()


def test_refusals_by_verb_and_resource(api, ask, made):
    api.refuse(503, "not now", "create", times=2)
    api.refuse(500, "broken", plural="nodes")
    assert [ask("POST", SLICES, made("a"))[0] for _ in range(3)] == [503, 503, 201]
    code, answer = ask("GET", NODE)
    assert (code, answer["reason"], answer["message"]) == (500, "InternalError", "broken")
    assert ask("GET", SLICES)[0] == 200
    api.recover()
    assert ask("GET", NODE)[0] == 200


def test_a_rule_that_is_missing(api, ask, made):
    api.forbid("create")
    code, answer = ask("POST", SLICES, made("a"))
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        f'resourceslices.resource.k8s.io is forbidden: User "{USER}" cannot create resource '
        '"resourceslices" in API group "resource.k8s.io" at the cluster scope'
    )
    api.forbid("get", "resourceclaims")
    code, answer = ask("GET", "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c")
    assert answer["message"].endswith('in API group "resource.k8s.io" in the namespace "team"')


def test_too_many_requests(api, ask):
    api.throttle(7, times=1)
    code, headers, _ = ask.raw("GET", NODE)
    assert (code, headers["Retry-After"]) == (429, "7")
    api.throttle(None, times=1)
    code, headers, _ = ask.raw("GET", NODE)
    assert (code, headers["Retry-After"]) == (429, None)
    assert ask("GET", NODE)[0] == 200


def test_what_the_test_itself_does_is_not_touched(api, made):
    api.refuse(500)
    api.put_slice(made("a"))
    assert api.delete_slices() == 1


GATED = {
    "name": "a",
    "allowMultipleAllocations": True,
    "capacity": {"n": {"value": "4", "requestPolicy": {"default": "1"}}},
    "taints": [{"key": "a", "effect": "NoSchedule"}],
    "consumesCounters": [{"counterSet": "s", "counters": {"n": {"value": "1"}}}],
}


@pytest.mark.parametrize(
    ("gate", "dropped"),
    [
        ("DRAConsumableCapacity", {"allowMultipleAllocations"}),
        ("DRAPartitionableDevices", {"consumesCounters"}),
        ("DRADeviceTaints", {"taints"}),
    ],
)
def test_fields_of_disabled_features_are_dropped(api, ask, made, gate, dropped):
    api.disable(gate)
    code, one = ask("POST", SLICES, made(GATED))
    assert code == 201
    [device] = one["spec"]["devices"]
    assert GATED.keys() - device.keys() == dropped
    policy = device["capacity"]["n"].get("requestPolicy")
    assert (policy is None) == (gate == "DRAConsumableCapacity")
    api.enable(gate)
    _, one = ask("PUT", f"{SLICES}/one", made(GATED))
    assert one["spec"]["devices"][0].keys() == GATED.keys()
    api.disable(gate)  # in use by now: it stays
    _, one = ask("PUT", f"{SLICES}/one", made(GATED, GATED | {"name": "b"}))
    assert one["spec"]["devices"][1].keys() == GATED.keys()


def test_counters_are_dropped(api, ask, made):
    counters = [{"name": "s", "counters": {"n": {"value": "4"}}}]
    api.disable("DRAPartitionableDevices")
    _, one = ask("POST", SLICES, made(sharedCounters=counters))
    assert "sharedCounters" not in one["spec"]


def test_gates_have_names(api):
    with pytest.raises(ValueError, match="gates are"):
        api.disable("DRASomething")
