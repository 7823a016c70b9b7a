"""Bad input, line by line: each broken rule has its status and code, and none is a 5xx (A9)."""

import json
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aegis.domain.server_limits import ServerLimits
from tests.integration.web.web_under_test import BODY, Json, Web

JSON = {b"Content-Type": b"application/json"}


def body(**changes: object) -> bytes:
    return json.dumps({**BODY, **changes}).encode()


def nested(depth: int) -> bytes:
    return b'{"agent":' + b"[" * depth + b"]" * depth + b',"prompt":"x"}'


async def refused(
    web: Web, content: bytes, headers: dict[bytes, bytes] | None = None
) -> tuple[int, Json]:
    async with web.client() as client:
        response = await client.post(
            "/api/v1/tasks", content=content, headers={**JSON, **(headers or {})}
        )
    assert response.headers["content-type"] == "application/problem+json"
    problem: Json = response.json()
    assert problem["status"] == response.status_code
    assert problem["type"] == "urn:aegis:problem:" + problem["code"].lower().replace("_", "-")
    assert problem["request_id"] == response.headers["x-request-id"]
    assert (await web.store.counts()).by_state == {}
    return response.status_code, problem


NOT_ONE_DOCUMENT = {
    "empty": b"",
    "blank": b" \n ",
    "no JSON": b"{agent: ops}",
    "duplicate key": b'{"agent":"ops","agent":"ops","prompt":"x"}',
    "duplicate key inside": b'{"agent":{"a":1,"a":2},"prompt":"x"}',
    "NaN": b'{"agent":"ops","prompt":NaN}',
    "Infinity": b'{"agent":"ops","prompt":Infinity}',
    "minus Infinity": b'{"agent":"ops","prompt":-Infinity}',
    "second document": body() + b" {}",
    "trailing comma": b'{"agent":"ops","prompt":"x",}',
    "depth 65": nested(64),
    "depth of thousands": b"[" * 4000 + b"]" * 4000,
    "unclosed depth": b"[" * 8000,
    "bad UTF-8": b'{"agent":"ops","prompt":"\xff"}',
    "surrogate in UTF-8": b'{"agent":"ops","prompt":"\xed\xa0\x80"}',
    "UTF-16": '{"agent":"ops","prompt":"x"}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + body(),
    "integer of 5000 digits": b'{"agent":' + b"9" * 5000 + b',"prompt":"x"}',
    "control character in a string": b'{"agent":"ops","prompt":"a\nb"}',
}


@pytest.mark.parametrize("content", NOT_ONE_DOCUMENT.values(), ids=NOT_ONE_DOCUMENT.keys())
async def test_what_is_not_one_strict_document_is_400_without_pointers(web: Web, content: bytes):
    status, problem = await refused(web, content)

    assert (status, problem["code"]) == (400, "INVALID_REQUEST")
    assert "errors" not in problem


BREAKS_THE_SCHEMA = {
    "array": (b"[]", [""]),
    "null": (b"null", [""]),
    "string": (b'"x"', [""]),
    "number beyond a double": (b"1e400", [""]),
    "missing both": (b"{}", ["/agent", "/prompt"]),
    "missing prompt": (b'{"agent":"ops-diagnosis"}', ["/prompt"]),
    "unknown member": (body(colour="red"), ["/colour"]),
    "tenant": (body(tenant_id="other"), ["/tenant_id"]),
    "principal": (body(principal={"tenant": "other"}), ["/principal"]),
    "member to escape": (body(**{"a/b~c": 1}), ["/a~1b~0c"]),
    "lone surrogate as a member": (b'{"agent":"ops","prompt":"x","\\ud800":1}', ["/?"]),
    "wrong types": (body(agent=1, prompt=None), ["/agent", "/prompt"]),
    "1e400 as a prompt": (b'{"agent":"ops-diagnosis","prompt":1e400}', ["/prompt"]),
    "blank prompt": (body(prompt=" \t"), ["/prompt"]),
    "1001 code points": (body(prompt="x" * 1001), ["/prompt"]),
    "lone surrogate": (b'{"agent":"ops-diagnosis","prompt":"a\\ud800"}', ["/prompt"]),
    "surrogates in the wrong order": (
        b'{"agent":"ops-diagnosis","prompt":"\\udc00\\ud800"}',
        ["/prompt"],
    ),
    "NUL": (b'{"agent":"ops-diagnosis","prompt":"a\\u0000"}', ["/prompt"]),
    "NUL in the agent": (b'{"agent":"\\u0000","prompt":"x"}', ["/agent"]),
    "lone surrogate in the agent": (b'{"agent":"\\udfff","prompt":"x"}', ["/agent"]),
}


@pytest.mark.parametrize(
    ("content", "pointers"), BREAKS_THE_SCHEMA.values(), ids=BREAKS_THE_SCHEMA.keys()
)
async def test_what_breaks_the_schema_is_422_with_a_pointer(
    web: Web, content: bytes, pointers: list[str]
):
    status, problem = await refused(web, content)

    assert (status, problem["code"]) == (422, "INVALID_REQUEST")
    assert [error["pointer"] for error in problem["errors"]] == pointers


async def test_an_unknown_agent_is_422_with_its_own_code(web: Web):
    status, problem = await refused(web, body(agent="no-such-agent"))

    assert (status, problem["code"]) == (422, "UNKNOWN_AGENT")


def padded(size: int) -> bytes:
    return body() + b" " * (size - len(body()))


async def test_8192_bytes_are_accepted_and_one_more_is_413(web: Web):
    status, problem = await refused(web, padded(8193))
    assert (status, problem["code"]) == (413, "BODY_TOO_LARGE")

    async with web.client() as client:
        response = await client.post("/api/v1/tasks", content=padded(8192), headers=JSON)
    assert response.status_code == 202


async def test_a_body_without_a_length_is_cut_off_while_it_streams(web: Web):
    # Given a client that sends far more than the limit, in pieces
    sent = 0

    async def long() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 1024
            yield b" " * 1024

    # When the application reads it
    async with web.client() as client:
        response = await client.post("/api/v1/tasks", content=long(), headers=JSON)

    # Then it was read no further than the limit
    assert response.status_code == 413
    assert sent <= 8192 + 2 * 1024


@pytest.mark.parametrize("length", [b"8193", b"9" * 5000])
async def test_a_declared_length_beyond_the_limit_is_413_before_any_byte(web: Web, length: bytes):
    status, _ = await refused(web, b"", {b"Content-Length": length})

    assert status == 413


@pytest.mark.parametrize("length", [b"\xb2", b"-1", b"many", b"1_000"])
async def test_a_length_that_is_no_number_is_not_believed(web: Web, length: bytes):
    status, _ = await refused(web, b"", {b"Content-Length": length})

    assert status == 400


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "application/problem+json",
        "application/json; charset=utf-16",
        "multipart/form-data; boundary=x",
    ],
)
async def test_another_content_type_is_415(web: Web, content_type: str):
    status, problem = await refused(web, body(), {b"Content-Type": content_type.encode()})

    assert (status, problem["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON;charset=UTF-8", 'application/json; charset="utf-8"'],
)
async def test_json_in_utf_8_is_taken_in_every_spelling(web: Web, content_type: str):
    async with web.client() as client:
        response = await client.post(
            "/api/v1/tasks", content=body(), headers={"Content-Type": content_type}
        )

    assert response.status_code == 202


async def test_1000_wide_code_points_are_accepted_and_come_back_whole(web: Web):
    prompt = "\U0001f600" * 1000
    raw = json.dumps({**BODY, "prompt": prompt}, ensure_ascii=False).encode()

    async with web.client() as client:
        response = await client.post("/api/v1/tasks", content=raw, headers=JSON)

    assert response.status_code == 202
    assert response.json()["prompt"] == prompt


@pytest.mark.parametrize(
    "query",
    [
        "state=NOPE",
        "state=",
        "limit=0",
        "limit=101",
        "limit=1e400",
        "limit=nan",
        "limit=" + "9" * 5000,
        "cursor=" + "x" * 65,
        "agent=%00",
        "cursor=%00",
        "agent=" + "a" * 129,
    ],
)
async def test_a_bad_query_is_422(web: Web, query: str):
    async with web.client() as client:
        response = await client.get(f"/api/v1/tasks?{query}")

    assert response.status_code == 422
    assert response.json()["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("task_id", ["%00", "x" * 64, "%ED%A0%80", "..", "%2e%2e%2fetc", "task_1"])
async def test_an_id_that_cannot_exist_is_404(web: Web, task_id: str):
    async with web.client() as client:
        response = await client.get(f"/api/v1/tasks/{task_id}")

    assert response.status_code == 404
    assert response.json()["code"] == "NOT_FOUND"


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
requests = st.one_of(
    st.binary(max_size=200),
    documents.map(lambda document: json.dumps(document).encode()),
    st.fixed_dictionaries({"agent": documents, "prompt": documents}).map(
        lambda document: json.dumps(document).encode()
    ),
    st.fixed_dictionaries({"agent": st.just(BODY["agent"]), "prompt": st.text()}).map(
        lambda document: json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ),
)


@settings(
    max_examples=200,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(content=requests)
async def test_no_body_at_all_makes_a_5xx(content: bytes):
    web = Web(ServerLimits())

    async with web.client() as client:
        response = await client.post("/api/v1/tasks", content=content, headers=JSON)

    assert response.status_code in {202, 400, 413, 422}
    stored = sum((await web.store.counts()).by_state.values())
    assert stored == (response.status_code == 202)
