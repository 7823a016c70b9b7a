"""Conditions of a choice, parsed when the script is loaded."""

import math
from datetime import datetime

from msgspec import Struct

from aegis.domain.errors import ConfigurationError
from aegis.model_providers.scripted.format import DeclaredCondition
from aegis.model_providers.scripted.template import Template, fill, fill_text, parse_text, shown
from aegis.model_providers.scripted.told import NoSuchValue, Path, Told, parse_path

Scalar = str | int | float | bool


class Condition(Struct, frozen=True, kw_only=True):
    """All tests that are not None must hold for the value at `path`."""

    path: Path
    equals: Scalar | Template | None
    at_least: float | None
    below: float | None
    contains: str | Template | None
    not_before: str | Template | None
    exists: bool | None

    def holds(self, told: Told) -> bool:
        """Whether it holds. A path, also one in a template, that leads nowhere: it does not."""
        try:
            value = told.find(self.path)
        except NoSuchValue:
            return self.exists is False
        if self.exists is False:
            return False
        try:
            return self._texts_hold(value, told) and self._numbers_hold(value)
        except NoSuchValue:
            return False

    def _texts_hold(self, value: object, told: Told) -> bool:
        return (
            (self.equals is None or _same(value, fill(self.equals, told)))
            and (self.contains is None or fill_text(self.contains, told) in shown(value))
            and (self.not_before is None or _is_not_before(value, fill_text(self.not_before, told)))
        )

    def _numbers_hold(self, value: object) -> bool:
        if self.at_least is None and self.below is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.at_least is None or value >= self.at_least) and (
            self.below is None or value < self.below
        )


def parse_condition(place: str, declared: DeclaredCondition) -> Condition:
    """Return the parsed condition. Raises `ConfigurationError`."""
    tests = (
        declared.equals,
        declared.at_least,
        declared.below,
        declared.contains,
        declared.not_before,
        declared.exists,
    )
    if all(test is None for test in tests):
        raise ConfigurationError(
            f"{place}: the condition on {declared.path!r} tests nothing; give equals, at_least,"
            " below, contains, not_before or exists"
        )
    for bound in (declared.at_least, declared.below):
        if bound is not None and not math.isfinite(bound):
            raise ConfigurationError(f"{place}: the bound on {declared.path!r} must be finite")
    equals = declared.equals
    return Condition(
        path=parse_path(place, declared.path),
        equals=parse_text(place, equals) if isinstance(equals, str) else equals,
        at_least=declared.at_least,
        below=declared.below,
        contains=None if declared.contains is None else parse_text(place, declared.contains),
        not_before=None if declared.not_before is None else parse_text(place, declared.not_before),
        exists=declared.exists,
    )


def _same(value: object, wanted: object) -> bool:
    # For Python True is 1; for a reader of JSON it is not.
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _is_not_before(value: object, other: str) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return datetime.fromisoformat(value) >= datetime.fromisoformat(other)
    except (ValueError, TypeError):
        # No instants, or one with and one without an offset.
        return False
