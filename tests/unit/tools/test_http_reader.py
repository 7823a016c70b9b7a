"""One bounded GET to one configured address, and to nowhere else (I20)."""

import gzip
import socket

import pytest

from aegis.domain.errors import ConfigurationError
from aegis.tools.ops.http_reader import RESPONSE_BYTES_MAX, HttpBackend, HttpReader
from aegis.tools.tool import ToolFailed
from tests.contracts.tool_executor.executor_under_test import CANARY
from tests.fakes.http_backend import Answer, HttpBackendFake, as_json


def reader_of(url: str) -> HttpReader:
    return HttpReader(HttpBackend(name="shop", base_url=url, headers={"X-Key": CANARY}))


async def test_json_comes_back_with_its_status() -> None:
    async with HttpBackendFake(lambda _heard: as_json({"a": 1}, 404)) as backend:
        reader = reader_of(backend.url + "/base/")
        assert await reader.get("/path", {"q": "a b&c=d"}) == (404, {"a": 1})
        (heard,) = backend.heard
        assert (heard.path, heard.params) == ("/base/path", {"q": "a b&c=d"})
        assert heard.headers["x-key"] == CANARY
        await reader.close()
        await reader.close()


async def test_a_redirect_is_not_followed() -> None:
    async with HttpBackendFake(lambda _heard: as_json({"elsewhere": True})) as other:
        moved = Answer(body=b"", status=307, headers={"Location": other.url})
        async with HttpBackendFake(lambda _heard: moved) as backend:
            reader = reader_of(backend.url)
            with pytest.raises(ToolFailed, match="http_307"):
                await reader.get("/", {})
            await reader.close()
        assert other.heard == []


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with HttpBackendFake(lambda _heard: as_json({"proxy": True})) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with HttpBackendFake(lambda _heard: as_json({"proxy": False})) as backend:
            reader = reader_of(backend.url)
            assert await reader.get("/", {}) == (200, {"proxy": False})
            await reader.close()
        assert proxy.heard == []


async def test_an_answer_is_read_up_to_the_cap_and_no_further() -> None:
    endless = Answer(body=b'"' + b"x" * (4 * RESPONSE_BYTES_MAX) + b'"')
    async with HttpBackendFake(lambda _heard: endless) as backend:
        reader = reader_of(backend.url)
        with pytest.raises(ToolFailed, match="response_too_large"):
            await reader.get("/", {})
        await reader.close()


async def test_compressed_bytes_are_not_unpacked() -> None:
    bomb = Answer(
        body=gzip.compress(b'"' + b"x" * 50_000_000 + b'"'), headers={"Content-Encoding": "gzip"}
    )
    async with HttpBackendFake(lambda _heard: bomb) as backend:
        reader = reader_of(backend.url)
        with pytest.raises(ToolFailed, match="backend_sent_no_json"):
            await reader.get("/", {})
        assert backend.heard[0].headers["accept-encoding"] == "identity"
        await reader.close()


async def test_an_address_where_nobody_listens_is_a_stable_failure() -> None:
    with socket.socket() as held:
        # Bound and not listening: nobody else can take the port while the test runs.
        held.bind(("127.0.0.1", 0))
        reader = reader_of(f"http://127.0.0.1:{held.getsockname()[1]}")
        with pytest.raises(ToolFailed, match="backend_unreachable"):
            await reader.get("/", {})
        await reader.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop:9090",
        "ftp://shop",
        "file:///etc/passwd",
        "http://",
        "http://user:hunter2-canary@shop",
        "http://shop/?token=hunter2-canary",
        "http://shop/#part",
    ],
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="backend 'shop'") as refused:
        reader_of(url)
    assert CANARY not in str(refused.value)
