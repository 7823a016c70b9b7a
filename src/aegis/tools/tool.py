"""What the executor can run."""

from typing import Protocol

from msgspec import Struct

from aegis.domain.evidence import Trust, Window
from aegis.domain.tool import ToolSpec
from aegis.domain.tool_declaration import ToolCallInfo


class Observation(Struct, frozen=True, kw_only=True):
    """What a tool returned: `content` is text, or a value that JSON can express."""

    content: object
    trust: Trust = Trust.UNTRUSTED
    synthetic: bool = False
    window: Window | None = None


class ToolFailed(Exception):
    """A tool says that it failed, in a way it understands.

    `detail` is one of our own stable words (such as `bad_data`), never text of a back end.
    `nothing_happened` lets a write be FAILED rather than IN_DOUBT.
    """

    def __init__(self, detail: str, *, nothing_happened: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.nothing_happened = nothing_happened


class Tool(Protocol):
    """A tool: its identity, where its data comes from, and how to run it."""

    @property
    def spec(self) -> ToolSpec:
        """The identity that is pinned in every call."""
        ...

    @property
    def source(self) -> str:
        """The configured back end, without address or secret, such as `prometheus:shop`."""
        ...

    async def run(self, arguments: dict[str, object], info: ToolCallInfo, /) -> Observation:
        """Run once. Raises `ToolFailed`; anything else is a defect and treated as unknown."""
        ...
