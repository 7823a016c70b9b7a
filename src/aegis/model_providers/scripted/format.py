"""The script format: steps, choices by evidence, delays and faults, as declared data."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from aegis.domain.model import Conclusion

DELAY_SECONDS_MAX = 86_400.0

Delay = Annotated[float, Meta(ge=0, le=DELAY_SECONDS_MAX)]
Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Fault = Literal["error", "hang", "empty", "both", "malformed", "unknown_tool"]


class DeclaredCondition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test on what the model has been told so far.

    `path` is such as `evidence.0.content.error_rate`. Every given test must hold; a path that leads
    nowhere only satisfies `exists = false`. `contains` looks into the value as text; `not_before`
    compares two instants (RFC 3339 with an offset).
    """

    path: str
    equals: str | int | float | bool | None = None
    at_least: float | None = None
    below: float | None = None
    contains: str | None = None
    not_before: str | None = None
    exists: bool | None = None


class DeclaredCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call to propose. `arguments_text` is sent as it is and may be anything at all.

    `provider_call_id` is made from the step unless it is given: a hostile model may repeat one.
    """

    tool: str
    arguments: dict[str, Any] = {}
    arguments_text: str | None = None
    provider_call_id: str | None = None


class DeclaredFinal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A final answer to give."""

    summary: str
    evidence_ids: list[str] = []
    conclusion: Conclusion = Conclusion.ANSWERED


class DeclaredUsage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the call is said to have used. With `priced = false` its cost is not known."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_nano_dollars: Count = 0
    priced: bool = True


class DeclaredChoice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way a step can go: calls, a final answer, text alone, or a fault that is asked for."""

    when: list[DeclaredCondition] = []
    text: str = ""
    calls: list[DeclaredCall] = []
    final: DeclaredFinal | None = None
    fault: Fault | None = None
    delay_seconds: Delay = 0.0
    delta_delay_seconds: Delay = 0.0
    usage: DeclaredUsage = DeclaredUsage()
