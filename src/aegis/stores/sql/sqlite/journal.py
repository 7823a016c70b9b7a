"""Read and append what belongs to one task, within a transaction."""

from collections import OrderedDict
from collections.abc import Sequence

from aegis.domain.agent import AgentSpec
from aegis.domain.entry import Entry, JournalEntry
from aegis.domain.errors import StoreUnavailable
from aegis.domain.evidence import Evidence
from aegis.domain.micros import Micros
from aegis.domain.snapshot import TaskSnapshot, fold
from aegis.domain.task import Task
from aegis.stores.sql import codec
from aegis.stores.sql.sqlite import statements as sql
from aegis.stores.sql.sqlite.writer import Batch

AGENTS_CACHED_MAX = 256
ENTRIES_READ_MAX = 100_000


class Agents:
    """Agent specs by digest: immutable, so a small cache is always right. One per thread."""

    def __init__(self) -> None:
        self._specs: OrderedDict[tuple[str, str], AgentSpec] = OrderedDict()

    def find(self, batch: Batch, tenant: str, digest: str) -> AgentSpec:
        """Return the spec that was stored with a task."""
        key = (tenant, digest)
        spec = self._specs.get(key)
        if spec is None:
            rows = batch.rows(sql.BLOB_READ, {"tenant": tenant, "digest": digest})
            if not rows:
                raise StoreUnavailable("the agent spec of a task is missing from the store")
            spec = codec.agent_from_blob(bytes(rows[0][0]))  # pyright: ignore[reportArgumentType] - a BLOB column
            self._specs[key] = spec
            if len(self._specs) > AGENTS_CACHED_MAX:
                self._specs.popitem(last=False)
        return spec


def read_snapshot(batch: Batch, agents: Agents, task: Task) -> TaskSnapshot:
    """Fold the whole journal of `task`."""
    evidence = [
        codec.evidence_from_text(str(row[0]))
        for row in batch.rows(sql.EVIDENCE_OF_TASK, {"task_id": task.id})
    ]
    agent = agents.find(batch, task.principal.tenant, task.agent_digest)
    return fold(task, agent, read_entries(batch, task.id, 0, ENTRIES_READ_MAX), evidence)


def read_entries(batch: Batch, task_id: str, after_seq: int, count_max: int) -> list[JournalEntry]:
    """Return entries with seq > `after_seq`, in order."""
    params: dict[str, object] = {
        "task_id": task_id,
        "after_seq": after_seq,
        "count_max": count_max,
    }
    return [codec.entry_from_row(task_id, row) for row in batch.rows(sql.ENTRIES_READ, params)]


def append(  # noqa: PLR0913, PLR0917 - what one append is made of, in reading order
    batch: Batch,
    task_id: str,
    last_seq: int,
    entries: Sequence[Entry],
    evidence: Sequence[Evidence] = (),
    first_ordinal: int = 0,
) -> None:
    """Append `entries` so that the last of them gets `last_seq`, and `evidence` after the rest."""
    first = last_seq - len(entries) + 1
    batch.insert(
        sql.ENTRY_INSERT,
        [
            {
                "task_id": task_id,
                "task_seq": first + index,
                "at": batch.now,
                "body": codec.encode(entry),
            }
            for index, entry in enumerate(entries)
        ],
    )
    batch.insert(
        sql.EVIDENCE_INSERT,
        [
            {
                "task_id": task_id,
                "ordinal": first_ordinal + index,
                "id": item.id,
                "body": codec.encode(item),
            }
            for index, item in enumerate(evidence)
        ],
    )


def change_params(  # noqa: PLR0913 - the parts of one statement
    task: Task, base: Task, entry_count: int, change_id: str, *, in_doubt: bool, now: Micros
) -> dict[str, object]:
    """Return what the statements of a change bind: the columns of `task`, guarded by `base`."""
    return {
        "task_id": task.id,
        "claim_epoch": base.epoch,
        "base_version": base.version,
        "new_state": task.state.value,
        "reason": task.reason.value if task.reason else None,
        "output": codec.encode(task.output) if task.output else None,
        "usage": codec.encode(task.usage),
        "entry_count": entry_count,
        "running_since": task.running_since,
        "running_micros": task.running_micros,
        "handovers": task.handovers,
        "finished_at": task.finished_at,
        "change_id": change_id,
        "in_doubt": int(in_doubt),
        "now": now,
    }
