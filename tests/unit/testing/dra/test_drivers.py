"""Registration of DRA drivers, the choice among instances, and the wiping of slices (C1)."""

import time

import pytest

NAME, NODE = "gpu.example.com", "node-1"


def put_slice(api, name, driver=NAME, node=NODE):
    spec = {
        "driver": driver,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
    }
    api.put_slice({"metadata": {"name": name}, "spec": spec})


def names(api):
    return [one["metadata"]["name"] for one in api.slices()]


@pytest.mark.parametrize(
    ("versions", "service", "health"),
    [
        (["v1.DRAPlugin", "v1beta1.DRAPlugin"], "v1.DRAPlugin", ""),
        (["v1beta1.DRAPlugin", "v1.DRAPlugin"], "v1beta1.DRAPlugin", ""),
        (["v9.DRAPlugin", "v1beta1.DRAPlugin"], "v1beta1.DRAPlugin", ""),
        (
            ["v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth", "v1.DRAPlugin"],
            "v1.DRAPlugin",
            "v1.DRAResourceHealth",
        ),
        (
            ["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"],
            "v1.DRAPlugin",
            "v1alpha1.DRAResourceHealth",
        ),
    ],
)
def test_the_service_is_the_drivers_choice_and_health_the_kubelets(
    dra, driver, versions, service, health
):
    kubelet = dra()
    made = driver(versions=versions)
    kubelet.wait_for(lambda k: k.plugins)
    [one] = kubelet.drivers(NAME)
    assert (one.service, one.health_service) == (service, health)
    assert made.registry.told == [(True, "")]


@pytest.mark.parametrize(
    ("versions", "why"),
    [
        ([], "empty list of supported gRPC services (aka supported versions)"),
        (
            ["1.0.0", "v1"],
            (
                'none of services supported by the plugin (["1.0.0" "v1"]) are supported by the '
                'kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
            ),
        ),
    ],
)
def test_services_that_the_kubelet_does_not_know(dra, driver, versions, why):
    kubelet = dra()
    made = driver(versions=versions)
    assert made.registry.outcome(kubelet).error == (
        "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC "
        f"versions of DRA driver plugin {NAME} at endpoint {made.socket}: {why}"
    )
    assert kubelet.drivers(NAME) == []


def test_an_endpoint_is_registered_once(connected, registry):
    kubelet, made = connected()
    second = registry(
        "second-reg.sock",
        type="DRAPlugin",
        name=NAME,
        endpoint=str(made.socket),
        supported_versions=["v1.DRAPlugin"],
    )
    assert second.outcome(kubelet).error == (
        "RegisterPlugin error -- plugin registration failed with err: "
        f"endpoint {made.socket} already registered for DRA driver plugin {NAME}"
    )


def test_the_newest_that_is_connected_is_called(connected, driver, pod):
    kubelet, first = connected()
    second = driver(1)
    kubelet.wait_for(lambda k: [one.connected for one in k.drivers(NAME)] == [True, True])
    kubelet.prepare(kubelet.admit(pod("p", "c")))
    assert (len(first.seen), len(second.seen)) == (0, 1)
    second.stop()
    kubelet.wait_for(lambda k: [one.connected for one in k.drivers(NAME)] == [True, False])
    kubelet.prepare(kubelet.admit(pod("q", "d")))
    assert (len(first.seen), len(second.seen)) == (1, 1)
    second.serve()
    kubelet.wait_for(lambda k: [one.connected for one in k.drivers(NAME)] == [True, True])
    kubelet.prepare(kubelet.admit(pod("r", "e")))
    assert (len(first.seen), len(second.seen)) == (1, 2)


def test_a_rolling_update(connected, driver, pod, api):
    """The new instance registers, the old one leaves: nothing is wiped, all is answered."""
    kubelet, first = connected()
    put_slice(api, "one")
    driver(1)
    kubelet.wait_for(lambda k: len([one for one in k.drivers(NAME) if one.connected]) == 2)
    first.registry.stop()
    first.stop()
    kubelet.wait_for(lambda k: len(k.drivers(NAME)) == 1)
    kubelet.prepare(kubelet.admit(pod("p", "c")))
    assert names(api) == ["one"]


def test_the_start_wipes_the_slices_of_the_node(dra, api):
    put_slice(api, "mine")
    put_slice(api, "of-another-driver", driver="nic.example.com")
    put_slice(api, "of-another-node", node="node-2")
    kubelet = dra()
    kubelet.wait_for(lambda k: k.wipes)
    assert [(wipe.driver, wipe.slices) for wipe in kubelet.wipes] == [("", 2)]
    assert names(api) == ["of-another-node"]


def test_a_driver_without_a_connection_loses_its_slices(connected, api):
    kubelet, made = connected()
    put_slice(api, "mine")
    put_slice(api, "of-another-driver", driver="nic.example.com")
    stopped = time.monotonic()
    made.stop()
    api.wait_for(lambda it: names(it) == ["of-another-driver"])
    kubelet.wait_for(lambda k: len(k.wipes) == 2)
    assert kubelet.wipes[1].driver == NAME
    assert kubelet.wipes[1].at - stopped > 0.25


def test_a_driver_that_is_back_in_time_keeps_them(connected, api):
    kubelet, made = connected()
    put_slice(api, "mine")
    made.stop()
    kubelet.wait_for(lambda k: not k.drivers(NAME)[0].connected)
    made.serve()
    kubelet.wait_for(lambda k: k.drivers(NAME)[0].connected)
    time.sleep(0.4)  # longer than it would take
    assert names(api) == ["mine"]
    assert len(kubelet.wipes) == 1


def test_a_driver_that_deregisters_loses_them_too(connected, api):
    kubelet, made = connected()
    put_slice(api, "mine")
    made.registry.path.unlink()
    kubelet.wait_for(lambda k: not k.drivers(NAME))
    api.wait_for(lambda it: names(it) == [])


def test_a_driver_that_never_serves(dra, driver, api):
    kubelet = dra()
    driver(served=False)
    kubelet.wait_for(lambda k: k.drivers(NAME))
    put_slice(api, "mine")
    api.wait_for(lambda it: names(it) == [])


def test_without_an_api_server_drivers_register_all_the_same(watching, driver):
    kubelet = watching()
    driver()
    kubelet.wait_for(lambda k: k.drivers(NAME) and k.drivers(NAME)[0].connected)
    assert kubelet.wipes == []
