"""Fixtures of the store contract: each test runs once on every store."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from aegis.domain.server_limits import ServerLimits
from tests.contracts.stores.stores_under_test import OPENERS, World

WorldWith = Callable[[ServerLimits], AbstractAsyncContextManager[World]]


@pytest.fixture(params=sorted(OPENERS))
def store_kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def world(store_kind: str, tmp_path: Path) -> AsyncGenerator[World]:
    async with OPENERS[store_kind](tmp_path) as opened:
        yield opened


@pytest.fixture
def world_with(store_kind: str, tmp_path: Path) -> WorldWith:
    """Open a store with limits of the test's choice."""

    def open_with(limits: ServerLimits) -> AbstractAsyncContextManager[World]:
        return OPENERS[store_kind](tmp_path, limits=limits)

    return open_with
