"""Tool calls: what the model proposed, what was planned, and where each stands."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from aegis.domain.canonical import sha256_hex
from aegis.domain.micros import Micros
from aegis.domain.reason import ReasonCode
from aegis.domain.tool import Effect


class CallState(StrEnum):
    """Where a tool call stands in the ledger."""

    PLANNED = "PLANNED"
    STARTED = "STARTED"
    """The intent of a write is committed; reads go from PLANNED to their end."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DENIED = "DENIED"
    """Refused before anything was sent."""
    SKIPPED = "SKIPPED"
    """Never begun: a sibling failed or the task ended first."""
    INTERRUPTED = "INTERRUPTED"
    """A read that may have begun and whose result nobody has."""
    IN_DOUBT = "IN_DOUBT"
    """A write that was started and whose outcome is not known. Never retried by itself."""


OPEN_CALL_STATES: frozenset[CallState] = frozenset({CallState.PLANNED, CallState.STARTED})


class ProposedCall(Struct, frozen=True, kw_only=True):
    """A call as the model wrote it: `arguments` is JSON text and may be anything at all."""

    provider_call_id: str
    name: str
    arguments: str


class PlannedCall(Struct, frozen=True, kw_only=True):
    """A call that passed or failed the checks before any call of its reply started.

    `id` is unique within the task: `{step}.{index}`. `arguments` is the canonical JSON of the
    validated arguments with defaults applied: exactly these bytes are hashed, shown and run. For a
    refused call it is what the model wrote, cut to a bound, and `refusal` says why it did not run.
    """

    id: str
    provider_call_id: str
    name: str
    arguments: str
    effect: Effect
    tool_hash: str
    refusal: ReasonCode | None = None


class CallRecord(Struct, frozen=True, kw_only=True):
    """One line of the ledger: a planned call and where it stands, folded from the journal."""

    call: PlannedCall
    step: int
    state: CallState
    evidence_id: str | None = None
    error: ReasonCode | None = None
    epoch_started: int | None = None
    send_by: Micros | None = None


class AssessedCall(Struct, frozen=True, kw_only=True, tag="allowed"):
    """`assess` found the call valid and allowed for this principal, at this moment."""

    name: str
    arguments: str
    effect: Effect
    tool_hash: str


class RefusedCall(Struct, frozen=True, kw_only=True, tag="refused"):
    """`assess` refused the call: TOOL_DENIED (unknown or not allowed) or INVALID_DECISION."""

    name: str
    arguments: str
    reason: Literal[ReasonCode.TOOL_DENIED, ReasonCode.INVALID_DECISION]


Assessment = AssessedCall | RefusedCall


def repeat_key(name: str, arguments: str) -> str:
    """Return what makes two calls the same: tool name and canonical arguments (A5)."""
    return sha256_hex(f"{name}\n{arguments}")


def idempotency_key(task_id: str, call_id: str) -> str:
    """Return the key handed to a write tool: one per call, equal in all attempts (06, rule 2)."""
    return sha256_hex(f"{task_id}\n{call_id}")
