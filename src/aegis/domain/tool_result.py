"""What came of a tool call: one truthful result for each call, in order."""

from msgspec import Struct

from aegis.domain.evidence import Evidence
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import CallState


class ToolResult(Struct, frozen=True, kw_only=True):
    """The end of one call.

    `state` is SUCCEEDED, FAILED, DENIED, SKIPPED, INTERRUPTED or IN_DOUBT. A call that ran has
    `evidence` (status ok or failed); one that did not has none. `error` is TOOL_ERROR,
    TOOL_TIMEOUT, TOOL_DENIED or OUTCOME_UNKNOWN where the state is not SUCCEEDED or SKIPPED.
    """

    call_id: str
    state: CallState
    evidence: Evidence | None = None
    error: ReasonCode | None = None
