"""A session with a server by HTTP: what the local one does, over the public API alone."""

import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx2

from aegis.bootstrap.declared import PREFERRED_AGENTS
from aegis.domain.errors import AegisError, ConfigurationError, StoreUnavailable
from aegis.domain.event import LAST_EVENT_TYPES

REQUEST_SECONDS_MAX = 30.0
RECONNECTS_MAX = 10
HTTP_ERROR_MIN = 400
HTTP_NO_CONTENT = 204

Json = dict[str, Any]


class ServerRefused(AegisError):
    """The server answered with a problem; `code` is the server's."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.__dict__["code"] = code


class _NothingFollows(Exception):
    """The server says that the reader has seen the last event already."""


class RemoteSession:
    """`Session` on a server."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def create(self, agent: str | None, prompt: str) -> Json:
        """See `Session.create`."""
        name = agent if agent is not None else await self._default_agent()
        return await self._ask("POST", "/tasks", {"agent": name, "prompt": prompt})

    async def events(self, task_id: str, after: int) -> AsyncIterator[Json]:
        """See `Session.events`. A stream that is cut is taken up again after the last event."""
        for _ in range(RECONNECTS_MAX):
            try:
                async for event in self._stream(task_id, after):
                    after = event["seq"]
                    yield event
                    if event["type"] in LAST_EVENT_TYPES:
                        return
            except httpx2.HTTPError:
                continue
            except _NothingFollows:
                return
        raise StoreUnavailable("the event stream was cut too often; ask for the task instead")

    async def show(self, task_id: str) -> Json:
        """See `Session.show`."""
        return await self._ask("GET", f"/tasks/{task_id}")

    async def evidence(self, task_id: str) -> list[Json]:
        """See `Session.evidence`."""
        return (await self._ask("GET", f"/tasks/{task_id}/evidence"))["evidence"]

    async def list(self, state: str | None, count_max: int) -> list[Json]:
        """See `Session.list`."""
        query = f"?limit={count_max}" + (f"&state={state}" if state is not None else "")
        return (await self._ask("GET", f"/tasks{query}"))["tasks"]

    async def cancel(self, task_id: str) -> Json:
        """See `Session.cancel`."""
        return await self._ask("POST", f"/tasks/{task_id}/cancel")

    async def _default_agent(self) -> str:
        names = [agent["name"] for agent in (await self._ask("GET", "/agents"))["agents"]]
        for preferred in PREFERRED_AGENTS:
            if preferred in names:
                return preferred
        raise ConfigurationError(f"name an agent with --agent; the server has {names!r}")

    async def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        try:
            response = await self._client.request(method, f"/api/v1{path}", json=body)
        except httpx2.HTTPError as error:
            raise StoreUnavailable(
                "the server at AEGIS_URL does not answer: is it running?"
            ) from error
        return _read(response.status_code, response.content)

    async def _stream(self, task_id: str, after: int) -> AsyncIterator[Json]:
        headers = {"Last-Event-ID": str(after)}
        async with self._client.stream(
            "GET", f"/api/v1/tasks/{task_id}/events", headers=headers
        ) as response:
            if response.status_code >= HTTP_ERROR_MIN:
                _read(response.status_code, await response.aread())
            if response.status_code == HTTP_NO_CONTENT:
                raise _NothingFollows
            fields: dict[str, str] = {}
            async for line in response.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    continue
                if "id" in fields:
                    data: Json = json.loads(fields["data"])
                    yield {**data, "seq": int(fields["id"]), "type": fields["event"]}
                fields = {}


@contextlib.asynccontextmanager
async def open_remote(url: str, api_key: str) -> AsyncGenerator[RemoteSession]:
    """Open a session with the server at `url`."""
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"AEGIS_URL {url!r} must start with http:// or https://")
    if not api_key:
        raise ConfigurationError("AEGIS_URL is set: set AEGIS_API_KEY to the token of the server")
    headers = {"Authorization": f"Bearer {api_key}"}
    timeout = httpx2.Timeout(REQUEST_SECONDS_MAX, read=None)
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=timeout) as client:
        yield RemoteSession(client)


def _read(status: int, content: bytes) -> Json:
    try:
        body: Json = json.loads(content)
    except ValueError as error:
        raise StoreUnavailable(f"the server answered {status} without JSON") from error
    if status >= HTTP_ERROR_MIN:
        raise ServerRefused(str(body.get("code", "INTERNAL_ERROR")), str(body.get("detail", "")))
    return body
