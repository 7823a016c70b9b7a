"""Fixtures of the HTTP door. A file that overrides `database` runs on more than one store."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.integration.web.web_under_test import Web


@pytest.fixture
def database() -> Path | None:
    """Where the store keeps its rows; None is memory."""
    return None


@pytest.fixture
async def web(database: Path | None) -> AsyncGenerator[Web]:
    opened = Web(database=database)
    await opened.store.open()
    yield opened
    await opened.store.close()
