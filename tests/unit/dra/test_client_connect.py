"""What is said of a kubeconfig or a service account that is of no use: a line, with what to do."""

import json

import pytest

from device_plugin.dra.cluster import ApiError
from device_plugin.testing.apiserver import ApiServer
from tests.unit.dra.made import NODE

client = pytest.importorskip("device_plugin.dra.client", exc_type=ImportError)

CONTEXT = {"name": "c", "context": {"cluster": "c", "user": "u"}}


def config(cluster, user=None):
    """A kubeconfig of one cluster."""
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [CONTEXT],
            "current-context": "c",
        }
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file or directory"),
        ("", "it is no mapping"),
        ("- a", "it is no mapping"),
        ("{}", "it has no list `clusters`"),
        ("{clusters: }", "it has no list `clusters`"),
        ("{clusters: [], contexts: {}}", "it has no list `contexts`"),
        ("a: [", "line 1: expected the node content, but found '<stream end>'"),
        ("a: b: c", "line 1: mapping values are not allowed here"),
        ("a: \x01", "unacceptable character #x0001: special characters are not allowed"),
        ("{clusters: [], contexts: [], current-context: x}", "Context 'x' not found"),
        ("{clusters: [], contexts: []}", "No current context set"),
        ("{clusters: [{}], contexts: []}", "'name' is missing in an entry"),
        ("{clusters: [x], contexts: []}", "an entry is not of the form that it must have"),
        (
            json.dumps({"clusters": [], "contexts": [CONTEXT], "current-context": "c"}),
            "its context names 'c', which it does not have",
        ),
        (config(None), "Expected `object`"),
        (config({"server": 1}), "Expected `str`"),
        (config({"server": "https://127.0.0.1:http"}), "Invalid port"),
        (config({"server": "https://a", "certificate-authority": "/no/ca"}), "/no/ca: No such"),
        (config({"server": "https://a"}, {"tokenFile": "/no/token"}), "/no/token: No such"),
        (config({"server": "https://a", "certificate-authority": "/dev/null"}), "no cert"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(tmp_path, text, why):
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ApiError) as caught:
        client.connect(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: no kubeconfig to use: ")
    assert said.endswith(": mend it, or name another with --kubeconfig")
    assert why in said
    assert said.isprintable()
    assert said.count(str(path)) == 1
    assert "Errno" not in said
    assert "object has no" not in said


def test_a_kubeconfig_that_is_a_folder(tmp_path):
    with pytest.raises(ApiError, match="no kubeconfig to use: Is a directory: mend it"):
        client.connect(tmp_path)


def test_a_port_that_is_none(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(config({"server": "http://127.0.0.1:99999"}))
    api = client.connect(path)
    with pytest.raises(ApiError, match="cannot get node node-a: "):
        api.node_uid(NODE)
    api.close()


def test_outside_of_a_pod(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "SERVICE_ACCOUNT", str(tmp_path))
    with pytest.raises(ApiError) as caught:
        client.connect()
    assert str(caught.value) == (
        f"no service account token here ({tmp_path}/token): add manifests/components/dra (Helm:"
        " dra.enabled), or name a file with --kubeconfig"
    )


def test_a_service_account_that_is_not_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("x")

    def why():
        with pytest.raises(ApiError) as caught:
            client.connect()
        before, _, text = str(caught.value).partition(": ")
        assert before == "the service account here is of no use"
        text, _, hint = text.partition(": see manifests/components/dra")
        assert hint
        return text

    assert why() == f"{tmp_path}/namespace: No such file or directory"
    (tmp_path / "namespace").write_text("default")
    assert why() == "KUBERNETES_SERVICE_HOST is not set"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    assert why() == f"{tmp_path}/ca.crt: No such file or directory"


def test_a_kubeconfig_without_a_user(tmp_path):
    with ApiServer(NODE) as server:
        text = server.kubeconfig(tmp_path / "kubeconfig").read_text()
        path = tmp_path / "without"
        path.write_text(text.replace('"user": "test"', '"namespace": "default"'))
        api = client.connect(path)
        assert api.node_uid(NODE)
        api.close()
