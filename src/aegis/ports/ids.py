"""Identifiers, as an argument."""

from typing import Protocol


class Ids(Protocol):
    """Makes identifiers that no two processes share."""

    def new(self, prefix: str) -> str:
        """Return `{prefix}_` and 128 time-ordered bits in 26 characters of Crockford base 32."""
        ...

    def random(self) -> str:
        """Return 128 random bits as 32 hexadecimal characters, for change ids and owners."""
        ...
