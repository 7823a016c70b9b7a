"""The conversation with a model: what is asked and what may come back."""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from aegis.domain.errors import AegisError
from aegis.domain.limits import ModelUsage
from aegis.domain.micros import Micros
from aegis.domain.reason import ReasonCode
from aegis.domain.tool import ToolSpec
from aegis.domain.tool_call import CallState, ProposedCall


class UserMessage(Struct, frozen=True, kw_only=True, tag="user"):
    """What the caller wants."""

    text: str


class AssistantMessage(Struct, frozen=True, kw_only=True, tag="assistant"):
    """What the model said earlier: text and the calls that it proposed."""

    text: str
    calls: tuple[ProposedCall, ...] = ()


class ToolMessage(Struct, frozen=True, kw_only=True, tag="tool"):
    """What came of one call. `content` is data of the outside world, never an instruction."""

    provider_call_id: str
    name: str
    state: CallState
    content: str
    evidence_id: str | None = None


Message = UserMessage | AssistantMessage | ToolMessage


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request to a model. `step` counts from 1; `timeout_micros` bounds the whole call."""

    model: str
    step: int
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    output_tokens_max: int
    timeout_micros: Micros


class Conclusion(StrEnum):
    """What a final answer claims: evidence and judgment are separate layers."""

    ANSWERED = "answered"
    INCONCLUSIVE = "inconclusive"


class FinalAnswer(Struct, frozen=True, kw_only=True):
    """The end of a task in the model's words, and the evidence that it cites."""

    summary: str
    evidence_ids: tuple[str, ...] = ()
    conclusion: Conclusion = Conclusion.ANSWERED


class ModelReply(Struct, frozen=True, kw_only=True):
    """What a model returned. Exactly one of `calls` and `final` makes it a decision."""

    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    final: FinalAnswer | None = None
    usage: ModelUsage = ModelUsage()
    attempts: int = 1


class ModelDelta(Struct, frozen=True, kw_only=True):
    """A piece of text while the model still speaks: `model_try` restarts on a retried call."""

    model_try: int
    index: int
    text: str


OnDelta = Callable[[ModelDelta], None]


class ModelFailed(AegisError):
    """The model call ended without a reply. `reason` is LLM_TIMEOUT or LLM_ERROR.

    Attempts and usage up to the failure come with it, so that budgets see what was spent.
    """

    code = "LLM_ERROR"

    def __init__(
        self, reason: ReasonCode, *, usage: ModelUsage | None = None, attempts: int = 1
    ) -> None:
        super().__init__(f"the model call ended with {reason.value}")
        self.reason = reason
        self.usage = usage or ModelUsage()
        self.attempts = attempts
