"""The one way to a tool: assess, then execute."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from aegis.domain.agent import AgentSpec
from aegis.domain.micros import Micros
from aegis.domain.principal import Principal
from aegis.domain.tool import ToolSpec
from aegis.domain.tool_call import Assessment, PlannedCall, ProposedCall
from aegis.domain.tool_result import ToolResult


class ToolContext(Struct, frozen=True, kw_only=True):
    """For whom and under which bounds tools run. Never taken from the model's arguments.

    `epoch` is the fencing token. `timeout_micros` bounds each call. `send_deadline` is the local
    CLOCK_BOOTTIME after which a write must not be sent any more; reads ignore it.
    """

    principal: Principal
    agent: AgentSpec
    task_id: str
    epoch: int
    timeout_micros: Micros
    send_deadline: Micros


class ToolExecutor(Protocol):
    """Looks tools up, validates, authorizes and runs them."""

    def describe(self, names: Sequence[str]) -> Sequence[ToolSpec]:
        """Return the specs of `names` in order. Raises `ConfigurationError` for an unknown name."""
        ...

    async def assess(
        self, calls: Sequence[ProposedCall], context: ToolContext
    ) -> Sequence[Assessment]:
        """Look up, validate, apply defaults, canonicalise and authorize; no effect.

        One assessment per call, in order. A tool that is unknown or that the agent does not list is
        TOOL_DENIED; arguments that are no strict JSON or break the schema are INVALID_DECISION. For
        a refused call whose arguments do parse, `arguments` is still their canonical text.
        """
        ...

    async def execute(
        self, calls: Sequence[PlannedCall], context: ToolContext
    ) -> Sequence[ToolResult]:
        """Authorize again, then run: several reads side by side, or exactly one write.

        One result per call, in order; a tool's failure is a result and never an exception. The
        tool's identity must still be `call.tool_hash`, and validation must reproduce
        `call.arguments`, else the call is DENIED and nothing is sent. A read that runs out of time
        is FAILED with TOOL_TIMEOUT; a write that was sent and has no known outcome is IN_DOUBT with
        OUTCOME_UNKNOWN, never FAILED.
        """
        ...
