"""Errors as RFC 9457 problem details: one table from code to status."""

import logging
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from aegis.domain.errors import AegisError, InvalidRequest

log = logging.getLogger("aegis.web")

STATUS: dict[str, int] = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "ILLEGAL_TRANSITION": 409,
    "GONE": 410,
    "BODY_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "INVALID_REQUEST": 422,
    "UNKNOWN_AGENT": 422,
    "IDEMPOTENCY_KEY_REUSED": 422,
    "INTERNAL_ERROR": 500,
    "QUEUE_FULL": 503,
    "CAPACITY_EXHAUSTED": 503,
    "UNAVAILABLE": 503,
}
"""The status of each public code. A code that is not here is INTERNAL_ERROR."""

RETRY_AFTER_SECONDS = {"QUEUE_FULL": 1, "CAPACITY_EXHAUSTED": 30, "UNAVAILABLE": 2}
MEDIA_TYPE = "application/problem+json"


class FieldError(Struct, frozen=True, kw_only=True):
    """One broken rule of a body; `pointer` is a JSON pointer, "" the whole document."""

    pointer: str
    detail: str


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457 with a stable `code` and the id of the request."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    errors: tuple[FieldError, ...] = ()


class Refused(AegisError):
    """A request that the HTTP door itself refuses, with a status of its own."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        errors: tuple[FieldError, ...] = (),
    ) -> None:
        super().__init__(detail)
        self.refusal = code
        self.status = status or STATUS[code]
        self.detail = detail
        self.errors = errors


def problem(  # noqa: PLR0913 - the members of a problem, by keyword
    request: Request,
    code: str,
    detail: str,
    *,
    status: int | None = None,
    errors: tuple[FieldError, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the response for `code`, with `Retry-After` where trying again helps."""
    made = Problem(
        type=f"urn:aegis:problem:{code.lower().replace('_', '-')}",
        title=code.replace("_", " ").capitalize(),
        status=status or STATUS[code],
        code=code,
        detail=detail,
        request_id=request_id(request),
        errors=errors,
    )
    all_headers = dict(headers or {})
    if code in RETRY_AFTER_SECONDS:
        all_headers["Retry-After"] = str(RETRY_AFTER_SECONDS[code])
    if code == "UNAUTHENTICATED":
        all_headers["WWW-Authenticate"] = 'Bearer realm="aegis"'
    return Response(
        msgspec.json.encode(made),
        status_code=made.status,
        media_type=MEDIA_TYPE,
        headers=all_headers,
    )


def from_error(request: Request, error: Exception) -> Response:
    """Return the response for any error; what is not ours becomes INTERNAL_ERROR without a word."""
    if isinstance(error, Refused):
        return problem(
            request, error.refusal, error.detail, status=error.status, errors=error.errors
        )
    if isinstance(error, InvalidRequest):
        broken = FieldError(pointer=error.pointer, detail=error.detail)
        return problem(request, error.code, error.detail, errors=(broken,))
    if isinstance(error, AegisError) and error.code in STATUS and error.code != "INTERNAL_ERROR":
        return problem(request, error.code, str(error))
    # By class alone: the text of a foreign error may hold a secret (I16).
    log.error("request %s failed with %s", request_id(request), type(error).__name__)
    return problem(request, "INTERNAL_ERROR", "Aegis failed; the operators' log has the details.")


def request_id(request: Request) -> str:
    """Return the id that the middleware gave to this request."""
    return str(request.scope.get("aegis.request_id", ""))
