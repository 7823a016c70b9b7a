"""The server: a free port is told, a taken one is an error with advice, a stop ends it all."""

import asyncio
import socket

import httpx2
import pytest

from aegis.domain.errors import ConfigurationError
from aegis.web.server import serve
from tests.integration.web.web_under_test import Web, served


async def test_port_0_takes_a_free_port_and_tells_its_address(web: Web):
    async with served(web) as port, httpx2.AsyncClient() as client:
        response = await client.get(f"http://127.0.0.1:{port}/healthz")

    assert port > 0
    assert response.status_code == 200
    assert "server" not in response.headers


@pytest.mark.parametrize("port", [-1, 70_000])
async def test_a_port_that_does_not_exist_is_a_configuration_error(web: Web, port: int):
    with pytest.raises(ConfigurationError, match="--port"):
        await serve(
            web.app, host="127.0.0.1", port=port, stop=web.stopping, on_listening=lambda _: None
        )


async def test_a_port_that_is_taken_is_a_configuration_error(web: Web):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=str(port)):
            await serve(
                web.app, host="127.0.0.1", port=port, stop=web.stopping, on_listening=lambda _: None
            )


async def test_a_cancelled_server_leaves_nothing_listening(web: Web):
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve(
            web.app,
            host="127.0.0.1",
            port=0,
            stop=web.stopping,
            on_listening=listening.set_result,
        )
    )
    port = int((await listening).rpartition(":")[2])

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_an_answer_under_way_is_finished_before_the_stop(web: Web):
    # Given a request whose body is still coming
    async with served(web) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /api/v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-of-alice\r\n"
            b"Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        )
        assert b"100" in await reader.readuntil(b"\r\n\r\n")
        # When the server is told to stop and the rest comes after
        web.stopping.set()
        writer.write(b"{}")
        answer = await reader.read()
        writer.close()

    # Then it was answered as a whole
    assert answer.startswith(b"HTTP/1.1 422")
    assert b'"/prompt"' in answer
