"""What a config with `api: dra` needs of a cluster besides: access, folders, DeviceClasses.

The DaemonSet is what `manifests/components/dra` makes of that of the base; a test sees to it.
"""

import re
from typing import NamedTuple

from device_plugin.config import Config, Partition, Resource
from device_plugin.manifests.folders import CDI, Folder, mounted

_SUBJECT = "{kind: ServiceAccount, name: device-plugin"
_BY_KUSTOMIZE = "  # kustomize adds its namespace"
_ANY_NAMESPACE = "[^:]+"
_POD = (
    "            - {name: DEVICE_PLUGIN_POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n"
)
_CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: {name}, labels: {{app.kubernetes.io/name: device-plugin}}}}
spec:
  selectors:
    - cel:
        expression: >-
          device.driver == '{driver}'
          && device.attributes['{driver}'].resource == '{resource}'
"""
_ONLY = "          && {}\n"
_WHOLE = "!has(device.attributes['{driver}'].partition)"
_PART = "device.attributes['{driver}'].?partition.orValue('') == '{part}'"
_EXTENDED = """\
  # So Pods that have it in their `limits` get one too, from Kubernetes 1.36 on.
  extendedResourceName: {resource}
"""
_CLAIM = """\
# A trial by a claim, which may say which device it wants; `selectors` go below `exactly`.
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {pod}}}
spec:
  spec:
    devices:
      requests:
        - name: device
          exactly: {{deviceClassName: {class_name}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {pod}}}
spec:
  restartPolicy: Never
  resourceClaims: [{{name: device, resourceClaimTemplateName: {pod}}}]
  containers:
    - name: main
      image: busybox:1.37
      command: [sh, -c, "ls -lR /dev; env"]
      resources: {{claims: [{{name: device}}]}}
"""


class Class(NamedTuple):
    """A DeviceClass: whole devices of a resource, or parts of them."""

    name: str
    resource: Resource
    part: Partition | None = None


def driver(config: Config) -> str:
    """The driver's name; empty if the config has none.

    With a name all is prepared, be it that no resource goes by claims yet.
    """
    return config.dra.driver if config.dra is not None else ""


def access(rbac: str, policy: str, namespace: str) -> list[str]:
    """Place the texts of the component: whom they are about is in a namespace."""
    # In quotes, as it may look like a number.
    placed = f'{_SUBJECT}, namespace: "{namespace}"'
    rbac = rbac.replace(_SUBJECT, placed, 1).replace(_BY_KUSTOMIZE, "", 1)
    return [rbac, policy.replace(_ANY_NAMESPACE, namespace, 1)]


def daemon_set(text: str, name: str) -> str:
    """Add to the text of a DaemonSet what this driver needs: token, node's name, folders."""
    own = f"/var/lib/kubelet/plugins/{name}"
    node = _POD.replace("DEVICE_PLUGIN_POD", "DEVICE_PLUGIN_NODE_NAME")
    for before, after in (
        ("Token: false\n", "Token: true  # the API server asks for it\n"),
        ("memory: 64Mi}\n", "memory: 96Mi}\n"),
        (_POD, _POD + node.replace("metadata.name", "spec.nodeName")),
    ):
        text = text.replace(before, after, 1)
    registry = Folder("registry", "/var/lib/kubelet/plugins_registry", "Directory")
    return mounted(text, registry, Folder("plugins", own, "DirectoryOrCreate"), CDI)


def classes(config: Config) -> list[Class]:
    """A DeviceClass for each resource, and for each kind of parts."""
    wholes = [one for one in config.resources if one.api == "dra"]
    taken: set[str] = set()
    found = []
    for one in wholes:
        domain, _, name = one.name.partition("/")
        short = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
        found.append(Class(_free(short, domain, taken), one))
    for whole in list(found):
        short, _, domain = whole.name.partition(".")
        for part in whole.resource.partitions:
            name = _free(f"{short}-{part.name}", domain, taken)
            found.append(Class(name, whole.resource, part))
    return found


def _free(label: str, domain: str, taken: set[str]) -> str:
    while (name := f"{label}.{domain}") in taken:
        label += "-2"
    taken.add(name)
    return name


def text_of(one: Class, driver_name: str) -> str:
    """The manifest of a DeviceClass."""
    known = {"name": _text(one.name), "driver": driver_name, "resource": one.resource.name}
    text = _CLASS.format_map(known)
    if one.part is not None:
        return text + _ONLY.format(_PART.format(driver=driver_name, part=one.part.name))
    if one.resource.partitions:
        text += _ONLY.format(_WHOLE.format_map(known))
    return text + _EXTENDED.format_map(known)


def trial(one: Class, pod: str) -> str:
    """A claim for one device of a class, and a Pod with it."""
    return _CLAIM.format(pod=pod, class_name=_text(one.name))


def _text(name: str) -> str:
    """Quote a name that YAML might take for a number: 5.1."""
    return f'"{name}"' if name[0].isdigit() else name
