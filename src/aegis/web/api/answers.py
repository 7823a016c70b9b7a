"""JSON answers from records, and their description for OpenAPI."""

from typing import Any

import msgspec
from starlette.responses import Response

from aegis.web import shapes
from aegis.web.problems import MEDIA_TYPE, Problem

_SHAPES = (
    Problem,
    shapes.TaskShape,
    shapes.TaskPage,
    shapes.CancelShape,
    shapes.EvidenceShape,
    shapes.EvidenceList,
    shapes.AgentList,
    shapes.QueueShape,
)

_DESCRIPTIONS = {
    400: "Not one strict JSON document, or a header that cannot be read",
    401: "No identity, or one that does not verify",
    403: "None of the caller's roles may do this",
    404: "Not there, or somebody else's: both look the same",
    408: "The body came too slowly",
    410: "Pruned by retention",
    413: "The body is too large",
    415: "The body is not application/json",
    422: "The document breaks the schema; errors[] points at the places",
    500: "Aegis failed",
    503: "No capacity, or the store does not answer; see Retry-After",
}


def answer(record: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return `record` as JSON."""
    return Response(
        msgspec.json.encode(record),
        status_code=status,
        media_type="application/json",
        headers=headers,
    )


def documented(shape: type | None, *problems: int, status: int = 200) -> dict[int | str, Any]:
    """Return the `responses` of a route: its shape, and every problem that it can answer with."""
    content: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if shape is not None:
        content = {"application/json": {"schema": _ref(shape)}}
    responses: dict[int | str, Any] = {status: {"description": "Done", "content": content}}
    for code in sorted({*problems, 500}):
        responses[code] = {
            "description": _DESCRIPTIONS[code],
            "content": {MEDIA_TYPE: {"schema": _ref(Problem)}},
        }
    return responses


def component_schemas() -> dict[str, Any]:
    """Return the JSON Schema of every record that answers hold."""
    _, components = msgspec.json.schema_components(
        _SHAPES, ref_template="#/components/schemas/{name}"
    )
    return dict(components)


def _ref(shape: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{shape.__name__}"}
