"""The allow list: a role, a tool and an environment that a rule names; everything else is no."""

import pytest

from aegis.access.allow_list import AllowList, AllowRule
from aegis.domain.principal import Principal
from aegis.domain.tool import Effect
from aegis.ports.authorizer import CallToAuthorize

RULES = (
    AllowRule(role="operator", tools=("metrics", "logs")),
    AllowRule(role="operator", tools=("rollback",), environments=("demo", "staging")),
    AllowRule(role="viewer", tools=("metrics",), environments=("production",)),
)


def call(
    *roles: str, tool: str = "metrics", environment: str = "demo", effect: Effect = Effect.READ
) -> CallToAuthorize:
    return CallToAuthorize(
        principal=Principal(tenant="acme", subject="alice", roles=roles),
        agent="ops",
        environment=environment,
        tool=tool,
        effect=effect,
        arguments="{}",
    )


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (call("operator"), True),
        (call("operator", environment="production"), True),
        (call("operator", tool="rollback", environment="staging", effect=Effect.WRITE), True),
        (call("operator", tool="rollback", environment="production"), False),
        (call("viewer"), False),
        (call("viewer", environment="production"), True),
        (call("viewer", "operator"), True),
        (call("viewer", tool="rollback"), False),
        (call(), False),
        (call("admin"), False),
        (call("Operator"), False),
        (call("operator", tool="metrics2"), False),
        (call("operator", tool="*"), False),
        (call("*"), False),
    ],
)
async def test_only_what_a_rule_names_is_allowed(asked: CallToAuthorize, allowed: bool) -> None:
    assert await AllowList(RULES).allows(asked) is allowed


async def test_without_rules_nothing_is_allowed() -> None:
    assert await AllowList([]).allows(call("operator")) is False
