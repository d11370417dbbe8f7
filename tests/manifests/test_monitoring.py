"""Alerts, dashboard, and that they ask for metrics which the daemon has."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import programs
import pytest
import yaml
from rendered import MANIFESTS, MONITORING

HERE = Path(__file__).parent
RULES = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in PANELS
    for target in panel["targets"]
}
_BY_CLAIMS = """\
version: 1
dra: {driver: a.example.com}
resources: [{name: example.com/a, api: dra, devices: [{virtual: {count: 1}}]}]
"""
_NAME = re.compile(r"device_plugin_[a-z0-9_]+")


@pytest.fixture(scope="module")
def exposition(tmp_path_factory):
    """What /metrics says, of a daemon that no kubelet knows, with resources of both kinds."""
    folder = tmp_path_factory.mktemp("daemon")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "config"
    config.mkdir()
    shutil.copy(MANIFESTS / "overlays" / "gpu-example" / "config.yaml", config / "a.yaml")
    (config / "b.yaml").write_text(_BY_CLAIMS)
    command = [sys.executable, "-m", "device_plugin", "run", f"--config={config}"]
    command += [f"--device-plugin-dir={folder}", f"--state-dir={folder}/state"]
    daemon = subprocess.Popen(
        [*command, f"--http=127.0.0.1:{port}"], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    try:
        yield _fetch(f"http://127.0.0.1:{port}/metrics")
    finally:
        daemon.terminate()
        daemon.wait(10)


def _fetch(url):
    """As soon as it is served."""
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(url) as answer:  # noqa: S310 - ours
                return answer.read().decode()
        except OSError:
            assert time.monotonic() < deadline, f"{url} does not answer"
            time.sleep(0.05)


def known(exposition):
    """The names of all series, whether or not they have a sample yet."""
    found = set(_NAME.findall(exposition))
    histograms = re.findall(r"^# TYPE (\S+) histogram$", exposition, re.MULTILINE)
    return found | {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}


@pytest.fixture
def rules(tmp_path):
    """The alerts as Prometheus reads them, without the object around them."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    return tmp_path / "rules.yaml"


def test_the_rules_are_well_formed(rules):
    programs.run("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(rules))


def test_the_rules_fire_when_they_should(rules):
    cases = Path(shutil.copy(HERE / "rules.test.yaml", rules.parent))
    programs.run("promtool", "test", "rules", str(cases))


def test_every_alert_has_a_case():
    tested = set(re.findall(r"DevicePlugin\w+", (HERE / "rules.test.yaml").read_text()))
    assert {alert["alert"] for alert in ALERTS} == tested


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(alert):
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"].keys() == {"summary", "description"}
    assert 'job="device-plugin"' in alert["expr"], "or it takes other people's `up`"


def test_the_exposition_is_after_prometheus_conventions(exposition):
    programs.run("promtool", "check", "metrics", given=exposition)


def test_alerts_and_dashboard_ask_for_metrics_that_there_are(exposition):
    asked = {name for alert in ALERTS for name in _NAME.findall(alert["expr"])}
    asked |= {name for query in QUERIES.values() for name in _NAME.findall(query)}
    assert asked - known(exposition) == set()


def test_the_queries_of_the_dashboard_are_well_formed(tmp_path):
    """promtool knows rules: each query is one, with Grafana's variables filled in."""
    filled = [
        {"record": "a:b:c", "labels": {"query": name}, "expr": _fill(query)}
        for name, query in QUERIES.items()
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": filled}]}))
    programs.run("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(path))


def _fill(query):
    filled = query.replace("$__rate_interval", "1m")
    return re.sub(r"\$(namespace|node|resource)\b", ".*", filled)


def test_the_dashboard_uses_the_variables_that_it_has():
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = {name for query in QUERIES.values() for name in re.findall(r"\$(\w+)", query)}
    assert used - {"__rate_interval"} == variables - {"datasource"}
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in PANELS)


def test_no_panel_covers_another():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_panel_explains_itself():
    assert all(panel["title"] and panel["description"] for panel in PANELS)
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
