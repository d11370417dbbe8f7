"""The example Pods ask for what the overlays offer."""

import re

import pytest
import yaml
from rendered import BASE, EXAMPLES, OVERLAYS, configs, kustomize, objects, resources

# The first object of each file.
DOCUMENTS = {path.stem: next(objects(path.read_text())) for path in EXAMPLES}
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


@pytest.fixture(scope="module")
def most():
    """`per_container.max` of the overlays' resources."""
    return {
        resource["name"]: resource["per_container"]["max"]
        for folder in OVERLAYS
        for text in configs(kustomize(folder))
        for resource in yaml.safe_load(text)["resources"]
        if "per_container" in resource
    }


def test_the_limit_range_is_the_configs_maximum(most):
    """Kubernetes makes `max` the default where there is none: every container would ask for it."""
    (limit,) = DOCUMENTS["limitrange"]["spec"]["limits"]
    assert limit["max"] == {name: most[name] for name in limit["max"]}
    assert limit["default"] == limit["defaultRequest"] == dict.fromkeys(limit["max"], 0)


def test_the_admission_policy_is_the_configs_maximum(most):
    rules = DOCUMENTS["admission-policy"]["spec"]["validations"]
    assert rules
    for rule in rules:
        (name,) = re.findall(r'limits\[\?"([^"]+)"\]', rule["expression"])
        assert f'compareTo(quantity("{most[name]}")) <= 0' in rule["expression"]
        assert rule["message"] == f"a container may have at most {most[name]} of {name}"


def test_the_comment_of_an_example_is_for_people():
    for path in EXAMPLES:
        assert re.match(r"# [A-Z]", path.read_text()), path.name
