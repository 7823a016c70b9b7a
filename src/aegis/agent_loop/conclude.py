"""What a model's reply means: exactly one thing, or nothing. Pure."""

from msgspec import Struct

from aegis.domain.agent import AgentSpec, CitationPolicy
from aegis.domain.evidence import EvidenceStatus
from aegis.domain.model import FinalAnswer, ModelReply
from aegis.domain.reason import ReasonCode
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.text import is_storable
from aegis.domain.tool_call import ProposedCall

CALLS_PER_REPLY_MAX = 32
NAME_CODE_POINTS_MAX = 128
TEXT_CODE_POINTS_MAX = 64 * 1024
SUMMARY_CODE_POINTS_MAX = 16 * 1024
CITATIONS_MAX = 64


class Answer(Struct, frozen=True, kw_only=True):
    """The reply is a valid final answer."""

    final: FinalAnswer


class Calls(Struct, frozen=True, kw_only=True):
    """The reply asks for tools; each call still has to pass the checks."""

    calls: tuple[ProposedCall, ...]


class Refused(Struct, frozen=True, kw_only=True):
    """The reply means nothing that may be done."""

    reason: ReasonCode


Decision = Answer | Calls | Refused


def conclude(snapshot: TaskSnapshot, reply: ModelReply) -> Decision:
    """Return the single meaning of `reply`; nothing is guessed (principle 2)."""
    if bool(reply.calls) == (reply.final is not None) or not _text_is_sound(reply.text):
        return Refused(reason=ReasonCode.INVALID_DECISION)
    if reply.final is None:
        if _calls_are_sound(reply.calls):
            return Calls(calls=reply.calls)
        return Refused(reason=ReasonCode.INVALID_DECISION)
    return _conclude_final(snapshot, reply.final)


def unpriced(agent: AgentSpec, reply: ModelReply) -> bool:
    """Whether a cost budget is set and `reply` came without a price: unknown is not free."""
    return agent.limits.cost_nano_dollars_max is not None and reply.usage.cost_nano_dollars is None


def _conclude_final(snapshot: TaskSnapshot, final: FinalAnswer) -> Decision:
    sound = (
        final.summary.strip()
        and len(final.summary) <= SUMMARY_CODE_POINTS_MAX
        and is_storable(final.summary)
    )
    if not sound:
        return Refused(reason=ReasonCode.INVALID_DECISION)
    citable = {item.id for item in snapshot.evidence if item.status is EvidenceStatus.OK}
    cited = final.evidence_ids
    must_cite = snapshot.agent.citations is CitationPolicy.REQUIRED or (
        snapshot.agent.citations is CitationPolicy.WHEN_USED and bool(citable)
    )
    if (must_cite and not cited) or len(cited) > CITATIONS_MAX or not citable.issuperset(cited):
        return Refused(reason=ReasonCode.INVALID_EVIDENCE)
    return Answer(final=final)


def _text_is_sound(text: str) -> bool:
    return len(text) <= TEXT_CODE_POINTS_MAX and is_storable(text)


def _calls_are_sound(calls: tuple[ProposedCall, ...]) -> bool:
    # Two calls with one id cannot be answered one by one, so such a reply is ambiguous.
    ids = {call.provider_call_id for call in calls}
    return (
        len(calls) <= CALLS_PER_REPLY_MAX
        and len(ids) == len(calls)
        and all(
            0 < len(name) <= NAME_CODE_POINTS_MAX and is_storable(name)
            for call in calls
            for name in (call.provider_call_id, call.name)
        )
    )
