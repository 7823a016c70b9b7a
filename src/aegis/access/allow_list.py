"""A small policy: which role may call which tool in which environment; all else is denied."""

from collections.abc import Sequence

from msgspec import Struct

from aegis.ports.authorizer import CallToAuthorize


class AllowRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Principals with `role` may call `tools` in `environments` ("*" is any)."""

    role: str
    tools: tuple[str, ...]
    environments: tuple[str, ...] = ("*",)


class AllowList:
    """`Authorizer` from declared rules. No matching rule means no."""

    def __init__(self, rules: Sequence[AllowRule]) -> None:
        self._allowed = {
            (rule.role, tool, environment)
            for rule in rules
            for tool in rule.tools
            for environment in rule.environments
        }

    async def allows(self, call: CallToAuthorize) -> bool:
        """See `Authorizer.allows`."""
        return any(
            (role, call.tool, environment) in self._allowed
            for role in call.principal.roles
            for environment in (call.environment, "*")
        )
