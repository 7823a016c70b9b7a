"""What an agent is: declared data, stored with each task that it runs."""

from enum import StrEnum

from msgspec import Struct

from aegis.domain.limits import Limits


class CitationPolicy(StrEnum):
    """When a final answer must cite evidence of its own task."""

    REQUIRED = "required"
    WHEN_USED = "when_used"
    """Required once the task has obtained evidence; cited ids must exist in any case."""
    OFF = "off"


class OnToolFailure(StrEnum):
    """What a failed or refused tool call does to the task."""

    FAIL = "fail"
    TELL_MODEL = "tell_model"


class AgentSpec(Struct, frozen=True, kw_only=True):
    """A declared agent. The spec in force at create is stored; resume and replay use that one.

    `model` names a declared model, `tools` the tools it may propose: a name that is not listed is
    denied whatever the model says. Secrets and addresses are never part of it.
    """

    name: str
    model: str
    instructions: str
    tools: tuple[str, ...] = ()
    limits: Limits = Limits()
    citations: CitationPolicy = CitationPolicy.REQUIRED
    on_tool_failure: OnToolFailure = OnToolFailure.FAIL
    repeat_max: int = 1
    """How often the same call may run since the task's last successful write."""
    description: str = ""
    environment: str = "demo"
    result_bytes_shown_max: int = 16 * 1024
    """Bytes of one tool result that the model is shown; the whole is kept as a blob."""
