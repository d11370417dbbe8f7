"""The web server: pages for probes and scrapes, whoever else comes along."""

import argparse
import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest
from structlog.testing import capture_logs

from device_plugin.arguments import address
from device_plugin.http import WebServer

LOCAL = ("127.0.0.1", 0)
PAGES = {"/healthz": lambda: (True, "ok\n"), "/readyz": lambda: (False, "näh\n")}


@pytest.fixture
def serve():
    servers = []

    def make(where=LOCAL, pages=PAGES):
        servers.append(WebServer(where, pages))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


def get(port, page="/healthz", host="127.0.0.1"):
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{page}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def talk(port, data):
    """Everything that comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(data)
        return b"".join(iter(lambda: client.recv(4096), b""))


@contextlib.contextmanager
def slow_clients(port, count):
    """Connected, and half way through their request."""
    with contextlib.ExitStack() as stack:
        clients = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(count)]
        for client in clients:
            stack.enter_context(client)
            client.sendall(b"GET /healthz")
        time.sleep(0.05)  # until each has its thread
        yield clients


def test_pages_are_served_well_or_not(serve):
    port = serve().port
    assert get(port, "/healthz") == (200, "ok\n")
    assert get(port, "/healthz?verbose") == (200, "ok\n")
    assert get(port, "/readyz") == (503, "näh\n")
    assert get(port, "/")[0] == get(port, "/healthz/")[0] == 404


def test_an_answer_says_what_it_is(serve):
    head, _, body = talk(serve().port, b"GET /readyz HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert b"Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
    assert b"Content-Length: %d" % len("näh\n".encode()) in head
    assert body.decode() == "näh\n"


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\r\n\r\n",
        b"\0" * 100_000,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET /\xff\x1b[2J HTTP/1.1\r\n\r\n",
    ],
)
def test_nonsense_gets_no_page_and_does_no_harm(serve, nonsense, capfd):
    port = serve().port
    with contextlib.suppress(ConnectionError):
        assert b" 200 " not in talk(port, nonsense)
    assert get(port) == (200, "ok\n")
    assert capfd.readouterr() == ("", "")


def test_slow_clients_do_not_keep_others_waiting(serve):
    port = serve().port
    with slow_clients(port, 6):  # of 8: one that was answered may still have its thread
        started = time.monotonic()
        for _ in range(20):
            assert get(port) == (200, "ok\n")
        assert time.monotonic() - started < 2


def test_a_crowd_of_slow_clients_does_not_keep_a_probe_out_and_leaves_no_threads(serve):
    port = serve().port
    with slow_clients(port, 30):
        for _ in range(5):
            assert get(port) == (200, "ok\n")
        wait_for(lambda: busy() <= 8)
    wait_for(lambda: busy() == 0)


def busy():
    """How many requests have a thread now."""
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def servers():
    return sum(thread.name == "http" for thread in threading.enumerate())


def wait_for(is_so):
    deadline = time.monotonic() + 5
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_place_is_free_again_when_no_thread_could_be_made(serve, monkeypatch):
    port = serve().port

    def start(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch, capture_logs():
        patch.setattr("threading.Thread.start", start)
        for _ in range(10):
            talk(port, b"")
    assert get(port) == (200, "ok\n")


def test_a_page_that_fails_is_logged_and_does_no_harm(serve):
    pages = PAGES | {"/bad": lambda: (True, str(1 / 0))}
    port = serve(pages=pages).port
    with capture_logs() as logs:
        assert talk(port, b"GET /bad HTTP/1.0\r\n\r\n") == b""
        assert get(port) == (200, "ok\n")
    assert [line["event"] for line in logs] == ["HTTP request failed"]


def test_a_client_that_goes_away_is_nothing_to_log(serve):
    is_asked = threading.Event()
    go_on = threading.Event()

    def page():
        is_asked.set()
        go_on.wait(5)
        return True, "x" * 10_000_000

    port = serve(pages=PAGES | {"/big": page}).port
    with capture_logs() as logs:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /big HTTP/1.0\r\n\r\n")
            assert is_asked.wait(5)
        go_on.set()
        wait_for(lambda: busy() == 0)
    assert logs == []


def test_it_stops_at_once_whatever_clients_do():
    server = WebServer(LOCAL, PAGES)
    with slow_clients(server.port, 8):
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < 0.5
    with pytest.raises(OSError, match="refused"):
        get(server.port)


def test_its_port_can_be_had_again_at_once():
    first = WebServer(LOCAL, PAGES)
    get(first.port)
    first.stop()
    second = WebServer(("127.0.0.1", first.port), PAGES)
    assert get(second.port) == (200, "ok\n")
    second.stop()


def test_an_address_that_cannot_be_had_is_an_os_error(serve):
    taken = serve().port
    before = servers()
    for where in (("127.0.0.1", taken), ("192.0.2.1", 0), ("no.such.host.invalid", 0), ("::9", 0)):
        with pytest.raises(OSError, match=r"."):
            WebServer(where, PAGES)
    assert servers() == before


def has_ipv6():
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def test_no_host_means_every_address(serve):
    port = serve(("", 0)).port
    assert get(port) == (200, "ok\n")
    if has_ipv6():
        assert get(port, host="[::1]") == (200, "ok\n")


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address_is_served(serve):
    assert get(serve(("::1", 0)).port, host="[::1]") == (200, "ok\n")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("off", None),
        (":8080", ("", 8080)),
        (":0", ("", 0)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
        ("[::1]:80", ("::1", 80)),
        ("[::]:80", ("::", 80)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_addresses(text, where):
    assert address(text) == where


@pytest.mark.parametrize(
    "text",
    (
        "|8080|:|::|::1|::1:80|[::1]|[]:80|x:-1|:65536|:1e3|on|:8080 |:٨٠|OFF|http://x:80/|[x]:1"
        f"|[::1:1|::1]:1|:{'9' * 5000}"
    ).split("|"),
)
def test_what_is_no_address_is_refused_with_how_to_write_one(text):
    with pytest.raises(
        argparse.ArgumentTypeError, match=r"is no address: write :8080, 127.0.0.1:8080 or off$"
    ):
        address(text)
