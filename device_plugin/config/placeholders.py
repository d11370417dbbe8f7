"""Templates in the config: are they well formed, and is every placeholder there to be filled?"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from device_plugin.config.problem import PLACEHOLDER, Report, Where, show, there
from device_plugin.template import ATTRIBUTE, Template, TemplateError

PATHS = frozenset(("host_path", "local_path", "path"))


class Offer(NamedTuple):
    """The placeholders that the devices of one selector fill."""

    where: Where  # the selector
    names: frozenset[str]
    others: bool = False  # attributes that nobody knows beforehand, too

    def fills(self, field: str) -> bool:
        return field in self.names or (self.others and field.startswith(f"{ATTRIBUTE}."))


class Offers:
    """Those of all selectors that may have to fill a template."""

    def __init__(self, offers: Sequence[Offer], answers: Mapping[str, str] | None = None) -> None:
        """`answers` say what is wrong with a field when there is more to say than that."""
        self._offers = offers
        self._everywhere = frozenset[str]().union(*(offer.names for offer in offers[:1]))
        self._everywhere = self._everywhere.intersection(*(offer.names for offer in offers))
        self._anywhere = frozenset[str]().union(*(offer.names for offer in offers))
        # What is asked again and again costs once.
        self._answers: dict[str, str | None] = dict(answers or {})

    def missing(self, field: str, report: Report) -> str | None:
        """Say what is wrong with a field, if anything is."""
        if field in self._everywhere or not self._offers:
            return None
        if field not in self._answers:
            self._answers[field] = self._answer(field, report)
        return self._answers[field]

    def _answer(self, field: str, report: Report) -> str | None:
        shown = f"`{{{show(field)}}}`"
        lacking = [offer for offer in self._offers if not offer.fills(field)]
        if not lacking:
            return None
        if len(lacking) < len(self._offers):
            return f"the devices in {report.line(lacking[0].where)} have no {shown}"
        attribute = f"{ATTRIBUTE}.{field}"
        meant = attribute if attribute in self._anywhere else report.near(field, self._anywhere)
        if meant:
            return f"unknown placeholder {shown}; did you mean `{{{meant}}}`?"
        return f"unknown placeholder {shown}; {self._there}"

    @cached_property
    def _there(self) -> str:
        # A capture is an attribute too; the short name says it all.
        twice = {f"{ATTRIBUTE}.{name}" for name in self._anywhere}
        return there(sorted(self._anywhere - twice), PLACEHOLDER)


def template(
    text: str, where: Where, report: Report, offers: Offers | None, *, key: bool = False
) -> Template | None:
    """Parse a template and report what is wrong with it; no offers: nobody knows its fields."""
    try:
        parsed = Template.parse(text)
    except TemplateError as error:
        report.at(where, str(error), key=key)
        return None
    for field in sorted(parsed.fields):
        if offers and (message := offers.missing(field, report)):
            report.at(where, message, key=key)
    return parsed


def shape(
    parsed: Template | None,
    judge: Callable[[str], str | None],
    where: Where,
    report: Report,
    *,
    key: bool = False,
) -> None:
    """Judge a template by what it gives for values such as there may be."""
    if parsed is None:
        return
    sample = parsed.render({field: _sample(field) for field in parsed.fields})
    if message := judge(sample):
        report.at(where, message, key=key)


def _sample(field: str) -> str:
    if field in PATHS:
        return "/x"
    return "0" if field == "index" else "x"
