"""The tools of this process by name, each with its compiled schema and defaults."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import jsonschema_rs

from aegis.domain.canonical import canonical_json, strict_json
from aegis.domain.errors import ConfigurationError, NotCanonical
from aegis.domain.tool import tool_hash
from aegis.tools.tool import Tool

ARGUMENTS_BYTES_MAX = 16 * 1024


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
            self._validator = jsonschema_rs.validator_for(schema)
        except ValueError as error:
            raise ConfigurationError(
                f"the schema of tool {tool.spec.name!r} is not valid JSON Schema"
            ) from error
        properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
        self._defaults = {
            name: rule["default"] for name, rule in properties.items() if "default" in rule
        }

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
            given = {**self._defaults, **cast("dict[str, object]", parsed)}
            text = canonical_json(given)
        except NotCanonical as error:
            raise InvalidArguments from error
        if not self._validator.is_valid(given):
            raise InvalidArguments
        return text


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
    """Return the canonical text of `arguments` where they parse, else `arguments` as they are.

    Refused calls are compared and journalled by it.
    """
    if len(arguments) > ARGUMENTS_BYTES_MAX:
        return ""
    try:
        return canonical_json(strict_json(arguments))
    except NotCanonical:
        return arguments.encode("utf-8", errors="replace").decode().replace("\x00", "\ufffd")
