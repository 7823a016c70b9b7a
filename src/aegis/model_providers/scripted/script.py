"""Check a declared script and compile it, so that playing a step costs next to nothing."""

import json
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from aegis.domain.errors import ConfigurationError
from aegis.domain.limits import ModelUsage
from aegis.domain.model import Conclusion, FinalAnswer, ModelReply
from aegis.domain.tool_call import ProposedCall
from aegis.model_providers.scripted.condition import Condition, parse_condition
from aegis.model_providers.scripted.format import (
    DeclaredCall,
    DeclaredChoice,
    DeclaredFinal,
    DeclaredUsage,
)
from aegis.model_providers.scripted.template import (
    Template,
    fill,
    fill_text,
    parse_text,
    parse_value,
    slots,
)
from aegis.model_providers.scripted.told import Told

MALFORMED_ARGUMENTS = '{"arguments": '
UNKNOWN_TOOL = "no_such_tool"


class Call(Struct, frozen=True, kw_only=True):
    """A call to propose. `arguments` is JSON text, or a parsed value that still has templates."""

    tool: str | Template
    arguments: str | Template | dict[str, Any]
    provider_call_id: str | None

    def build(self, told: Told, step: int, index: int) -> ProposedCall:
        """Return the call with its templates filled in. Raises `NoSuchValue`."""
        arguments = self.arguments
        if isinstance(arguments, dict):
            arguments = json.dumps(fill(arguments, told))
        return ProposedCall(
            provider_call_id=self.provider_call_id or f"call_{step}_{index}",
            name=fill_text(self.tool, told),
            arguments=fill_text(arguments, told),
        )


class Final(Struct, frozen=True, kw_only=True):
    """A final answer to give."""

    summary: str | Template
    evidence_ids: tuple[str | Template, ...]
    conclusion: Conclusion

    def build(self, told: Told) -> FinalAnswer:
        """Return the answer with its templates filled in. Raises `NoSuchValue`."""
        return FinalAnswer(
            summary=fill_text(self.summary, told),
            evidence_ids=tuple(fill_text(item, told) for item in self.evidence_ids),
            conclusion=self.conclusion,
        )


class Choice(Struct, frozen=True, kw_only=True):
    """One way a step can go. `ready` is the whole reply where nothing of it varies."""

    when: tuple[Condition, ...]
    text: str | Template
    calls: tuple[Call, ...]
    final: Final | None
    ends: Literal["error", "hang"] | None
    delay_seconds: float
    delta_delay_seconds: float
    usage: ModelUsage
    ready: ModelReply | None = None

    def build(self, told: Told, step: int) -> ModelReply:
        """Return the reply. Raises `NoSuchValue`."""
        return self.ready or ModelReply(
            text=fill_text(self.text, told),
            calls=tuple(call.build(told, step, index) for index, call in enumerate(self.calls)),
            final=self.final and self.final.build(told),
            usage=self.usage,
        )


class Script(Struct, frozen=True, kw_only=True):
    """A whole model: the choices of each step. With `repeat_last` the last serves later ones."""

    steps: tuple[tuple[Choice, ...], ...]
    repeat_last: bool


def load_script(name: str, declared: Mapping[str, Any]) -> Script:
    """Check and compile `{"steps": [...], "repeat_last": false}`.

    A step without `choices` is itself the only choice. Raises `ConfigurationError` that names the
    place. Checked: keys, types, paths, filters, and that a step can have as many results as it
    refers to.
    """
    unknown = sorted(set(declared) - {"steps", "repeat_last"})
    if unknown:
        raise ConfigurationError(
            f"script {name!r} has the unknown key {unknown[0]!r}; known: steps, repeat_last"
        )
    repeat_last = declared.get("repeat_last", False)
    listed = declared.get("steps", [])
    if not isinstance(repeat_last, bool) or not isinstance(listed, list) or not listed:
        raise ConfigurationError(
            f"script {name!r} needs a list 'steps' with at least one step, and 'repeat_last' must"
            " be true or false"
        )
    last = len(cast("list[object]", listed))
    steps: list[tuple[Choice, ...]] = []
    calls_before = 0
    for number, step in enumerate(cast("list[object]", listed), start=1):
        repeats = repeat_last and number == last
        choices = tuple(
            _compile(place, choice, None if repeats else number)
            for place, choice in _choices(f"step {number} of script {name!r}", step)
        )
        if not repeats:
            for choice in choices:
                _check_counts(f"step {number} of script {name!r}", choice, calls_before)
        calls_before += max(len(choice.calls) for choice in choices)
        steps.append(choices)
    return Script(steps=tuple(steps), repeat_last=repeat_last)


def _choices(place: str, step: object) -> list[tuple[str, DeclaredChoice]]:
    if not isinstance(step, dict):
        raise ConfigurationError(f"{place} must be a table")
    table = cast("dict[str, object]", step)
    if "choices" not in table:
        return [(place, _convert(place, table))]
    listed = table["choices"]
    if len(table) > 1 or not isinstance(listed, list) or not listed:
        raise ConfigurationError(f"{place} must have a non-empty list 'choices' and no other key")
    return [
        (f"choice {number} of {place}", _convert(f"choice {number} of {place}", choice))
        for number, choice in enumerate(cast("list[object]", listed), start=1)
    ]


def _convert(place: str, choice: object) -> DeclaredChoice:
    try:
        declared = msgspec.convert(choice, DeclaredChoice)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{place} is not valid: {error}") from error
    fault = declared.fault
    if (bool(declared.calls) and declared.final is not None) != (fault == "both"):
        raise ConfigurationError(
            f"{place} must have both 'calls' and 'final' with fault = 'both', and only then"
        )
    if fault == "malformed" and not declared.calls:
        raise ConfigurationError(f"{place} has fault = 'malformed' but no calls to malform")
    said = declared.text or declared.calls or declared.final
    if fault in {"error", "hang", "empty", "unknown_tool"} and said:
        raise ConfigurationError(f"{place} has fault = {fault!r} and must say nothing else")
    if fault is None and not said:
        raise ConfigurationError(
            f"{place} says nothing; give text, calls or final, or fault = 'empty' if that is meant"
        )
    return declared


def _compile(place: str, declared: DeclaredChoice, step: int | None) -> Choice:
    """Compile one choice; `step` is None where it may serve several steps."""
    fault = declared.fault
    calls = declared.calls
    if fault == "unknown_tool":
        calls = [DeclaredCall(tool=UNKNOWN_TOOL)]
    elif fault == "malformed":
        calls = [
            msgspec.structs.replace(call, arguments_text=MALFORMED_ARGUMENTS) for call in calls
        ]
    choice = Choice(
        when=tuple(parse_condition(place, condition) for condition in declared.when),
        text=parse_text(place, declared.text),
        calls=tuple(_call(place, call) for call in calls),
        final=declared.final and _final(place, declared.final),
        ends=fault if fault == "error" or fault == "hang" else None,  # noqa: PLR1714 - it narrows
        delay_seconds=declared.delay_seconds,
        delta_delay_seconds=declared.delta_delay_seconds,
        usage=_usage(declared.usage),
    )
    # The ids of calls hold the step, so a repeated step can only be ready if it proposes none.
    if any(slots(_values(choice))) or (choice.calls and step is None):
        return choice
    return msgspec.structs.replace(choice, ready=choice.build(_NOTHING_TOLD, step or 0))


def _call(place: str, declared: DeclaredCall) -> Call:
    if declared.arguments_text is not None:
        arguments: Any = parse_text(place, declared.arguments_text)
    else:
        arguments = parse_value(place, declared.arguments)
        if not any(slots(arguments)):
            try:
                arguments = json.dumps(arguments, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ConfigurationError(
                    f"{place}: the arguments of {declared.tool!r} hold what JSON has not (a date,"
                    " an infinity); send such text through arguments_text"
                ) from error
    return Call(
        tool=parse_text(place, declared.tool),
        arguments=arguments,
        provider_call_id=declared.provider_call_id,
    )


def _final(place: str, declared: DeclaredFinal) -> Final:
    return Final(
        summary=parse_text(place, declared.summary),
        evidence_ids=tuple(parse_text(place, item) for item in declared.evidence_ids),
        conclusion=declared.conclusion,
    )


def _usage(declared: DeclaredUsage) -> ModelUsage:
    return ModelUsage(
        input_tokens=declared.input_tokens,
        output_tokens=declared.output_tokens,
        cost_nano_dollars=declared.cost_nano_dollars if declared.priced else None,
    )


def _values(choice: Choice) -> list[object]:
    values: list[object] = [choice.text]
    for call in choice.calls:
        values += [call.tool, call.arguments]
    if choice.final is not None:
        values += [choice.final.summary, list(choice.final.evidence_ids)]
    return values


def _check_counts(place: str, choice: Choice, results_max: int) -> None:
    paths = [slot.path for slot in slots(_values(choice))]
    for condition in choice.when:
        compared = [condition.equals, condition.contains, condition.not_before]
        paths += [condition.path, *(slot.path for slot in slots(compared))]
    for path in paths:
        if path.index is not None and not -results_max <= path.index < results_max:
            raise ConfigurationError(
                f"{place} refers to {path.text!r}, but the steps before it make at most"
                f" {results_max} calls"
            )


class _NothingTold(Told):
    """Stands in where a reply has no templates: nothing is ever looked up."""

    def __init__(self) -> None:
        """Hold no request."""


_NOTHING_TOLD = _NothingTold()
