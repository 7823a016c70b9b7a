"""What the loop can do next: a closed sum of moves."""

from msgspec import Struct

from aegis.domain.micros import Micros
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import CallRecord


class AskModel(Struct, frozen=True, kw_only=True):
    """Ask the model for step `step`. `on_timeout` is the limit that `timeout_micros` came from."""

    step: int
    timeout_micros: Micros
    on_timeout: ReasonCode


class StartWrite(Struct, frozen=True, kw_only=True):
    """Commit the intent of a write; nothing is sent yet (I7)."""

    record: CallRecord


class RunTools(Struct, frozen=True, kw_only=True):
    """Run neighbouring reads side by side, or one write that has its permit."""

    records: tuple[CallRecord, ...]
    timeout_micros: Micros
    on_timeout: ReasonCode


class Fail(Struct, frozen=True, kw_only=True):
    """End the task without an answer."""

    reason: ReasonCode


Move = AskModel | StartWrite | RunTools | Fail
