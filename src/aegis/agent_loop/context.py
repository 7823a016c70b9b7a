"""What the loop works with, given by whoever runs it."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from aegis.domain.claim import Claim
from aegis.domain.micros import Micros
from aegis.domain.model import OnDelta
from aegis.ports.clock import Clock
from aegis.ports.ids import Ids
from aegis.ports.model_provider import ModelProvider
from aegis.ports.tool_executor import ToolExecutor


class Lease(Protocol):
    """The claim under which the loop runs; it changes as the worker renews it."""

    def current(self) -> Claim:
        """Return the claim as last renewed."""
        ...


class Calling(Struct, frozen=True, kw_only=True):
    """The loop awaits the world: for how long at most, and whether a write is under way."""

    writes: bool
    timeout_micros: Micros


class LoopContext(Struct, frozen=True, kw_only=True):
    """The world as the loop sees it, and what it tells to whoever runs it.

    `on_call` is told what the loop awaits before each call and None after it. `stopping` is asked
    between commits: True makes the loop return with the task still RUNNING. `on_fault` is told of
    a defect of ours that ended the task with INTERNAL_ERROR.
    """

    lease: Lease
    models: ModelProvider
    tools: ToolExecutor
    clock: Clock
    ids: Ids
    on_delta: OnDelta
    on_call: Callable[[Calling | None], None]
    stopping: Callable[[], bool]
    on_fault: Callable[[Exception], None]
