"""What a test can make go wrong when plugins register."""

from typing import Literal

from device_plugin.testing.faults import Faults


class Switches:
    """The switches of registration and streams, as methods of the kubelet."""

    _faults: Faults

    def refuse_registration(self, text: str, times: int | None = None) -> None:
        """Answer Register with this error, for ever or so many times."""
        self._faults.refuse(text, times)

    def accept_registration(self) -> None:
        self._faults.refuse("", 0)

    def hold_registration(self, where: Literal["arrival", "reply"] = "arrival") -> None:
        """Leave Register calls unanswered: before anything is done, or with all done."""
        self._faults.hold(where)

    def release_registration(self) -> None:
        self._faults.hold(None)

    def withhold_streams(self, times: int | None = None) -> None:
        """Never open ListAndWatch after a good Register, for ever or so many times.

        Such a client's socket may be registered again, as if a stream had ended.
        """
        self._faults.withhold(times)

    def open_streams(self, order: Literal["any", "before", "after"] = "any") -> None:
        """Open ListAndWatch again, and where wanted surely before or after the Register reply."""
        self._faults.withhold(0)
        self._faults.stream_order = order
