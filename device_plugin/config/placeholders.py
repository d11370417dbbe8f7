"""Templates in the config: do their placeholders exist for every device of the resource?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from device_plugin.config.problem import Report, Where, listed, near, show
from device_plugin.template import Template, TemplateError

# Stand-ins with which a template's shape can be judged before there are values.
_PATHS = ("host_path", "local_path", "path")


@dataclass(frozen=True)
class Fields:
    """The placeholders that the devices of one selector fill."""

    where: Where  # the selector
    names: frozenset[str]


def parse(text: str, where: Where, report: Report, *, key: bool = False) -> Template | None:
    try:
        return Template.parse(text)
    except TemplateError as error:
        report_at(report, where, str(error), key=key)
        return None


def report_at(report: Report, where: Where, message: str, *, key: bool) -> None:
    (report.at_key if key else report.at)(where, message)
