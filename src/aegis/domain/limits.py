"""Budgets of a task, what it has used, and the arithmetic between the two."""

from msgspec import Struct, structs

from aegis.domain.micros import Micros


class Limits(Struct, frozen=True, kw_only=True):
    """The budgets of one task. They hold over all its attempts (I12).

    The defaults are those of the demo profile (01, A4).
    """

    steps_max: int = 6
    """Model requests, the final one included."""
    tool_calls_max: int = 4
    tokens_max: int | None = None
    """Input plus output tokens; None is unlimited."""
    cost_nano_dollars_max: int | None = None
    result_bytes_max: int = 4 * 1024 * 1024
    """Bytes of all tool results together."""
    running_micros_max: Micros = 5_000_000
    """Running time from claim, over all attempts; waiting and queueing do not count."""
    model_call_micros_max: Micros = 1_000_000
    tool_call_micros_max: Micros = 1_000_000
    model_output_tokens_max: int = 4096
    """Asked of the provider for each call, and the part of the budget reserved before it."""


class Usage(Struct, frozen=True, kw_only=True):
    """What a task has used so far, over all its attempts."""

    steps: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_dollars: int = 0
    result_bytes: int = 0

    @property
    def tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens


class ModelUsage(Struct, frozen=True, kw_only=True):
    """What one model call used. `cost_nano_dollars` is None where the price is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_dollars: int | None = None


def after_model_call(usage: Usage, call: ModelUsage) -> Usage:
    """Return `usage` with one more step and the tokens and cost of `call`."""
    return structs.replace(
        usage,
        steps=usage.steps + 1,
        input_tokens=usage.input_tokens + call.input_tokens,
        output_tokens=usage.output_tokens + call.output_tokens,
        cost_nano_dollars=usage.cost_nano_dollars + (call.cost_nano_dollars or 0),
    )


def after_lost_model_call(usage: Usage, limits: Limits) -> Usage:
    """Return `usage` charged for a model call whose end nobody recorded (06, rule 20).

    The call may have run, so one step and the reserved output are charged: a crash loop cannot
    buy model calls that no budget sees.
    """
    return structs.replace(
        usage,
        steps=usage.steps + 1,
        output_tokens=usage.output_tokens + limits.model_output_tokens_max,
    )
