"""Tools that are Python functions, declared with `@tool`."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from aegis.domain.tool import ToolSpec
from aegis.domain.tool_declaration import ToolCallInfo, declaration_of
from aegis.tools.tool import Observation, ToolFailed

THREADS_MAX = 16
"""Calls of one sync function that may run at once, those that nobody awaits any more included."""


class PythonFunction:
    """`Tool` over a declared function. A sync one runs in a thread, so that it blocks nobody.

    A thread cannot be stopped: after a timeout it runs on. So each call has a daemon thread of its
    own, which neither holds up the end of the process nor takes the place of another tool.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._declared = declaration_of(function)
        self._is_async = inspect.iscoroutinefunction(function)
        self._fields = self._declared.arguments.__struct_fields__
        self._places = threading.BoundedSemaphore(THREADS_MAX)

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
        given = self._typed(arguments)
        if self._declared.info_parameter is not None:
            given[self._declared.info_parameter] = info
        if self._is_async:
            content = await self._declared.function(**given)
        else:
            content = await self._in_thread(given)
        if isinstance(content, Observation):
            return content
        try:
            # Records, dates and enums of the function's own become what JSON has.
            built = msgspec.to_builtins(content, str_keys=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolFailed("unstorable_result") from error
        return Observation(content=built, trust=self._declared.trust)

    def _typed(self, arguments: dict[str, object]) -> dict[str, object]:
        try:
            record = msgspec.convert(arguments, self._declared.arguments)
        except msgspec.ValidationError as error:
            raise ToolFailed("invalid_arguments", nothing_happened=True) from error
        return {name: getattr(record, name) for name in self._fields}

    async def _in_thread(self, given: dict[str, object]) -> object:
        if not self._places.acquire(blocking=False):
            raise ToolFailed("too_many_calls_at_once", nothing_happened=True)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: object, error: Exception | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        def work() -> None:
            result: object = None
            failure: Exception | None = None
            try:
                result = context.run(self._declared.function, **given)
            except StopIteration:
                # A future cannot carry this one: its reader would wait for ever.
                failure = RuntimeError("the function raised StopIteration")
            except Exception as error:  # noqa: BLE001 - whatever it is, the executor is to see it
                failure = error
            except BaseException:  # noqa: BLE001 - no function may end the process that runs it
                failure = RuntimeError("the function tried to end the process")
            finally:
                self._places.release()
            try:
                loop.call_soon_threadsafe(settle, result, failure)
            except RuntimeError:
                # The loop has ended: nobody waits for this answer any more.
                return

        threading.Thread(target=work, name=f"tool-{self.spec.name}", daemon=True).start()
        return await answer
