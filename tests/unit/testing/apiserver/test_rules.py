"""What ResourceSlices are refused for (C4)."""

import pytest

from device_plugin.testing.apiserver import result
from device_plugin.testing.apiserver.pools import pools_of
from device_plugin.testing.apiserver.quantity import canonical

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
TAINT = {"key": "example.com/unhealthy", "value": "too-hot", "effect": "NoSchedule"}
COUNTERS = {"memory": {"value": "1Gi"}}


@pytest.fixture
def lists(api):
    """Attributes with several values, which are switched off as a rule."""
    api.enable("DRAListTypeAttributes")


@pytest.mark.parametrize(
    ("special", "most"),
    [
        ({}, 128),
        ({"taints": [TAINT]}, 64),
        ({"consumesCounters": [{"counterSet": "s", "counters": COUNTERS}]}, 64),
        ({"attributes": {"x": {"ints": [1]}}}, 64),
    ],
    ids=["plain", "taint", "counters", "list"],
)
@pytest.mark.usefixtures("lists")
def test_how_many_devices_there_may_be(ask, refused, made, special, most):
    def devices(count):
        return [{"name": "first"} | special, *(f"d{number}" for number in range(count - 1))]

    assert ask("POST", SLICES, made(*devices(most)))[0] == 201
    assert refused(made(*devices(most + 1), name="two")) == (
        f"spec.devices: Too many: {most + 1}: must have at most {most} items"
    )


def test_a_good_slice(ask, made):
    device = {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "x" * 64},
            "driver": {"version": "1.2.3-rc.1+build.5"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        },
        "allowMultipleAllocations": True,
        "capacity": {
            "replicas": {
                "value": "4",
                "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}},
            }
        },
        "taints": [TAINT],
    }
    code, answer = ask("POST", SLICES, made(device))
    assert code == 201, answer


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ({"name": "A"}, "spec.devices[0].name: Invalid value"),
        ({"name": "a" * 64}, "spec.devices[0].name: Invalid value"),
        ({}, 'spec.devices[0].name: Invalid value: ""'),
        ({"attributes": {"a-b": {"int": 1}}}, "a valid C identifier is needed"),
        ({"attributes": {"a" * 33: {"int": 1}}}, "may not be more than 32 bytes"),
        ({"attributes": {"/a": {"int": 1}}}, "the domain must not be empty"),
        ({"attributes": {"A_b/a": {"int": 1}}}, 'attributes: Invalid value: "A_b"'),
        ({"attributes": {"a": {}}}, "exactly one value must be specified"),
        ({"attributes": {"a": {"int": 1, "bool": True}}}, "exactly one value must be specified"),
        ({"attributes": {"a": {"string": "ä" * 33}}}, "may not be more than 64 bytes"),
        ({"attributes": {"a": {"version": "1.2"}}}, "compatible with semver.org spec 2.0.0"),
        ({"attributes": {"a": {"version": "01.2.3"}}}, "compatible with semver.org spec 2.0.0"),
        (
            {"attributes": {f"a{n}": {"int": 1} for n in range(33)}},
            "the total number of attributes and capacities must not exceed 32",
        ),
        (
            {"attributes": {"a": {"ints": list(range(49))}}},
            "the total number of attribute values must not exceed 48",
        ),
        ({"taints": [TAINT] * 17}, "spec.devices[0].taints: Too many: 17"),
        ({"taints": [TAINT | {"key": ""}]}, "taints[0].key: Invalid value"),
        ({"taints": [TAINT | {"value": "too hot"}]}, "taints[0].value: Invalid value"),
        ({"taints": [TAINT | {"effect": ""}]}, "taints[0].effect: Required value"),
        ({"taints": [TAINT | {"effect": "PreferNoSchedule"}]}, "Unsupported value"),
        ({"consumesCounters": [{"counterSet": "s"}]}, "counters: Required value"),
        (
            {"consumesCounters": [{"counterSet": "s", "counters": COUNTERS}] * 2},
            'consumesCounters[1]: Duplicate value: "s"',
        ),
        (
            {"consumesCounters": [{"counterSet": f"s{n}", "counters": COUNTERS} for n in range(3)]},
            "consumesCounters: Too many: 3",
        ),
    ],
)
@pytest.mark.usefixtures("lists")
def test_devices(refused, made, device, text):
    given = device if "name" in device or not device else {"name": "a"} | device
    assert text in refused(made(given))


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"validRange": {"min": "1"}}, "default: Required value"),
        ({"default": "1", "validRange": {"max": "2"}}, "min: Required value"),
        ({"default": "1", "validRange": {"min": "5"}}, "min is larger than capacity value"),
        ({"default": "1", "validRange": {"min": "1", "max": "5"}}, "max is larger than capacity"),
        ({"default": "1", "validRange": {"min": "2"}}, "default is less than min: 2"),
        ({"default": "4", "validRange": {"min": "1", "max": "3"}}, "default is more than max"),
        ({"default": "1", "validRange": {"min": "1", "step": "0"}}, "must be greater than zero"),
        ({"default": "2", "validRange": {"min": "1", "step": "2"}}, "not a multiple"),
        ({"default": "4", "validRange": {"min": "4", "step": "1"}}, "one step is larger"),
        ({"default": "1", "validValues": ["2", "1"]}, "sorted in ascending order"),
        ({"default": "3", "validValues": ["1", "2"]}, "default value is not valid"),
        ({"default": "5", "validValues": ["5"]}, "option is larger than capacity value"),
        (
            {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}},
            "Forbidden: exactly one policy can be specified",
        ),
    ],
)
def test_policies(refused, made, policy, text):
    capacity = {"n": {"value": "4", "requestPolicy": policy}}
    assert text in refused(
        made({"name": "a", "allowMultipleAllocations": True, "capacity": capacity})
    )


def test_lists_are_dropped_unless_they_are_switched_on(refused, made):
    assert refused(made({"name": "a", "attributes": {"x": {"ints": [1]}}})) == (
        'spec.devices[0].attributes[x]: Invalid value: "": exactly one value must be specified'
    )


def test_a_policy_is_for_shared_devices_only(refused, made):
    capacity = {"n": {"value": "4", "requestPolicy": {"default": "1"}}}
    assert refused(made({"name": "a", "capacity": capacity})) == (
        "spec.devices[0].capacity[n].requestPolicy: Forbidden: "
        "allowMultipleAllocations must be true"
    )


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"driver": ""}, "spec.driver: Required value"),
        ({"driver": "a" * 64}, "spec.driver: Too long: may not be more than 63 bytes"),
        ({"driver": "gpu_example.com"}, "spec.driver: Invalid value"),
        ({"nodeName": None}, "spec: Required value: exactly one of `nodeName`, `nodeSelector`"),
        ({"allNodes": True}, "is required, but multiple fields are set"),
        ({"sharedCounters": [{"name": "s"}]}, "only one of `sharedCounters` or `devices`"),
        ({"pool": {"name": "n", "resourceSliceCount": 0}}, "must be greater than zero"),
        (
            {"pool": {"name": "n", "resourceSliceCount": 1, "generation": -1}},
            "must be greater than or equal to zero",
        ),
        ({"pool": {"name": "a//b", "resourceSliceCount": 1}}, "spec.pool.name: Invalid value"),
    ],
)
def test_slices(refused, made, spec, text):
    assert text in refused(made("a", **spec))


def test_names_twice_and_more_than_one_mistake(refused, made):
    assert refused(made("a", "a", driver="")) == (
        '[spec.driver: Required value, spec.devices[1]: Duplicate value: "a"]'
    )


@pytest.mark.parametrize(
    "change",
    [{"driver": "nic.example.com"}, {"nodeName": "node-2"}, {"pool": {"name": "other"}}],
)
def test_what_cannot_be_changed(ask, made, change):
    ask("POST", SLICES, made("a"))
    body = made("a", **change)
    body["spec"]["pool"].setdefault("resourceSliceCount", 1)
    code, answer = ask("PUT", f"{SLICES}/one", body)
    assert code == 422
    assert answer["message"].endswith("field is immutable")


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("512", "512"),
        ("1000", "1k"),
        ("1500m", "1500m"),
        ("2000m", "2"),
        ("0.5", "500m"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("12e6", "12e6"),
        ("+4", "+4"),
        ("1.234G", "1.234G"),
        ("1.23G", "1230M"),
        ("1.000G", "1G"),
        ("12Mi", "12Mi"),
        ("2048Ki", "2Mi"),
        ("-2000", "-2k"),
        ("0.1n", "1n"),
        ("5n", "5n"),
    ],
)
def test_quantities(given, spelled):
    assert canonical(given) == spelled


@pytest.mark.parametrize("given", ["", "Gi", "1.2.3", "1 Gi", "1gi", "1KI", "--1"])
def test_no_quantities(given):
    with pytest.raises(ValueError, match="quantities must match"):
        canonical(given)


def pooled(made, name, *devices, generation=1, count=1, **spec):
    pool = {"name": "node-1", "generation": generation, "resourceSliceCount": count}
    return made(*devices, name=name, pool=pool, **spec)


def test_pools(made):
    slices = [
        pooled(made, "2", "c", generation=2, count=2),
        pooled(made, "1", "a", "b", generation=2, count=2),
        pooled(made, "0", "old"),
    ]
    pool = pools_of(slices)["node-1"]
    assert (pool.generation, pool.problems) == (2, ())
    assert [device["name"] for device in pool.devices] == ["a", "b", "c"]
    assert str(pool) == "pool node-1, generation 2: [a, b, c]"


def test_pools_that_are_not_whole(made):
    consumes = {"consumesCounters": [{"counterSet": "s", "counters": COUNTERS}]}
    slices = [pooled(made, "1", "a", "a", {"name": "b"} | consumes, count=2)]
    assert pools_of(slices)["node-1"].problems == (
        "1 slices, of 2",
        "2 devices are called a",
        "b: no counter s/memory",
    )


def test_results_carry_more():
    assert result("r", "d", driver="x", pool="p", adminAccess=True)["adminAccess"] is True
