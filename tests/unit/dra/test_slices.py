"""What offers look like in slices, within the limits of the API."""

import json

import pytest
from msgspec import structs

from device_plugin.attribute import Quantity
from device_plugin.device import Device
from device_plugin.dra.offer import by_name
from device_plugin.dra.slices import Features, label_value, wanted
from device_plugin.listing import HELD_BY_PLUGIN, Listed
from tests.unit.dra.made import DRIVER, HALF, QUARTER, bare, gpu, offer, version


def contents(*offers, effect="NoSchedule", **features):
    return wanted(offers, DRIVER, effect, Features(**features)).contents


def devices(*offers, **rest):
    return [one for some in contents(*offers, **rest) for one in some.get("devices", ())]


def only(*offers, **rest):
    (device,) = devices(*offers, **rest)
    return device


def notes(*offers, **features):
    return wanted(offers, DRIVER, "NoSchedule", Features(**features)).notes


def test_typed_attributes_and_capacities():
    listed = gpu("gpu-0", model="A", cores=8, nvlink=True, firmware=version("1.2.3"))
    assert only(offer(listed)) == {
        "name": "gpu-0",
        "attributes": {
            "resource": {"string": "example.com/gpu"},
            "model": {"string": "A"},
            "cores": {"int": 8},
            "nvlink": {"bool": True},
            "firmware": {"version": "1.2.3"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }


def test_standard_attributes():
    about = {"pcie_root": "pci0000:3a", "address": "0000:3b:00.0"}
    device = Device("pci-1", numa_nodes=(1,), attributes=about)
    found = only(offer(Listed(device)))["attributes"]
    assert found["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:3a"}
    assert found["resource.kubernetes.io/pciBusID"] == {"string": "0000:3b:00.0"}
    assert found["resource.kubernetes.io/numaNode"] == found["numa"] == {"int": 1}


@pytest.mark.parametrize(
    ("about", "numa_nodes"),
    [({"pcie_root": "pci-x"}, ()), ({"address": "12 High Street"}, ()), ({}, (0, 1))],
)
def test_what_only_looks_like_a_standard_attribute(about, numa_nodes):
    device = Device("d", numa_nodes=numa_nodes, attributes=about)
    found = only(offer(Listed(device)))["attributes"]
    assert {name for name in found if "/" in name} == set()


def test_64_devices_a_slice_in_their_order():
    ids = [f"d{n}" for n in range(130)]
    some = contents(offer(*bare(*ids)))
    assert [len(one["devices"]) for one in some] == [64, 64, 2]
    assert [d["name"] for one in some for d in one["devices"]] == ids


def test_no_devices_is_an_empty_slice():
    assert contents() == ({},)
    assert contents(offer()) == ({},)


def test_unhealthy_is_tainted():
    reason = "/dev/gpu0: No such file (removed, 2 min ago)"
    device = only(offer(gpu("gpu-0", reason)), effect="NoExecute")
    value = "dev-gpu0-No-such-file-removed-2-min-ago"
    assert device["taints"] == [
        {"key": f"{DRIVER}/unhealthy", "effect": "NoExecute", "value": value}
    ]
    assert "taints" not in only(offer(gpu("gpu-0")))


def test_unhealthy_is_left_out_where_taints_are_unknown():
    found = devices(offer(gpu("gpu-0", "broken"), gpu("gpu-1")), taints=False)
    assert [one["name"] for one in found] == ["gpu-1"]


def test_what_the_device_plugin_has_handed_out_is_not_seen():
    assert devices(offer(gpu("gpu-0", HELD_BY_PLUGIN))) == []


@pytest.mark.parametrize(
    ("reason", "value"),
    [("removed", "removed"), ("--", ""), ("ä", ""), ("a" * 62 + "- b", "a" * 62), ("x: y", "x-y")],
)
def test_label_values(reason, value):
    assert label_value(reason) == value


def test_a_reason_without_letters_makes_a_taint_without_value():
    (taint,) = only(offer(gpu("gpu-0", "…")))["taints"]
    assert taint == {"key": f"{DRIVER}/unhealthy", "effect": "NoSchedule"}


def test_replicas_are_shares():
    device = only(offer(gpu("gpu-0", replicas=4)))
    assert device["allowMultipleAllocations"] is True
    assert device["capacity"] == {
        "memory": {"value": "80Gi", "requestPolicy": {"default": "0"}},
        "replicas": {
            "value": "4",
            "requestPolicy": {
                "default": "1",
                "validRange": {"min": "1", "max": "4", "step": "1"},
            },
        },
    }


def test_replicas_are_devices_where_shares_are_unknown():
    found = devices(offer(gpu("gpu-0", replicas=3)), shares=False)
    assert [one["name"] for one in found] == ["gpu-0", "gpu-0-r1", "gpu-0-r2"]
    assert {json.dumps(one["capacity"]) for one in found} == {'{"memory": {"value": "80Gi"}}'}


def test_left_over_replicas_are_no_devices():
    some = offer(gpu("gpu-0", replicas=2), *bare("gpu-0-r2", reason="not in config"))
    assert [one["name"] for one in devices(some)] == ["gpu-0"]
    assert [one["name"] for one in devices(some, shares=False)] == ["gpu-0", "gpu-0-r1"]


def test_partitions_share_counters():
    counters, found = contents(offer(gpu("gpu-0", cores=8), parts=(HALF, QUARTER)))
    assert counters == {
        "sharedCounters": [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    }
    taken = {
        one["name"]: one["consumesCounters"][0]["counters"]["memory"]["value"]
        for one in found["devices"]
    }
    assert taken == {
        "gpu-0-half-0": "40Gi",
        "gpu-0-half-1": "40Gi",
        "gpu-0-quarter-0": "20Gi",
        "gpu-0-quarter-1": "20Gi",
        "gpu-0-quarter-2": "20Gi",
        "gpu-0-quarter-3": "20Gi",
        "gpu-0": "80Gi",
    }
    half = found["devices"][0]
    assert half["attributes"]["partition"] == {"string": "half"}
    assert half["attributes"]["cores"] == {"int": 8}
    assert half["capacity"] == {"memory": {"value": "40Gi"}}
    assert "partition" not in found["devices"][-1]["attributes"]


def test_whole_devices_where_partitions_are_unknown():
    device = only(offer(gpu("gpu-0"), parts=(HALF,)), parts=False)
    assert device["name"] == "gpu-0"
    assert "consumesCounters" not in device


def test_a_device_without_the_capacity_has_no_parts():
    some = offer(*bare("gpu-0"), parts=(HALF,))
    assert [one["name"] for one in devices(some)] == ["gpu-0"]
    assert notes(some) == ("gpu-0: no parts: it has no capacity memory",)


def test_replicas_of_a_device_with_parts_are_left_out():
    some = offer(gpu("gpu-0", replicas=2), parts=(HALF,))
    assert all("allowMultipleAllocations" not in one for one in devices(some))
    assert notes(some) == ("gpu-0: its replicas are left out: its parts are the shares",)


def test_8_counter_sets_a_slice():
    some = contents(offer(*(gpu(f"gpu-{n}") for n in range(9)), parts=(HALF,)))
    assert [len(one.get("sharedCounters", ())) for one in some] == [8, 1, 0]


def test_counters_have_labels_for_names():
    part = structs.replace(HALF, capacity={"video_Memory": "40Gi"})
    listed = Listed(Device("gpu-0", attributes={"video_Memory": Quantity.parse("80Gi")}))
    counters, found = contents(offer(listed, parts=(part,)))
    (name,) = counters["sharedCounters"][0]["counters"]
    assert name.startswith("video-memory-")
    assert all([*one["consumesCounters"][0]["counters"]] == [name] for one in found["devices"])


def test_what_does_not_fit_is_left_out_with_a_note():
    listed = gpu("gpu-0", long="ä" * 33, huge=2**63, half="\udcff", more={"a-b": "x"})
    assert [*only(offer(listed))["attributes"]] == ["resource"]
    assert notes(offer(listed)) == (
        "gpu-0: attribute 'long' is left out: it has more than 64 bytes",
        "gpu-0: attribute 'huge' is left out: it has more than 64 bits",
        "gpu-0: attribute 'half' is left out: it is no text",
        "gpu-0: attribute 'a-b' is left out: its name is none that Kubernetes takes",
    )


def test_32_attributes_and_capacities():
    listed = gpu("gpu-0", more={f"a{n}": n for n in range(40)})
    device = only(offer(listed))
    assert len(device["attributes"]) + len(device["capacity"]) == 32
    assert [*device["attributes"]][:2] == ["resource", "a0"]
    (note,) = notes(offer(listed))
    assert note.startswith("gpu-0: only 32 attributes and capacities fit, these are left out: a30,")


def test_many_capacities_leave_room_for_ours():
    many = {f"c{n}": Quantity.parse("1") for n in range(40)}
    device = only(offer(Listed(Device("d", replicas=2, attributes=many))))
    assert len(device["capacity"]) == 25
    assert "resource" in device["attributes"]


def test_a_name_that_is_taken_is_left_out():
    some = offer(gpu("gpu-0"), *bare("gpu-0-half-1"), parts=(HALF,))
    names = [one["name"] for one in devices(some)]
    assert sorted(names) == ["gpu-0", "gpu-0-half-0", "gpu-0-half-1"]
    assert "gpu-0-half-1: left out: another device has this name" in notes(some)


def test_every_name_is_known_to_who_prepares_claims():
    long = "d" * 57
    offers = [offer(gpu("gpu-0"), gpu(long), parts=(HALF,)), offer(gpu("tpu-0", replicas=2))]
    names = by_name(offers)
    for features in ({}, {"shares": False}, {"parts": False}):
        assert {one["name"] for one in devices(*offers, **features)} <= names.keys()
    assert names["tpu-0-r1"].listed.device.id == "tpu-0"
    assert names["gpu-0-half-1"].part == HALF
    assert all(len(name) <= 63 for name in names)


def test_two_resources_in_one_pool():
    found = devices(offer(gpu("gpu-0")), offer(*bare("tpu-0"), name="example.com/tpu"))
    assert [one["attributes"]["resource"]["string"] for one in found] == [
        "example.com/gpu",
        "example.com/tpu",
    ]
