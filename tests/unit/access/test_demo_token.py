"""Demo identities: no token, no identity source; a known token names its principal and no other."""

import pytest

from aegis.access.demo_token import DemoTokens
from aegis.domain.errors import ConfigurationError, Unauthenticated
from aegis.domain.principal import Principal

DEVELOPER = Principal(tenant="demo", subject="developer", roles=("operator",))
SECOND = Principal(tenant="demo", subject="second", roles=("operator",))


@pytest.fixture
def identity() -> DemoTokens:
    return DemoTokens({"first-token": DEVELOPER, "second-token": SECOND})


async def test_each_token_names_its_own_principal(identity: DemoTokens):
    assert await identity.authenticate("first-token") == DEVELOPER
    assert await identity.authenticate("second-token") == SECOND


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        "first-toke",
        "first-tokens",
        "FIRST-TOKEN",
        "first-token\x00",
        "t\xf6ken",
        "\ud800",
    ],
)
async def test_anything_else_is_unauthenticated_without_being_quoted(
    identity: DemoTokens, token: str | None
):
    with pytest.raises(Unauthenticated) as caught:
        await identity.authenticate(token)

    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("token", ["", "short", "with space\n", "schl\xfcssel-token"])
def test_a_token_that_is_empty_or_weak_is_refused_at_start(token: str):
    with pytest.raises(ConfigurationError, match="AEGIS_DEMO_TOKEN"):
        DemoTokens({token: DEVELOPER})


def test_without_any_token_there_is_no_identity_source():
    with pytest.raises(ConfigurationError, match="set AEGIS_DEMO_TOKEN"):
        DemoTokens({})
