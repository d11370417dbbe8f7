"""What a device is called: IDs outlive restarts, so nobody may change them by accident."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from device_plugin.device import ID_LIMIT, MAX_REPLICAS, Device, device_id, natural_key

LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
REPLICA = re.compile(r"-r\d+$")
LAST_SUFFIX = f"-r{MAX_REPLICAS - 1}"

names = st.one_of(
    st.text(max_size=80),
    st.text(st.characters(categories=["Cs", "Cc", "Nd", "Nl", "No"]), max_size=20),
    st.binary(max_size=255).map(lambda raw: raw.decode(errors="surrogateescape")),
    st.from_regex(r"[a-z0-9-]{1,100}(-r[0-9]{1,5})?", fullmatch=True),
    st.text("aAb01-_./: \n\0éÉß", max_size=12),
)


@given(names)
def test_every_id_is_a_label_with_room_for_every_replica(name):
    id_ = device_id(name, name)
    assert LABEL.fullmatch(id_)
    assert len(id_ + LAST_SUFFIX) <= ID_LIMIT


@given(st.lists(names, unique=True, max_size=30))
@example(["ttyUSB0", "ttyusb0", "TTYUSB0", "tty-usb0", "tty.usb0"])
@example(["a/b", "a-b", "a_b", "a--b", "-a-b", "a-b-"])
@example(["é", "\udcc3\udca9"])  # the text, and its bytes as they would come were they not UTF-8
@example(["\ud800", "\udfff", ""])
@example(["a" * 255, "a" * 254, "a" * 58, "a" * 57])
def test_other_identities_have_other_ids(identities):
    assert len({device_id(one, one) for one in identities}) == len(identities)


@given(st.lists(names, unique=True, min_size=2, max_size=10), st.text(max_size=10))
def test_devices_that_read_alike_have_other_ids(identities, readable):
    assert len({device_id(readable, one) for one in identities}) == len(identities)


@given(names)
def test_a_bare_id_is_no_replica_of_another_device(name):
    assert not REPLICA.search(device_id(name, name))


@pytest.mark.parametrize(
    ("readable", "identity", "id_"),
    [
        ("kvm", "kvm", "kvm"),
        ("a" * 57, "a" * 57, "a" * 57),
        ("a" * 58, "a" * 58, "a" * 48 + "-d5c039b7"),
        ("ttyUSB0", "ttyUSB0", "ttyusb0-8acffaea"),
        ("net/tun", "net/tun", "net-tun-097969f1"),
        ("x-r1", "x-r1", "x-r1-a7e42d1e"),
        ("", "", "d-e3b0c442"),
        ("字", "字", "d-c55038b2"),
        ("usb-FTDI_A1-if00", "serial/by-id/usb-FTDI_A1-if00", "usb-ftdi-a1-if00-4747370f"),
    ],
)
def test_ids_are_what_they_were(readable, identity, id_):
    assert device_id(readable, identity) == id_


def test_a_short_name_does_not_stand_for_a_longer_identity():
    assert device_id("data", "disk/by-label/data") != device_id("data", "disk/by-partlabel/data")


def test_replicas_are_numbered_behind_the_bare_id():
    assert Device("x").replica_ids == ["x"]
    assert Device("x", replicas=3).replica_ids == ["x", "x-r1", "x-r2"]


@given(st.lists(names, max_size=10))
@example(["9" * 5000, "10" * 5000, "x" + "1" * 10_000])
@example(["²", "٣", "3", "x²", "x٣", "x3", "③"])
@example(["tty1", "tty01", "tty001"])
def test_natural_order_is_total_on_any_text(texts):
    backwards = texts[::-1]
    assert sorted(texts, key=natural_key) == sorted(backwards, key=natural_key)
    assert all((natural_key(a) == natural_key(b)) == (a == b) for a in texts for b in texts)


@given(st.text("abz-", max_size=5), st.integers(0, 10**30), st.integers(0, 10**30))
def test_numbers_in_names_count_as_numbers(prefix, low, high):
    low, high = sorted((low, high))
    assert natural_key(f"{prefix}{low}") <= natural_key(f"{prefix}{high}")
    assert (natural_key(f"{prefix}{low}") == natural_key(f"{prefix}{high}")) == (low == high)


def test_natural_order_is_what_people_expect():
    ordered = ["1", "a", "a1", "a1b", "a2", "a10", "a10-r1", "a10-r2", "a10-r10", "ab"]
    backwards = ordered[::-1]
    assert sorted(backwards, key=natural_key) == ordered
