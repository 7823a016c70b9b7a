"""The HTTP door over a real store, with words for asking it as different callers."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import httpx2
import msgspec
from fastapi import FastAPI
from msgspec import structs

from aegis.access.demo_token import DemoTokens
from aegis.dispatch.in_process.feed import InProcessFeed
from aegis.domain.principal import Principal
from aegis.domain.server_limits import ServerLimits
from aegis.domain.task import Task
from aegis.ports.health import HealthReport
from aegis.stores.memory.store import MemoryStore
from aegis.stores.sql.sqlite.store import SqliteSettings, SqliteStore
from aegis.use_cases.cancel_task import TaskCancellation
from aegis.use_cases.create_task import TaskCreation
from aegis.use_cases.use_cases import UseCases
from aegis.web.app import make_app
from aegis.web.parts import WebParts
from aegis.web.server import serve
from tests.contracts.stores.stores_under_test import AGENT, READ, World
from tests.contracts.stores.stores_under_test import Store as ContractStore
from tests.fakes.clock import ManualClock
from tests.fakes.ids import SequentialIds

ALICE = Principal(tenant="demo", subject="developer", roles=("operator",))
BOB = Principal(tenant="demo", subject="bob", roles=("operator",))
MALLORY = Principal(tenant="other", subject="developer", roles=("operator",))
VIEWER = Principal(tenant="demo", subject="developer", roles=("viewer",))
NOBODY = Principal(tenant="demo", subject="developer")

TOKENS: dict[str, Principal] = {
    "token-of-alice": ALICE,
    "token-of-bob": BOB,
    "token-of-mallory": MALLORY,
    "token-of-viewer": VIEWER,
    "token-of-nobody": NOBODY,
}
TOKEN_OF = {who: token for token, who in TOKENS.items()}
BODY = {"agent": AGENT.name, "prompt": "Why?"}

Json = dict[str, Any]


class Store(ContractStore, Protocol):
    """Every task port, with a life of its own."""

    async def open(self) -> None:
        """Make it ready."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class FixedHealth:
    """`Health` that says what the test set."""

    def __init__(self) -> None:
        self.ready = True

    async def report(self) -> HealthReport:
        word = "ok" if self.ready else "unavailable"
        return HealthReport(ready=self.ready, checks={"store": word})


class Web:
    """An application and all that stands behind it."""

    def __init__(self, limits: ServerLimits | None = None, database: Path | None = None) -> None:
        limits = limits or ServerLimits()
        self.clock = ManualClock()
        self.ids = SequentialIds()
        self.feed = InProcessFeed()
        self.health = FixedHealth()
        self.stopping = asyncio.Event()
        self.store: Store = self._store(limits, database)
        self.world = World(self.store, self.clock, self.ids, limits, [], list)
        self.signalled: list[str] = []
        creation = TaskCreation(
            repository=self.store,
            agents={AGENT.name: AGENT},
            clock=self.clock,
            ids=self.ids,
            idempotency_ttl_micros=limits.idempotency_ttl_micros,
        )
        cancellation = TaskCancellation(repository=self.store, signal=self.signalled.append)
        self.parts = WebParts(
            use_cases=UseCases(create_task=creation.create, cancel_task=cancellation.cancel),
            task_views=self.store,
            event_feed=self.feed,
            identity=DemoTokens(TOKENS),
            health=self.health,
            agents={AGENT.name: AGENT},
            settings={"store": {"kind": "memory"}},
            stopping=self.stopping,
        )
        self.app: FastAPI = make_app(self.parts)

    def remade(self, **parts: Any) -> FastAPI:
        """Return another application with some parts changed."""
        return make_app(structs.replace(self.parts, **parts))

    def client(
        self, who: Principal | None = ALICE, app: FastAPI | None = None
    ) -> httpx2.AsyncClient:
        headers = {} if who is None else {"Authorization": f"Bearer {TOKEN_OF[who]}"}
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app or self.app),
            base_url="http://aegis.test",
            headers=headers,
        )

    async def created(self, who: Principal = ALICE) -> str:
        """Create a task over HTTP and return its id."""
        async with self.client(who) as client:
            response = await client.post("/api/v1/tasks", json=BODY)
        assert response.status_code == 202, response.text
        return response.json()["id"]

    async def finished(self, who: Principal = ALICE) -> Task:
        """Create a task in the store and bring it to its end."""
        return await self.world.finished(principal=who)

    async def observed(self, who: Principal = ALICE) -> tuple[str, str]:
        """Bring a task to its end with one observation; return the ids of both."""
        await self.world.add(principal=who)
        claim = await self.world.claim()
        snapshot = await self.store.commit(
            claim, self.world.step(await self.store.load(claim), READ)
        )
        snapshot = await self.store.commit(claim, self.world.result(snapshot, READ))
        snapshot = await self.store.commit(claim, self.world.end(snapshot))
        return snapshot.task.id, snapshot.evidence[0].id

    def _store(self, limits: ServerLimits, database: Path | None) -> Store:
        """Return a store that is not open yet; memory needs no opening."""
        surroundings = {
            "clock": self.clock,
            "ids": self.ids,
            "limits": limits,
            "on_commit": self._on_commit,
        }
        if database is None:
            return MemoryStore(**surroundings)
        return SqliteStore(SqliteSettings(path=database), **surroundings)

    def _on_commit(self, task: Task) -> None:
        self.feed.publish(task.id)


@asynccontextmanager
async def served(web: Web, app: Any = None) -> AsyncGenerator[int]:
    """Serve on a free port of this machine and yield the port; ends the server after."""
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve(
            app or web.app,
            host="127.0.0.1",
            port=0,
            stop=web.stopping,
            on_listening=listening.set_result,
        )
    )
    try:
        await asyncio.wait([task, listening], return_when=asyncio.FIRST_COMPLETED)
        yield int(listening.result().rpartition(":")[2])
    finally:
        web.stopping.set()
        await task


class OpenStream:
    """A request to the application whose response is read while it is still being made.

    With `unread_max` the application must wait once so many messages were not read.
    """

    def __init__(
        self,
        app: Callable[..., Any],
        path: str,
        headers: Mapping[str, str],
        unread_max: int = 0,
    ) -> None:
        self._app = app
        self._messages: asyncio.Queue[Json] = asyncio.Queue(unread_max)
        self._ended = False
        self._gone = asyncio.Event()
        self._asked = itertools.count()
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower().encode(), text.encode()) for name, text in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self._app(self._scope, self._receive, self._messages.put))
        self.start = await self._messages.get()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    @property
    def status(self) -> int:
        return self.start["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): text.decode() for name, text in self.start["headers"]}

    @property
    def pending(self) -> list[Json]:
        """What was sent and not read yet."""
        return [self._messages.get_nowait() for _ in range(self._messages.qsize())]

    async def frame(self) -> bytes | None:
        """Return the next chunk as it was sent, None at the end and after it."""
        if self._ended:
            return None
        message = await self._messages.get()
        self._ended = not message.get("more_body")
        return None if self._ended else message["body"]

    async def rest(self) -> bytes:
        """Return everything up to the end."""
        return b"".join([frame async for frame in self._frames()])

    async def leave(self) -> None:
        """Go away as a client does, and wait until the application has noticed."""
        self._gone.set()
        assert self.task is not None
        await self.task

    async def _frames(self) -> AsyncIterator[bytes]:
        while (frame := await self.frame()) is not None:
            yield frame

    async def _receive(self) -> Json:
        if next(self._asked) == 0:
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}


def frames_of(data: bytes) -> list[Json]:
    """Parse complete event frames; comments are left out."""
    parsed: list[Json] = []
    for block in data.split(b"\n\n"):
        fields = dict(
            line.split(b": ", 1) for line in block.split(b"\n") if line and line[:1] != b":"
        )
        if fields:
            item: Json = {"event": fields[b"event"].decode()}
            item["data"] = msgspec.json.decode(fields[b"data"])
            item["id"] = int(fields[b"id"]) if b"id" in fields else None
            parsed.append(item)
    return parsed


def without_request_id(response: httpx2.Response) -> Json:
    """Return a problem without the one member that differs in every request."""
    document: Json = response.json()
    assert document.pop("request_id") == response.headers["x-request-id"]
    return document
