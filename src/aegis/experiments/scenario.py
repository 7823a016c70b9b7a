"""A scenario: which agent, what is expected, and what else must hold."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

Json = dict[str, Any]

CANARIES = ("hunter2", "/srv/private", "RuntimeError", "Traceback")
"""What the failing tool says in its exception: none of it may be seen by anyone."""


class Seen(Struct, frozen=True, kw_only=True):
    """All that a caller can see of a task that has ended."""

    task: Json
    events: list[Json]
    evidence: list[Json]

    @property
    def ending(self) -> str:
        """State and reason code in one line."""
        reason = self.task["reason_code"]
        return f"{self.task['state']} {reason}" if reason else str(self.task["state"])

    @property
    def calls(self) -> list[Json]:
        """Every tool call, in order."""
        return [call for step in self.task["steps"] for call in step["calls"]]

    def executed(self) -> int:
        """How many calls ran to success."""
        return sum(call["state"] == "SUCCEEDED" for call in self.calls)


class Result(Struct, frozen=True, kw_only=True):
    """What came of one experiment. `raw` is kept beside the report."""

    id: str
    title: str
    expected: str
    observed: str
    ok: bool
    raw: object = None


Check = Callable[[Seen], str | None]
"""Return what is wrong, or None."""


class Scenario(Struct, frozen=True, kw_only=True):
    """One experiment that is a task: the agent is the scenario."""

    id: str
    title: str
    agent: str
    expected: str
    checks: tuple[Check, ...] = ()
    cancels: bool = False


def judge(scenario: Scenario, seen: Seen) -> Result:
    """Compare what was seen with what was expected."""
    wrong = [said for check in (*_ALWAYS, *scenario.checks) if (said := check(seen)) is not None]
    observed = "; ".join([seen.ending, *wrong])
    return Result(
        id=scenario.id,
        title=scenario.title,
        expected=scenario.expected,
        observed=observed,
        ok=seen.ending == scenario.expected and not wrong,
        raw={"task": seen.task, "events": seen.events, "evidence": seen.evidence},
    )


def no_leak(seen: Seen) -> str | None:
    """Nothing that a tool's exception said is visible anywhere."""
    text = repr((seen.task, seen.events, seen.evidence))
    found = [canary for canary in CANARIES if canary in text]
    return f"leaked {found}" if found else None


def gapless(seen: Seen) -> str | None:
    """Events are numbered from 1 without a gap, and the last one is terminal."""
    numbers = [event["seq"] for event in seen.events]
    ends = str(seen.events[-1]["type"]) in {"task.succeeded", "task.failed", "task.cancelled"}
    if numbers != list(range(1, len(numbers) + 1)) or not ends:
        return f"events {numbers} are not 1..n with a terminal end"
    return None


def steps_are(count: int) -> Check:
    """Exactly `count` model requests were made."""

    def check(seen: Seen) -> str | None:
        made = seen.task["usage"]["steps"]
        return None if made == count else f"{made} model requests instead of {count}"

    return check


def executed_is(count: int) -> Check:
    """Exactly `count` tool calls ran."""

    def check(seen: Seen) -> str | None:
        ran = seen.executed()
        return None if ran == count else f"{ran} calls ran instead of {count}"

    return check


def cites_its_evidence(seen: Seen) -> str | None:
    """Check that the answer cites evidence, all of this task and all ok."""
    if seen.task["output"] is None:
        return "there is no answer"
    cited = set(seen.task["output"]["evidence_ids"])
    own = {item["id"] for item in seen.evidence if item["status"] == "ok"}
    return None if cited and cited <= own else "the answer cites what the task did not obtain"


def says_what_is_missing(seen: Seen) -> str | None:
    """Check that the answer says what metrics alone do not determine (A11)."""
    output: Json = seen.task["output"] or {}
    summary = str(output.get("summary", ""))
    needed = ("cannot determine the cause", "logs", "release records")
    lacking = [words for words in needed if words not in summary]
    return f"the answer does not say {lacking}" if lacking else None


_ALWAYS = (no_leak, gapless)
