"""Evidence: an observation that a task made through a tool, immutable once recorded."""

from enum import StrEnum

from msgspec import Struct

from aegis.domain.canonical import sha256_hex
from aegis.domain.micros import Micros


class EvidenceStatus(StrEnum):
    """Only `ok` evidence may be cited."""

    OK = "ok"
    FAILED = "failed"


class Trust(StrEnum):
    """How far the content may be believed. It is data in every case, never an instruction."""

    MEASURED = "measured"
    """Computed by a configured system from its own records, such as a metrics server."""
    UNTRUSTED = "untrusted"
    """Text that third parties can write, such as log lines, tickets or documents."""


class Window(Struct, frozen=True, kw_only=True):
    """The span of time that the content speaks of, absolute microseconds."""

    start: Micros
    end: Micros


class Evidence(Struct, frozen=True, kw_only=True):
    """One observation: what a tool returned, where it came from, and a digest over its bytes.

    `content` is what the model is shown, cut at the agent's limit; where it was cut, `truncated` is
    true and the whole bytes are the blob named `digest`. `digest` is the SHA-256 of the whole
    content as UTF-8, `size_bytes` its length.
    """

    id: str
    task_id: str
    call_id: str
    tool: str
    tool_hash: str
    source: str
    """Which configured back end answered, without address or secret, such as `prometheus:shop`."""
    status: EvidenceStatus
    trust: Trust
    synthetic: bool
    content: str
    truncated: bool
    digest: str
    size_bytes: int
    observed_at: Micros
    window: Window | None = None


def digest_matches(evidence: Evidence, whole: str) -> bool:
    """Whether `whole` is the content that `evidence` was made from."""
    return sha256_hex(whole) == evidence.digest
