"""Why a task stopped: the stable public reason codes."""

from enum import StrEnum


class ReasonCode(StrEnum):
    """The stable code of every stop that is not a success or a cancel (01, A6)."""

    INVALID_DECISION = "INVALID_DECISION"
    MAX_STEPS_EXHAUSTED = "MAX_STEPS_EXHAUSTED"
    TOOL_BUDGET_EXHAUSTED = "TOOL_BUDGET_EXHAUSTED"
    TOKEN_BUDGET_EXHAUSTED = "TOKEN_BUDGET_EXHAUSTED"  # noqa: S105 - a reason code, no secret
    COST_BUDGET_EXHAUSTED = "COST_BUDGET_EXHAUSTED"
    REPEATED_TOOL_CALL = "REPEATED_TOOL_CALL"
    TASK_TIMEOUT = "TASK_TIMEOUT"
    LLM_TIMEOUT = "LLM_TIMEOUT"
    LLM_ERROR = "LLM_ERROR"
    TOOL_TIMEOUT = "TOOL_TIMEOUT"
    TOOL_ERROR = "TOOL_ERROR"
    TOOL_DENIED = "TOOL_DENIED"
    INVALID_EVIDENCE = "INVALID_EVIDENCE"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    AGENT_UNAVAILABLE = "AGENT_UNAVAILABLE"
    WORKER_LOST = "WORKER_LOST"
    INTERNAL_ERROR = "INTERNAL_ERROR"


REASON_IN_WORDS: dict[ReasonCode, str] = {
    ReasonCode.INVALID_DECISION: "The model's reply had no single meaning, so nothing was done.",
    ReasonCode.MAX_STEPS_EXHAUSTED: "The step limit was reached before a final answer.",
    ReasonCode.TOOL_BUDGET_EXHAUSTED: "The tool-call limit was reached; the next call did not run.",
    ReasonCode.TOKEN_BUDGET_EXHAUSTED: "The token budget does not cover another model call.",
    ReasonCode.COST_BUDGET_EXHAUSTED: "The cost budget does not cover another model call.",
    ReasonCode.REPEATED_TOOL_CALL: "The same tool call was asked for again; it did not run twice.",
    ReasonCode.TASK_TIMEOUT: "The task used up its running time.",
    ReasonCode.LLM_TIMEOUT: "One model call took longer than its limit.",
    ReasonCode.LLM_ERROR: "The model provider failed.",
    ReasonCode.TOOL_TIMEOUT: "One tool call took longer than its limit.",
    ReasonCode.TOOL_ERROR: "A tool failed.",
    ReasonCode.TOOL_DENIED: "A tool call was not allowed for this principal, or names no tool.",
    ReasonCode.INVALID_EVIDENCE: "The answer cites evidence that this task did not obtain.",
    ReasonCode.APPROVAL_EXPIRED: "An approval was not decided or not used in time.",
    ReasonCode.OUTCOME_UNKNOWN: "A write was started and its outcome is not known.",
    ReasonCode.AGENT_UNAVAILABLE: "The agent, its model or a tool of it is not configured here.",
    ReasonCode.WORKER_LOST: "The workers that held this task were lost too often.",
    ReasonCode.INTERNAL_ERROR: "Aegis failed; the operators' log has the details.",
}
"""One sentence for people, for each reason code."""
