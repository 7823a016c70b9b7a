"""One bounded GET to a configured back end: no redirects, a byte cap, stable failures."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from aegis.domain.errors import ConfigurationError
from aegis.tools.tool import ToolFailed

HTTP_OK = 200
RESPONSE_BYTES_MAX = 2 * 1024 * 1024

_PLAIN = {"Accept": "application/json", "Accept-Encoding": "identity"}
"""Compressed bytes are not asked for and not unpacked: their size would bound nothing."""


class HttpBackend(Struct, frozen=True, kw_only=True):
    """Where to read from. `headers` may hold a secret; it never leaves this room."""

    name: str
    base_url: str
    headers: dict[str, str]


class HttpReader:
    """Reads JSON from one base URL and nowhere else (I20): no redirect, no proxy, no netrc.

    Raises `ConfigurationError` for an address that holds a password: it would reach logs.
    """

    def __init__(self, backend: HttpBackend) -> None:
        parts = urlsplit(backend.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigurationError(
                f"backend {backend.name!r}: the address must be http(s)://HOST[:PORT][/PATH]"
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ConfigurationError(
                f"backend {backend.name!r}: the address must hold no user, password or query;"
                " give a secret through token_env"
            )
        self.name = backend.name
        self._base_url = backend.base_url.rstrip("/")
        self._headers = backend.headers
        self._client: httpx2.AsyncClient | None = None

    async def get(self, path: str, params: dict[str, str]) -> tuple[int, Any]:
        """Return status and JSON body.

        Raises `ToolFailed`: `backend_unreachable`, `response_too_large`, `backend_sent_no_json`, or
        `http_STATUS` for a status beside 200 without JSON.
        """
        client = self._client
        if client is None:
            # The tool's own deadline is the executor's; this one only bounds a forgotten socket.
            client = self._client = httpx2.AsyncClient(
                timeout=60.0, follow_redirects=False, trust_env=False, headers=_PLAIN
            )
        body = bytearray()
        try:
            async with client.stream(
                "GET", self._base_url + path, params=params, headers=self._headers
            ) as response:
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > RESPONSE_BYTES_MAX:
                        raise ToolFailed("response_too_large", nothing_happened=True)
                status = response.status_code
        except httpx2.HTTPError as error:
            raise ToolFailed("backend_unreachable", nothing_happened=True) from error
        try:
            return status, json.loads(bytes(body))
        except (ValueError, RecursionError) as error:
            detail = "backend_sent_no_json" if status == HTTP_OK else f"http_{status}"
            raise ToolFailed(detail, nothing_happened=True) from error

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def rfc3339(seconds: int) -> str:
    """Return whole seconds since 1970 as back ends are asked for a time: RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
