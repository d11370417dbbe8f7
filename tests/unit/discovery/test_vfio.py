"""IOMMU groups for virtual machines."""

import pytest

GROUPS = """
iommu DMA-FQ
pci0000:00 numa=0
  00:01.0 8086:460d 060400 pcieport group=11
    01:00.0 10de:2204 030000 vfio-pci group=11
    01:00.1 10de:1aef 040300 vfio-pci group=11
  00:02.0 10de:2204 030000 vfio-pci group=4
  00:03.0 10de:2204 030000 nouveau group=5
    drm/card0
  00:04.0 10de:2204 030000 vfio-pci group=6
  00:04.1 10de:1aef 040300 snd_hda_intel group=6
  00:05.0 10de:2204 030000 vfio-pci group=7
  00:05.1 10de:1aef 040300 group=7
pci0000:80 numa=1
  80:01.0 15b3:101e 020000 mlx5_vfio_pci group=80
"""


def lost(discovered):
    return {one.what: one.reason for one in discovered.selectors[0].lost}


def test_groups(boot, find, paths):
    found = find(boot(GROUPS), 'vfio: {vendor: "10de", class: "03"}')
    assert {one.device.id: one.problem for one in found.candidates} == {
        "vfio-0000-00-02-0": "",
        "vfio-0000-00-04-0": (
            "0000:00:04.1, which is in its IOMMU group, is bound to snd_hda_intel, not to vfio-pci"
        ),
        "vfio-0000-00-05-0": "",  # nobody drives its other function
        "vfio-0000-01-00-0": "",
    }
    assert lost(found)["vfio-0000-00-03-0"] == "it is bound to nouveau, not to vfio-pci"
    one = found.candidates[-1]
    assert one.device.attributes["addresses"] == "0000:01:00.0,0000:01:00.1"
    assert one.device.attributes["address"] == "0000:01:00.0"
    assert one.device.attributes["iommu_group"] == "11"
    assert one.device.numa_nodes == (0,)
    assert paths(one)[0] == "/dev/vfio/11"
    assert set(paths(one)[1:]) >= {"/dev/vfio/vfio", "/dev/iommu"}


def test_any_of_its_functions_will_do_and_the_group_is_one(boot, find):
    machine = boot(GROUPS)
    by_sound = find(machine, 'vfio: {address: "0000:01:00.1"}').candidates
    assert [one.device.id for one in by_sound] == ["vfio-0000-01-00-0"]
    assert by_sound[0].device.attributes["address"] == "0000:01:00.1"
    both = find(machine, 'vfio: {address: "0000:01:00.*"}').candidates
    assert [one.device.id for one in both] == ["vfio-0000-01-00-0"]


def test_drivers_for_single_models_count(boot, find):
    (one,) = find(boot(GROUPS), 'vfio: {vendor: "15b3"}').candidates
    assert one.problem == ""
    assert one.device.numa_nodes == (1,)


def test_what_is_bound_to_nothing_is_not_offered(boot, find):
    found = find(boot(GROUPS), 'vfio: {address: "0000:00:05.1"}')
    assert found.candidates == []
    assert lost(found) == {"vfio-0000-00-05-1": "it is bound to no driver, not to vfio-pci"}


def test_a_card_is_the_hosts_or_a_virtual_machines(boot, find):
    machine = boot(GROUPS)
    selectors = ('pci: {class: "03"}, nodes: [{subsystem: drm}]', 'vfio: {class: "03"}')
    for driver, expected in (("nouveau", "pci-0000-00-03-0"), ("vfio-pci", "vfio-0000-00-03-0")):
        machine.bind("00:03.0", driver)
        found = find(machine, *selectors).candidates
        of_card = [one.device.id for one in found if one.device.id.endswith("-00-03-0")]
        assert expected in of_card
        whole = [one.device.id for one in found if not one.problem]
        assert [id_ for id_ in of_card if id_ in whole] == [expected]


def test_bridges_stay_with_the_host(boot, find):
    found = find(boot(GROUPS), 'vfio: {class: "0604"}')
    assert found.candidates == []
    assert lost(found) == {"vfio-0000-00-01-0": "it is a bridge, which stays with the host"}


def test_its_number_is_no_part_of_it(boot, find):
    machine = boot(GROUPS)
    other = boot(GROUPS.replace("group=4", "group=23"))
    ids = [find(one, 'vfio: {address: "0000:00:02.0"}').candidates[0] for one in (machine, other)]
    assert ids[0].device.id == ids[1].device.id
    assert ids[0].device.nodes != ids[1].device.nodes


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ("group", ["/dev/vfio/4", "/dev/vfio/vfio"]),
        ("cdev", ["/dev/vfio/devices/vfio0", "/dev/iommu"]),
    ],
)
def test_kernels_with_one_form(boot, find, paths, forms, expected):
    machine = boot(f"vfio {forms}\n{GROUPS}")
    (one,) = find(machine, 'vfio: {address: "0000:00:02.0"}').candidates
    assert one.problem == ""
    assert [path.rstrip("0123456789") for path in paths(one)] == [
        path.rstrip("0123456789") for path in expected
    ]


def test_the_form_that_is_asked_for(boot, find, paths):
    machine = boot(GROUPS)
    (one,) = find(machine, 'vfio: {address: "0000:00:02.0"}, nodes: [{subsystem: vfio}]').candidates
    assert paths(one) == ["/dev/vfio/4", "/dev/vfio/vfio"]
    (one,) = find(
        machine, 'vfio: {address: "0000:00:02.0"}, nodes: [{subsystem: vfio-dev}]'
    ).candidates
    first, control = paths(one)
    assert first.startswith("/dev/vfio/devices/vfio")
    assert control == "/dev/iommu"


def test_without_an_iommu(boot, find):
    machine = boot(GROUPS)
    machine.set_iommu()
    found = find(machine, 'vfio: {address: "0000:00:02.0"}')
    assert lost(found) == {
        "vfio-0000-00-02-0": "it is in no IOMMU group: is the IOMMU switched on?"
    }


def test_a_function_has_one_owner_whether_as_itself_or_in_its_group(boot, find):
    group, function = find(
        boot(GROUPS),
        'vfio: {address: "0000:01:00.0"}',
        'pci: {address: "0000:01:00.1"}, nodes: [{subsystem: vfio-dev}]',
    ).candidates
    assert group.problem == ""
    assert "already belongs to a.b/c (device vfio-0000-01-00-0)" in function.problem
