"""The health stream: who is asked, how long it holds, and what a Pod's status shows (C3)."""

import pytest

from device_plugin.testing import Container, ContainerClaim, DeviceHealth, DraTimes

NAME, NODE = "gpu.example.com", "node-1"
HEALTHY, UNHEALTHY = 1, 2
WATCHED = ("v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


def health(kubelet, device="a"):
    return kubelet.device_health(NAME).get((NODE, device))


@pytest.mark.parametrize(
    ("behaviour", "versions"),
    [
        ("1.37", WATCHED),
        ("1.37", ("v1.DRAPlugin", "v1alpha1.DRAResourceHealth")),
        ("1.36", ("v1.DRAPlugin",)),  # asks whoever there is
    ],
)
def test_lists_come_in(connected, behaviour, versions):
    kubelet, made = connected({"behaviour": behaviour}, versions=versions)
    made.say(a=(HEALTHY, "", 0), b=(UNHEALTHY, "too hot", 0), c=(0, "", 0))
    kubelet.wait_for(lambda k: k.device_health(NAME))
    assert kubelet.device_health(NAME) == {
        (NODE, "a"): DeviceHealth("Healthy"),
        (NODE, "b"): DeviceHealth("Unhealthy", "too hot"),
        (NODE, "c"): DeviceHealth("Unknown"),
    }
    [report] = kubelet.health_reports
    assert (report.driver, report.endpoint) == (NAME, str(made.socket))


def test_1_37_asks_only_who_says_so(connected):
    kubelet, made = connected(versions=["v1.DRAPlugin"])
    made.say(a=(HEALTHY, "", 0))
    assert kubelet.drivers(NAME)[0].health_service == ""
    assert made.streams == 0


@pytest.mark.parametrize("behaviour", ["1.36", "1.37"])
def test_a_driver_without_the_service(connected, behaviour):
    kubelet, _ = connected({"behaviour": behaviour}, with_health=False, versions=WATCHED)
    kubelet.wait_for(lambda k: k.drivers(NAME)[0].health_error)
    assert kubelet.drivers(NAME)[0].health_error.startswith(
        "rpc error: code = Unimplemented desc = "
    )


def test_a_device_that_is_not_told_of_in_time_is_unknown(connected):
    kubelet, made = connected({"status_interval": 0.02}, versions=WATCHED)
    made.say(a=(HEALTHY, "", 1), b=(UNHEALTHY, "broken", 60))
    kubelet.wait_for(health)
    kubelet.wait_for(lambda k: health(k) == DeviceHealth("Unknown"))
    assert health(kubelet, "b") == DeviceHealth("Unhealthy", "broken")


@pytest.mark.parametrize("timeout", [0, -5])
def test_who_names_no_time_has_the_kubelets(connected, timeout):
    times = DraTimes(health_timeout=0.1)
    kubelet, made = connected({"status_interval": 0.02, "dra": times}, versions=WATCHED)
    made.say(a=(HEALTHY, "", timeout))
    kubelet.wait_for(lambda k: health(k) == DeviceHealth("Unknown"))


def test_a_list_without_a_device_leaves_it_until_its_time_is_over(connected):
    kubelet, made = connected(versions=WATCHED)
    made.say(a=(HEALTHY, "", 60), b=(HEALTHY, "", 60))
    made.say(b=(UNHEALTHY, "", 60))
    kubelet.wait_for(lambda k: health(k, "b") == DeviceHealth("Unhealthy"))
    assert health(kubelet) == DeviceHealth("Healthy")


def test_the_end_of_a_stream_clears_all_and_another_is_opened(connected):
    kubelet, made = connected(versions=WATCHED)
    made.say(a=(HEALTHY, "", 60))
    kubelet.wait_for(health)
    made.end_streams()
    kubelet.wait_for(lambda k: not k.device_health(NAME))
    made.say(a=(UNHEALTHY, "", 60))
    kubelet.wait_for(lambda k: health(k) == DeviceHealth("Unhealthy"))
    assert made.streams == 2


def test_the_end_of_one_instances_stream_clears_what_the_other_said(connected, driver):
    kubelet, first = connected(versions=WATCHED)
    second = driver(1, versions=WATCHED)
    first.say(a=(HEALTHY, "", 60))
    second.say(a=(HEALTHY, "", 60))
    kubelet.wait_for(lambda k: len(k.health_reports) == 2)
    first.stop()
    kubelet.wait_for(lambda k: not k.device_health(NAME))


def test_long_messages_are_cut_by_bytes(connected):
    kubelet, made = connected(versions=WATCHED)
    made.say(a=(UNHEALTHY, "x" * 1020 + "äää", 60), b=(UNHEALTHY, "y" * 1024, 60))
    kubelet.wait_for(health)
    assert health(kubelet).message == "x" * 1020 + "\N{REPLACEMENT CHARACTER}..."
    assert health(kubelet, "b").message == "y" * 1024


def test_health_survives_the_kubelets_restart_until_its_time_is_over(connected):
    kubelet, made = connected(versions=WATCHED)
    made.say(a=(HEALTHY, "", 60))
    kubelet.wait_for(health)
    kubelet.restart(readmit=False)
    kubelet.wait_for(lambda k: made.streams == 2 and k.drivers(NAME)[0].watching)
    assert health(kubelet) == DeviceHealth("Healthy")


def test_a_containers_status(connected, pod):
    kubelet, made = connected(versions=WATCHED)
    gpu = {"device_name": "a", "pool_name": NODE, "request_names": ["gpu"]}
    nic = {"device_name": "b", "pool_name": NODE, "request_names": ["nic"]}
    made.on_prepare = lambda claim: ([gpu | {"cdi_device_ids": ["v.com/c=one"]}, nic], "")
    containers = [
        Container("all", claims=[ContainerClaim("c")]),
        Container("some", claims=[ContainerClaim("c", "nic")]),
        Container("none"),
    ]
    one = kubelet.admit(pod("p", "c", containers=containers))
    kubelet.prepare(one)
    made.say(a=(UNHEALTHY, "too hot", 60))
    kubelet.wait_for(health)
    assert kubelet.claim_health(one, "all") == {
        "claim:c": {
            "v.com/c=one": DeviceHealth("Unhealthy", "too hot"),
            f"{NAME}/{NODE}/b": DeviceHealth("Unknown"),
        }
    }
    assert kubelet.claim_health(one, "some") == {
        "claim:c/nic": {f"{NAME}/{NODE}/b": DeviceHealth("Unknown")}
    }
    assert kubelet.claim_health(one, "none") == {}
