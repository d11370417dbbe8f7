"""Watches: what is told, how they end, and going on from where one was."""

import json
import threading

import pytest

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DRIVER = "gpu.example.com"


def events(response, count):
    """Read so many events."""
    found = [json.loads(response.readline()) for _ in range(count)]
    return [(one["type"], one["object"]["metadata"]["name"]) for one in found]


def test_from_nothing_all_that_is_there_comes_first(api, client, made):
    api.put_slice(made("a"))
    response = client().watch()
    assert events(response, 1) == [("ADDED", "one")]
    api.put_slice(made("b", name="two"))
    api.change_slice("two", lambda it: it["spec"].update(devices=[]))
    api.delete_slices()
    assert events(response, 4) == [
        ("ADDED", "two"),
        ("MODIFIED", "two"),
        ("DELETED", "one"),
        ("DELETED", "two"),
    ]


def test_from_a_version_only_the_news(api, client, ask, made):
    api.put_slice(made("a"))
    version = ask("GET", SLICES)[1]["metadata"]["resourceVersion"]
    api.put_slice(made("b", name="two"))
    response = client().watch(resourceVersion=version)
    assert events(response, 1) == [("ADDED", "two")]


def test_only_what_is_selected(api, client, made):
    response = client().watch(fieldSelector=f"spec.driver={DRIVER}")
    api.put_slice(made(name="other", driver="nic.example.com"))
    api.put_slice(made(name="mine"))
    assert events(response, 1) == [("ADDED", "mine")]


def test_a_deleted_object_comes_with_a_new_version(api, client, made):
    old = api.put_slice(made("a"))["metadata"]["resourceVersion"]
    response = client().watch(resourceVersion=old)
    api.delete_slices()
    event = json.loads(response.readline())
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(old)


def test_watches_end_in_good_order(api, client):
    responses = [client().watch() for _ in range(2)]
    api.wait_for(lambda it: [one.verb for one in it.requests] == ["watch"] * 2)
    api.cut_watches()
    assert [response.read() for response in responses] == [b"", b""]


def test_a_watch_has_its_time(client):
    assert client().watch(timeoutSeconds="0.3").read() == b""


def test_a_version_that_is_too_old(api, client, ask, made):
    version = ask("GET", SLICES)[1]["metadata"]["resourceVersion"]
    running = client().watch(resourceVersion=version)
    api.forget_events()
    assert running.read() == b""
    event = json.loads(client().watch(resourceVersion=version).read())
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["reason"] == "Expired"


@pytest.mark.parametrize("query", ["resourceVersion=x", "fieldSelector=spec.what=x"])
def test_a_watch_that_cannot_begin(ask, query):
    assert ask("GET", f"{SLICES}?watch=true&{query}")[0] == 400


def test_who_has_left_is_not_served_for_ever(api, client):
    one = client()
    response = one.watch()
    api.wait_for(lambda it: it.requests)
    serving = set(threading.enumerate())
    response.close()
    one.close()
    [thread] = [one for one in serving if one.name.endswith("(process_request_thread)")]
    thread.join(5)
    assert not thread.is_alive()
