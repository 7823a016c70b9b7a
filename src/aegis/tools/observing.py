"""From what a tool returned to evidence: serialised once, bounded, storable, with its digest."""

import json

from aegis.domain.canonical import sha256_hex
from aegis.domain.evidence import Evidence, EvidenceStatus, Trust
from aegis.domain.text import cut_to_bytes, is_storable
from aegis.domain.tool_call import PlannedCall
from aegis.ports.blobs import Blobs
from aegis.ports.clock import Clock
from aegis.ports.ids import Ids
from aegis.ports.tool_executor import ToolContext
from aegis.tools.tool import Observation, ToolFailed

OUTPUT_BYTES_MAX = 4 * 1024 * 1024


class Recorder:
    """Makes the evidence of executed calls."""

    def __init__(self, blobs: Blobs, clock: Clock, ids: Ids) -> None:
        self._blobs = blobs
        self._clock = clock
        self._ids = ids

    async def success(
        self, call: PlannedCall, source: str, seen: Observation, context: ToolContext
    ) -> Evidence:
        """Return evidence of what was observed. Raises `ToolFailed` for what cannot be kept.

        Content beyond what the agent shows its model is cut there, and kept whole as a blob.
        """
        text = as_text(seen.content)
        data = text.encode("utf-8")
        shown_max = context.agent.result_bytes_shown_max
        truncated = len(data) > shown_max
        if truncated:
            await self._blobs.put(context.principal.tenant, data)
        return Evidence(
            id=self._ids.new("ev"),
            task_id=context.task_id,
            call_id=call.id,
            tool=call.name,
            tool_hash=call.tool_hash,
            source=source,
            status=EvidenceStatus.OK,
            trust=seen.trust,
            synthetic=seen.synthetic,
            content=cut_to_bytes(text, shown_max) if truncated else text,
            truncated=truncated,
            digest=sha256_hex(data),
            size_bytes=len(data),
            observed_at=self._clock.now(),
            window=seen.window,
        )

    def failure(
        self, call: PlannedCall, source: str, detail: str, context: ToolContext
    ) -> Evidence:
        """Return evidence that the call was made and failed: citable by nobody."""
        text = json.dumps({"error": detail})
        return Evidence(
            id=self._ids.new("ev"),
            task_id=context.task_id,
            call_id=call.id,
            tool=call.name,
            tool_hash=call.tool_hash,
            source=source,
            status=EvidenceStatus.FAILED,
            trust=Trust.UNTRUSTED,
            synthetic=False,
            content=text,
            truncated=False,
            digest=sha256_hex(text),
            size_bytes=len(text),
            observed_at=self._clock.now(),
        )


def as_text(content: object) -> str:
    """Return `content` as text: strings as they are, everything else as JSON.

    Raises `ToolFailed` for what no engine can store or JSON cannot say (NaN, cycles, NUL, lone
    surrogates, unknown types), and for more than `OUTPUT_BYTES_MAX`: an unstorable result is a
    failed call, never a stuck task.
    """
    if isinstance(content, str):
        text = content
    else:
        try:
            text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolFailed("unstorable_result") from error
    if len(text) > OUTPUT_BYTES_MAX:
        raise ToolFailed("result_too_large")
    if not is_storable(text) or "\\u0000" in text:
        raise ToolFailed("unstorable_result")
    if len(text.encode("utf-8")) > OUTPUT_BYTES_MAX:
        raise ToolFailed("result_too_large")
    return text
