"""Play a scenario through a session: create, cancel in the middle where asked, watch to the end."""

import asyncio

from aegis.bootstrap.session import Session
from aegis.experiments.scenario import Json, Result, Scenario, Seen, judge

SCENARIO_SECONDS_MAX = 30.0


async def play(scenario: Scenario, session: Session) -> Result:
    """Return what came of `scenario`; one that does not end in time is a failed experiment."""
    try:
        async with asyncio.timeout(SCENARIO_SECONDS_MAX):
            return judge(scenario, await _watch(scenario, session))
    except TimeoutError:
        return Result(
            id=scenario.id,
            title=scenario.title,
            expected=scenario.expected,
            observed=f"did not end within {SCENARIO_SECONDS_MAX} s",
            ok=False,
        )


async def _watch(scenario: Scenario, session: Session) -> Seen:
    created = await session.create(scenario.agent, "Why did the error rate rise?")
    task_id = str(created["id"])
    events: list[Json] = []
    cancelled = False
    async for event in session.events(task_id, 0):
        events.append(event)
        # Once the first result is recorded, the second model call is under way.
        if scenario.cancels and not cancelled and event["type"] == "call.finished":
            cancelled = True
            await session.cancel(task_id)
    return Seen(
        task=await session.show(task_id), events=events, evidence=await session.evidence(task_id)
    )
