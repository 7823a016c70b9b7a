"""Records to columns and back. Only msgspec; the same text on every engine."""

from collections.abc import Sequence
from typing import Any

import msgspec

from aegis.domain.agent import AgentSpec
from aegis.domain.canonical import sha256_hex
from aegis.domain.entry import Entry, JournalEntry
from aegis.domain.errors import InvalidRequest
from aegis.domain.evidence import Evidence
from aegis.domain.limits import Usage
from aegis.domain.model import FinalAnswer
from aegis.domain.principal import Principal
from aegis.domain.reason import ReasonCode
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.domain.text import is_storable, is_storable_json

_encoder = msgspec.json.Encoder()
_usage = msgspec.json.Decoder(Usage)
_output = msgspec.json.Decoder(FinalAnswer)
_entry = msgspec.json.Decoder(Entry)
_evidence = msgspec.json.Decoder(Evidence)
_agent = msgspec.json.Decoder(AgentSpec)
_task = msgspec.json.Decoder(Task)
_roles = msgspec.json.Decoder(tuple[str, ...])


def encode(record: object) -> str:
    """Return the JSON text of a record. Raises `InvalidRequest` for text no engine can store."""
    try:
        text = _encoder.encode(record).decode()
    except (UnicodeError, ValueError) as error:
        raise InvalidRequest("the record holds text that cannot be stored") from error
    if not is_storable_json(text):
        raise InvalidRequest("the record holds a NUL, which cannot be stored")
    return text


def task_params(task: Task) -> dict[str, object]:
    """Return the columns of `task`; those of its lease are empty."""
    return {
        "id": task.id,
        "tenant": task.principal.tenant,
        "subject": task.principal.subject,
        "roles": encode(task.principal.roles),
        "agent": task.agent,
        "agent_digest": task.agent_digest,
        "prompt": storable(task.prompt),
        "state": task.state.value,
        "reason": task.reason.value if task.reason else None,
        "output": encode(task.output) if task.output else None,
        "usage": encode(task.usage),
        "version": task.version,
        "epoch": task.epoch,
        "attempt": task.attempt,
        "handovers": task.handovers,
        "last_seq": task.last_seq,
        "running_since": task.running_since,
        "running_micros": task.running_micros,
        "created_at": task.created_at,
        "finished_at": task.finished_at,
        "last_change_id": task.last_change_id,
        "format_version": task.format_version,
        "owner": None,
        "lease_expires_at": None,
        "renewed_at": None,
        "in_doubt": 0,
    }


def task_from_row(row: Sequence[Any]) -> Task:
    """Return the task of a row in the order of `TASK_COLUMNS`."""
    return Task(
        id=row[0],
        principal=Principal(tenant=row[1], subject=row[2], roles=_roles.decode(row[3])),
        agent=row[4],
        agent_digest=row[5],
        prompt=row[6],
        state=TaskState(row[7]),
        reason=ReasonCode(row[8]) if row[8] is not None else None,
        output=_output.decode(row[9]) if row[9] is not None else None,
        usage=_usage.decode(row[10]),
        version=row[11],
        epoch=row[12],
        attempt=row[13],
        handovers=row[14],
        last_seq=row[15],
        running_since=row[16],
        running_micros=row[17],
        created_at=row[18],
        finished_at=row[19],
        last_change_id=row[20],
        format_version=row[21],
    )


def storable(text: str) -> str:
    """Return `text`, or raise `InvalidRequest` if some engine could not store it."""
    if not is_storable(text):
        raise InvalidRequest("the text holds a NUL or a lone surrogate, which cannot be stored")
    return text


def entry_from_row(task_id: str, row: Sequence[Any]) -> JournalEntry:
    """Return the journal entry of a row (task_seq, at, body)."""
    return JournalEntry(task_id=task_id, seq=row[0], at=row[1], entry=_entry.decode(row[2]))


def evidence_from_text(text: str) -> Evidence:
    """Return the evidence of a body column."""
    return _evidence.decode(text)


def task_from_text(text: str) -> Task:
    """Return a task stored whole, as an idempotency key keeps it."""
    return _task.decode(text)


def agent_to_blob(agent: AgentSpec) -> tuple[str, bytes]:
    """Return the digest and bytes under which an agent spec is stored."""
    body = _encoder.encode(agent)
    return sha256_hex(body), body


def agent_from_blob(body: bytes) -> AgentSpec:
    """Return the agent spec of a blob."""
    return _agent.decode(body)
