"""Server-sent events of one task: rows are replayed, then followed, strictly in sequence."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from aegis.domain.entry import JournalEntry
from aegis.domain.errors import AegisError, Gone
from aegis.domain.event import is_last, project
from aegis.domain.micros import MICROS_PER_SECOND, Micros
from aegis.domain.principal import Principal
from aegis.ports.event_feed import Subscription
from aegis.web.parts import WebParts
from aegis.web.shapes import show_time

PAGE_ENTRIES_MAX = 100
POLL_MICROS: Micros = 1 * MICROS_PER_SECOND
"""Streams work without any hint, only slower: rows are read this often."""
POLLS_PER_HEARTBEAT = 15
SEND_SECONDS_MAX = 30.0
"""How long a reader may leave a frame in the buffers before it counts as gone."""


class EventStream(StreamingResponse):
    """A response that always ends its generator, also when the client has gone away."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes]) -> None:
        super().__init__(frames, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the frames; whatever happens, the subscription behind them is closed after."""

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(SEND_SECONDS_MAX):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None

        try:
            await super().__call__(scope, receive, send_in_time)
        finally:
            await self._frames.aclose()


async def task_events(
    parts: WebParts, principal: Principal, task_id: str, after_seq: int, last_seq: int
) -> AsyncGenerator[bytes]:
    """Yield frames of `task_id` after `after_seq` until its last event.

    Only frames made from rows carry an id. A cursor beyond the end, a gap, or a task that was
    pruned meanwhile gets a typed `reset` frame with its reason, and the stream ends: the client
    reads the task anew.
    """
    if after_seq > last_seq:
        yield _frame("reset", {"reason": "cursor_beyond_end", "last_seq": last_seq})
        return
    # Subscribed before the first read, so that nothing falls between the two.
    subscription = parts.event_feed.subscribe(task_id)
    try:
        async with aclosing(_follow(parts, principal, task_id, after_seq, subscription)) as frames:
            async for frame in frames:
                yield frame
    except Gone:
        yield _frame("reset", {"reason": "pruned"})
    except AegisError as error:
        # The status line is long gone: a typed frame is all that can still be said.
        yield _frame("error", {"code": error.code})
    finally:
        subscription.close()


async def _follow(
    parts: WebParts, principal: Principal, task_id: str, seen: int, subscription: Subscription
) -> AsyncGenerator[bytes]:
    idle = 0
    while not parts.stopping.is_set():
        entries = await parts.task_views.entries(principal, task_id, seen, PAGE_ENTRIES_MAX)
        for item in entries:
            if item.seq != seen + 1:
                yield _frame("reset", {"reason": "gap", "last_seq": seen})
                return
            yield _entry_frame(item)
            seen = item.seq
            if is_last(item.entry):
                return
        if len(entries) == PAGE_ENTRIES_MAX:
            continue
        if await subscription.wait(POLL_MICROS):
            idle = 0
            continue
        idle += 1
        if idle % POLLS_PER_HEARTBEAT == 0:
            yield b": still here\n\n"


def _entry_frame(item: JournalEntry) -> bytes:
    event = project(item)
    body = {"task_id": event.task_id, "at": show_time(event.at), **event.data}
    return _frame(event.type, body, seq=event.seq)


def _frame(kind: str, data: dict[str, object], seq: int | None = None) -> bytes:
    head = f"event: {kind}\n" if seq is None else f"id: {seq}\nevent: {kind}\n"
    return head.encode() + b"data: " + msgspec.json.encode(data) + b"\n\n"
