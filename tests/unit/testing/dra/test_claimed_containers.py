"""What containers get of claims, by name and as extended resources (C2, C7)."""

import json

import pytest

from device_plugin.testing import (
    Container,
    ContainerClaim,
    ContainerError,
    ExtendedClaim,
    Pod,
    PodClaim,
    PrepareError,
    Runtime,
)

NAME, NODE, X = "gpu.example.com", "node-1", "example.com/x"


def device(request, cdi):
    return {
        "device_name": request,
        "pool_name": NODE,
        "request_names": [request],
        "cdi_device_ids": [cdi],
    }


@pytest.fixture
def specs(root):
    """CDI devices whose env tells which they are."""
    (root / "cdi").mkdir()
    devices = [
        {"name": name, "containerEdits": {"env": [f"{name.upper()}=1"]}} for name in ("one", "two")
    ]
    spec = {"cdiVersion": "0.6.0", "kind": "v.com/c", "devices": devices}
    (root / "cdi" / "spec.json").write_text(json.dumps(spec))
    return Runtime(root, cdi_directories=["/cdi"])


def test_a_container_gets_what_it_names(connected, pod, specs):
    kubelet, made = connected({"runtime": specs})
    made.on_prepare = lambda claim: (
        [device("gpu", "v.com/c=one"), device("nic", "v.com/c=two")],
        "",
    )
    containers = [
        Container("all", claims=[ContainerClaim("c")]),
        Container("gpu", claims=[ContainerClaim("c", "gpu")]),
        Container("none"),
    ]
    one = kubelet.admit(pod("p", "c", containers=containers))
    got = {name: kubelet.create_container(one, name).envs for name in ("all", "gpu", "none")}
    assert got == {"all": {"ONE": "1", "TWO": "1"}, "gpu": {"ONE": "1"}, "none": {}}
    assert len(made.seen) == 1


def test_a_device_without_requests_is_for_all(connected, pod, specs):
    kubelet, made = connected({"runtime": specs})
    made.on_prepare = lambda claim: ([device("gpu", "v.com/c=one") | {"request_names": []}], "")
    main = Container("m", claims=[ContainerClaim("c", "other")])
    one = kubelet.admit(pod("p", "c", containers=[main]))
    assert kubelet.create_container(one, "m").envs == {"ONE": "1"}


def test_a_subrequest_in_the_answer_matches_nobody(connected, pod, specs):
    kubelet, made = connected({"runtime": specs})
    answer = device("gpu", "v.com/c=one") | {"request_names": ["gpu/large"]}
    made.on_prepare = lambda claim: ([answer], "")
    one = kubelet.admit(
        pod("p", "c", containers=[Container("m", claims=[ContainerClaim("c", "gpu")])])
    )
    assert kubelet.create_container(one, "m").envs == {}


def test_without_preparation_there_is_no_container(connected, pod):
    kubelet, made = connected()
    made.on_prepare = lambda claim: ([], "no")
    one = kubelet.admit(pod("p", "c", containers=[Container("m", claims=[ContainerClaim("c")])]))
    with pytest.raises(PrepareError, match="failed for ResourceClaim c: no"):
        kubelet.create_container(one, "m")
    assert kubelet.pod_status(one).containers["m"].state == "waiting"


def test_a_restarted_container_needs_no_call_but_a_new_sandbox_does(connected, pod):
    kubelet, made = connected()
    one = kubelet.admit(pod("p", "c", containers=[Container("m", claims=[ContainerClaim("c")])]))
    kubelet.create_container(one, "m")
    kubelet.restart_container(one, "m")
    kubelet.restart()
    kubelet.wait_for(lambda k: k.drivers(NAME) and k.drivers(NAME)[0].connected)
    kubelet.restart_container(one, "m")
    assert len(made.seen) == 1
    kubelet.lose_sandbox(one)
    kubelet.create_container(one, "m")
    assert len(made.seen) == 2


def test_a_claim_that_the_kubelet_forgot(connected, pod):
    kubelet, _ = connected()
    one = kubelet.admit(pod("p", "c", containers=[Container("m", claims=[ContainerClaim("c")])]))
    kubelet.create_container(one, "m")
    kubelet._claims._records.clear()
    with pytest.raises(ContainerError, match="unable to get claim info for ResourceClaim c"):
        kubelet.restart_container(one, "m")


def extended(*names):
    mappings = [(name, X, f"container-{number}-request-0") for number, name in enumerate(names)]
    return Pod(
        "p",
        containers=[Container(name, limits={X: 1}) for name in ("m", "n")],
        extended=ExtendedClaim("p-extended-resources-x", mappings),
    )


def test_an_extended_resource_by_a_claim(connected, claim, specs):
    kubelet, made = connected({"runtime": specs})
    made.on_prepare = lambda claim: (
        [
            device("container-0-request-0", "v.com/c=one"),
            device("container-1-request-0", "v.com/c=two"),
        ],
        "",
    )
    one = kubelet.admit(extended("m", "n"))
    claim("p-extended-resources-x", one)
    assert kubelet.create_container(one, "m").envs == {"ONE": "1"}
    assert kubelet.create_container(one, "n").envs == {"TWO": "1"}
    assert kubelet.allocated(one, "m", X) == set()


def test_a_claimed_resource_passes_by_the_device_plugin(connected, plugin, claim):
    kubelet, _ = connected()
    plugin().register()
    kubelet.wait_for(lambda k: k.devices(X))
    one = kubelet.admit(extended("m"))
    claim("p-extended-resources-x", one)
    kubelet.create_container(one, "m")
    assert kubelet.allocated(one, "m", X) == set()
    assert len(kubelet.allocated(one, "n", X)) == 1  # is not mapped


def test_a_claimed_resource_is_not_counted_against_the_node(dra, plugin, claim):
    """The plugin is gone, the Node lists 0 of its resource: the scheduler chose the claim."""
    kubelet = dra(grace=0.0, status_interval=0.02)
    made = plugin().register()
    kubelet.wait_for(lambda k: k.node_status().allocatable.get(X) == 2)
    made.stop()
    kubelet.wait_for(lambda k: k.node_status().capacity.get(X) == 0)
    assert kubelet.admit(extended("m", "n"))


def test_claims_and_plugin_come_together_claims_first(connected, plugin, pod):
    kubelet, made = connected()
    made.on_prepare = lambda claim: ([device("gpu", "v.com/c=one")], "")
    served = plugin()
    allocated = served.on_allocate
    served.on_allocate = lambda ids: _with_cdi(allocated(ids))
    served.register()
    kubelet.wait_for(lambda k: k.devices(X))
    container = Container("m", limits={X: 1}, claims=[ContainerClaim("c")])
    one = kubelet.admit(pod("p", "c", containers=[container]))
    assert kubelet.create_container(one, "m").cdi_devices == ("v.com/c=one", "p.com/c=x")


def _with_cdi(response):
    response.cdi_devices.add(name="p.com/c=x")
    return response


def test_pod_claims_are_told_apart_by_their_own_names(connected, claim):
    kubelet, made = connected()
    made.on_prepare = lambda claim: ([device("gpu", f"v.com/c={claim.name}")], "")
    one = Pod(
        "p",
        containers=[Container("m", claims=[ContainerClaim("second")])],
        claims=[PodClaim("first", "c"), PodClaim("second", "d")],
    )
    kubelet.admit(one)
    claim("c", one)
    claim("d", one)
    assert kubelet.create_container(one, "m").cdi_devices == ("v.com/c=d",)
