"""`device-plugin manifests`: all that a cluster needs for a config, as YAML documents.

The texts beside this file are those of `manifests/base` and, for `api: dra`, of
`manifests/components/dra`, byte for byte; a test sees to it. For `cdi: true` the DaemonSet is what
`manifests/components/cdi` makes of it.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from device_plugin.config import Config, source
from device_plugin.config.runtimes import sharing
from device_plugin.config.source import Source
from device_plugin.manifests import dra
from device_plugin.manifests.folders import CDI, mounted

_HERE = Path(__file__).parent
_NAME = "device-plugin"
_KEY = "config.yaml"  # of a config that is one file
_KEYS = re.compile(r"[-._A-Za-z0-9]+")  # what a key of a ConfigMap may be
_BREAKS = frozenset("\r\x85\u2028\u2029")  # lines end here too, for YAML
_LIMIT = 1 << 20  # bytes of a ConfigMap
_POD = """\
# A trial, in your current namespace: asks for one {name}, prints what it got, and ends, which gives
# it back. It stays Pending where no node has one. `manifests --without-pods` leaves it out.
apiVersion: v1
kind: Pod
metadata: {{name: {pod}}}
spec:
  restartPolicy: Never
{runtime}\
  containers:
    - name: main
      image: busybox:1.37
      command: [sh, -c, "ls -lR /dev; env"]
      resources: {{limits: {{{name}: 1}}}}
"""
_RUNTIME = "  # runtimeClassName: one of {}, by which this resource is meant to be used\n"


class Unfit(Exception):  # noqa: N818 - an answer for people
    """Why what was asked for cannot be made of the config."""


class _Text(str):
    """A text to be dumped as it stands, or else quoted: nothing in it may change."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Knows `_Text`."""


def _represent(dumper: yaml.SafeDumper, text: _Text) -> yaml.ScalarNode:
    style = "|" if _BREAKS.isdisjoint(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


_Dumper.add_representer(_Text, _represent)


def make(path: Path, config: Config, namespace: str, image: str, *, pods: bool) -> str:
    """Make the documents for the config at `path`, which `config` was read from.

    A folder's files become a key each. With `pods`, trial Pods of each resource. Raises Unfit.
    """
    files = source.load(path)
    driver = dra.driver(config)
    documents = [
        _text("namespace").replace(f"name: {_NAME}", f"name: {_scalar(namespace)}", 1),
        _placed(_text("serviceaccount"), namespace),
        *(dra.access(_text("rbac"), _text("policy"), namespace) if driver else ()),
        _config_map(files, namespace, is_folder=path.is_dir()),
        _daemon_set(config, namespace, image),
        *(dra.text_of(one, driver) for one in dra.classes(config)),
        *(_pods(config) if pods else ()),
    ]
    return "---\n".join(documents).rstrip("\n")


def classes(config: Config) -> str:
    """Make the DeviceClasses alone. Raises Unfit where there are none."""
    found = dra.classes(config)
    if not found:
        raise Unfit("no resource has `api: dra`: write it into the config first, or into a copy")
    return "---\n".join(dra.text_of(one, dra.driver(config)) for one in found).rstrip("\n")


def warnings(image: str) -> list[str]:
    """What is unwise about the image."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    if "@" in image or tag not in ("", "latest"):
        return []
    return [f"{image} may be another image on each node: name a release, as in {name}:1.0"]


def _text(name: str) -> str:
    return (_HERE / f"{name}.yaml").read_text()


def _scalar(text: str) -> str:
    """A text that YAML may take for a number: quoted."""
    return text if yaml.safe_load(text) == text else f'"{text}"'


def _placed(text: str, namespace: str) -> str:
    own = f"  name: {_NAME}\n"
    return text.replace(own, f"{own}  namespace: {_scalar(namespace)}\n", 1)


def _daemon_set(config: Config, namespace: str, image: str) -> str:
    text = _placed(_text("daemonset"), namespace)
    text = text.replace(f"image: {_NAME}\n", f"image: {_scalar(image)}\n", 1)
    if driver := dra.driver(config):
        return dra.daemon_set(text, driver)
    by_name = any(one.container.cdi for one in config.resources)
    return mounted(text, CDI) if by_name else text


def _config_map(files: Sequence[Source], namespace: str, *, is_folder: bool) -> str:
    size = sum(len(file.data) for file in files)
    if size > _LIMIT:
        raise Unfit(f"the config has {size} bytes, and a ConfigMap at most {_LIMIT}")
    data = {_key(file) if is_folder else _KEY: _Text(file.data.decode()) for file in files}
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _NAME, "namespace": namespace},
        "data": data,
    }
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


def _key(file: Source) -> str:
    name = os.path.basename(file.name)
    if not _KEYS.fullmatch(name):
        raise Unfit(f"{file.name}: a ConfigMap's keys have letters, digits, - _ and . : rename it")
    return name


def _pods(config: Config) -> Iterator[str]:
    classes = dra.classes(config)
    taken: set[str] = set()
    for resource in config.resources:
        short = re.sub("[^a-z0-9]+", "-", resource.name.rpartition("/")[2].lower()).strip("-")
        pod = _free(f"try-{short}", taken)
        meant = ", ".join(dict.fromkeys(resource.runtimes))
        runtime = "" if sharing(resource.runtimes) else _RUNTIME.format(meant)
        yield _POD.format(name=resource.name, pod=pod, runtime=runtime)
        for one in classes:
            if one.resource is resource:
                part = f"-{one.part.name}" if one.part else ""
                yield dra.trial(one, _free(f"{pod}{part}-by-claim", taken))


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "-2"
    taken.add(name)
    return name
