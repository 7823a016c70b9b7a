"""Refusals of the record and change APIs: RFC 9457 problem bodies with a stable `code`."""

from http import HTTPStatus

from msgspec import json
from starlette.responses import Response


class Problem(Exception):
    """A refused request: status, stable code, and a sentence that says what to do."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


def problem_response(problem: Problem) -> Response:
    """Return the problem as a response."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
    }
    return Response(
        json.encode(body), status_code=problem.status, media_type="application/problem+json"
    )


def json_response(body: object, status: int = 200) -> Response:
    """Return a body as JSON."""
    return Response(json.encode(body), status_code=status, media_type="application/json")
