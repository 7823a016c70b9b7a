"""Tools that are Python functions, declared with `@tool`."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from aegis.domain.tool import ToolSpec
from aegis.domain.tool_declaration import ToolCallInfo, declaration_of
from aegis.tools.tool import Observation


class PythonFunction:
    """`Tool` over a declared function. A sync one runs in a thread, so that it blocks nobody."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._declared = declaration_of(function)
        self._is_async = inspect.iscoroutinefunction(function)

    @property
    def spec(self) -> ToolSpec:
        """See `Tool.spec`."""
        return self._declared.spec

    @property
    def source(self) -> str:
        """See `Tool.source`."""
        return f"python:{self._declared.spec.name}"

    async def run(self, arguments: dict[str, object], info: ToolCallInfo) -> Observation:
        """See `Tool.run`."""
        given = dict(arguments)
        if self._declared.info_parameter is not None:
            given[self._declared.info_parameter] = info
        if self._is_async:
            content = await self._declared.function(**given)
        else:
            content = await asyncio.to_thread(self._declared.function, **given)
        if isinstance(content, Observation):
            return content
        return Observation(content=content, trust=self._declared.trust)
