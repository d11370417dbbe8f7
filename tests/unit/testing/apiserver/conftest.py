"""An API server, and a client of plain HTTP."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from device_plugin.testing.apiserver import ApiServer

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


class Client:
    """One connection, as a client keeps it."""

    def __init__(self, url):
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)

    def __call__(self, method, path, body=None, **headers):
        """Ask; returns code and object."""
        code, _, content = self.raw(method, path, body, **headers)
        return code, json.loads(content)

    def raw(self, method, path, body=None, **headers):
        """Ask; returns code, headers and bytes."""
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        self._connection.request(method, path, content, headers)
        response = self._connection.getresponse()
        return response.status, response.headers, response.read()

    def watch(self, path=SLICES, **query):
        """Begin a watch; returns what yields events."""
        terms = "&".join(f"{key}={value}" for key, value in {"watch": "true", **query}.items())
        self._connection.request("GET", f"{path}?{terms}")
        return self._connection.getresponse()

    def close(self):
        self._connection.close()


@pytest.fixture
def api():
    with ApiServer("node-1") as started:
        yield started


@pytest.fixture
def client(api):
    """Make clients."""
    made = []

    def make():
        made.append(Client(api.url))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def ask(client):
    return client()


def slice_of(*devices, name="one", driver="gpu.example.com", **spec):
    """Make a ResourceSlice; devices are names, or devices as they are."""
    listed = [one if isinstance(one, dict) else {"name": one} for one in devices]
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    content = {"driver": driver, "nodeName": "node-1", "pool": pool, **spec}
    if listed:
        content["devices"] = listed
    return {"metadata": {"name": name}, "spec": content}


@pytest.fixture
def made():
    return slice_of


@pytest.fixture
def refused(ask):
    """Create a ResourceSlice in vain; returns what is said to be wrong."""

    def create(slice_):
        code, answer = ask("POST", SLICES, slice_)
        assert (code, answer["reason"]) == (422, "Invalid"), answer
        name = slice_["metadata"]["name"]
        said = f'ResourceSlice.resource.k8s.io "{name}" is invalid: '
        assert answer["message"].startswith(said)
        return answer["message"].removeprefix(said)

    return create
