"""Faults as a wrapper of a tool: for the experiments and for whoever tests an agent."""

import asyncio

from msgspec import structs

from aegis.domain.micros import Micros, seconds
from aegis.domain.tool import ToolSpec
from aegis.domain.tool_declaration import ToolCallInfo
from aegis.tools.tool import Observation, Tool


class FaultyTool:
    """The wrapped tool under another name, slowed down or failing. `runs` counts what began."""

    def __init__(
        self, tool: Tool, *, name: str, delay_micros: Micros = 0, fails: bool = False
    ) -> None:
        self._tool = tool
        self._spec = structs.replace(tool.spec, name=name)
        self._delay = seconds(delay_micros)
        self._fails = fails
        self.runs = 0

    @property
    def spec(self) -> ToolSpec:
        """See `Tool.spec`."""
        return self._spec

    @property
    def source(self) -> str:
        """See `Tool.source`."""
        return self._tool.source

    async def run(self, arguments: dict[str, object], info: ToolCallInfo) -> Observation:
        """See `Tool.run`. A failure raises with a text that must never get out."""
        self.runs += 1
        if self._delay:
            await asyncio.sleep(self._delay)
        if self._fails:
            raise RuntimeError("simulated failure; password=hunter2 at /srv/private/metrics.py")
        return await self._tool.run(arguments, info)
