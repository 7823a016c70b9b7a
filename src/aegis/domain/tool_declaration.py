"""Declaring a tool: one decorator on a Python function, its schema from hints and docstring."""

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec import Struct

from aegis.domain.canonical import canonical_json
from aegis.domain.errors import ConfigurationError
from aegis.domain.evidence import Trust
from aegis.domain.principal import Principal
from aegis.domain.tool import Effect, ToolSpec

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_ATTRIBUTE = "__aegis_tool__"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class ToolCallInfo(Struct, frozen=True, kw_only=True):
    """What the server tells a tool about its call; a parameter of this type is filled in by it.

    `idempotency_key` is the same in every attempt of one call; `fencing_token` only grows.
    """

    principal: Principal
    task_id: str
    idempotency_key: str
    fencing_token: int


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """A declared Python function: its spec, and the name of its `ToolCallInfo` parameter."""

    spec: ToolSpec
    function: Callable[..., Any]
    info_parameter: str | None
    trust: Trust


def tool(
    *, effect: str = "read", name: str | None = None, trust: str = "untrusted"
) -> Callable[[FunctionT], FunctionT]:
    """Declare a function, sync or async, as a tool.

    The first paragraph of its docstring is what the model reads; an `Args:` section describes the
    parameters. Every parameter needs a type hint that JSON can express; defaults are kept.
    Raises `ConfigurationError` at import for a function that cannot be a tool.
    """

    def declare(function: FunctionT) -> FunctionT:
        declaration = _declaration(function, name, Effect(effect), Trust(trust))
        setattr(function, _ATTRIBUTE, declaration)
        return function

    return declare


def declaration_of(function: Callable[..., Any]) -> ToolDeclaration:
    """Return what `@tool` declared. Raises `ConfigurationError` for any other function."""
    declaration = getattr(function, _ATTRIBUTE, None)
    if not isinstance(declaration, ToolDeclaration):
        raise ConfigurationError(f"{_label(function)!r} is not declared with @tool")
    return declaration


def _declaration(
    function: Callable[..., Any], name: str | None, effect: Effect, trust: Trust
) -> ToolDeclaration:
    label = name or _label(function)
    if not _NAME.fullmatch(label):
        raise ConfigurationError(
            f"tool name {label!r} must be lower case letters, digits and underscores, at most 64"
        )
    summary, described = _read_docstring(inspect.getdoc(function) or "")
    if not summary:
        raise ConfigurationError(f"tool {label!r} needs a docstring: it is what the model reads")
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    info_parameter: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise ConfigurationError(f"tool {label!r} must name its parameters, not use * or **")
        if parameter.name not in hints:
            raise ConfigurationError(
                f"tool {label!r} needs a type hint for parameter {parameter.name!r}"
            )
        hint = hints[parameter.name]
        if hint is ToolCallInfo:
            info_parameter = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, parameter.default))
    schema = _object_schema(label, fields, described)
    spec = ToolSpec(
        name=label, description=summary, input_schema=canonical_json(schema), effect=effect
    )
    return ToolDeclaration(spec=spec, function=function, info_parameter=info_parameter, trust=trust)


def _object_schema(
    label: str, fields: list[tuple[str, Any] | tuple[str, Any, Any]], described: dict[str, str]
) -> dict[str, Any]:
    try:
        arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        (_,), components = msgspec.json.schema_components(
            (arguments,), ref_template="#/$defs/{name}"
        )
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {label!r} has a parameter whose type JSON cannot express"
        ) from error
    schema: dict[str, Any] = dict(components.pop("Arguments"))
    schema.pop("title", None)
    schema["additionalProperties"] = False
    for parameter, text in described.items():
        if parameter in schema["properties"]:
            schema["properties"][parameter]["description"] = text
    if components:
        schema["$defs"] = components
    return schema


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the text before `Args:`, and the description of each parameter."""
    head, _, rest = text.partition("\nArgs:\n")
    described: dict[str, str] = {}
    current: str | None = None
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        match = re.match(r"    (\w+): (.*)", line)
        if match:
            current = str(match.group(1))
            described[current] = match.group(2).strip()
        elif current and line.strip():
            described[current] += " " + line.strip()
    return " ".join(head.split()), described


def _label(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function))
