"""Whether a principal may run a call, decided at that moment."""

from typing import Protocol

from msgspec import Struct

from aegis.domain.principal import Principal
from aegis.domain.tool import Effect


class CallToAuthorize(Struct, frozen=True, kw_only=True):
    """What policy decides on: who, for which agent and environment, which tool and arguments.

    `arguments` is the canonical JSON text of the validated arguments.
    """

    principal: Principal
    agent: str
    environment: str
    tool: str
    effect: Effect
    arguments: str


class Authorizer(Protocol):
    """Policy. Deny on error or when nothing decides."""

    async def allows(self, call: CallToAuthorize) -> bool:
        """Whether `call` may run. Asked at assessment and again at the moment of execution."""
        ...
