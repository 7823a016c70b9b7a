"""Content-addressed bytes that are too large for a row."""

from typing import Protocol


class Blobs(Protocol):
    """Per tenant; the name is the SHA-256 of the content in hexadecimal."""

    async def put(self, tenant: str, content: bytes) -> str:
        """Store `content` durably and return its digest. The same content is stored once."""
        ...

    async def fetch(self, tenant: str, digest: str) -> bytes:
        """Return the content. Raises `NotFound`."""
        ...
