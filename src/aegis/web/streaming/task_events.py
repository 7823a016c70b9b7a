"""Server-sent events of one task: rows are replayed, then followed, strictly in sequence."""

from collections.abc import AsyncIterator

import msgspec

from aegis.domain.errors import AegisError
from aegis.domain.event import LAST_EVENT_TYPES, project
from aegis.domain.micros import MICROS_PER_SECOND, Micros
from aegis.domain.principal import Principal
from aegis.web.parts import WebParts
from aegis.web.shapes import show_time

PAGE_ENTRIES_MAX = 100
POLL_MICROS: Micros = 1 * MICROS_PER_SECOND
"""Streams work without any hint, only slower: rows are read this often."""
POLLS_PER_HEARTBEAT = 15


async def task_events(
    parts: WebParts, principal: Principal, task_id: str, after_seq: int, last_seq: int
) -> AsyncIterator[bytes]:
    """Yield frames of `task_id` after `after_seq` until its last event.

    Only frames made from rows carry an id. A cursor beyond the end gets a typed `reset` frame that
    names the newest sequence, and the stream ends: the client starts again from there.
    """
    if after_seq > last_seq:
        yield _frame("reset", {"last_seq": last_seq})
        return
    # Subscribed before the first read, so that nothing falls between the two.
    subscription = parts.event_feed.subscribe(task_id)
    seen = after_seq
    idle = 0
    try:
        while not parts.stopping.is_set():
            entries = await parts.task_views.entries(principal, task_id, seen, PAGE_ENTRIES_MAX)
            for item in entries:
                if item.seq != seen + 1:
                    yield _frame("reset", {"last_seq": seen})
                    return
                event = project(item)
                body = {"task_id": task_id, "at": show_time(event.at), **event.data}
                yield _frame(event.type, body, seq=event.seq)
                seen = item.seq
                if event.type in LAST_EVENT_TYPES:
                    return
            if len(entries) == PAGE_ENTRIES_MAX:
                continue
            if await subscription.wait(POLL_MICROS):
                idle = 0
            else:
                idle += 1
                if idle % POLLS_PER_HEARTBEAT == 0:
                    yield b": still here\n\n"
    except AegisError as error:
        # The status line is long gone: a typed frame is all that can still be said.
        yield _frame("error", {"code": error.code})
    finally:
        subscription.close()


def _frame(kind: str, data: dict[str, object], seq: int | None = None) -> bytes:
    head = f"event: {kind}\n" if seq is None else f"id: {seq}\nevent: {kind}\n"
    return head.encode() + b"data: " + msgspec.json.encode(data) + b"\n\n"
