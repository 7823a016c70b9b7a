"""Public events: a pure projection of the journal, one event for each entry."""

import msgspec
from msgspec import Struct

from aegis.domain.entry import TERMINAL_ENTRIES, Entry, JournalEntry
from aegis.domain.micros import Micros


class Event(Struct, frozen=True, kw_only=True):
    """What subscribers see. `seq` is the durable cursor; `data` holds plain JSON values."""

    task_id: str
    seq: int
    at: Micros
    type: str
    data: dict[str, object]


def project(item: JournalEntry) -> Event:
    """Return the public event of one journal entry."""
    data: dict[str, object] = msgspec.to_builtins(item.entry)
    kind = str(data.pop("type"))
    return Event(task_id=item.task_id, seq=item.seq, at=item.at, type=kind, data=data)


def is_last(entry: Entry) -> bool:
    """Whether nothing can follow `entry`: a stream ends with it."""
    return isinstance(entry, TERMINAL_ENTRIES)


LAST_EVENT_TYPES = frozenset({"task.succeeded", "task.failed", "task.cancelled"})
"""The types after which a task's stream ends."""
