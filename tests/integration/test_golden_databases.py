"""Databases that earlier releases left behind are resumed by this one. I24."""

import asyncio
import shutil
from pathlib import Path

import pytest

from aegis.bootstrap.profiles import experiment_settings
from aegis.bootstrap.runtime import open_runtime
from aegis.bootstrap.session import LOCAL_PRINCIPAL, LocalSession
from aegis.domain.entry import ModelReplied
from aegis.ports.task_views import TaskFilter
from aegis.stores.sql.migrate import upgrade

GOLDEN = sorted((Path(__file__).parents[1] / "data" / "golden").glob("*.db"))

EXPECTED = {
    "golden fault-normal": ("SUCCEEDED", None),
    "golden fault-tool-error": ("FAILED", "TOOL_ERROR"),
    "golden fault-rollback-denied": ("FAILED", "TOOL_DENIED"),
    "golden fault-bad-evidence": ("FAILED", "INVALID_EVIDENCE"),
    "golden cancelled": ("CANCELLED", None),
    "golden handed back": ("SUCCEEDED", None),
    "golden running": ("SUCCEEDED", None),
    "golden pending": ("SUCCEEDED", None),
}


def test_there_is_a_golden_database_of_every_release():
    assert [path.stem for path in GOLDEN] == ["v0.1.0"]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
async def test_an_old_database_is_resumed_and_no_recorded_step_is_repeated(tmp_path, golden):
    shutil.copy(golden, tmp_path / "aegis.db")
    upgrade(tmp_path / "aegis.db")
    runtime = await open_runtime(experiment_settings(tmp_path))
    session = LocalSession(runtime)
    stop = asyncio.Event()
    try:
        before = {
            task.prompt: task for task in await runtime.store.list(LOCAL_PRINCIPAL, TaskFilter())
        }
        assert set(before) == set(EXPECTED)
        assert {task.state.value for task in before.values()} == {
            "PENDING",
            "RUNNING",
            "READY_TO_RESUME",
            "SUCCEEDED",
            "FAILED",
            "CANCELLED",
        }
        journals = {
            prompt: await runtime.store.entries(LOCAL_PRINCIPAL, task.id, 0, 1000)
            for prompt, task in before.items()
        }
        worker = asyncio.create_task(runtime.run_worker(stop))
        for prompt, task in before.items():
            async with asyncio.timeout(30):
                async for _ in session.events(task.id, 0):
                    pass
            ended = await session.show(task.id)
            assert (ended["state"], ended["reason_code"]) == EXPECTED[prompt]
            after = await runtime.store.entries(LOCAL_PRINCIPAL, task.id, 0, 1000)
            assert list(after[: len(journals[prompt])]) == list(journals[prompt])
            steps = [item.entry.step for item in after if isinstance(item.entry, ModelReplied)]
            assert len(steps) == len(set(steps))
        stop.set()
        await worker
    finally:
        stop.set()
        await runtime.close()
