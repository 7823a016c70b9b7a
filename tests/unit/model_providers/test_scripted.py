"""Scripts: which choice is played, what templates become, and what is refused at load."""

import json
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from aegis.domain.errors import ConfigurationError
from aegis.domain.model import AssistantMessage, ModelFailed, ModelRequest, ToolMessage, UserMessage
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import CallState
from aegis.model_providers.scripted.format import (
    DeclaredCall,
    DeclaredChoice,
    DeclaredCondition,
    DeclaredFinal,
    DeclaredUsage,
    Fault,
)
from aegis.model_providers.scripted.provider import ScriptedModel
from aegis.model_providers.scripted.script import load_script
from aegis.model_providers.scripted.template import FILTERS
from tests.fakes.virtual_loop import run_virtual

READ = {"calls": [{"tool": "read"}]}
TWO = {"calls": [{"tool": "read", "arguments": {"n": n}} for n in (1, 2)]}


def result(number, content, state=CallState.SUCCEEDED):
    return ToolMessage(
        provider_call_id=f"p{number}",
        name="read",
        state=state,
        content=content if isinstance(content, str) else json.dumps(content),
        evidence_id=f"ev_{number}" if state is CallState.SUCCEEDED else None,
    )


def play(steps, *results, step=None, **declared):
    model = ScriptedModel(load_script("s", {"steps": list(steps), **declared}))
    asked = ModelRequest(
        model="s",
        step=step or len(steps),
        instructions="",
        messages=(UserMessage(text="Why, though?"), AssistantMessage(text="Looking."), *results),
        tools=(),
        output_tokens_max=1,
        timeout_micros=1_000_000,
    )
    return run_virtual(model.reply(asked, lambda _delta: None))


def said(text, *results, before=TWO):
    return play([before, {"text": text}], *results).text


def test_templates_find_values_in_evidence_from_either_end():
    told = (
        result(1, {"rate": 0.0813, "series": [{"last": 2}]}),
        result(2, {"list": [1, 2, 3], "flag": True, "none": None, "name": "ü"}),
    )
    assert said("{{evidence.0.id}} {{evidence.-1.id}}", *told) == "ev_1 ev_2"
    assert said("{{ evidence.0.content.rate | percent }}", *told) == "8.1 %"
    assert said("{{evidence.0.content.rate|round2}}", *told) == "0.08"
    assert said("{{evidence.0.content.series.-1.last}}!", *told) == "2!"
    assert said("{{evidence.1.content.list|count}}", *told) == "3"
    assert said("{{evidence.1.content.flag}} {{evidence.1.content.none}}", *told) == "true null"
    assert said("{{evidence.1.content.name}} {{evidence.1.name}}", *told) == "ü read"
    assert said("{{evidence.1.content}}", result(1, "a"), result(2, "plain {")) == "plain {"
    assert said("{{prompt}} in step {{step}}") == "Why, though? in step 2"


def test_only_successful_results_count_as_evidence_but_every_call_counts_as_a_call():
    told = (result(1, "broken", CallState.FAILED), result(2, {"v": 5}))
    assert said("{{evidence.0.content.v}} of {{evidence.count}}", *told) == "5 of 1"
    assert said("{{calls.0.state}} {{calls.1.state}} {{calls.count}}", *told) == (
        "FAILED SUCCEEDED 2"
    )


def test_what_a_tool_says_is_never_a_template():
    told = (result(1, {"v": "{{prompt}}"}), result(2, {}))
    assert said("{{evidence.0.content.v}}", *told) == "{{prompt}}"


@pytest.mark.parametrize(
    "text",
    [
        "{{evidence.0.id}}",
        "{{calls.0.id}}",
        "{{evidence.0.content.gone}}",
    ],
)
def test_a_template_that_leads_nowhere_is_a_failed_call(text):
    with pytest.raises(ModelFailed) as failed:
        said(text, result(1, "x", CallState.FAILED))
    assert failed.value.reason is ReasonCode.LLM_ERROR


@pytest.mark.parametrize("value", ["0.5", True, None, [1], {}])
def test_a_filter_for_numbers_takes_nothing_else(value):
    with pytest.raises(ModelFailed):
        said("{{evidence.0.content.v|percent}}", result(1, {"v": value}))


def test_arguments_keep_the_type_of_a_value():
    call = {
        "tool": "read",
        "arguments": {"n": "{{step}}", "s": "at {{step}}", "deep": ["{{step}}"]},
    }
    reply = play([{"calls": [call]}], step=4, repeat_last=True)
    assert json.loads(reply.calls[0].arguments) == {"n": 4, "s": "at 4", "deep": [4]}
    assert reply.calls[0].provider_call_id == "call_4_0"


def test_steps_past_the_end_fail_unless_the_last_repeats():
    with pytest.raises(ModelFailed):
        play([READ], step=2)
    first, second = (play([READ], step=n, repeat_last=True) for n in (1, 2))
    assert first.calls[0].provider_call_id != second.calls[0].provider_call_id
    assert first.calls[0].arguments == second.calls[0].arguments


HOLDS = [
    ({"equals": 3}, 3, True),
    ({"equals": 1}, True, False),
    ({"equals": True}, True, True),
    ({"equals": "{{evidence.1.content.v}}"}, "same", True),
    ({"equals": "{{evidence.1.content.gone}}"}, "same", False),
    ({"at_least": 2.0}, 2, True),
    ({"at_least": 2.0}, 1.9, False),
    ({"at_least": 2.0, "below": 3.0}, 3, False),
    ({"below": 1.0}, "0", False),
    ({"below": 1.0}, False, False),
    ({"contains": "am"}, "same", True),
    ({"contains": "am"}, ["xamx"], True),
    ({"contains": "am"}, "other", False),
    ({"not_before": "2026-01-01T00:00:00Z"}, "2026-01-01T00:00:00.5+00:00", True),
    ({"not_before": "2026-01-01T00:00:00Z"}, "2026-01-01T00:30:00+01:00", False),
    ({"not_before": "2026-01-01T00:00:00Z"}, "2026-01-01T00:00:00", False),
    ({"not_before": "2026-01-01T00:00:00Z"}, "yesterday", False),
    ({"not_before": "2026-01-01T00:00:00Z"}, 5, False),
    ({"exists": True}, None, True),
    ({"exists": False}, None, False),
]


@pytest.mark.parametrize(("test", "value", "holds"), HOLDS)
def test_a_condition(test, value, holds):
    choices = [
        {"when": [{"path": "evidence.0.content.v", **test}], "text": "yes"},
        {"text": "no"},
    ]
    told = (result(1, {"v": value}), result(2, {"v": "same"}))
    assert play([TWO, {"choices": choices}], *told).text == ("yes" if holds else "no")


def test_a_path_that_leads_nowhere_satisfies_only_that_it_does_not_exist():
    path = "evidence.0.content.gone"
    choices = [
        {"when": [{"path": path, "below": 1.0}], "text": "below"},
        {"when": [{"path": path, "exists": True}], "text": "exists"},
        {"when": [{"path": path, "exists": False}], "text": "gone"},
    ]
    assert play([READ, {"choices": choices}], result(1, {})).text == "gone"


def test_the_first_choice_wins_and_none_is_a_failed_call():
    when = [{"path": "step", "equals": 1}]
    assert play([{"choices": [{"when": when, "text": "1"}, {"text": "2"}]}]).text == "1"
    with pytest.raises(ModelFailed) as failed:
        play([{"choices": [{"when": [{"path": "step", "equals": 9}], "text": "1"}]}])
    assert failed.value.reason is ReasonCode.LLM_ERROR


def test_hostile_replies_can_be_asked_for():
    both = play([{"fault": "both", "final": {"summary": "s"}, **READ}])
    assert both.calls
    assert both.final
    empty = play([{"fault": "empty"}])
    assert (empty.text, empty.calls, empty.final) == ("", (), None)
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(play([{"fault": "malformed", **READ}]).calls[0].arguments)
    assert play([{"fault": "unknown_tool"}]).calls[0].name == "no_such_tool"
    raw = {"tool": "read", "arguments_text": '{"a": 1, "a": NaN}', "provider_call_id": "twice"}
    reply = play([{"calls": [raw, raw]}])
    assert [call.provider_call_id for call in reply.calls] == ["twice", "twice"]
    assert reply.calls[0].arguments == '{"a": 1, "a": NaN}'


def test_usage_is_declared_and_may_have_no_price():
    usage = {"input_tokens": 5, "output_tokens": 6}
    assert play([{"text": "x", "usage": usage}]).usage.cost_nano_dollars == 0
    unpriced = play([{"text": "x", "usage": {**usage, "priced": False}}]).usage
    assert (unpriced.input_tokens, unpriced.cost_nano_dollars) == (5, None)


REFUSED = [
    ({}, "at least one step"),
    ({"steps": 5}, "at least one step"),
    ({"steps": [READ], "repeat_last": "yes"}, "true or false"),
    ({"steps": [READ], "loop": True}, "unknown key 'loop'"),
    ({"steps": ["read"]}, "step 1 of script 's' must be a table"),
    ({"steps": [{"choices": []}]}, "non-empty list 'choices'"),
    ({"steps": [{"choices": [READ], "text": "x"}]}, "no other key"),
    ({"steps": [READ, {"choices": [READ, {"txt": ""}]}]}, "choice 2 of step 2 .*`txt`"),
    ({"steps": [{}]}, "says nothing"),
    ({"steps": [{"final": {"summary": "s"}, **READ}]}, "fault = 'both'"),
    ({"steps": [{"fault": "both", **READ}]}, "fault = 'both'"),
    ({"steps": [{"fault": "malformed"}]}, "no calls to malform"),
    ({"steps": [{"fault": "empty", "text": "x"}]}, "must say nothing else"),
    ({"steps": [{"fault": "explode"}]}, "not valid"),
    ({"steps": [{"text": "x", "delay_seconds": -1.0}]}, "delay_seconds"),
    ({"steps": [{"text": "x", "delay_seconds": float("inf")}]}, "delay_seconds"),
    ({"steps": [{"text": "x", "usage": {"input_tokens": -1}}]}, "input_tokens"),
    ({"steps": [{"text": "x", "usage": {"tokens": 1}}]}, "`tokens`"),
    ({"steps": [{"text": "{{time}}"}]}, "unknown path 'time'"),
    ({"steps": [{"text": "{{evidence}}"}]}, "unknown path 'evidence'"),
    ({"steps": [READ, {"text": "{{evidence.0.secret}}"}]}, "unknown path"),
    ({"steps": [READ, {"text": "{{evidence.0.content..x}}"}]}, "unknown path"),
    ({"steps": [{"text": "{{step|upper}}"}]}, "unknown filter 'upper'; known: count"),
    ({"steps": [{"text": "{{step"}]}, "template that is not"),
    ({"steps": [{"text": "{{evidence.0.id}}"}]}, "at most 0 calls"),
    ({"steps": [READ, {"text": "{{evidence.1.id}}"}]}, "at most 1 calls"),
    ({"steps": [READ, {"text": "{{evidence.-2.id}}"}]}, "at most 1 calls"),
    ({"steps": [{"text": "x", "when": [{"path": "step"}]}]}, "tests nothing"),
    ({"steps": [{"text": "x", "when": [{"path": "step", "below": float("nan")}]}]}, "finite"),
    ({"steps": [{"text": "x", "when": [{"path": "evidence.0.id", "exists": True}]}]}, "at most 0"),
    ({"steps": [{"calls": [{"tool": "r", "arguments": {"n": float("nan")}}]}]}, "JSON has not"),
]


@pytest.mark.parametrize(("declared", "words"), REFUSED)
def test_a_script_that_cannot_be_meant_is_refused_when_it_is_loaded(declared, words):
    with pytest.raises(ConfigurationError, match=words):
        load_script("s", declared)


def test_the_documented_example_is_a_valid_script():
    page = Path(__file__).resolve().parents[3] / "docs" / "reference" / "scripted-models.md"
    text = page.read_text(encoding="utf-8")
    example = tomllib.loads(text.partition("```toml\n")[2].partition("```")[0])["models"]["example"]
    assert example.pop("kind") == "scripted"
    load_script("example", example)
    described = set(re.findall(r"`(\w+)`", text))
    for declared in (DeclaredChoice, DeclaredCondition, DeclaredCall, DeclaredFinal, DeclaredUsage):
        assert set(declared.__struct_fields__) <= described, declared.__name__
    assert {*FILTERS, *get_args(Fault)} <= described
