"""What a request has told the model, by path: `prompt`, `step`, `evidence.0.content.error_rate`.

`evidence.N` counts successful results in the order in which the model was told of them, `calls.N`
every call whatever became of it; negative numbers count from the end.
"""

import re
from typing import cast

import msgspec
from msgspec import Struct

from aegis.domain.errors import ConfigurationError
from aegis.domain.model import ModelRequest, ToolMessage, UserMessage
from aegis.domain.tool_call import CallState

_NUMBER = re.compile(r"-?\d{1,9}")
_FIELDS = ("id", "name", "state", "content")


class NoSuchValue(Exception):
    """A path leads nowhere, or a filter does not fit its value."""


class Path(Struct, frozen=True, kw_only=True):
    """A parsed path. `index` is None for `prompt`, `step` and the two counts."""

    text: str
    root: str
    index: int | None = None
    field: str = "id"
    parts: tuple[str, ...] = ()


def parse_path(place: str, text: str) -> Path:
    """Return the parsed path. Raises `ConfigurationError` for one that no request can have."""
    root, *rest = text.split(".")
    if root in {"prompt", "step"} and not rest:
        return Path(text=text, root=root)
    if root in {"evidence", "calls"} and rest == ["count"]:
        return Path(text=text, root=root)
    if root in {"evidence", "calls"} and rest and _NUMBER.fullmatch(rest[0]):
        field, parts = (rest[1], tuple(rest[2:])) if len(rest) > 1 else ("id", ())
        if field in _FIELDS and "" not in parts and (field == "content" or not parts):
            return Path(text=text, root=root, index=int(rest[0]), field=field, parts=parts)
    raise ConfigurationError(
        f"{place} uses the unknown path {text!r}; it must be prompt, step, evidence.count,"
        " calls.count, or evidence.N or calls.N with id, name, state or content.…"
    )


class Told:
    """One request, read by path. Content is parsed when it is first asked for."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._messages: dict[str, list[ToolMessage]] = {}
        self._parsed: dict[tuple[str, int], object] = {}

    def find(self, path: Path) -> object:
        """Return the value at `path`. Raises `NoSuchValue`."""
        if path.root == "step":
            return self._request.step
        if path.root == "prompt":
            return self._prompt()
        messages = self._told(path.root)
        if path.index is None:
            return len(messages)
        try:
            index = range(len(messages))[path.index]
        except IndexError as error:
            raise NoSuchValue(path.text) from error
        message = messages[index]
        match path.field:
            case "id":
                if message.evidence_id is None:
                    raise NoSuchValue(path.text)
                return message.evidence_id
            case "name":
                return message.name
            case "state":
                return message.state.value
            case _:
                return _walk(path, self._content((path.root, index), message.content))

    def _prompt(self) -> str:
        for message in reversed(self._request.messages):
            if isinstance(message, UserMessage):
                return message.text
        return ""

    def _told(self, root: str) -> list[ToolMessage]:
        found = self._messages.get(root)
        if found is None:
            found = [item for item in self._request.messages if isinstance(item, ToolMessage)]
            if root == "evidence":
                found = [
                    item
                    for item in found
                    if item.evidence_id is not None and item.state is CallState.SUCCEEDED
                ]
            self._messages[root] = found
        return found

    def _content(self, key: tuple[str, int], content: str) -> object:
        if key not in self._parsed:
            try:
                self._parsed[key] = msgspec.json.decode(content)
            except (msgspec.DecodeError, ValueError, RecursionError):
                # Plain text, or JSON that was cut for the model: it stays text.
                self._parsed[key] = content
        return self._parsed[key]


def _walk(path: Path, value: object) -> object:
    for part in path.parts:
        if isinstance(value, dict) and part in value:
            value = cast("dict[str, object]", value)[part]
        elif isinstance(value, list) and _NUMBER.fullmatch(part):
            try:
                value = cast("list[object]", value)[int(part)]
            except IndexError as error:
                raise NoSuchValue(path.text) from error
        else:
            raise NoSuchValue(path.text)
    return value
