"""The example Pods ask for what the overlays offer."""

import re

import pytest
import yaml
from rendered import BASE, EXAMPLES, OVERLAYS, kustomize, resources

DOCUMENTS = {path.stem: yaml.safe_load(path.read_text()) for path in EXAMPLES}
WORKLOADS = {name: of for name, of in DOCUMENTS.items() if of["kind"] in {"Pod", "Deployment"}}


def limits(workload):
    spec = workload["spec"]
    spec = spec["template"]["spec"] if "template" in spec else spec
    (container,) = spec["containers"]
    return container["resources"]["limits"]


def offered():
    return {name for folder in (BASE, *OVERLAYS) for name in resources(kustomize(folder))}


def test_there_is_an_example_for_every_resource_of_the_overlays():
    asked = [name for workload in WORKLOADS.values() for name in limits(workload)]
    assert set(asked) == offered()


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_example_is_called_as_what_it_asks_for(name):
    assert set(limits(WORKLOADS[name])) == {f"example.com/{name}"}
    assert WORKLOADS[name]["metadata"]["name"] == name


def test_the_limit_range_leaves_containers_alone_that_ask_for_nothing():
    """Kubernetes makes `max` the default where there is none: every container would ask for it."""
    for limit in DOCUMENTS["limitrange"]["spec"]["limits"]:
        nothing = dict.fromkeys(limit["max"], 0)
        assert limit["default"] == limit["defaultRequest"] == nothing


def test_the_limit_range_is_the_configs_maximum():
    found = {}
    for folder in OVERLAYS:
        for thing in kustomize(folder):
            if thing["kind"] == "ConfigMap":
                for resource in yaml.safe_load(thing["data"]["config.yaml"])["resources"]:
                    found[resource["name"]] = resource.get("per_container", {}).get("max")
    for limit in DOCUMENTS["limitrange"]["spec"]["limits"]:
        assert limit["max"] == {name: found[name] for name in limit["max"]}


def test_the_comment_of_an_example_is_for_people():
    for path in EXAMPLES:
        assert re.match(r"# [A-Z]", path.read_text()), path.name
