"""What can be made to go wrong between a kubelet and a plugin. All of it is seen in the field."""

from typing import Literal

import grpc

from device_plugin.testing.endpoints import PluginError
from device_plugin.testing.state import State

# A held call is let go after this long, so that a test cannot hang for ever.
_LONGEST_HOLD = 60.0


class Faults:
    """Switches that the registration and the connections look at."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._refusal = ""
        self._refusals: int | None = 0  # how many calls are still refused; None: all
        self._withheld: int | None = 0  # how many streams are still not opened; None: all
        self._hold: Literal["arrival", "reply"] | None = None
        self.stream_order: Literal["any", "before", "after"] = "any"

    def refuse(self, text: str, times: int | None) -> None:
        with self._state.changing():
            self._refusal, self._refusals = text, times

    def withhold(self, times: int | None) -> None:
        with self._state.changing():
            self._withheld = times

    def hold(self, where: Literal["arrival", "reply"] | None) -> None:
        with self._state.changing():
            self._hold = where

    def check_refusal(self) -> None:
        with self._state.changing():
            if self._refusals != 0:
                if self._refusals is not None:
                    self._refusals -= 1
                raise PluginError(self._refusal)

    def takes_stream(self) -> bool:
        """Whether this registration's stream shall be opened."""
        with self._state.changing():
            if self._withheld is None:
                return False
            if self._withheld > 0:
                self._withheld -= 1
                return False
            return True

    def wait_while_held(
        self, where: Literal["arrival", "reply"], context: grpc.ServicerContext
    ) -> None:
        with self._state.condition:
            generation = self._state.generation
            if self._hold == where and context.add_callback(self._wake):
                self._state.condition.wait_for(
                    lambda: self._hold != where or not context.is_active(),
                    timeout=_LONGEST_HOLD,
                )
            if self._state.generation != generation:
                raise PluginError("context canceled")

    def _wake(self) -> None:
        with self._state.changing():
            pass
