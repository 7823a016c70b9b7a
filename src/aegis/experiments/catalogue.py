"""The scenarios of the experiments that are tasks (01, the table)."""

from msgspec import structs

from aegis.experiments.scenario import (
    Scenario,
    cites_its_evidence,
    executed_is,
    says_what_is_missing,
    steps_are,
)

IN_PROCESS: tuple[Scenario, ...] = (
    Scenario(
        id="E1",
        title="normal diagnosis",
        agent="fault-normal",
        expected="SUCCEEDED",
        checks=(steps_are(2), executed_is(1), cites_its_evidence, says_what_is_missing),
    ),
    Scenario(
        id="E2",
        title="simulated tool error",
        agent="fault-tool-error",
        expected="FAILED TOOL_ERROR",
        checks=(executed_is(0),),
    ),
    Scenario(
        id="E3",
        title="repeated tool suggestion",
        agent="fault-repeat",
        expected="FAILED REPEATED_TOOL_CALL",
        checks=(executed_is(1),),
    ),
    Scenario(
        id="E4",
        title="steps exhausted",
        agent="fault-steps",
        expected="FAILED MAX_STEPS_EXHAUSTED",
        checks=(steps_are(6),),
    ),
    Scenario(
        id="E5",
        title="tool budget exhausted",
        agent="fault-tool-budget",
        expected="FAILED TOOL_BUDGET_EXHAUSTED",
        checks=(executed_is(4),),
    ),
    Scenario(
        id="E6",
        title="model timeout",
        agent="fault-model-timeout",
        expected="FAILED LLM_TIMEOUT",
    ),
    Scenario(
        id="E7", title="tool timeout", agent="fault-tool-timeout", expected="FAILED TOOL_TIMEOUT"
    ),
    Scenario(
        id="E8", title="task timeout", agent="fault-task-timeout", expected="FAILED TASK_TIMEOUT"
    ),
    Scenario(
        id="E9",
        title="user cancellation in the middle of a call",
        agent="fault-slow",
        expected="CANCELLED",
        checks=(executed_is(1),),
        cancels=True,
    ),
    Scenario(
        id="E10",
        title="rollback suggestion without rights",
        agent="fault-rollback-denied",
        expected="FAILED TOOL_DENIED",
        checks=(executed_is(0),),
    ),
    Scenario(
        id="E11",
        title="invented evidence id",
        agent="fault-bad-evidence",
        expected="FAILED INVALID_EVIDENCE",
    ),
)

_OVER_HTTP = {"H1": 0, "H2": 1, "H3": 2, "H4": 4, "H5": 5, "H6": 6, "H7": 8, "H8": 9, "H9": 10}

OVER_HTTP: tuple[Scenario, ...] = tuple(
    structs.replace(IN_PROCESS[place], id=key, title=f"{IN_PROCESS[place].title}, over HTTP")
    for key, place in _OVER_HTTP.items()
)
