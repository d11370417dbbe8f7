"""Mistakes in the config: one resource's are its own, the file's are everybody's."""

X = "example.com/x"


def test_a_bad_resource_beside_a_good_one(node, kubelet):
    bad = {"devices": [{"path": "relative"}, {"virtual": {"count": -1}}], "per_containr": {}}
    daemon = node.start({"bad": bad, "x": [{"virtual": {"count": 1}}]})
    kubelet.healthy(X)
    lines = daemon.log("resource refused", resource="example.com/bad")
    assert len(lines) == 3, "all problems in one go"
    assert all(f"{node.folder}/config.yaml:1:" in line["problem"] for line in lines)
    assert any("did you mean `per_container`?" in line["problem"] for line in lines)
    daemon.wait_log("registered", resource=X)  # its list may come before the kubelet's reply
    body = daemon.wait_page("/readyz", 503, "example.com/bad: left out")
    assert X not in body
    assert {one.resource for one in kubelet.registrations} == {X}


def test_a_problem_of_the_whole_file(node):
    text = (
        "version: 1\nresurces: []\nresources:\n"
        "  - name: example.com/x\n    devices: [{virtual: {count: 1}}]\n"
    )
    daemon = node.start(text)
    assert daemon.wait() == 2
    (line,) = daemon.log("config refused")
    assert line["problem"].startswith(f"{node.folder}/config.yaml:2:1: unknown key `resurces`")
    assert line["level"] == "error"
    assert not (node.folder / "state").exists()


def test_two_resources_that_cannot_both_be_right(node):
    daemon = node.start({"x": [{"path": "/dev/null"}], "y": [{"path": "/dev/null"}]})
    assert daemon.wait() == 2
    (line,) = daemon.log("config refused")
    assert "`/dev/null` is a device of example.com/x already" in line["problem"]


def test_no_good_resource_is_left(node):
    daemon = node.start({"x": [{"path": "relative"}]})
    assert daemon.wait() == 2
    assert daemon.log("config refused", resource=X)


def test_no_file(node):
    daemon = node.start("")
    assert daemon.wait() == 2
    assert daemon.log("config refused")
