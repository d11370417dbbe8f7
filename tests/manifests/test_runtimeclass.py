"""examples/runtimeclass: each Pod's runtime has what it asks for; the scheduler, what it needs."""

import pytest
from rendered import ROOT, RUNTIME_CLASSES, objects

from device_plugin import config

FOLDER = ROOT / "examples" / "runtimeclass"
CHECKED = config.read(FOLDER / "config.yaml")
FOUND = [found for path in RUNTIME_CLASSES for found in objects(path.read_text())]
CLASSES = {one["metadata"]["name"]: one for one in FOUND if one["kind"] == "RuntimeClass"}
PODS = {one["metadata"]["name"]: one["spec"] for one in FOUND if one["kind"] == "Pod"}
# What people call the handler, and `runtimes` of the config the program behind it.
PROGRAMS = {"runsc": "runsc", "kata-qemu": "kata"}


def devices(spec):
    (container,) = spec["containers"]
    return {name for name in container["resources"]["limits"] if "/" in name}


def test_the_config_is_good_and_nothing_in_it_is_doubtful():
    assert CHECKED.problems == ()
    assert CHECKED.doubts == ()
    assert CHECKED.config is not None


def test_what_the_runtimes_say_of_it_is_checked_at_all():
    """The same resources, for the other sandbox each, are doubtful."""
    text = (FOLDER / "config.yaml").read_text()
    swapped = text.replace("runsc]", "X]").replace("kata]", "runsc]").replace("X]", "kata]")
    assert len(config.check(swapped.encode(), "").doubts) > 1


@pytest.mark.parametrize("name", PODS)
def test_a_pods_runtime_is_one_of_those_that_its_resources_name(name):
    program = PROGRAMS[CLASSES[PODS[name]["runtimeClassName"]]["handler"]]
    assert CHECKED.config is not None
    runtimes = {one.name: one.runtimes for one in CHECKED.config.resources}
    assert devices(PODS[name])
    for resource in devices(PODS[name]):
        assert program in runtimes[resource]


def test_every_resource_and_every_class_is_used():
    assert CHECKED.config is not None
    asked = set().union(*(devices(spec) for spec in PODS.values()))
    assert asked == {one.name for one in CHECKED.config.resources}
    assert {spec["runtimeClassName"] for spec in PODS.values()} == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_says_what_it_costs_and_where_it_is(name):
    assert set(CLASSES[name]["overhead"]["podFixed"]) == {"cpu", "memory"}
    assert CLASSES[name]["scheduling"]["nodeSelector"]
    assert CLASSES[name]["scheduling"]["tolerations"]


def test_the_comment_of_each_file_is_for_people():
    for path in FOLDER.glob("*.yaml"):
        assert path.read_text().startswith("# "), path.name
