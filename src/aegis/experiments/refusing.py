"""X1 and X2: requests that must be refused with their codes."""

import httpx2

from aegis.experiments.scenario import Result

ROUTE = "/api/v1/tasks"


async def tenant_in_body(client: httpx2.AsyncClient) -> Result:
    """X1: a body cannot carry a tenant."""
    response = await client.post(
        ROUTE, json={"agent": "fault-normal", "prompt": "Why?", "tenant_id": "somebody-else"}
    )
    body = response.json()
    pointer = body.get("errors", [{}])[0].get("pointer")
    return Result(
        id="X1",
        title="tenant_id in the body",
        expected="422 INVALID_REQUEST /tenant_id",
        observed=f"{response.status_code} {body.get('code')} {pointer}",
        ok=(response.status_code, body.get("code"), pointer)
        == (422, "INVALID_REQUEST", "/tenant_id"),
        raw=body,
    )


async def key_with_another_body(client: httpx2.AsyncClient) -> Result:
    """X2: the same Idempotency-Key with another body; with the same body it is the same task."""
    headers = {"Idempotency-Key": "experiment-x2"}
    first = await client.post(
        ROUTE, json={"agent": "fault-normal", "prompt": "One"}, headers=headers
    )
    same = await client.post(
        ROUTE, json={"agent": "fault-normal", "prompt": "One"}, headers=headers
    )
    other = await client.post(
        ROUTE, json={"agent": "fault-normal", "prompt": "Two"}, headers=headers
    )
    replayed = first.content == same.content and first.status_code == same.status_code
    code = other.json().get("code")
    return Result(
        id="X2",
        title="the same Idempotency-Key with another body",
        expected="422 IDEMPOTENCY_KEY_REUSED, same body replayed",
        observed=f"{other.status_code} {code}, same body {'replayed' if replayed else 'differs'}",
        ok=replayed and (other.status_code, code) == (422, "IDEMPOTENCY_KEY_REUSED"),
        raw={"first": first.json(), "same": same.json(), "other": other.json()},
    )
