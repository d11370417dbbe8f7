"""How long to wait after failures in a row: doubling, up to a limit."""

import random


def doubling(times: int, first: float, longest: float) -> float:
    """Seconds to wait after so many times in a row."""
    return min(longest, first * 2.0 ** min(times - 1, 16))


def delay(failures: int, first: float, longest: float) -> float:
    """The same with jitter: nodes that fail together must not all come again together."""
    return doubling(failures, first, longest) * jitter()


def jitter() -> float:
    """A factor near 1."""
    return random.uniform(0.8, 1.2)  # noqa: S311 - no secret
