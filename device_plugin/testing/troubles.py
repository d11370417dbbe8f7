"""What clients of PodResources meet in the field: slow, failing and nonsensical answers."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import grpc

from device_plugin.testing.state import State

Method = Literal["List", "GetAllocatableResources", "Get"]
METHODS: tuple[Method, ...] = get_args(Method)


class Refused(Exception):  # noqa: N818 - it names what became of a call
    """A call ends with this status."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass(frozen=True, slots=True)
class _Trouble:
    """What is done to a method's calls."""

    delay: float = 0.0  # seconds
    refusal: Refused | None = None
    answer: bytes | None = None
    times: int | None = None  # so many calls; None: all


class Troubles:
    """Switches for one method or all, each for ever or so many times.

    A switch takes the place of the one before it; `recover` ends all.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._troubles: dict[Method, _Trouble] = {}

    def slow(self, seconds: float, method: Method | None = None, times: int | None = None) -> None:
        """Answer rightly, but only after so long."""
        self._cause(method, _Trouble(delay=seconds, times=times))

    def fail(
        self,
        code: grpc.StatusCode,
        text: str,
        method: Method | None = None,
        times: int | None = None,
    ) -> None:
        """Answer with an error."""
        self._cause(method, _Trouble(refusal=Refused(code, text), times=times))

    def answer(self, raw: bytes, method: Method | None = None, times: int | None = None) -> None:
        """Answer with these bytes: nonsense, or a message that the test has made."""
        self._cause(method, _Trouble(answer=raw, times=times))

    def recover(self) -> None:
        """End all troubles; calls that wait are answered."""
        with self._state.changing():
            self._troubles = {}

    def _cause(self, method: Method | None, trouble: _Trouble) -> None:
        with self._state.changing():
            self._troubles |= dict.fromkeys([method] if method else METHODS, trouble)

    def _suffer(self, method: Method, context: grpc.ServicerContext) -> bytes | None:
        """Do to a call what was asked for; returns the bytes to answer it with, if they are set."""
        with self._state.changing():
            troubles = self._troubles
            trouble = troubles.get(method)
            if trouble is None or trouble.times == 0:
                return None
            if trouble.times is not None:
                troubles[method] = replace(trouble, times=trouble.times - 1)
        if trouble.delay:
            self._wait(trouble.delay, troubles, context)
        if trouble.refusal is not None:
            raise trouble.refusal
        return trouble.answer

    def _wait(
        self, delay: float, troubles: dict[Method, _Trouble], context: grpc.ServicerContext
    ) -> None:
        with self._state.condition:
            if context.add_callback(self._wake):
                self._state.condition.wait_for(
                    lambda: self._troubles is not troubles or not context.is_active(), timeout=delay
                )
        if not context.is_active():
            raise Refused(grpc.StatusCode.CANCELLED, "context canceled")

    def _wake(self) -> None:
        with self._state.changing():
            pass
