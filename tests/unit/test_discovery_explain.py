"""What each selector says of a path, and what it lost."""

import pytest

from device_plugin.config import Config, Requirement, Resource, Selector, Virtual
from device_plugin.device import Lost
from device_plugin.discovery import discover, explain
from device_plugin.pattern import PathPattern

A, B = "example.com/a", "example.com/b"


def config(*resources):
    """A list of selectors for each resource; a path stands for its selector."""
    return Config(
        version=1,
        resources=tuple(
            Resource(
                f"example.com/{letter}",
                tuple(s if isinstance(s, Selector) else Selector(path=s) for s in selectors),
            )
            for letter, selectors in zip("abcdef", resources, strict=False)
        ),
    )


def said(tree, path, *resources):
    """The texts, one a selector."""
    verdicts = explain.explain(tree.host.look(), config(*resources), path)
    return [verdict.text for verdict in verdicts]


def lost(tree, *resources):
    """By selector of the first resource."""
    return [list(f.lost) for f in discover(tree.host.look(), config(*resources))[A].selectors]


def test_every_selector_of_every_resource_has_its_say(tree):
    tree.node("/dev/x1")
    verdicts = explain.explain(
        tree.host.look(),
        config(["/dev/x1", "/dev/y"], ["/dev/x*", Selector(virtual=Virtual(1))]),
        "/dev/x1",
    )
    assert [(v.resource, v.selector, v.kind, v.device, v.problem) for v in verdicts] == [
        (A, 0, "path", "x1", ""),
        (A, 1, "path", "", ""),
        (B, 0, "path", "x1", f"/dev/x1 already belongs to {A} (device x1)"),
        (B, 1, "virtual", "", ""),
    ]
    assert [v.matches for v in verdicts] == [True, False, False, False]
    assert [v.text for v in verdicts] == [
        "/dev/x1 is the device x1",
        "`/dev/y` differs at `y`: the path has `x1` there",
        f"/dev/x1 would be the device x1, but /dev/x1 already belongs to {A} (device x1)",
        "virtual devices have no nodes",
    ]


@pytest.mark.parametrize("path", ["/dev/x1", "/dev//x1", "/dev/./x1", "/dev/x1/"])
def test_a_path_may_be_written_in_other_ways(tree, path):
    tree.node("/dev/x1")
    assert said(tree, path, ["/dev/x{n}"]) == ["/dev/x1 is the device x1"]


def test_a_node_by_the_link_that_leads_to_it(tree):
    tree.node("/dev/ttyUSB3")
    link = tree.link("/dev/serial/by-id/usb-SIMCOM_1", "../../ttyUSB3")
    (text,) = said(tree, "/dev/ttyUSB3", ["/dev/serial/by-id/usb-SIMCOM_*"])
    assert text.startswith("/dev/ttyUSB3 is the device usb-simcom-1-")
    assert text.endswith(f", as {link}")
    (text,) = said(tree, link, ["/dev/ttyUSB*"])
    assert text == f"{link} is the device ttyusb3-cdc3afaf, as /dev/ttyUSB3"


def test_a_node_in_a_folder_that_is_a_device(tree):
    tree.node("/dev/snd/timer")
    tree.node("/dev/snd/seq")
    assert said(tree, "/dev/snd/timer", ["/dev/snd"]) == ["/dev/snd/timer is the device snd"]
    assert said(tree, "/dev/snd", ["/dev/snd"]) == ["/dev/snd is the device snd"]


def test_a_companion(tree):
    for name in ("c1", "c2", "timer"):
        tree.node(f"/dev/{name}")
    selector = Selector(path="/dev/c{n}", with_=("/dev/timer",))
    assert said(tree, "/dev/timer", [selector]) == [
        "/dev/timer comes with the device c1 and 1 more"
    ]
    broken = Selector(path="/dev/c1", with_=("/dev/timer", "/dev/gone"))
    assert said(tree, "/dev/timer", [broken]) == [
        "/dev/timer would come with the device c1, but /dev/gone does not exist"
    ]
    assert said(tree, "/dev/c1", [broken]) == [
        "/dev/c1 would be the device c1, but /dev/gone does not exist"
    ]


def test_what_where_passes_over(tree):
    tree.node("/dev/video0")
    link = tree.link("/dev/v4l/by-id/cam", "../../video0")
    where = (Requirement("n", "AtLeast", ("2",)),)
    assert said(tree, "/dev/video0", [Selector(path="/dev/video{n}", where=where)]) == [
        "/dev/video0 matches, but n is 0, and must be at least 2"
    ]
    by_id = Selector(path="/dev/v4l/by-id/{n}", where=(Requirement("n", "In", ("mic",)),))
    assert said(tree, "/dev/video0", [by_id]) == [
        f"/dev/video0 matches as {link}, but n is cam, and must be mic"
    ]


def test_what_is_no_device_node(tree):
    tree.file("/dev/file")
    tree.folder("/dev/empty")
    assert said(tree, "/dev/file", ["/dev/f*"]) == [
        "/dev/file would be the device file, but /dev/file is a regular file, not a device node"
    ]
    assert said(tree, "/dev/empty", ["/dev/e*", "/dev/e*/", "/dev/empty"]) == [
        "/dev/empty matches, but it is a folder; a pattern means folders with a `/` at its end",
        "/dev/empty would be the device empty, but /dev/empty is a folder without device nodes",
        "/dev/empty matches, but empty already belongs to example.com/a (device empty)",
    ]
    assert said(tree, "/dev/file", ["/dev/f*/"]) == [
        "/dev/file matches, but it is no folder, which the `/` at the end asks for"
    ]


def test_what_does_not_exist(tree):
    tree.link("/dev/dangling", "gone")
    for pattern in ("/dev/gone", "/dev/g*", "/dev/{x}"):
        assert said(tree, "/dev/gone", [pattern]) == ["/dev/gone matches, but it does not exist"]
    (text,) = said(tree, "/dev/dangling", ["/dev/d*"])
    assert text == (
        "/dev/dangling would be the device dangling,"
        " but /dev/dangling is a link to /dev/gone, which does not exist"
    )


def test_the_same_device_again_in_one_resource(tree):
    tree.node("/dev/x1")
    assert said(tree, "/dev/x1", ["/dev/x1", "/dev/x*"]) == [
        "/dev/x1 is the device x1",
        f"/dev/x1 matches, but /dev/x1 already belongs to {A} (device x1)",
    ]


def test_a_selector_that_fails(tree, monkeypatch):
    tree.node("/dev/x")
    monkeypatch.setattr("device_plugin.discovery.path.find", lambda *_: 1 / 0)
    (text,) = said(tree, "/dev/x", ["/dev/x"])
    assert text.startswith("/dev/x matches, but devices[0] failed, please report: ZeroDivision")


def test_names_that_nobody_can_read_are_shown_in_ascii(tree):
    tree.node("/dev/evil\n")
    for text in said(tree, "/dev/evil\n", ["/dev/e*", "/dev/x", "/dev/evil"]):
        assert text.isprintable()
    assert said(tree, "/dev/evil\n", ["/dev/e*"]) == [
        "'/dev/evil\\n' matches, but there are unprintable characters in its name"
    ]


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/dev/x*", "/dev/x1", ""),
        ("/dev/x*/", "/dev/x1", ""),
        ("/dev/[*]", "/dev/*", ""),
        ("/dev/x*", "/sys/x1", "`/dev/x*` differs at `dev`: the path has `sys` there"),
        ("/dev/x*", "/dev/y1", "`/dev/x*` differs at `x*`: the path has `y1` there"),
        ("/dev/x*", "/dev/.x1", "`/dev/x*` differs at `x*`: the path has `.x1` there"),
        ("/dev/*", "/dev/.x1", "`/dev/*` differs at `*`: the path has `.x1` there"),
        (
            "/dev/{n}/a{n}",
            "/dev/1/a2",
            "`/dev/{n}/a{n}` differs at `a{n}`: the path has `a2` there",
        ),
        ("/dev/a/b", "/dev/a", "`/dev/a/b` goes on with `b` where the path ends"),
        ("/dev/a", "/dev/a/b", "`/dev/a` ends where the path goes on with `b`"),
        ("/dev/a", "/", "`/dev/a` differs at `dev`: the path has `` there"),
    ],
)
def test_where_a_path_leaves_a_pattern(pattern, path, expected):
    assert explain.difference(PathPattern.parse(pattern), path) == expected


def test_a_difference_is_none_exactly_where_the_walk_finds_the_path(tree):
    """`difference` and `find` read the same patterns."""
    for path in ("/dev/a1", "/dev/b/a1", "/dev/b/b", "/dev/.a", "/dev/a1b1"):
        tree.node(path)
    for text in ("/dev/a*", "/dev/{x}/{x}", "/dev/*/*", "/dev/.*", "/dev/a{n}b{n}", "/dev/b/[ab]?"):
        pattern = PathPattern.parse(text)
        found = discover(tree.host.look(), config([text]))[A].candidates
        matched = {node.host_path for c in found for node in c.device.nodes}
        for path in ("/dev/a1", "/dev/b/a1", "/dev/b/b", "/dev/.a", "/dev/a1b1"):
            assert (explain.difference(pattern, path) == "") == (path in matched), (text, path)


def test_each_selector_reports_what_it_lost(tree):
    for name in ("x1", "x2", "x3"):
        tree.node(f"/dev/{name}")
    tree.folder("/dev/x4")
    where = (Requirement("n", "NotIn", ("3",)),)
    selectors = [
        "/dev/x1",
        Selector(path="/dev/x{n}", where=where),
        Selector(path="/dev/x3", with_=("/dev/gone",)),
        "/dev/y",
        "/dev/z*",
    ]
    assert lost(tree, selectors) == [
        [],
        [
            Lost("/dev/x3", "n is 3, and must not be 3"),
            Lost("/dev/x4", "it is a folder; a pattern means folders with a `/` at its end"),
            Lost("x1", f"/dev/x1 already belongs to {A} (device x1)"),
        ],
        [Lost("x3", "/dev/gone does not exist")],
        [Lost("/dev/y", "it does not exist")],
        [],
    ]
    notes = discover(tree.host.look(), config(selectors))[A].notes
    assert notes == [
        f"x1 matches again: /dev/x1 already belongs to {A} (device x1)",
        "/dev/y matches nothing",
        "/dev/z* matches nothing",
    ], "the log is as quiet as ever"


def test_candidates_stand_under_their_selector(tree):
    tree.node("/dev/x1")
    tree.node("/dev/y1")
    found = discover(tree.host.look(), config(["/dev/x*", "/dev/y*"]))[A]
    by_selector = [[c.device.id for c in one.candidates] for one in found.selectors]
    assert by_selector == [["x1"], ["y1"]]
    assert [c.device.id for c in found.candidates] == ["x1", "y1"]


def test_titles():
    assert explain.title(Selector(path="/dev/x*")) == "path: /dev/x*"
    assert explain.title(Selector(virtual=Virtual(5))) == "virtual: 5"
