"""A small HTTP back end on a free loopback port: it answers as told and remembers what it heard."""

import asyncio
import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct


class Heard(Struct, frozen=True, kw_only=True):
    """One request: path, query parameters and headers (names in lower case)."""

    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]


class Answer(Struct, frozen=True, kw_only=True):
    """What to send back."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {}


Responder = Callable[[Heard], Answer]


def as_json(value: object, status: int = 200) -> Answer:
    return Answer(
        body=json.dumps(value).encode(),
        status=status,
        headers={"Content-Type": "application/json"},
    )


class HttpBackendFake:
    """`async with HttpBackendFake(respond) as backend`; `backend.url` is its base address."""

    def __init__(self, respond: Responder) -> None:
        self._respond = respond
        self._server: asyncio.Server | None = None
        self.heard: list[Heard] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            target = urlsplit(head[0].split(" ")[1])
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            heard = Heard(path=target.path, params=dict(parse_qsl(target.query)), headers=headers)
            self.heard.append(heard)
            answer = self._respond(heard)
            lines = [f"HTTP/1.1 {answer.status} Word", f"Content-Length: {len(answer.body)}"]
            lines += [f"{name}: {value}" for name, value in answer.headers.items()]
            lines += ["Connection: close", "", ""]
            writer.write("\r\n".join(lines).encode() + answer.body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            # The reader under test hung up first, as it may.
            return
        finally:
            writer.close()
