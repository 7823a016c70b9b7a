"""Templates in scripts: `{{evidence.0.content.error_rate|percent}}` and the like.

Paths start at `prompt`, `step` or `evidence`; an evidence index counts successful results in the
order in which the model was told of them, from either end. The set of filters is closed.
"""

import json
import re
from collections.abc import Callable
from typing import Any, cast

from aegis.domain.errors import ConfigurationError
from aegis.domain.model import ModelRequest, ToolMessage
from aegis.domain.tool_call import CallState

_TEMPLATE = re.compile(r"\{\{\s*([^{}|\s]+)\s*(?:\|\s*(\w+)\s*)?\}\}")
_PATH = re.compile(r"(prompt|step|evidence(\.-?\d+(\.(id|name|content(\.[\w\-]+)*))?)?)")


class NoSuchValue(Exception):
    """A path leads nowhere, or a filter does not fit its value."""


def _percent(value: Any) -> str:
    return f"{float(value) * 100:.1f} %"


def _rounded(digits: int) -> Callable[[Any], str]:
    return lambda value: f"{float(value):.{digits}f}"


FILTERS: dict[str, Callable[[Any], object]] = {
    "percent": _percent,
    "round0": _rounded(0),
    "round1": _rounded(1),
    "round2": _rounded(2),
    "round4": _rounded(4),
    "count": len,
}


class Told:
    """What a request has told the model, by path. Content is parsed when it is first asked for."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._results = [
            message
            for message in request.messages
            if isinstance(message, ToolMessage)
            and message.evidence_id is not None
            and message.state is CallState.SUCCEEDED
        ]
        self._parsed: dict[int, object] = {}

    def find(self, path: str) -> object:
        """Return the value at `path`. Raises `NoSuchValue`."""
        head, *rest = path.split(".")
        if head == "step":
            return self._request.step
        if head == "prompt":
            return getattr(self._request.messages[0], "text", "")
        if not rest:
            return self._results
        try:
            index = range(len(self._results))[int(rest[0])]
        except IndexError as error:
            raise NoSuchValue(path) from error
        message = self._results[index]
        field = rest[1] if len(rest) > 1 else "id"
        if field == "id":
            return message.evidence_id
        if field == "name":
            return message.name
        return _walk(path, self._content(index, message), rest[2:])

    def fill(self, value: object) -> object:
        """Return `value` with every template in its strings filled in. Raises `NoSuchValue`.

        A string that is one template without a filter keeps the type of its value.
        """
        if isinstance(value, str):
            return self._fill_text(value)
        if isinstance(value, dict):
            return {key: self.fill(item) for key, item in cast("dict[str, object]", value).items()}
        if isinstance(value, list):
            return [self.fill(item) for item in cast("list[object]", value)]
        return value

    def _fill_text(self, text: str) -> object:
        whole = _TEMPLATE.fullmatch(text)
        if whole and not whole.group(2):
            return self.find(whole.group(1))
        return _TEMPLATE.sub(lambda match: str(self._value(match)), text)

    def _value(self, match: re.Match[str]) -> object:
        value = self.find(match.group(1))
        if not match.group(2):
            return value
        try:
            return FILTERS[match.group(2)](value)
        except (TypeError, ValueError) as error:
            raise NoSuchValue(match.group(0)) from error

    def _content(self, index: int, message: ToolMessage) -> object:
        if index not in self._parsed:
            try:
                self._parsed[index] = json.loads(message.content)
            except ValueError:
                self._parsed[index] = message.content
        return self._parsed[index]


def has_template(value: object) -> bool:
    """Whether any string within `value` holds a template."""
    return "{{" in json.dumps(value)


def check_templates(place: str, value: object) -> None:
    """Raise `ConfigurationError` for a template whose path or filter cannot exist."""
    if isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            check_templates(place, item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            check_templates(place, item)
    elif isinstance(value, str):
        for match in _TEMPLATE.finditer(value):
            check_path(place, match.group(1))
            if match.group(2) and match.group(2) not in FILTERS:
                known = ", ".join(sorted(FILTERS))
                raise ConfigurationError(
                    f"{place} uses the unknown filter {match.group(2)!r}; known: {known}"
                )
        if "{{" in _TEMPLATE.sub("", value):
            raise ConfigurationError(f"{place} has a template that is not closed: {value!r}")


def check_path(place: str, path: str) -> None:
    """Raise `ConfigurationError` for a path that no request can have."""
    if not _PATH.fullmatch(path):
        raise ConfigurationError(
            f"{place} uses the unknown path {path!r}; it must start with prompt, step or evidence.N"
        )


def _walk(path: str, value: object, parts: list[str]) -> object:
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = cast("dict[str, object]", value)[part]
        elif isinstance(value, list) and re.fullmatch(r"-?\d+", part):
            try:
                value = cast("list[object]", value)[int(part)]
            except IndexError as error:
                raise NoSuchValue(path) from error
        else:
            raise NoSuchValue(path)
    return value
