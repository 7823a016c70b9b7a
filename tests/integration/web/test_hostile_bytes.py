"""Any bytes from a client get a 4xx or a close, and the server lives on (I21)."""

import asyncio
import logging
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.domain.server_limits import ServerLimits
from aegis.web import server, strict_json
from tests.integration.web.web_under_test import Web, served

POST = b"POST /api/v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-of-alice\r\n"
JSON = b"Content-Type: application/json\r\n"
CHUNKED = POST + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH = POST + JSON + b"Content-Length: "


@pytest.fixture
async def port(web: Web) -> AsyncGenerator[int]:
    async with served(web) as bound:
        yield bound


async def said(port: int, data: bytes, *, ends: bool = True) -> bytes:
    """Send `data`, end our side if `ends`, and return all that comes back until the close."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = bytearray()
    try:
        writer.write(data)
        await writer.drain()
        if ends:
            writer.write_eof()
        while part := await reader.read(65536):
            answer += part
    except ConnectionError:
        # Closed while we were still talking: that is one of the allowed answers.
        pass
    finally:
        writer.close()
    return bytes(answer)


async def lives(port: int) -> None:
    answer = await said(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")


def statuses(answer: bytes) -> list[int]:
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


HOSTILE = {
    "nothing": b"",
    "garbage": b"\x00\xff\x16\x03\x01\x02\x00" * 50,
    "TLS hello": b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + b"\x00" * 100,
    "half a request line": b"GET /api/v1/ta",
    "half a head": b"GET / HTTP/1.1\r\nHost: x\r\nX-Half",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "HTTP/9": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "space in a header name": b"GET / HTTP/1.1\r\nHost: x\r\nBad Name: y\r\n\r\n",
    "NUL in a header": b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
    "folded header": b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "huge header": b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 200_000 + b"\r\n\r\n",
    "huge request line": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    "endless head": b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 50_000,
    "bytes above ASCII in the target": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "odd escapes": b"GET /api/v1/tasks/%ff%fe%00%2f%zz HTTP/1.1\r\nHost: x\r\n"
    b"Authorization: Bearer token-of-alice\r\n\r\n",
    "bytes above ASCII in the token": b"GET /api/v1/tasks HTTP/1.1\r\nHost: x\r\n"
    b"Authorization: Bearer \xff\xfe\r\n\r\n",
    "odd last event id": b"GET /api/v1/tasks/task_1/events HTTP/1.1\r\nHost: x\r\n"
    b"Authorization: Bearer token-of-alice\r\nLast-Event-ID: \xb2\xb3\r\n\r\n",
    "two lengths": POST + JSON + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "negative length": LENGTH + b"-1\r\n\r\n",
    "length that is no number": LENGTH + b"\xb2\r\n\r\n",
    "length of many digits": LENGTH + b"9" * 5000 + b"\r\n\r\n",
    "length and chunks": LENGTH + b"5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "unknown transfer coding": POST + JSON + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "body shorter than its length": LENGTH + b"100\r\n\r\n{}",
    "body longer than its length": LENGTH + b"2\r\n\r\n{}{}{}",
    "bad chunk size": CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n",
    "negative chunk size": CHUNKED + b"-5\r\n{}\r\n0\r\n\r\n",
    "chunk size beyond everything": CHUNKED + b"f" * 40 + b"\r\n{}",
    "chunk longer than its size": CHUNKED + b"2\r\n{}{}\r\n0\r\n\r\n",
    "chunk extension without end": CHUNKED + b"2;" + b"a" * 100_000,
    "chunks without end": CHUNKED + b"2\r\n{}\r\n",
    "chunks beyond the limit": CHUNKED + (b"400\r\n" + b" " * 1024 + b"\r\n") * 100,
    "bad chunk after the answer": b"POST /nowhere HTTP/1.1\r\nHost: x\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n",
    "upgrade to a socket": b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    "upgrade to h2c": b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    "strange method": b"FROBNICATE /api/v1/tasks HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT": b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n",
    "absolute target": b"GET http://elsewhere/ HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "request smuggled behind a refusal": LENGTH
    + b"2\r\n\r\n[]GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n",
}


async def test_i21_hostile_bytes_get_a_4xx_or_a_close(port: int, caplog: pytest.LogCaptureFixture):
    # One server for all: what one client sends must not harm the next one.
    answers: dict[str, list[int]] = {}
    for name, data in HOSTILE.items():
        answers[name] = statuses(await said(port, data))
        await lives(port)

    bad = {name: got for name, got in answers.items() if not all(400 <= one < 500 for one in got)}
    assert bad == {}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_i21_a_bad_chunk_behind_an_early_answer_only_closes(
    port: int, caplog: pytest.LogCaptureFixture
):
    # Given a request that was refused before its body came
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
    )
    head = await reader.readuntil(b"\r\n\r\n")
    # When the rest of the body is no chunk
    writer.write(b"zz\r\n")
    await reader.read()
    writer.close()

    # Then there was one answer, and nothing broke
    assert statuses(head) == [404]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    await lives(port)


async def test_i21_a_head_that_never_ends_is_closed_at_its_deadline(
    port: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server, "HEAD_SECONDS_MAX", 0.05)

    assert await said(port, b"", ends=False) == b""
    assert await said(port, b"GET / HTTP/1.1\r\nHost: ", ends=False) == b""
    await lives(port)


async def test_i21_a_second_head_on_a_connection_has_a_deadline_too(
    port: int, monkeypatch: pytest.MonkeyPatch
):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b'{"alive":true}')

    monkeypatch.setattr(server, "HEAD_SECONDS_MAX", 0.05)
    writer.write(b"GET /healthz HTT")

    assert await reader.read() == b""
    writer.close()
    await lives(port)


async def test_i21_a_body_that_dribbles_is_408_at_its_deadline(
    port: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(strict_json, "BODY_SECONDS_MAX", 0.05)

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(LENGTH + b"100\r\n\r\n{")
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()

    assert statuses(head) == [408]
    await lives(port)


async def test_i21_one_connection_too_many_is_closed_and_the_others_serve_on(
    port: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 2)
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    for reader, writer in held:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b'{"alive":true}')

    assert await said(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", ends=False) == b""

    for reader, writer in held:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b'{"alive":true}')
        writer.close()


ATTACKS = st.one_of(
    st.binary(max_size=400),
    st.binary(max_size=100).map(lambda tail: CHUNKED + tail),
    st.binary(max_size=100).map(lambda tail: b"GET /" + tail + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
    st.binary(max_size=100).map(lambda tail: POST + tail + b"\r\n\r\n{}"),
)


@settings(max_examples=3, derandomize=True, deadline=None)
@given(attacks=st.lists(ATTACKS, min_size=40, max_size=40))
async def test_i21_no_bytes_at_all_make_a_5xx(attacks: list[bytes]):
    async with served(Web(ServerLimits())) as port:
        answers = [(data, statuses(await said(port, data))) for data in attacks]
        await lives(port)

    assert [(data, got) for data, got in answers if any(status >= 500 for status in got)] == []
