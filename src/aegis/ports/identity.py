"""Who is calling."""

from typing import Protocol

from aegis.domain.principal import Principal


class Identity(Protocol):
    """Turns a bearer token into a principal."""

    async def authenticate(self, bearer_token: str | None) -> Principal:
        """Return who holds `bearer_token`. Raises `Unauthenticated`."""
        ...
