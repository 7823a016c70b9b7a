"""The worker: takes due tasks into free slots and runs each by the one loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from msgspec import Struct

from aegis.agent_loop.context import LoopContext
from aegis.domain.claim import Claim
from aegis.domain.errors import AegisError, LostClaim, StoreUnavailable
from aegis.domain.micros import Micros, seconds
from aegis.domain.model import OnDelta
from aegis.domain.server_limits import ServerLimits
from aegis.ports.clock import Clock
from aegis.ports.dispatch import Dispatch
from aegis.ports.ids import Ids
from aegis.ports.model_provider import ModelProvider
from aegis.ports.task_leases import TaskLeases
from aegis.ports.tool_executor import ToolExecutor
from aegis.worker.run import Run, Stop

log = logging.getLogger("aegis.worker")

RunClaimed = Callable[[LoopContext], Awaitable[object]]
"""`run_task` with its repository bound: the worker itself never holds the pen."""


class WorkerParts(Struct, frozen=True, kw_only=True):
    """What a worker works with. `concurrency` is how many tasks it runs at once."""

    leases: TaskLeases
    run_claimed: RunClaimed
    dispatch: Dispatch
    models: ModelProvider
    tools: ToolExecutor
    clock: Clock
    ids: Ids
    limits: ServerLimits
    agents: Collection[str]
    concurrency: int
    on_delta: OnDelta


class Worker:
    """Claims, renews, runs and drains. One per process; `owner` is random for each boot."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self.owner = f"worker_{parts.ids.random()}"
        self._runs: dict[str, Run] = {}
        self._slots = asyncio.Semaphore(parts.concurrency)
        self._serving: set[asyncio.Task[None]] = set()
        self._renew_now = asyncio.Event()
        self._beat: Micros = 0
        self._ended = asyncio.Event()

    @property
    def running(self) -> int:
        """How many tasks this worker runs right now."""
        return len(self._runs)

    @property
    def is_alive(self) -> bool:
        """Whether the timers still turn: liveness means progress, not that a thread exists."""
        bound = 5 * max(self._parts.limits.sweep_micros, self._parts.limits.renew_micros)
        return not self._ended.is_set() and self._parts.clock.boottime() - self._beat < bound

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then drain and return."""
        self._beat = self._parts.clock.boottime()
        unsubscribe = self._parts.dispatch.on_cancel(self._on_cancel)
        loops = [
            asyncio.create_task(self._take(), name="aegis-take"),
            asyncio.create_task(self._renew(), name="aegis-renew"),
            asyncio.create_task(self._tick(), name="aegis-tick"),
        ]
        stopped = asyncio.create_task(stop.wait(), name="aegis-stop")
        try:
            done, _ = await asyncio.wait([*loops, stopped], return_when=asyncio.FIRST_COMPLETED)
            loops[0].cancel()
            await self._drain()
            for loop in done & set(loops):
                loop.result()
        finally:
            self._ended.set()
            unsubscribe()
            stopped.cancel()
            for loop in loops:
                loop.cancel()
            await asyncio.wait([*loops, stopped])

    async def _take(self) -> None:
        """Fill free slots: hints first, one sweep per interval, and more while a sweep finds work.

        Hints go before a backlog, because a swept task may just be the next hint; the interval goes
        before hints, because a stream of hints must not starve a lease that has run out.
        """
        clock, sweep = self._parts.clock, self._parts.limits.sweep_micros
        next_sweep = clock.boottime()
        backlog = False
        while True:
            await self._slots.acquire()
            try:
                wait = next_sweep - clock.boottime()
                hint = await self._parts.dispatch.next(0 if backlog else wait) if wait > 0 else None
                if hint is not None:
                    self._serve(self._claim_and_run(hint))
                    continue
                claim = await self._claim(None)
            except BaseException:
                self._slots.release()
                raise
            backlog = claim is not None
            if wait <= 0 or not backlog:
                next_sweep = clock.boottime() + sweep
            if claim is None:
                self._slots.release()
            else:
                self._serve(self._run(claim))

    def _serve(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._serving.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: "asyncio.Future[None]") -> None:
        self._serving.discard(task)  # pyright: ignore[reportArgumentType] - the set holds this very future
        self._slots.release()
        if not task.cancelled() and task.exception() is not None:
            log.error("a run ended with %s", type(task.exception()).__name__)

    async def _claim_and_run(self, hint: str) -> None:
        claim = await self._claim(hint)
        if claim is not None:
            await self._run(claim)

    async def _claim(self, hint: str | None) -> Claim | None:
        parts = self._parts
        try:
            return await parts.leases.claim(
                self.owner, parts.limits.lease_micros, parts.agents, hint
            )
        except StoreUnavailable:
            # Rows are truth: the sweep tries again. Readiness tells that the store is down.
            log.warning("a claim failed: the store is unavailable")
            return None

    async def _run(self, claim: Claim) -> None:
        parts = self._parts
        run = Run(claim, parts.clock)
        run.task = asyncio.current_task()
        self._runs[claim.task_id] = run
        if parts.dispatch.was_cancelled(claim.task_id):
            self._renew_now.set()
        try:
            await parts.run_claimed(self._context(run))
        except LostClaim:
            run.stop = Stop.LOST
        except StoreUnavailable:
            log.warning("a run stopped: the store is unavailable; the lease will lapse")
            run.stop = Stop.LOST
        except asyncio.CancelledError:
            if run.stop is None:
                raise
        finally:
            if self._runs.get(claim.task_id) is run:
                del self._runs[claim.task_id]
        if run.stop is Stop.DRAIN:
            await self._release(run)

    def _context(self, run: Run) -> LoopContext:
        parts = self._parts
        return LoopContext(
            lease=run,
            models=parts.models,
            tools=parts.tools,
            clock=parts.clock,
            ids=parts.ids,
            on_delta=parts.on_delta,
            on_call=run.on_call,
            stopping=run.stopping,
            on_fault=_log_fault,
        )

    async def _release(self, run: Run) -> None:
        try:
            await self._parts.leases.release(run.current())
        except AegisError as error:
            # The task has ended meanwhile, or the lease will lapse and another worker takes over.
            log.info("a task was not handed back: %s", error.code)

    def _on_cancel(self, task_id: str) -> None:
        if task_id in self._runs:
            self._renew_now.set()

    async def _renew(self) -> None:
        """Renew all leases at once, on time and whenever a cancel was signalled."""
        parts = self._parts
        while True:
            try:
                async with asyncio.timeout(seconds(parts.limits.renew_micros)):
                    await self._renew_now.wait()
            except TimeoutError:
                pass
            self._renew_now.clear()
            self._beat = parts.clock.boottime()
            runs = [run for run in self._runs.values() if not run.is_stuck]
            if not runs:
                continue
            try:
                claims = await parts.leases.renew(
                    [run.current() for run in runs], parts.limits.lease_micros
                )
            except StoreUnavailable:
                log.warning("leases were not renewed: the store is unavailable")
                continue
            for run, claim in zip(runs, claims, strict=True):
                if claim is not None:
                    run.renewed(claim)
                elif self._runs.get(run.current().task_id) is run:
                    run.ask_to_stop(Stop.LOST)

    async def _tick(self) -> None:
        """Transitions that need no slot (06, rule 21)."""
        while True:
            try:
                await self._parts.leases.expire_due()
            except StoreUnavailable:
                log.warning("due tasks were not expired: the store is unavailable")
            await asyncio.sleep(seconds(self._parts.limits.sweep_micros))

    async def _drain(self) -> None:
        """Hand every task back: reads stop at once, a write is waited for up to the limit."""
        for run in list(self._runs.values()):
            run.ask_to_stop(Stop.DRAIN)
        serving = set(self._serving)
        if not serving:
            return
        _, late = await asyncio.wait(serving, timeout=seconds(self._parts.limits.drain_micros))
        for run in list(self._runs.values()):
            run.abandon()
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=seconds(self._parts.limits.renew_micros))


def _log_fault(defect: Exception) -> None:
    # The class alone: its text may hold what a provider or a tool said.
    log.error("a defect ended a task with INTERNAL_ERROR: %s", type(defect).__name__)
