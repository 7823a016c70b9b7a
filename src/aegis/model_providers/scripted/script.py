"""The script format: steps, choices by evidence, delays and faults, as declared data."""

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from aegis.domain.errors import ConfigurationError
from aegis.domain.limits import ModelUsage
from aegis.domain.model import Conclusion
from aegis.model_providers.scripted.template import check_path, check_templates


class Condition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test on what the model has been told so far.

    `path` is such as `evidence.0.content.error_rate`. Every given test must hold; a path that leads
    nowhere only satisfies `exists = false`.
    """

    path: str
    equals: str | int | float | bool | None = None
    at_least: float | None = None
    below: float | None = None
    contains: str | None = None
    exists: bool | None = None


class ScriptedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call to propose. `arguments_text` is sent as it is and may be anything at all."""

    tool: str
    arguments: dict[str, Any] = {}
    arguments_text: str | None = None


class ScriptedFinal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A final answer to give."""

    summary: str
    evidence_ids: list[str] = []
    conclusion: Conclusion = Conclusion.ANSWERED


class Choice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way a step can go. Both `calls` and `final`, or neither, is a hostile model's reply."""

    when: list[Condition] = []
    text: str = ""
    calls: list[ScriptedCall] = []
    final: ScriptedFinal | None = None
    fault: Literal["error", "hang"] | None = None
    delay_seconds: float = 0.0
    delta_delay_seconds: float = 0.0
    usage: ModelUsage = ModelUsage(cost_nano_dollars=0)


class ScriptStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model reply: the first of `choices` whose conditions hold."""

    choices: list[Choice]


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole model. With `repeat_last` the last step serves every later one."""

    steps: list[ScriptStep]
    repeat_last: bool = False


def load_script(name: str, declared: Mapping[str, Any]) -> Script:
    """Check a declared script. Raises `ConfigurationError` that names the place.

    A step without `choices` is itself the only choice.
    """
    listed = cast("list[dict[str, Any]]", declared.get("steps", []))
    steps = [step if "choices" in step else {"choices": [step]} for step in listed]
    try:
        script = msgspec.convert({**declared, "steps": steps}, Script)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"script {name!r} is not valid: {error}") from error
    if not script.steps or not all(step.choices for step in script.steps):
        raise ConfigurationError(f"script {name!r} needs at least one step with one choice")
    for number, step in enumerate(script.steps, start=1):
        for choice in step.choices:
            _check_choice(f"step {number} of script {name!r}", choice)
    return script


def _check_choice(place: str, choice: Choice) -> None:
    for condition in choice.when:
        check_path(place, condition.path)
    texts: list[object] = [choice.text]
    for call in choice.calls:
        texts += [call.arguments, call.arguments_text or "", call.tool]
    if choice.final is not None:
        texts += [choice.final.summary, *choice.final.evidence_ids]
    for text in texts:
        check_templates(place, text)
