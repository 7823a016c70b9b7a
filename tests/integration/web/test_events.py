"""Event streams: each durable event exactly once and in order, over any reconnects (I22)."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from aegis.domain.entry import JournalEntry
from aegis.domain.errors import Gone, StoreUnavailable
from aegis.domain.micros import Micros
from aegis.domain.principal import Principal
from aegis.web.streaming import task_events
from tests.contracts.stores.stores_under_test import READ
from tests.integration.web.web_under_test import ALICE, OpenStream, Web, frames_of, served

AUTHORIZED = {"Authorization": "Bearer token-of-alice"}


@pytest.fixture(params=["memory", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "aegis.db"


def stream(web: Web, task_id: str, after: str | None = None, app: object = None) -> OpenStream:
    headers = AUTHORIZED if after is None else {**AUTHORIZED, "Last-Event-ID": after}
    return OpenStream(app or web.app, f"/api/v1/tasks/{task_id}/events", headers)  # pyright: ignore[reportArgumentType] - any ASGI application


class Views:
    """`TaskViews` of the store with an event read that a test replaces."""

    def __init__(self, web: Web) -> None:
        self._store = web.store
        self.get = web.store.get

    async def entries(
        self, principal: Principal, task_id: str, after_seq: int, count_max: int
    ) -> Sequence[JournalEntry]:
        return await self._store.entries(principal, task_id, after_seq, count_max)


class NoHints:
    """A feed on which every wait runs out at once: only the slow poll is left."""

    def __init__(self) -> None:
        self.open = 0
        self.waits = 0

    def publish(self, task_id: str) -> None:
        """Lost."""

    def subscribe(self, task_id: str) -> "NoHints":
        self.open += 1
        return self

    async def wait(self, timeout_micros: Micros) -> bool:
        self.waits += 1
        await asyncio.sleep(0)
        return False

    def close(self) -> None:
        self.open -= 1


async def test_a_finished_task_replays_whole_and_ends_with_its_last_event(web: Web):
    task_id, _ = await web.observed()

    async with stream(web, task_id) as opened:
        raw = await opened.rest()

    assert opened.status == 200
    assert opened.headers["content-type"].startswith("text/event-stream")
    assert opened.headers["cache-control"] == "no-cache"
    assert opened.headers["x-accel-buffering"] == "no"
    assert b"\r" not in raw
    assert raw.endswith(b"\n\n")
    assert [(frame["id"], frame["event"]) for frame in frames_of(raw)] == [
        (1, "task.created"),
        (2, "task.claimed"),
        (3, "model.replied"),
        (4, "call.finished"),
        (5, "task.succeeded"),
    ]
    assert web.feed.readers == 0


async def test_a_live_task_is_followed_event_by_event_to_its_end(web: Web):
    task_id = await web.created()

    async with stream(web, task_id) as opened:
        first = await opened.frame()
        claim = await web.world.claim(task_id)
        second = await opened.frame()
        snapshot = await web.store.commit(claim, web.world.step(await web.store.load(claim), READ))
        third = await opened.frame()
        await web.store.cancel(ALICE, snapshot.task.id)
        rest = await opened.rest()

    seen = [frame for part in (first, second, third, rest) for frame in frames_of(part or b"")]
    assert [frame["id"] for frame in seen] == [1, 2, 3, 4]
    assert seen[-1]["event"] == "task.cancelled"
    assert web.feed.readers == 0


@pytest.mark.parametrize("page", [1, 2, 100])
async def test_i22_a_reader_that_reconnects_anywhere_sees_each_event_once(
    web: Web, monkeypatch: pytest.MonkeyPatch, page: int
):
    monkeypatch.setattr(task_events, "PAGE_ENTRIES_MAX", page)
    task_id, _ = await web.observed()

    for cut in range(6):
        async with stream(web, task_id) as opened:
            head = [await opened.frame() for _ in range(cut)]
        seen = [frame["id"] for part in head for frame in frames_of(part or b"")]
        async with stream(web, task_id, after=str(cut)) as opened:
            if cut == 5:
                assert opened.status == 204
            else:
                seen += [frame["id"] for frame in frames_of(await opened.rest())]
        assert seen == [1, 2, 3, 4, 5]
    assert web.feed.readers == 0


async def test_what_is_committed_between_subscribing_and_reading_is_not_missed(web: Web):
    # Given rows that appear after the subscription and before the first read
    task_id = await web.created()
    views = Views(web)

    async def entries(
        principal: Principal, task_id: str, after_seq: int, count_max: int
    ) -> Sequence[JournalEntry]:
        if after_seq == 0:
            await web.store.cancel(ALICE, task_id)
        return await web.store.entries(principal, task_id, after_seq, count_max)

    views.entries = entries

    # When the stream is read
    async with stream(web, task_id, app=web.remade(task_views=views)) as opened:
        seen = frames_of(await opened.rest())

    assert [frame["event"] for frame in seen] == ["task.created", "task.cancelled"]


async def test_a_stream_works_without_any_hint_and_its_heartbeats_carry_no_id(web: Web):
    task_id = await web.created()
    feed = NoHints()

    async with stream(web, task_id, app=web.remade(event_feed=feed)) as opened:
        frames = [await opened.frame() for _ in range(3)]
        waits = feed.waits
        await web.store.cancel(ALICE, task_id)
        rest = frames_of(await opened.rest())

    assert [frame["event"] for frame in frames_of(frames[0] or b"")] == ["task.created"]
    assert frames[1:] == [b": still here\n\n"] * 2
    assert waits >= 2 * task_events.POLLS_PER_HEARTBEAT
    assert [(frame["id"], frame["event"]) for frame in rest] == [(2, "task.cancelled")]
    assert feed.open == 0


async def test_a_cursor_beyond_the_end_gets_a_typed_reset(web: Web):
    task_id = await web.created()

    async with stream(web, task_id, after="2") as opened:
        seen = frames_of(await opened.rest())

    assert seen == [
        {"event": "reset", "id": None, "data": {"reason": "cursor_beyond_end", "last_seq": 1}}
    ]


@pytest.mark.parametrize("cursor", ["-1", "x", "1.0", "1e3", "9" * 19, "0x1", "1 2"])
async def test_a_cursor_that_is_no_number_is_400(web: Web, cursor: str):
    task_id = await web.created()

    async with web.client() as client:
        response = await client.get(
            f"/api/v1/tasks/{task_id}/events", headers={"Last-Event-ID": cursor}
        )

    assert (response.status_code, response.json()["code"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("error", "frame"),
    [
        (Gone("pruned"), {"event": "reset", "id": None, "data": {"reason": "pruned"}}),
        (
            StoreUnavailable("the store is away"),
            {"event": "error", "id": None, "data": {"code": "UNAVAILABLE"}},
        ),
    ],
)
async def test_what_goes_wrong_in_a_stream_is_a_typed_frame_without_an_id(
    web: Web, error: Exception, frame: dict[str, object]
):
    task_id = await web.created()
    views = Views(web)

    async def entries(
        principal: Principal, task_id: str, after_seq: int, count_max: int
    ) -> Sequence[JournalEntry]:
        raise error

    views.entries = entries

    async with stream(web, task_id, app=web.remade(task_views=views)) as opened:
        assert frames_of(await opened.rest()) == [frame]
    assert web.feed.readers == 0


async def test_a_gap_in_the_rows_is_never_passed_over(web: Web):
    task_id, _ = await web.observed()
    views = Views(web)

    async def entries(
        principal: Principal, task_id: str, after_seq: int, count_max: int
    ) -> Sequence[JournalEntry]:
        rows = await web.store.entries(principal, task_id, after_seq, count_max)
        return [row for row in rows if row.seq != 3]

    views.entries = entries

    async with stream(web, task_id, app=web.remade(task_views=views)) as opened:
        seen = frames_of(await opened.rest())

    assert [frame["event"] for frame in seen] == ["task.created", "task.claimed", "reset"]
    assert seen[-1]["data"] == {"reason": "gap", "last_seq": 2}


async def test_a_client_that_leaves_frees_its_subscription_and_not_the_task(web: Web):
    task_id = await web.created()

    async with stream(web, task_id) as opened:
        await opened.frame()
        assert web.feed.readers == 1
    assert web.feed.readers == 0

    async with web.client() as client:
        assert (await client.get(f"/api/v1/tasks/{task_id}")).json()["state"] == "PENDING"


async def test_a_slow_client_that_leaves_in_the_middle_frees_its_subscription(web: Web):
    # Given a reader so slow that the stream waits for it
    task_id, _ = await web.observed()
    path = f"/api/v1/tasks/{task_id}/events"

    async with OpenStream(web.app, path, AUTHORIZED, unread_max=1) as opened:
        await opened.frame()
        assert web.feed.readers == 1
        # When it goes away
        await opened.leave()
        # Then nothing is kept, not even until the next collection of garbage
        assert web.feed.readers == 0


async def test_a_client_that_stops_reading_is_dropped(
    web: Web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(task_events, "SEND_SECONDS_MAX", 0.01)
    task_id, _ = await web.observed()
    path = f"/api/v1/tasks/{task_id}/events"

    async with OpenStream(web.app, path, AUTHORIZED, unread_max=1) as opened:
        assert opened.task is not None
        await opened.task
        assert web.feed.readers == 0
    assert caplog.records == []


async def test_a_server_that_stops_ends_its_streams_without_a_last_event(web: Web):
    # Given a client that follows a live task on a real server
    task_id = await web.created()
    async with served(web) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET /api/v1/tasks/{task_id}/events HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer token-of-alice\r\n\r\n".encode()
        )
        seen = await reader.readuntil(b"data:")
        # When the server is told to stop
        web.stopping.set()
        seen += await reader.read()
        writer.close()

    # Then the stream ended by itself, as a whole response
    assert b"task.created" in seen
    assert seen.endswith(b"0\r\n\r\n")
    assert web.feed.readers == 0


async def test_a_client_that_breaks_the_connection_frees_its_subscription(web: Web):
    task_id = await web.created()
    async with served(web) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET /api/v1/tasks/{task_id}/events HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer token-of-alice\r\n\r\n".encode()
        )
        await reader.readuntil(b"data:")
        assert web.feed.readers == 1
        writer.transport.abort()
        while web.feed.readers:
            await asyncio.sleep(0)
