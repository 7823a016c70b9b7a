"""Fixtures of the HTTP door."""

import pytest

from aegis.domain.server_limits import ServerLimits
from tests.integration.web.web_under_test import Web


@pytest.fixture
async def web() -> Web:
    return Web(ServerLimits())
