"""Templates in scripts: `{{evidence.0.content.error_rate|percent}}` and the like.

They are parsed when the script is loaded. The set of filters is closed.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import cast

from msgspec import Struct

from aegis.domain.errors import ConfigurationError
from aegis.model_providers.scripted.told import NoSuchValue, Path, Told, parse_path

_TEMPLATE = re.compile(r"\{\{\s*([^{}|\s]+)\s*(?:\|\s*(\w+)\s*)?\}\}")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("not a number")
    return float(value)


def _percent(value: object) -> str:
    return f"{_number(value) * 100:.1f} %"


def _rounded(digits: int) -> Callable[[object], str]:
    return lambda value: f"{_number(value):.{digits}f}"


def _count(value: object) -> int:
    if isinstance(value, str | list | dict):
        return len(cast("list[object]", value))
    raise TypeError("not countable")


FILTERS: dict[str, Callable[[object], object]] = {
    "percent": _percent,
    "round0": _rounded(0),
    "round1": _rounded(1),
    "round2": _rounded(2),
    "round4": _rounded(4),
    "count": _count,
}


class Slot(Struct, frozen=True, kw_only=True):
    """One template: a path and perhaps a filter."""

    path: Path
    filter: str | None = None

    def value(self, told: Told) -> object:
        """Return what stands there. Raises `NoSuchValue`."""
        found = told.find(self.path)
        if self.filter is None:
            return found
        try:
            return FILTERS[self.filter](found)
        except (TypeError, OverflowError) as error:
            raise NoSuchValue(f"{self.path.text}|{self.filter}") from error


class Template(Struct, frozen=True, kw_only=True):
    """A string with slots. A string that is one slot and nothing else keeps its value's type."""

    pieces: tuple[str | Slot, ...]

    def value(self, told: Told) -> object:
        """Return the filled value. Raises `NoSuchValue`."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Slot):
            return self.pieces[0].value(told)
        return self.text(told)

    def text(self, told: Told) -> str:
        """Return the filled text. Raises `NoSuchValue`."""
        return "".join(
            piece if isinstance(piece, str) else shown(piece.value(told)) for piece in self.pieces
        )


def parse_text(place: str, text: str) -> str | Template:
    """Return `text` as it is, or parsed where it holds templates. Raises `ConfigurationError`."""
    if "{{" not in text:
        return text
    pieces: list[str | Slot] = []
    end = 0
    for match in _TEMPLATE.finditer(text):
        pieces += [text[end : match.start()], _slot(place, match.group(1), match.group(2))]
        end = match.end()
    pieces.append(text[end:])
    if any(isinstance(piece, str) and "{{" in piece for piece in pieces):
        raise ConfigurationError(
            f"{place} has a template that is not {{{{path}}}} or {{{{path|filter}}}}: {text!r}"
        )
    return Template(pieces=tuple(piece for piece in pieces if piece != ""))


def parse_value(place: str, value: object) -> object:
    """Return `value` with every string in it parsed; keys of objects are never templates."""
    if isinstance(value, str):
        return parse_text(place, value)
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: parse_value(place, item) for key, item in items}
    if isinstance(value, list):
        return [parse_value(place, item) for item in cast("list[object]", value)]
    return value


def fill(value: object, told: Told) -> object:
    """Return a parsed value with its templates filled in. Raises `NoSuchValue`."""
    if isinstance(value, Template):
        return value.value(told)
    if isinstance(value, dict):
        return {key: fill(item, told) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [fill(item, told) for item in cast("list[object]", value)]
    return value


def fill_text(text: str | Template, told: Told) -> str:
    """Return a parsed text with its templates filled in. Raises `NoSuchValue`."""
    return text if isinstance(text, str) else text.text(told)


def slots(value: object) -> Iterator[Slot]:
    """Yield every slot within a parsed value."""
    if isinstance(value, Template):
        yield from (piece for piece in value.pieces if isinstance(piece, Slot))
    elif isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            yield from slots(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from slots(item)


def shown(value: object) -> str:
    """Return a value as text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _slot(place: str, path: str, name: str | None) -> Slot:
    if name is not None and name not in FILTERS:
        known = ", ".join(sorted(FILTERS))
        raise ConfigurationError(f"{place} uses the unknown filter {name!r}; known: {known}")
    return Slot(path=parse_path(place, path), filter=name)
