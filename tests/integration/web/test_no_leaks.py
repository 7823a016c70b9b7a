"""A canary in every unexpected error reaches neither the response nor the log (I16)."""

import logging
from typing import Any

import httpx2
import pytest

from aegis.domain.errors import ConfigurationError, LostClaim
from aegis.use_cases.use_cases import UseCases
from tests.integration.web.web_under_test import BODY, OpenStream, Web, served

CANARY = "sk-canary-4711 /srv/secret/path.py"


class Broken:
    """A port of which every verb fails with the canary in its text."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: object, **__: object) -> object:
            raise self._error

        return fail


class BrokenEntries:
    """`TaskViews` that finds the task and then fails to read its events."""

    def __init__(self, web: Web) -> None:
        self.get = web.store.get

    async def entries(self, *_: object) -> object:
        raise RuntimeError(CANARY)


ERRORS = [
    RuntimeError(CANARY),
    KeyError(CANARY),
    UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, CANARY),
    ExceptionGroup(CANARY, [ValueError(CANARY)]),
    LostClaim(CANARY),
    ConfigurationError(CANARY),
]
REQUESTS = [
    ("POST", "/api/v1/tasks"),
    ("GET", "/api/v1/tasks"),
    ("GET", "/api/v1/tasks/task_1"),
    ("POST", "/api/v1/tasks/task_1/cancel"),
    ("GET", "/api/v1/tasks/task_1/events"),
    ("GET", "/api/v1/evidence/ev_1"),
    ("GET", "/api/v1/queue"),
    ("GET", "/metrics"),
    ("GET", "/readyz"),
]


def broken(web: Web, error: Exception) -> Any:
    port = Broken(error)
    use_cases = UseCases(create_task=port.create_task, cancel_task=port.cancel_task)
    return web.remade(use_cases=use_cases, task_views=port, health=port)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("method", "path"), REQUESTS)
async def test_i16_an_unexpected_error_says_nothing(
    web: Web, caplog: pytest.LogCaptureFixture, error: Exception, method: str, path: str
):
    caplog.set_level(logging.DEBUG)

    async with web.client(app=broken(web, error)) as client:
        response = await client.request(method, path, json=BODY)

    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == "INTERNAL_ERROR"
    assert response.json()["request_id"] == response.headers["x-request-id"]
    assert "canary" not in response.text + str(response.headers) + caplog.text
    logged = [record for record in caplog.records if record.name == "aegis.web"]
    assert [record.exc_info for record in logged] == [None]
    assert type(error).__name__ in logged[0].getMessage()
    assert response.headers["x-request-id"] in logged[0].getMessage()


async def test_i16_the_real_server_logs_no_text_of_an_error_either(
    web: Web, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)

    async with served(web, broken(web, RuntimeError(CANARY))) as port:
        async with web.client() as client:
            headers = client.headers
        async with httpx2.AsyncClient(headers=headers) as client:
            response = await client.get(f"http://127.0.0.1:{port}/api/v1/tasks")

    assert response.status_code == 500
    assert "server" not in response.headers
    assert "canary" not in response.text + caplog.text


async def test_i16_an_error_in_the_middle_of_a_stream_cuts_it_without_a_word(
    web: Web, caplog: pytest.LogCaptureFixture
):
    task_id = await web.created()
    views = BrokenEntries(web)
    headers = {"Authorization": "Bearer token-of-alice"}

    app = web.remade(task_views=views)
    async with OpenStream(app, f"/api/v1/tasks/{task_id}/events", headers) as stream:
        assert stream.task is not None
        await stream.task

    assert stream.status == 200
    assert stream.pending == []
    assert web.feed.readers == 0
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ("abc-123_4.5", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("with space", False),
        ("<script>", False),
    ],
)
async def test_a_request_id_is_taken_over_only_if_it_is_short_and_plain(
    web: Web, asked: str, taken: bool
):
    async with web.client() as client:
        response = await client.get("/nowhere", headers={"X-Request-Id": asked})

    given = response.headers["x-request-id"]
    assert (given == asked) is taken
    assert response.json()["request_id"] == given


async def test_settings_and_agents_show_what_bootstrap_gave_and_no_instructions(web: Web):
    async with web.client() as client:
        settings = await client.get("/api/v1/settings")
        agents = await client.get("/api/v1/agents")

    assert settings.json() == {"store": {"kind": "memory"}}
    assert "instructions" not in agents.text
