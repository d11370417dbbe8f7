"""The config changes under a running daemon: only what is new is touched."""

import json
import signal
import threading

X, Y = "example.com/x", "example.com/y"
ONE = [{"virtual": {"count": 1}}]


def text(**resources):
    listed = [{"name": f"example.com/{k}", "devices": v} for k, v in resources.items()]
    return json.dumps({"version": 1, "audit_interval": "1h", "resources": listed})


def test_what_is_new_is_served_and_nothing_else_touched(node, kubelet):
    node.start({"x": ONE})
    kubelet.healthy(X)
    node.configure({"x": ONE, "y": ONE})
    kubelet.healthy(Y)
    assert [one.resource for one in kubelet.registrations] == [X, Y]
    assert len(kubelet.lists(X)) == 1


def test_what_was_dropped_stays_listed_and_comes_back(node, kubelet):
    daemon = node.start({"x": [{"virtual": {"count": 1}, "replicas": 2}], "y": ONE})
    (id_, replica) = kubelet.healthy(X, 2)
    node.configure({"x": ONE, "y": ONE})
    kubelet.until(X, {id_: "Healthy", replica: "Unhealthy"})
    daemon.wait_log("device unhealthy", device=replica, reason="not in config")
    node.configure({"y": ONE})
    kubelet.until(X, {id_: "Unhealthy", replica: "Unhealthy"})
    node.configure({"x": [{"virtual": {"count": 1}, "replicas": 2}], "y": ONE})
    kubelet.until(X, {id_: "Healthy", replica: "Healthy"})
    assert len(kubelet.good(X)) == 1


def test_a_resource_of_which_nothing_was_listed_ends_at_once(node, kubelet):
    daemon = node.start({"x": [{"path": node.path("/dev/none*")}], "y": ONE})
    kubelet.until(X, {})
    node.configure({"y": ONE})
    daemon.wait_log("no longer served", resource=X)
    kubelet.wait_for(lambda k: not k.is_streaming(X))
    assert "example.com/x" not in daemon.get("/metrics")[1]
    node.configure({"x": ONE, "y": ONE})
    kubelet.healthy(X)


def test_what_a_container_gets_follows(node, kubelet):
    node.start({"x": {"devices": ONE, "container": {"env": {"A": "1"}}}})
    kubelet.healthy(X)
    node.configure({"x": {"devices": ONE, "container": {"env": {"A": "2"}}}, "y": ONE})
    kubelet.healthy(Y)  # the sign that the config was read
    _, created = kubelet.run(X)
    assert created.envs["A"] == "2"
    assert len(kubelet.good(X)) == 1


def test_a_bad_file_changes_nothing_and_shows(node, kubelet):
    daemon = node.start({"x": ONE})
    kubelet.healthy(X)
    daemon.wait_page("/readyz", 200)
    for _ in range(2):
        node.configure("resources: [")
        daemon.wait_page("/readyz", 503, "config: the last good one is in use: ")
        assert "device_plugin_config_last_reload_successful 0.0" in daemon.get("/metrics")[1]
        assert len(daemon.log("config refused")) == 1
        node.configure("resources: [ ")
    node.configure({"x": ONE, "y": ONE})
    kubelet.healthy(Y)
    daemon.wait_page("/readyz", 200)
    metrics = daemon.get("/metrics")[1]
    assert "device_plugin_config_last_reload_successful 1.0" in metrics
    assert 'device_plugin_config_reloads_total{outcome="applied"} 1.0' in metrics
    assert len(kubelet.lists(X)) == 1


def test_a_mistake_in_one_resource_leaves_it_as_it_was(node, kubelet):
    daemon = node.start({"x": ONE, "y": ONE})
    kubelet.healthy(Y)
    node.configure({"x": [{"path": "relative"}], "y": [{"virtual": {"count": 2}}]})
    kubelet.healthy(Y, 2)
    daemon.wait_page("/readyz", 503, "example.com/x: kept as it was: ")
    assert len(kubelet.lists(X)) == 1


def test_sighup_reads_it_again(node, kubelet):
    daemon = node.start({"x": ONE})
    kubelet.healthy(X)
    with open(node.folder / "config.yaml", "r+") as file:  # open: no word from the kernel yet
        file.write(text(x=ONE, y=ONE))
        file.truncate()
        file.flush()
        daemon.process.send_signal(signal.SIGHUP)
        kubelet.healthy(Y)
    daemon.end()


def test_the_swap_of_a_mounted_config_map(node, kubelet):
    """As the kubelet does it: a new folder, and ..data turned to it in one step."""

    def fill(number, **resources):
        folder = node.folder / "mount" / f"..{number}"
        folder.mkdir(parents=True)
        (folder / "a.yaml").write_text(text(**resources))
        (node.folder / "mount" / "..new").symlink_to(folder.name)
        (node.folder / "mount" / "..new").rename(node.folder / "mount" / "..data")

    fill(1, x=ONE)
    (node.folder / "mount" / "a.yaml").symlink_to("..data/a.yaml")
    node.start({}, config=node.folder / "mount")
    kubelet.healthy(X)
    for number, count in ((2, 2), (3, 3)):
        fill(number, x=[{"virtual": {"count": count}}])
        kubelet.healthy(X, count)


def test_a_link_that_leads_to_the_same_text_elsewhere_is_followed(node, kubelet):
    """Nothing is new when it turns, and what is new later is there."""
    for name in ("r1", "r2"):
        (node.folder / name).mkdir()
        (node.folder / name / "config.yaml").write_text(text(x=ONE))
    (node.folder / "current").symlink_to("r1")
    daemon = node.start({}, config=node.folder / "current" / "config.yaml")
    kubelet.healthy(X)
    (node.folder / "next").symlink_to("r2")
    (node.folder / "next").rename(node.folder / "current")
    (node.folder / "r1" / "config.yaml").touch()  # whatever the daemon does, it has done by now
    daemon.wait_page("/readyz", 200)
    (node.folder / "r2" / "config.yaml").write_text(text(x=ONE, y=ONE))
    kubelet.healthy(Y)


def test_a_folder_gains_and_loses_a_file(node, kubelet):
    folder = node.folder / "conf.d"
    folder.mkdir()
    (folder / "a.yaml").write_text(text(x=ONE))
    node.start({}, config=folder)
    kubelet.healthy(X)
    more = json.dumps({"version": 1, "resources": [{"name": Y, "devices": ONE}]})
    (folder / "b.yaml").write_text(more)
    (id_,) = kubelet.healthy(Y)
    (folder / "b.yaml").unlink()
    kubelet.until(Y, {id_: "Unhealthy"})


def test_replaced_a_hundred_times_a_second(node, kubelet):
    """Good, half written, a folder, nothing: the loop turns, and the last one counts."""
    node.add("/dev/a")
    daemon = node.start({"x": [{"path": node.path("/dev/{n}")}]})
    kubelet.healthy(X)
    daemon.wait_log("serving HTTP")
    config, over = node.folder / "config.yaml", threading.Event()
    good = text(x=[{"path": node.path("/dev/{n}")}], y=ONE)

    def replace():
        for i in range(200):
            config.unlink(missing_ok=True)
            if i % 4 == 3:
                config.mkdir()
                over.wait(0.01)
                config.rmdir()
            else:
                config.write_text(good[: len(good) * (i % 4) // 2])
                over.wait(0.01)
        config.write_text(good)

    writer = threading.Thread(target=replace)
    writer.start()
    for i in range(20):  # devices are told of at once all the while
        node.add(f"/dev/b{i}")
        kubelet.healthy(X, i + 2)
        assert daemon.get("/healthz") == (200, "ok\n")
    writer.join()
    kubelet.healthy(Y)
    daemon.wait_page("/readyz", 200)
    assert len(daemon.log("config refused")) < 60, "a reading each tenth of a second at most"


def test_a_shorter_audit_takes_effect(node, kubelet):
    node.start({"x": ONE})
    kubelet.healthy(X)
    node.configure({"x": ONE, "y": ONE}, audit_interval="100ms")  # it was an hour
    kubelet.healthy(Y)
    before = len(kubelet.pod_resources.queries)
    kubelet.wait_for(lambda k: len(k.pod_resources.queries) > before + 4)


def test_unchanged_says_nothing(node, kubelet):
    daemon = node.start({"x": ONE})
    kubelet.healthy(X)
    node.configure({"x": ONE})
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_page("/healthz", 200)
    assert not daemon.log("config applied")
