"""The API server by HTTP: every call, every way to fail, and watches that end when they should."""

import gzip
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from device_plugin.dra.cluster import ApiError
from device_plugin.dra.pool import Pool, plan
from device_plugin.dra.slices import Features, wanted
from device_plugin.testing.apiserver import ApiServer, allocated_claim, result
from tests.unit.dra.made import DRIVER, HALF, NODE, bare, gpu, offer, version, wait_for

client = pytest.importorskip("device_plugin.dra.client", exc_type=ImportError)


@pytest.fixture
def server():
    with ApiServer(NODE) as server:
        yield server


@pytest.fixture
def connected(server, tmp_path):
    api = client.connect(server.kubeconfig(tmp_path / "kubeconfig"))
    yield api
    api.close()


@pytest.fixture
def in_a_hurry(monkeypatch):
    monkeypatch.setattr(client, "_TIMEOUT", client.httpx2.Timeout(0.3))


def new_slices(*offers, uid="uid"):
    contents = wanted(offers, DRIVER, "NoSchedule", Features()).contents
    return plan((), contents, Pool(DRIVER, NODE, uid)).create


def test_the_node(connected, server):
    assert len(connected.node_uid(NODE)) == 36
    assert server.requests[-1].token.startswith("token-of")


def test_what_we_make_is_valid(connected, server):
    """The double checks slices as an API server does."""
    offers = [
        offer(gpu("a", replicas=3), gpu("b", "it smokes!", firmware=version("1.2.3"))),
        offer(*(gpu(f"c{n}") for n in range(70)), parts=(HALF,), name="example.com/c"),
        offer(*bare(*(f"d{n}" for n in range(130))), name="example.com/d"),
    ]
    for slice_ in new_slices(*offers):
        connected.create(slice_)
    (pool,) = server.pools(DRIVER).values()
    assert not pool.problems
    assert len(pool.devices) == 2 + 3 * 70 + 130


def test_create_list_replace_delete(connected, server):
    (slice_,) = new_slices(offer(gpu("a")))
    stored = connected.create(slice_)
    name = stored["metadata"]["name"]
    stored["spec"]["devices"] = []
    replaced = connected.replace(stored)
    assert replaced["metadata"]["resourceVersion"] > stored["metadata"]["resourceVersion"]
    (found,), newest = connected.slices(DRIVER, NODE)
    assert found["metadata"] == replaced["metadata"]
    assert newest == replaced["metadata"]["resourceVersion"]
    connected.delete(name)
    connected.delete(name)  # gone is gone
    assert connected.slices(DRIVER, NODE)[0] == []


def test_others_are_not_listed(connected):
    (slice_,) = new_slices(offer(gpu("a")))
    connected.create(slice_)
    assert connected.slices("another.example.com", NODE)[0] == []
    assert connected.slices(DRIVER, "node-b")[0] == []


def test_a_conflict(connected):
    (slice_,) = new_slices(offer(gpu("a")))
    stored = connected.create(slice_)
    connected.replace({**stored, "spec": {**stored["spec"], "devices": []}})
    with pytest.raises(ApiError, match="the object has been modified") as caught:
        connected.replace(stored)
    assert caught.value.status == 409


def test_a_claim(connected, server):
    server.put_claim(allocated_claim("mine", [result("gpu", "a", driver=DRIVER, pool=NODE)]))
    assert connected.claim("default", "mine")["metadata"]["name"] == "mine"
    with pytest.raises(ApiError, match=r'cannot get resourceclaim default/no: .*"no" not found'):
        connected.claim("default", "no")


@pytest.mark.parametrize(
    ("trouble", "status", "text"),
    [
        (lambda s: s.forbid("list"), 403, r"cannot list resource.* needs the ClusterRole of"),
        (
            lambda s: s.refuse(401, "Unauthorized"),
            401,
            "Unauthorized; is its token one of this cluster",
        ),
        (lambda s: s.refuse(500, "etcd away"), 500, "cannot list resourceslices: etcd away$"),
        (lambda s: s.throttle(7), 429, "cannot list resourceslices: .*"),
        (lambda s: setattr(s, "serves_resources", False), 404, "from 1.34 on$"),
        (lambda s: s.go_away(), 0, "cannot list resourceslices: .*refused"),
    ],
)
def test_refusals(connected, server, trouble, status, text):
    trouble(server)
    with pytest.raises(ApiError, match=text) as caught:
        connected.slices(DRIVER, NODE)
    assert caught.value.status == status
    assert caught.value.retry_after == (7 if status == 429 else 0)


def test_a_node_that_is_not_there(connected):
    with pytest.raises(ApiError, match=r"nodes .node-b. not found; --node-name must be the name"):
        connected.node_uid("node-b")


def test_a_slow_answer(in_a_hurry, connected, server):
    server.slow(30)
    with pytest.raises(ApiError, match="cannot list resourceslices: no answer in time"):
        connected.slices(DRIVER, NODE)


def test_an_answer_that_drips(tmp_path, monkeypatch):
    """Each byte comes in time, and the whole never would."""
    monkeypatch.setattr(client, "_LONGEST", 0.3)

    def drip(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.02)

    text = "cannot get node node-a: no answer in time"
    with answering(tmp_path, drip) as api, pytest.raises(ApiError, match=text):
        api.node_uid(NODE)


def test_an_answer_that_is_compressed(tmp_path):
    body = gzip.compress(b'{"metadata": {"uid": "u"}}')
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    with answering(tmp_path, lambda connection: connection.sendall(head.encode() + body)) as api:
        assert api.node_uid(NODE) == "u"


@pytest.mark.parametrize("code", ["200 OK", "500 No"])
def test_an_answer_that_is_too_deep(tmp_path, code):
    body = b'{"a":' * 100_000
    answer = f"HTTP/1.1 {code}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    text = "what answers is no API server: "
    with (
        answering(tmp_path, lambda connection: connection.sendall(answer)) as api,
        pytest.raises(ApiError, match=text),
    ):
        api.node_uid(NODE)


def test_what_others_say_is_one_line_that_can_be_shown(connected, server):
    server.refuse(500, "etcd\n\tis \x1b[31maway\x00 ")
    with pytest.raises(ApiError) as caught:
        connected.slices(DRIVER, NODE)
    assert str(caught.value) == "cannot list resourceslices: etcd is [31maway"


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (lambda api: api.claim("../a?b", "c/d#e"), b"/..%2Fa%3Fb/resourceclaims/c%2Fd%23e "),
        (lambda api: api.node_uid("x/../y"), b"/nodes/x%2F..%2Fy "),
        (lambda api: api.replace({"metadata": {"name": "a/b"}}), b"/resourceslices/a%2Fb "),
        (lambda api: api.delete("a/b"), b"/resourceslices/a%2Fb "),
    ],
)
def test_names_stay_in_their_part_of_the_path(tmp_path, call, path):
    sent: list[bytes] = []

    def answer(connection):
        connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")

    with answering(tmp_path, answer, sent) as api, pytest.raises(ApiError):
        call(api)
    assert path in sent[0].partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", b"SSH-2.0\r\n", b""]
)
def test_what_answers_is_no_api_server(tmp_path, answer):
    with answering(tmp_path, lambda connection: connection.sendall(answer)) as api:
        with pytest.raises(ApiError, match="cannot get node") as caught:
            api.node_uid(NODE)
        assert caught.value.status == 0


@contextmanager
def answering(folder, answer, sent=None):
    """Connect to what answers one request like this."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer_once, args=(listener, answer, sent), daemon=True)
        thread.start()
        api = client.connect(_kubeconfig(folder, f"http://127.0.0.1:{listener.getsockname()[1]}"))
        try:
            yield api
        finally:
            api.close()
        thread.join(10)
        assert not thread.is_alive()


def _answer_once(listener, answer, sent):
    connection, _ = listener.accept()
    with connection, suppress(OSError):
        request = connection.recv(65536)
        if sent is not None:
            sent.append(request)
        answer(connection)


def _kubeconfig(folder, url):
    server = ApiServer()
    path = server.kubeconfig(folder / "kubeconfig")
    path.write_text(path.read_text().replace(server.url, url))
    return path


class Reader(threading.Thread):
    """Reads a watch."""

    def __init__(self, watch):
        super().__init__(daemon=True)
        self.watch, self.error = watch, ApiError("none")
        self.read: list[tuple[str, str]] = []
        self.start()
        wait_for(lambda: self.read or not self.is_alive())

    def run(self):
        try:
            for kind, one in self.watch:
                self.read.append((kind, one["metadata"].get("name")))
        except ApiError as error:
            self.error = error


def test_a_watch(connected, server):
    (slice_,) = new_slices(offer(gpu("a")))
    reader = Reader(connected.watch(DRIVER, NODE, connected.slices(DRIVER, NODE)[1]))
    name = connected.create(slice_)["metadata"]["name"]
    server.delete_slices()
    wait_for(lambda: len(reader.read) == 3)
    assert reader.read == [("BOOKMARK", None), ("ADDED", name), ("DELETED", name)]
    started = time.monotonic()
    reader.watch.stop()
    reader.join(10)
    assert time.monotonic() - started < 5
    assert not reader.is_alive()


def test_a_watch_that_was_stopped_before(connected):
    watch = connected.watch(DRIVER, NODE, "1")
    watch.stop()
    assert list(watch) == []


def test_a_watch_from_too_long_ago(connected, server):
    server.forget_events()
    reader = Reader(connected.watch(DRIVER, NODE, "1"))
    reader.join(10)
    assert reader.error.status == 410


def test_a_watch_that_is_refused(connected, server):
    server.forbid("watch")
    reader = Reader(connected.watch(DRIVER, NODE, "1"))
    reader.join(10)
    assert reader.error.status == 403
    assert "cannot watch resource" in str(reader.error)


def test_a_watch_whose_server_goes(connected, server):
    reader = Reader(connected.watch(DRIVER, NODE, connected.slices(DRIVER, NODE)[1]))
    server.go_away()
    reader.join(10)
    assert not reader.is_alive()
