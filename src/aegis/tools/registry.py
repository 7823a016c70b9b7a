"""The tools of this process by name, each with its compiled schema and defaults."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import jsonschema_rs

from aegis.domain.canonical import canonical_json, strict_json
from aegis.domain.errors import ConfigurationError, NotCanonical
from aegis.domain.text import cut_to_bytes
from aegis.domain.tool import tool_hash
from aegis.tools.tool import Tool

ARGUMENTS_BYTES_MAX = 16 * 1024
DEFAULTS_DEPTH_MAX = 8
REMEMBERED_MAX = 256
REMEMBERED_CHARACTERS_MAX = 1024

FillIn = Callable[[dict[str, object]], dict[str, object]]


class InvalidArguments(Exception):
    """The arguments are no strict JSON object, or break the tool's schema."""


class Registered:
    """One tool, ready to validate and run."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.spec = tool.spec
        self.hash = tool_hash(tool.spec)
        schema: dict[str, Any] = json.loads(tool.spec.input_schema)
        if schema.get("type") != "object":
            raise ConfigurationError(f"the schema of tool {tool.spec.name!r} must be an object")
        try:
            # A schema may name addresses to fetch: none is ever fetched (I20).
            self._validator = jsonschema_rs.validator_for(schema, offline=True)
        except ValueError as error:
            raise ConfigurationError(
                f"the schema of tool {tool.spec.name!r} is not valid JSON Schema"
            ) from error
        self._reproduced: set[str] = set()
        self._fill_in = _fill_in(schema, schema.get("$defs", {}), 0)

    def canonical(self, arguments: str) -> str:
        """Return the canonical text of the validated arguments with defaults applied.

        Raises `InvalidArguments`.
        """
        if len(arguments.encode("utf-8", errors="replace")) > ARGUMENTS_BYTES_MAX:
            raise InvalidArguments
        try:
            parsed = strict_json(arguments)
            if not isinstance(parsed, dict):
                raise InvalidArguments
            given = cast("dict[str, object]", parsed)
            if self._fill_in is not None:
                given = self._fill_in(given)
            text = canonical_json(given)
        except NotCanonical as error:
            raise InvalidArguments from error
        if not self._validator.is_valid(given):
            raise InvalidArguments
        if len(text) <= REMEMBERED_CHARACTERS_MAX:
            if len(self._reproduced) >= REMEMBERED_MAX:
                self._reproduced.clear()
            self._reproduced.add(text)
        return text

    def reproduces(self, text: str) -> bool:
        """Whether validating `text` gives `text` again: exactly these bytes may run (06, rule 23).

        What this very schema made a moment ago need not be made a second time.
        """
        if text in self._reproduced:
            return True
        try:
            return self.canonical(text) == text
        except InvalidArguments:
            return False


class Registry:
    """Tools by name. A name is declared once."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Registered] = {}
        for tool in tools:
            if tool.spec.name in self._tools:
                raise ConfigurationError(f"tool {tool.spec.name!r} is declared twice")
            self._tools[tool.spec.name] = Registered(tool)

    @property
    def tools(self) -> Mapping[str, Registered]:
        """All tools by name."""
        return self._tools

    def find(self, name: str) -> Registered | None:
        """Return the tool called `name`, None where there is none."""
        return self._tools.get(name)


def canonical_or_raw(arguments: str) -> str:
    """Return the canonical text of `arguments` where they parse, else what storage can hold of it.

    Refused calls are compared and journalled by it. At most `ARGUMENTS_BYTES_MAX` bytes.
    """
    if len(arguments) <= ARGUMENTS_BYTES_MAX:
        try:
            return cut_to_bytes(canonical_json(strict_json(arguments)), ARGUMENTS_BYTES_MAX)
        except NotCanonical:
            pass
    head = arguments[:ARGUMENTS_BYTES_MAX].encode("utf-8", errors="replace").decode()
    return cut_to_bytes(head.replace("\x00", "\ufffd"), ARGUMENTS_BYTES_MAX)


def _fill_in(rule: Mapping[str, Any], defined: Mapping[str, Any], depth: int) -> FillIn | None:
    """Return what applies the defaults of `rule` and of the objects inside it, None if nothing.

    Only plain `properties` and local references are followed: where a schema offers alternatives,
    no default has one meaning. A record that holds itself ends at `DEFAULTS_DEPTH_MAX`.
    """
    rule = defined.get(str(rule.get("$ref", "")).removeprefix("#/$defs/"), rule)
    properties = cast("Mapping[str, Mapping[str, Any]]", rule.get("properties", {}))
    defaults = {name: part["default"] for name, part in properties.items() if "default" in part}
    inner: dict[str, FillIn] = {}
    if depth < DEFAULTS_DEPTH_MAX:
        for name, part in properties.items():
            fill = _fill_in(part, defined, depth + 1)
            if fill is not None:
                inner[name] = fill
    if not defaults and not inner:
        return None

    def apply(given: dict[str, object]) -> dict[str, object]:
        filled = {**defaults, **given}
        for name, fill in inner.items():
            value = filled.get(name)
            if isinstance(value, dict):
                filled[name] = fill(cast("dict[str, object]", value))
        return filled

    return apply
