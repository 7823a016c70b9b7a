"""The SQLite lane without its thread: each job is a batch of one, done before `submit` returns."""

import asyncio

from aegis.stores.sql.sqlite.lane import Job


class InlineLane:
    """Runs the same `process` as the thread would, so that a virtual loop can drive the store."""

    def __init__(self, process) -> None:
        self._process = process

    async def submit(self, run, *, urgent: bool = False):
        job = Job(run, asyncio.get_running_loop().create_future(), urgent=urgent)
        self._process([job])
        if job.error is not None:
            raise job.error
        await asyncio.sleep(0)
        return job.value

    async def close(self) -> None:
        """No thread to end."""
