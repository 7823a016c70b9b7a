"""The OpenAPI document is valid, complete, and true: generated requests find nothing it omits."""

from typing import Any

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from aegis.domain.server_limits import ServerLimits
from aegis.web.actions import PUBLIC
from aegis.web.problems import STATUS
from tests.integration.web.web_under_test import Web

WEB = Web(ServerLimits(pending_max=10_000, stored_max=10_000))
DOCUMENT: dict[str, Any] = WEB.app.openapi()
OPERATIONS = [
    (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
SCHEMA = schemathesis.openapi.from_asgi(
    "/api/v1/openapi.json", WEB.app, config=SchemathesisConfig.from_dict({})
)


def test_every_route_but_the_document_itself_is_described():
    routes = {
        (route.path, method.lower())
        for route in WEB.app.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods or ()
    }

    assert {(path, method) for path, method, _ in OPERATIONS} == routes
    assert DOCUMENT["openapi"].startswith("3.1")


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_declares_its_action_and_its_problems(
    path: str, method: str, operation: dict[str, Any]
):
    public = operation["x-aegis-action"] == PUBLIC
    responses = operation["responses"]

    assert ("security" in operation) is not public
    assert "500" in responses
    assert public or {"401", "403"} <= set(responses)
    for status, response in responses.items():
        if int(status) >= 400 and path != "/readyz":
            (content_type,) = response["content"]
            assert content_type == "application/problem+json"
            assert response["content"][content_type]["schema"]["$ref"].endswith("/Problem")
    assert "HTTPValidationError" not in str(DOCUMENT)


def test_every_code_of_the_table_has_a_status_of_its_class():
    assert all(400 <= status < 600 for status in STATUS.values())
    assert [code for code, status in STATUS.items() if status >= 500] == [
        "INTERNAL_ERROR",
        "QUEUE_FULL",
        "CAPACITY_EXHAUSTED",
        "UNAVAILABLE",
    ]


@SCHEMA.parametrize()
@settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_generated_requests_find_nothing_that_the_document_omits(case: schemathesis.Case):
    headers = {"Authorization": "Bearer token-of-alice"}

    response = case.call(headers=headers)

    # Unknown query members are ignored, and a token is sent with every request: neither is refused.
    excluded: list[Any] = [negative_data_rejection]
    if b'"UNKNOWN_AGENT"' in response.content:
        # Which agents are declared is no part of the schema.
        excluded.append(positive_data_acceptance)
    case.validate_response(response, headers=headers, excluded_checks=excluded)
