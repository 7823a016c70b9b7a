"""Every reply has one meaning or none. I10: an answer cites only ok evidence of its own task."""

import pytest

from aegis.agent_loop.conclude import (
    CALLS_PER_REPLY_MAX,
    SUMMARY_CODE_POINTS_MAX,
    TEXT_CODE_POINTS_MAX,
    Answer,
    Calls,
    Refused,
    conclude,
    unpriced,
)
from aegis.domain.agent import CitationPolicy
from aegis.domain.evidence import EvidenceStatus
from aegis.domain.limits import ModelUsage
from aegis.domain.model import FinalAnswer, ModelReply
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import ProposedCall
from tests.fakes.tasks import agent, evidence, snapshot

INVALID = Refused(reason=ReasonCode.INVALID_DECISION)
BAD_EVIDENCE = Refused(reason=ReasonCode.INVALID_EVIDENCE)


def proposed(number=0, name="read", arguments="{}"):
    return ProposedCall(provider_call_id=f"p{number}", name=name, arguments=arguments)


def final(*ids, summary="Because."):
    return FinalAnswer(summary=summary, evidence_ids=ids)


def test_calls_alone_are_calls():
    reply = ModelReply(text="Look.", calls=(proposed(0), proposed(1)))
    assert conclude(snapshot(), reply) == Calls(calls=reply.calls)


def test_an_answer_that_cites_its_evidence_is_an_answer():
    known = snapshot(items=[evidence("ev_1"), evidence("ev_2")])
    assert conclude(known, ModelReply(final=final("ev_2"))) == Answer(final=final("ev_2"))


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply(),
        ModelReply(text="I think that it worked."),
        ModelReply(calls=(proposed(),), final=final("ev_1")),
        ModelReply(calls=(proposed(),), text="a\x00b"),
        ModelReply(calls=(proposed(),), text="\ud800"),
        ModelReply(calls=(proposed(),), text="x" * (TEXT_CODE_POINTS_MAX + 1)),
        ModelReply(calls=tuple(proposed(n) for n in range(CALLS_PER_REPLY_MAX + 1))),
        ModelReply(calls=(proposed(0), proposed(0))),
        ModelReply(calls=(proposed(name=""),)),
        ModelReply(calls=(proposed(name="x" * 129),)),
        ModelReply(calls=(proposed(name="a\x00"),)),
        ModelReply(final=final("ev_1", summary="  ")),
        ModelReply(final=final("ev_1", summary="x" * (SUMMARY_CODE_POINTS_MAX + 1))),
        ModelReply(final=final("ev_1", summary="a\x00b")),
    ],
)
def test_anything_ambiguous_or_unsound_is_refused(reply):
    assert conclude(snapshot(items=[evidence("ev_1")]), reply) == INVALID


@pytest.mark.parametrize("cited", [(), ("ev_9",), ("ev_1", "ev_9"), ("ev_failed",), ("ev_1",) * 65])
def test_missing_invented_or_failed_evidence_is_refused(cited):
    items = [evidence("ev_1"), evidence("ev_failed", EvidenceStatus.FAILED)]
    assert conclude(snapshot(items=items), ModelReply(final=final(*cited))) == BAD_EVIDENCE


@pytest.mark.parametrize(
    ("policy", "items", "cited", "accepted"),
    [
        (CitationPolicy.WHEN_USED, [], (), True),
        (CitationPolicy.WHEN_USED, [evidence("ev_1")], (), False),
        (CitationPolicy.WHEN_USED, [evidence("ev_1")], ("ev_1",), True),
        (CitationPolicy.WHEN_USED, [], ("ev_9",), False),
        (CitationPolicy.OFF, [evidence("ev_1")], (), True),
        (CitationPolicy.OFF, [], ("ev_9",), False),
        (CitationPolicy.REQUIRED, [], (), False),
    ],
)
def test_the_citation_policy_decides_when_evidence_is_needed(policy, items, cited, accepted):
    asked = snapshot(spec=agent(citations=policy), items=items)
    decision = conclude(asked, ModelReply(final=final(*cited)))
    assert decision == (Answer(final=final(*cited)) if accepted else BAD_EVIDENCE)


def test_an_unknown_price_is_not_free():
    budgeted = agent(limits={"cost_nano_dollars_max": 5})
    assert unpriced(budgeted, ModelReply())
    assert not unpriced(budgeted, ModelReply(usage=ModelUsage(cost_nano_dollars=0)))
    assert not unpriced(agent(), ModelReply())
