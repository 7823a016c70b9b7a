"""A lane: one thread that works through jobs in batches, and wakes the event loop once a batch.

While one batch is under way, the jobs that arrive gather and form the next: that is the whole of
group commit's scheduling.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from aegis.domain.errors import StoreUnavailable

log = logging.getLogger("aegis.stores")

T = TypeVar("T")
ContextT = TypeVar("ContextT")

BATCH_JOBS_MAX = 256


class Job(Generic[ContextT, T]):
    """One piece of work; `outcome` is set by the lane's thread and delivered after the batch."""

    __slots__ = ("error", "future", "run", "urgent", "value")

    def __init__(
        self, run: Callable[[ContextT], T], future: "asyncio.Future[T]", *, urgent: bool
    ) -> None:
        self.run = run
        self.future = future
        self.urgent = urgent
        self.value: T | None = None
        self.error: BaseException | None = None


Process = Callable[[Sequence[Job[ContextT, object]]], None]


class Lane(Generic[ContextT]):
    """Runs jobs on its own thread. `jobs_max` bounds what waits; callers beyond it wait too."""

    def __init__(self, name: str, process: Process[ContextT], jobs_max: int) -> None:
        self._process = process
        self._jobs: queue.SimpleQueue[Job[ContextT, object] | None] = queue.SimpleQueue()
        self._free = asyncio.Semaphore(jobs_max)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def submit(self, run: Callable[[ContextT], T], *, urgent: bool = False) -> T:
        """Run `run` on the lane and return what it returned, once its batch is durable.

        Cancelling the caller does not cancel the work: whoever needs to know looks at the rows.
        """
        async with self._free:
            # Looked at once there is a place: nothing may follow the mark that ends the thread.
            if self._closed:
                raise StoreUnavailable("the store is closed")
            future: asyncio.Future[T] = self._loop.create_future()
            self._jobs.put(Job(run, future, urgent=urgent))  # pyright: ignore[reportArgumentType] - T is object to the thread
            return await future

    async def close(self) -> None:
        """Finish what was submitted and end the thread."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        waiting: list[Job[ContextT, object]] = []
        ending = False
        while not ending or waiting:
            if not waiting:
                job = self._jobs.get()
                if job is None:
                    ending = True
                    continue
                waiting.append(job)
            while True:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    ending = True
                else:
                    waiting.append(job)
            # Stable: renewals go first, everything else stays in order of arrival.
            waiting.sort(key=_is_late)
            batch, waiting = waiting[:BATCH_JOBS_MAX], waiting[BATCH_JOBS_MAX:]
            try:
                self._process(batch)
            except Exception as error:  # noqa: BLE001 - a lane that dies would hang every caller
                log.error("a batch of the store ended with %s", type(error).__name__)  # noqa: TRY400 - the text may hold values
                for job in batch:
                    job.error = StoreUnavailable("the store did not run the change")
            self._deliver(batch)

    def _deliver(self, batch: Sequence[Job[ContextT, object]]) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, batch)
        except RuntimeError:
            # The loop is gone: nobody waits for these any more.
            return


def _is_late(job: Job[ContextT, object]) -> bool:
    return not job.urgent


def _settle(batch: Sequence[Job[ContextT, object]]) -> None:
    for job in batch:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.value)
