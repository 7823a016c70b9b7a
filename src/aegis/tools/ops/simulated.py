"""The simulated metrics and rollback: no back end, always marked synthetic (A11)."""

from typing import Annotated

from msgspec import Meta

from aegis.domain.evidence import Trust
from aegis.domain.tool_declaration import ToolCallInfo, tool
from aegis.tools.tool import Observation

ERROR_RATE = 0.08


@tool(trust="measured")
async def simulated_metrics(
    service: Annotated[str, Meta(min_length=1, max_length=128)],
    window_minutes: Annotated[int, Meta(ge=1, le=60)] = 30,
) -> Observation:
    """Return the simulated error rate of a service over the last minutes.

    Args:
        service: Name of the service.
        window_minutes: How many minutes to look back, 1 to 60.
    """
    content = {
        "service": service,
        "window_minutes": window_minutes,
        "error_rate": ERROR_RATE,
        "synthetic": True,
    }
    return Observation(content=content, trust=Trust.MEASURED, synthetic=True)


@tool(effect="write")
async def simulated_rollback(
    service: Annotated[str, Meta(min_length=1, max_length=128)],
    to_version: Annotated[str, Meta(min_length=1, max_length=64)],
    info: ToolCallInfo,
) -> Observation:
    """Pretend to roll a service back to an earlier version.

    Args:
        service: Name of the service.
        to_version: The version to return to.
    """
    content = {
        "service": service,
        "to_version": to_version,
        "idempotency_key": info.idempotency_key,
        "synthetic": True,
    }
    return Observation(content=content, synthetic=True)
