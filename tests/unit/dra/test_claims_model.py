"""Claims under whatever comes: never a device to two of them, nothing left of those that ended."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from device_plugin.config import Resource
from device_plugin.device import Device
from device_plugin.dra.allocated import ClaimRef
from device_plugin.dra.checkpoint import Prepared, held
from device_plugin.dra.claims import Claims
from device_plugin.dra.cluster import ApiError
from device_plugin.dra.offer import Offer
from device_plugin.host import Host
from device_plugin.listing import Listed, Snapshot
from tests.unit.dra.claimed import DRIVER, POOL, ClaimApi, result

REPLICAS = {"gpu-0": 1, "gpu-1": 1, "gpu-2": 2}
NAMES = ["gpu-0", "gpu-1", "gpu-2", "gpu-2-r1"]
CLAIMS = [f"c{i}" for i in range(5)]
FAULTS = ("fsync", "api", "cdi")


class Machine(RuleBasedStateMachine):
    """The kubelet, the scheduler and the disk, all at their worst."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.cdi = self.folder / "cdi"
        self.api = ClaimApi()
        self.faults: set[str] = set()
        self.reasons: dict[str, str] = {}
        self.wanted: dict[str, tuple[str, ...]] = {}  # by UID, what was allocated
        self.answered: dict[str, tuple[str, ...]] = {}  # by UID, what was answered last
        self.real_fsync = os.fsync
        os.fsync = self.fsync  # type: ignore[assignment]
        self.api.refuse = lambda _: ApiError("no answer") if "api" in self.faults else None
        self.restart()

    def teardown(self) -> None:
        os.fsync = self.real_fsync
        shutil.rmtree(self.folder)

    def fsync(self, file: int) -> None:
        if "fsync" in self.faults:
            raise OSError(28, "No space left on device")
        self.real_fsync(file)

    @rule()
    def restart(self) -> None:
        (self.folder / "state").mkdir(exist_ok=True)
        self.claims = Claims(
            offers=self.offers,
            cluster=self.api,
            driver=DRIVER,
            pool=POOL,
            state_dir=self.folder / "state",
            cdi_dir=self.cdi,
            host=Host(),
        )

    def offers(self) -> list[Offer]:
        listed = [
            Listed(Device(id_, replicas=count), self.reasons.get(id_, ""))
            for id_, count in REPLICAS.items()
        ]
        return [Offer(Resource("example.com/gpu", (), api="dra"), Snapshot(tuple(listed)))]

    @rule(name=st.sampled_from(CLAIMS), devices=st.lists(st.sampled_from(NAMES), min_size=1))
    def allocate(self, name: str, devices: list[str]) -> None:
        """A claim that is new, or whose name was another's before."""
        uid = f"uid-{len(self.wanted)}"
        self.wanted[uid] = tuple(dict.fromkeys(devices))
        self.api.allocate(name, *map(result, self.wanted[uid]), uid=uid)

    @precondition(lambda self: self.api.claims)
    @rule(data=st.data())
    def prepare(self, data: Any) -> None:
        _, name = data.draw(st.sampled_from(sorted(self.api.claims)))
        uid = self.api.claims["team", name]["metadata"]["uid"]
        ref = self.ref(uid, name)
        answer = self.claims.prepare([ref])[uid]
        if isinstance(answer, Prepared):
            got = tuple(one.name for one in answer.devices)
            assert got == self.wanted[uid]
            self.answered[uid] = got
        else:
            assert "please report" not in answer

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def unprepare(self, data: Any) -> None:
        uid = data.draw(st.sampled_from(sorted(self.wanted)))
        if not self.claims.unprepare([self.ref(uid, "any")])[uid]:
            self.answered.pop(uid, None)

    @rule(id_=st.sampled_from([*REPLICAS]), reason=st.sampled_from(["", "hot"]))
    def turn(self, id_: str, reason: str) -> None:
        self.reasons[id_] = reason
        self.claims.renew()

    @rule(fault=st.sampled_from(FAULTS))
    def break_or_mend(self, fault: str) -> None:
        self.faults ^= {fault}
        if fault == "cdi":  # a file in the folder's place is in everybody's way
            away = self.folder / "away"
            if fault in self.faults:
                self.cdi.rename(away) if self.cdi.exists() else away.mkdir()
                self.cdi.touch()
            else:
                self.cdi.unlink()
                away.rename(self.cdi)

    @rule()
    def reboot(self) -> None:
        if "cdi" not in self.faults:
            shutil.rmtree(self.cdi, ignore_errors=True)
            self.restart()
            self.claims.renew()

    @invariant()
    def nothing_is_given_twice(self) -> None:
        taken = [name for names in self.answered.values() for name in names]
        assert len(set(taken)) == len(taken)

    @invariant()
    def what_was_answered_is_kept_and_nothing_else(self) -> None:
        kept = {one.uid: tuple(d.name for d in one.devices) for one in self.claims.prepared}
        assert kept == self.answered
        taken = {NAMES[2] if "-r" in name else name for names in kept.values() for name in names}
        assert set(held(self.claims.prepared)) == taken

    @invariant()
    def the_specs_are_those_of_what_is_kept(self) -> None:
        if "cdi" not in self.faults and self.cdi.exists():
            found = {path.name for path in self.cdi.iterdir()}
            kept = {f"device-plugin-claim-{one.uid}.json" for one in self.claims.prepared}
            assert found <= kept

    def ref(self, uid: str, name: str) -> ClaimRef:
        return ClaimRef("team", name, uid)


def test_whatever_comes():
    few = settings(max_examples=50, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(Machine, settings=few)
