"""Demo identities: fixed bearer tokens, each for one principal. For laptops and experiments."""

import hmac
from collections.abc import Mapping

from aegis.domain.errors import ConfigurationError, Unauthenticated
from aegis.domain.principal import Principal

TOKEN_CHARACTERS_MIN = 8


class DemoTokens:
    """`Identity` from a fixed table. Refuses to exist without a token."""

    def __init__(self, principals: Mapping[str, Principal]) -> None:
        if not principals:
            raise ConfigurationError("demo auth needs a token: set AEGIS_DEMO_TOKEN")
        for token in principals:
            if len(token) < TOKEN_CHARACTERS_MIN or not token.isascii() or not token.isprintable():
                raise ConfigurationError(
                    f"AEGIS_DEMO_TOKEN must be at least {TOKEN_CHARACTERS_MIN} printable ASCII"
                    " characters"
                )
        self._principals = tuple((token.encode(), who) for token, who in principals.items())

    async def authenticate(self, bearer_token: str | None) -> Principal:
        """See `Identity.authenticate`. Every token is compared in constant time."""
        presented = (bearer_token or "").encode("utf-8", errors="replace")
        found: Principal | None = None
        for token, who in self._principals:
            if hmac.compare_digest(token, presented):
                found = who
        if found is None:
            raise Unauthenticated("the bearer token is missing or not known")
        return found
