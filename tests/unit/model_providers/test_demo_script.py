"""The demo diagnosis: what it concludes from which evidence, and that it blames nothing lightly."""

import copy
import json

import pytest

from aegis.bootstrap.declared import built_in_configuration
from aegis.domain.model import Conclusion, ModelRequest, ToolMessage, UserMessage
from aegis.domain.tool_call import CallState
from aegis.model_providers.scripted.provider import ScriptedModel
from aegis.model_providers.scripted.script import load_script
from tests.fakes.virtual_loop import run_virtual


def metric(first, last):
    return {
        "status": "data",
        "window": {"start": "2026-03-01T11:30:00Z", "end": "2026-03-01T12:00:00Z"},
        "series": [{"summary": {"first": first, "last": last, "max": last}}],
    }


INCIDENT = [
    metric(0.002, 0.08),
    metric(0.18, 0.62),
    {
        "records": [
            {
                "kind": "release",
                "version": "2.14.0",
                "previous_version": "2.13.4",
                "released_at": "2026-03-01T11:38:00Z",
            }
        ]
    },
    {"total_matched": 197, "lines": [{"version": "2.14.0"}]},
    metric(0.001, 0.001),
    metric(0.001, 0.05),
]


def answer(contents, step=4):
    section = built_in_configuration().models["ops-diagnosis-script"]
    model = ScriptedModel(load_script("ops", {"steps": section.steps}))
    told = [
        ToolMessage(
            provider_call_id=f"p{n}",
            name="tool",
            state=CallState.SUCCEEDED,
            content=json.dumps(content),
            evidence_id=f"ev_{n}",
        )
        for n, content in enumerate(contents)
    ]
    request = ModelRequest(
        model="ops",
        step=step,
        instructions="",
        messages=(UserMessage(text="Why?"), *told),
        tools=(),
        output_tokens_max=1,
        timeout_micros=1_000_000,
    )
    return run_virtual(model.reply(request, lambda _delta: None))


def final_of(contents, step=4):
    final = answer(contents, step).final
    assert final is not None
    return final


def changed(*path, to):
    contents = copy.deepcopy(INCIDENT)
    place = contents
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = to
    return contents


def test_the_second_step_reads_side_by_side():
    reply = answer(INCIDENT[:1], step=2)
    assert [call.name for call in reply.calls] == ["metrics", "releases", "logs"]


def test_a_release_that_fits_in_every_respect_is_named_with_the_values_that_were_read():
    final = final_of(INCIDENT)
    assert final.conclusion is Conclusion.ANSWERED
    assert final.evidence_ids == tuple(f"ev_{n}" for n in range(6))
    for words in (
        "from 0.2 % to 8.0 %",
        "2.14.0",
        "2.13.4",
        "197 error lines",
        "needs an approval",
    ):
        assert words in final.summary


@pytest.mark.parametrize(
    "contents",
    [
        changed(2, "records", to=[]),
        changed(2, "records", 0, "kind", to="config"),
        changed(2, "records", 0, "released_at", to="2026-02-14T09:00:00Z"),
        changed(0, "series", 0, "summary", "first", to=0.08),
        changed(3, "lines", 0, "version", to="2.13.4"),
        changed(3, "total_matched", to=0),
        changed(3, "total_matched", to=None),
        changed(4, "series", 0, "summary", "last", to=0.3),
        changed(4, "series", to=[]),
    ],
    ids=[
        *("no release", "only a configuration", "released long before", "was high before"),
        *("another version fails", "no log lines", "unknown count", "dependency fails", "no data"),
    ],
)
def test_a_release_that_does_not_fit_is_not_blamed(contents):
    final = final_of(contents)
    assert final.conclusion is Conclusion.INCONCLUSIVE
    assert final.evidence_ids
    assert "2.14.0" not in final.summary


def test_a_normal_ratio_is_said_to_be_normal():
    final = final_of([metric(0.002, 0.002), {"records": []}], step=3)
    assert "nothing is wrong at the moment" in final.summary


def test_no_data_is_neither_normal_nor_a_failure():
    empty = {"status": "empty", "series": []}
    assert answer([empty], step=2).calls[0].name == "releases"
    assert final_of([empty, {"records": []}], step=3).conclusion is Conclusion.INCONCLUSIVE
