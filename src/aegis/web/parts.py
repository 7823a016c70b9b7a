"""What the HTTP door works with."""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from aegis.domain.agent import AgentSpec
from aegis.ports.event_feed import EventFeed
from aegis.ports.health import Health
from aegis.ports.identity import Identity
from aegis.ports.task_views import TaskViews
from aegis.use_cases.use_cases import UseCases


class WebParts(Struct, frozen=True, kw_only=True):
    """`settings` is the effective configuration without secrets; `stopping` ends open streams."""

    use_cases: UseCases
    task_views: TaskViews
    event_feed: EventFeed
    identity: Identity
    health: Health
    agents: Mapping[str, AgentSpec]
    settings: Mapping[str, object]
    stopping: asyncio.Event
