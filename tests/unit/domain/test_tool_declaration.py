"""What `@tool` makes of a function: a closed JSON Schema, or a clear refusal at import."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, Optional

import pytest
from msgspec import Meta, Struct

from aegis.domain.errors import ConfigurationError
from aegis.domain.evidence import Trust
from aegis.domain.tool import Effect
from aegis.domain.tool_declaration import ToolCallInfo, declaration_of, tool


class Severity(Enum):
    LOW = "low"
    HIGH = "high"


class Arguments(Struct):
    """Named like the record that the declaration makes for itself."""

    inner: int = 3


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    return json.loads(declaration_of(function).spec.input_schema)


def test_every_hint_becomes_its_schema() -> None:
    @tool()
    async def look(
        service: str,
        count: Annotated[int, Meta(ge=1, le=9)],
        ratio: float = 0.5,
        exact: bool = False,  # noqa: FBT002 - a tool may have one
        mode: Literal["range", "instant"] = "range",
        severity: Severity = Severity.LOW,
        names: list[str] = [],  # noqa: B006 - a tool may have one
        limit: Optional[int] = None,  # noqa: UP045 - both spellings are in use
        other: Arguments = Arguments(),  # noqa: B008 - a frozen default of a test
    ) -> str:
        """Look at a service.

        And say what is there.

        Args:
            service: Name of the service,
                as deployed.
            count (int): How many.
            unknown: Nobody has it.

        Returns:
            service: Not a parameter.
        """
        return ""

    declared = declaration_of(look)
    assert declared.spec.name == "look"
    assert declared.spec.description == "Look at a service. And say what is there."
    assert (declared.spec.effect, declared.trust) == (Effect.READ, Trust.UNTRUSTED)
    assert schema_of(look) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["service", "count"],
        "properties": {
            "service": {"type": "string", "description": "Name of the service, as deployed."},
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
            "ratio": {"type": "number", "default": 0.5},
            "exact": {"type": "boolean", "default": False},
            "mode": {"enum": ["instant", "range"], "default": "range"},
            "severity": {"$ref": "#/$defs/Severity", "default": "low"},
            "names": {"type": "array", "items": {"type": "string"}, "default": []},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "other": {"$ref": "#/$defs/Arguments", "default": {"inner": 3}},
        },
        "$defs": {
            "Severity": {"title": "Severity", "enum": ["high", "low"]},
            "Arguments": {
                "title": "Arguments",
                "description": "Named like the record that the declaration makes for itself.",
                "type": "object",
                "additionalProperties": False,
                "required": [],
                "properties": {"inner": {"type": "integer", "default": 3}},
            },
        },
    }


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    @tool(effect="write", name="restart", trust="measured")
    def anything() -> None:
        """Restart."""

    declared = declaration_of(anything)
    assert (declared.spec.name, declared.spec.effect) == ("restart", Effect.WRITE)
    assert declared.trust is Trust.MEASURED
    assert schema_of(anything) == {
        "type": "object",
        "additionalProperties": False,
        "required": [],
        "properties": {},
    }


def test_who_calls_is_no_argument() -> None:
    @tool()
    def look(info: ToolCallInfo, service: str) -> str:
        """Look."""
        return service

    assert declaration_of(look).info_parameter == "info"
    assert list(schema_of(look)["properties"]) == ["service"]


def test_the_function_stays_what_it_was() -> None:
    @tool()
    def double(number: int) -> int:
        """Double."""
        return 2 * number

    assert double(4) == 8


def _no_docstring(a: int) -> int:
    return a


def _no_hint(a) -> None:
    """Say something."""


def _star(*a: int) -> None:
    """Say something."""


def _double_star(**a: int) -> None:
    """Say something."""


def _positional(a: int, /) -> None:
    """Say something."""


def _unknown_name(a: "Nowhere") -> None:  # noqa: F821 # pyright: ignore[reportUndefinedVariable] - the case
    """Say something."""


def _no_json(a: Callable[[], int]) -> None:
    """Say something."""


def _wrong_default(a: int = "x") -> None:  # pyright: ignore[reportArgumentType] - the case
    """Say something."""


def _endless_default(a: float = float("nan")) -> None:
    """Say something."""


def _optional_info(info: ToolCallInfo | None = None) -> None:
    """Say something."""


def _annotated_info(info: Annotated[ToolCallInfo, "mine"]) -> None:
    """Say something."""


def _listed_info(info: list[ToolCallInfo]) -> None:
    """Say something."""


def _two_infos(one: ToolCallInfo, two: ToolCallInfo) -> None:
    """Say something."""


def _yields() -> Iterator[int]:
    """Say something."""
    yield 1


async def _yields_later() -> AsyncIterator[int]:
    """Say something."""
    yield 1


def ShoutedName() -> None:  # noqa: N802 - the case
    """Say something."""


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (_no_docstring, "needs a docstring"),
        (_no_hint, "needs a type hint for parameter 'a'"),
        (_star, "must name its parameters"),
        (_double_star, "must name its parameters"),
        (_positional, "must name its parameters"),
        (_unknown_name, "names nothing importable"),
        (_no_json, "whose type JSON cannot express"),
        (_wrong_default, "the default of parameter 'a' does not fit"),
        (_endless_default, "default that JSON cannot express"),
        (_optional_info, "must take ToolCallInfo once"),
        (_annotated_info, "must take ToolCallInfo once"),
        (_listed_info, "must take ToolCallInfo once"),
        (_two_infos, "must take ToolCallInfo once"),
        (_yields, "must return its result"),
        (_yields_later, "must return its result"),
        (print, "must be a plain function"),
        (partial(_no_docstring, 1), "must be a plain function"),
        (Arguments, "must be a plain function"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused(
    function: Callable[..., Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        tool(name="named")(function)


@pytest.mark.parametrize("name", ["", "Look", "look-up", "1look", "look up", "x" * 65, "look\n"])
def test_a_name_that_models_might_not_take_is_refused(name: str) -> None:
    def look() -> None:
        """Look."""

    if name:
        with pytest.raises(ConfigurationError, match="lower case"):
            tool(name=name)(look)
    with pytest.raises(ConfigurationError, match="'ShoutedName' must be lower case"):
        tool()(ShoutedName)


def test_an_unknown_effect_or_trust_is_refused() -> None:
    def look() -> None:
        """Look."""

    with pytest.raises(ConfigurationError, match="effect 'delete'"):
        tool(effect="delete")(look)
    with pytest.raises(ConfigurationError, match="trust 'full'"):
        tool(trust="full")(look)


def test_only_declared_functions_have_a_declaration() -> None:
    with pytest.raises(ConfigurationError, match="is not declared with @tool"):
        declaration_of(schema_of)
