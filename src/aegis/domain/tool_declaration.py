"""Declaring a tool: one decorator on a Python function, its schema from hints and docstring."""

import copy
import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct

from aegis.domain.canonical import canonical_json
from aegis.domain.errors import ConfigurationError, NotCanonical
from aegis.domain.evidence import Trust
from aegis.domain.principal import Principal
from aegis.domain.tool import Effect, ToolSpec

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_ATTRIBUTE = "__aegis_tool__"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_PARAMETER_LINE = re.compile(r" {4}(\w+)(?: \([^)]*\))?: (.*)")


class ToolCallInfo(Struct, frozen=True, kw_only=True):
    """What the server tells a tool about its call; a parameter of this type is filled in by it.

    `idempotency_key` is the same in every attempt of one call; `fencing_token` only grows.
    """

    principal: Principal
    task_id: str
    idempotency_key: str
    fencing_token: int


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """A declared Python function: its spec, and the name of its `ToolCallInfo` parameter.

    `arguments` is a record type with one field for each parameter that the model fills in:
    converting to it turns JSON into the types of the hints (an Enum, a date, a nested record).
    """

    spec: ToolSpec
    function: Callable[..., Any]
    arguments: type[Struct]
    info_parameter: str | None
    trust: Trust


class _Signature(Struct, frozen=True, kw_only=True):
    arguments: type[Struct]
    schema: dict[str, Any]
    info_parameter: str | None


def tool(
    *, effect: str = "read", name: str | None = None, trust: str = "untrusted"
) -> Callable[[FunctionT], FunctionT]:
    """Declare a function, sync or async, as a tool.

    `effect` is "read" or "write", `trust` is "measured" or "untrusted" (see `Trust`). What stands
    before `Args:` in the docstring is what the model reads; the `Args:` section describes the
    parameters. Every parameter needs a type hint that JSON can express; defaults are kept.
    Raises `ConfigurationError` at import for a function that cannot be a tool.
    """

    def declare(function: FunctionT) -> FunctionT:
        setattr(function, _ATTRIBUTE, _declaration(function, name, effect, trust))
        return function

    return declare


def declaration_of(function: Callable[..., Any]) -> ToolDeclaration:
    """Return what `@tool` declared. Raises `ConfigurationError` for any other function."""
    declaration = getattr(function, _ATTRIBUTE, None)
    if not isinstance(declaration, ToolDeclaration):
        raise ConfigurationError(f"{_label(function)!r} is not declared with @tool")
    return declaration


def _declaration(
    function: Callable[..., Any], name: str | None, effect: str, trust: str
) -> ToolDeclaration:
    label = name or _label(function)
    if not inspect.isfunction(function):
        raise ConfigurationError(f"tool {label!r} must be a plain function (def or async def)")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"tool {label!r} must return its result, not yield it")
    if not _NAME.fullmatch(label):
        raise ConfigurationError(
            f"tool name {label!r} must be lower case letters, digits and underscores, at most 64"
        )
    if effect not in set(Effect):
        raise ConfigurationError(f"tool {label!r}: effect {effect!r} must be 'read' or 'write'")
    if trust not in set(Trust):
        raise ConfigurationError(
            f"tool {label!r}: trust {trust!r} must be 'measured' or 'untrusted'"
        )
    summary, described = _read_docstring(inspect.getdoc(function) or "")
    if not summary:
        raise ConfigurationError(f"tool {label!r} needs a docstring: it is what the model reads")
    signature = _read_signature(label, function, described)
    try:
        input_schema = canonical_json(signature.schema)
    except NotCanonical as error:
        raise ConfigurationError(
            f"tool {label!r} has a default that JSON cannot express exactly"
        ) from error
    return ToolDeclaration(
        spec=ToolSpec(
            name=label, description=summary, input_schema=input_schema, effect=Effect(effect)
        ),
        function=function,
        arguments=signature.arguments,
        info_parameter=signature.info_parameter,
        trust=Trust(trust),
    )


def _read_signature(
    label: str, function: Callable[..., Any], described: dict[str, str]
) -> _Signature:
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigurationError(
            f"tool {label!r} has a type hint that names nothing importable"
        ) from error
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    defaults: dict[str, object] = {}
    info_parameter: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        hint = _hint_of(label, parameter, hints)
        if hint is ToolCallInfo and info_parameter is None:
            info_parameter = parameter.name
        elif _mentions_info(hint):
            # Anything else would ask the model who the principal is.
            raise ConfigurationError(
                f"tool {label!r} must take ToolCallInfo once, with exactly that type hint"
            )
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            defaults[parameter.name] = _plain_default(
                label, parameter.name, hint, parameter.default
            )
            # A copy for each call: what one call does to its list, no other sees.
            fresh = msgspec.field(default_factory=partial(copy.deepcopy, parameter.default))
            fields.append((parameter.name, hint, fresh))
    arguments, schema = _object_schema(label, fields)
    for name, rule in schema["properties"].items():
        if name in defaults:
            rule["default"] = defaults[name]
        if name in described:
            rule["description"] = described[name]
    return _Signature(arguments=arguments, schema=schema, info_parameter=info_parameter)


def _hint_of(label: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
        raise ConfigurationError(f"tool {label!r} must name its parameters, not use *, ** or /")
    if parameter.name not in hints:
        raise ConfigurationError(
            f"tool {label!r} needs a type hint for parameter {parameter.name!r}"
        )
    return hints[parameter.name]


def _mentions_info(hint: Any) -> bool:
    return hint is ToolCallInfo or any(_mentions_info(part) for part in get_args(hint))


def _plain_default(label: str, parameter: str, hint: Any, default: object) -> object:
    try:
        plain = msgspec.to_builtins(default, str_keys=True)
        msgspec.convert(plain, hint)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {label!r}: the default of parameter {parameter!r} does not fit its type hint"
        ) from error
    return plain


def _object_schema(
    label: str, fields: list[tuple[str, Any] | tuple[str, Any, Any]]
) -> tuple[type[Struct], dict[str, Any]]:
    try:
        arguments = msgspec.defstruct(
            f"Arguments_{label}", fields, kw_only=True, forbid_unknown_fields=True
        )
        (reference,), components = msgspec.json.schema_components(
            (arguments,), ref_template="#/$defs/{name}"
        )
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {label!r} has a parameter whose type JSON cannot express"
        ) from error
    schema: dict[str, Any] = dict(components.pop(reference["$ref"].removeprefix("#/$defs/")))
    schema.pop("title", None)
    for record in (schema, *components.values()):
        if "properties" in record:
            # A member that no hint names would be shown and hashed, and then dropped.
            record.setdefault("additionalProperties", False)
    if components:
        schema["$defs"] = components
    return arguments, schema


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the text before `Args:`, and the description of each parameter."""
    head, _, rest = text.partition("\nArgs:\n")
    described: dict[str, str] = {}
    current: str | None = None
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        match = _PARAMETER_LINE.match(line)
        if match:
            current = str(match.group(1))
            described[current] = match.group(2).strip()
        elif current and line.strip():
            described[current] += " " + line.strip()
    return " ".join(head.split()), described


def _label(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function))
