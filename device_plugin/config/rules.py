"""What the types cannot say."""

from device_plugin.config.problem import Report
from device_plugin.config.types import Config


def check(config: Config, report: Report) -> None:
    """Report everything."""
