"""An invariant counts as held only if a planted bug that breaks it fails a test by name (04, B).

Each mutant is one replacement in a copy of the sources; the named test runs against the copy in a
process of its own and must fail there. The same tests pass on the real sources in this very suite.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATEMENTS = "stores/sql/sqlite/statements.py"
CHANGING = "stores/sql/sqlite/changing.py"
LEASING = "stores/sql/sqlite/leasing.py"
MEMORY = "stores/memory/store.py"
STORES = "tests/contracts/stores"
LOOP = "tests/unit/agent_loop"
WEB = "tests/integration/web"

TESTS_FAILED = 1
# Only what the named tests need is loaded: a process for each mutant is the price of a clean copy.
PLUGINS = ("-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin")
QUICK = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


class Mutant(NamedTuple):
    """One planted bug: in `file`, `old` becomes `new`; `test` must find it."""

    invariant: str
    what: str
    file: str
    old: str
    new: str
    test: str


MUTANTS = [
    Mutant(
        "I1",
        "a cancel undoes an end on SQLite",
        STATEMENTS,
        "AND tasks.subject = :subject AND (tasks.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED'))"
        " RETURNING",
        "AND tasks.subject = :subject RETURNING",
        f"{STORES}/test_cancel.py::test_a_finished_task_keeps_its_answer",
    ),
    Mutant(
        "I1",
        "a cancel undoes an end in memory",
        MEMORY,
        "if row.task.state in TERMINAL_STATES:\n            return Cancelled",
        "if row.task.state is TaskState.FAILED:\n            return Cancelled",
        f"{STORES}/test_cancel.py::test_a_finished_task_keeps_its_answer",
    ),
    Mutant(
        "I2",
        "a claim writes no entry",
        LEASING,
        "    append(batch, task.id, task.last_seq, (entry,))\n",
        "",
        f"{STORES}/test_commit.py::test_every_transition_writes_one_entry_in_the_same_commit",
    ),
    Mutant(
        "I2",
        "a transition outside the table is let through",
        "domain/change.py",
        "    require_transition(task.state, change.state)\n",
        "",
        f"{STORES}/test_commit.py::test_a_transition_that_no_table_lists_is_refused",
    ),
    Mutant(
        "I3",
        "a commit does not look at the epoch on SQLite",
        STATEMENTS,
        "WHERE tasks.id = :task_id AND tasks.epoch = :claim_epoch AND tasks.state = 'RUNNING' AND"
        " tasks.version = :base_version RETURNING",
        "WHERE tasks.id = :task_id AND tasks.state = 'RUNNING' AND"
        " tasks.version = :base_version RETURNING",
        f"{STORES}/test_commit.py::test_a_stale_epoch_writes_nothing",
    ),
    Mutant(
        "I3",
        "a commit does not look at the epoch in memory",
        MEMORY,
        "return row.task.epoch == claim.epoch and row.task.state is TaskState.RUNNING",
        "return row.task.state is TaskState.RUNNING",
        f"{STORES}/test_commit.py::test_a_stale_epoch_writes_nothing",
    ),
    Mutant(
        "I3",
        "a renewal revives a lease that has run out",
        STATEMENTS,
        "AND tasks.state = 'RUNNING' AND tasks.lease_expires_at > :now\"\nCOMMIT",
        "AND tasks.state = 'RUNNING'\"\nCOMMIT",
        f"{STORES}/test_leases.py::test_renewal_extends_and_never_revives",
    ),
    Mutant(
        "I4",
        "a cancel leaves the epoch as it was",
        STATEMENTS,
        "SET state='CANCELLED', version=(tasks.version + 1), epoch=(tasks.epoch + 1)",
        "SET state='CANCELLED', version=(tasks.version + 1), epoch=(tasks.epoch + 0)",
        f"{STORES}/test_cancel.py::test_a_running_task_is_cancelled_and_its_holder_learns_it",
    ),
    Mutant(
        "I4",
        "a claim takes the epoch of the last one",
        "domain/taking.py",
        "epoch=task.epoch + 1,\n        attempt",
        "epoch=max(1, task.epoch),\n        attempt",
        f"{STORES}/test_leases.py::test_a_takeover_adds_attempt_time_and_a_lost_model_call",
    ),
    Mutant(
        "I5",
        "a lapsed lease is never taken over",
        STATEMENTS,
        "tasks.state = 'RUNNING' AND tasks.lease_expires_at <= :now AND tasks.attempt <"
        " :attempts_max) AND",
        "tasks.state = 'RUNNING' AND tasks.lease_expires_at <= 0 AND tasks.attempt <"
        " :attempts_max) AND",
        f"{STORES}/test_leases.py::test_a_lapsed_lease_goes_before_waiting_tasks",
    ),
    Mutant(
        "I5",
        "exhausted attempts stay RUNNING for ever",
        MEMORY,
        "return (row.lease_expires_at or 0) <= now and task.attempt >= self._limits.attempts_max",
        "return False",
        f"{STORES}/test_leases.py::test_exhausted_attempts_are_not_claimed_and_expire",
    ),
    Mutant(
        "I7",
        "a write runs without the permit of its Start",
        "agent_loop/next_move.py",
        "record.state is CallState.STARTED and record.call.id not in snapshot.permits",
        "record.state is CallState.STARTED and not record.call.id",
        f"{LOOP}/test_next_move.py::test_a_loaded_started_write_is_in_doubt_and_never_runs_again",
    ),
    Mutant(
        "I7",
        "a write is sent before its intent is committed",
        "agent_loop/next_move.py",
        "        return StartWrite(record=first)\n",
        "        return RunTools(records=(first,), timeout_micros=timeout, on_timeout=reason)\n",
        f"{LOOP}/test_run_task.py::test_a_write_is_sent_only_after_its_intent_is_committed",
    ),
    Mutant(
        "I7",
        "a Start does not need a live lease",
        "agent_loop/carry_out.py",
        "        needs_lease=True,\n",
        "",
        f"{LOOP}/test_run_task.py::test_a_write_whose_intent_was_not_committed_is_never_sent",
    ),
    Mutant(
        "I10",
        "failed evidence may be cited",
        "agent_loop/conclude.py",
        "if item.status is EvidenceStatus.OK",
        "if item.status",
        f"{LOOP}/test_conclude.py::test_missing_invented_or_failed_evidence_is_refused",
    ),
    Mutant(
        "I10",
        "invented evidence may be cited beside real evidence",
        "agent_loop/conclude.py",
        "not citable.issuperset(cited)",
        "citable.isdisjoint(cited)",
        f"{LOOP}/test_conclude.py::test_missing_invented_or_failed_evidence_is_refused",
    ),
    Mutant(
        "I11",
        "the digest is of what is shown, not of the whole",
        "tools/observing.py",
        "digest=sha256_hex(data)",
        "digest=sha256_hex(data[: context.agent.result_bytes_shown_max])",
        "tests/unit/tools/test_hostile_tools.py::"
        "test_long_output_is_cut_at_a_code_point_and_kept_whole",
    ),
    Mutant(
        "I12",
        "a parallel batch overshoots the call budget",
        "agent_loop/plan.py",
        "            reserved += 1\n",
        "",
        f"{LOOP}/test_plan.py::test_a_parallel_batch_cannot_overshoot_the_budget",
    ),
    Mutant(
        "I12",
        "one step more than the limit",
        "agent_loop/next_move.py",
        "if usage.steps >= limits.steps_max:",
        "if usage.steps > limits.steps_max:",
        f"{LOOP}/test_next_move.py::test_an_exhausted_budget_ends_the_task_before_another_model_call",
    ),
    Mutant(
        "I12",
        "a takeover forgets the model call that was lost",
        "domain/taking.py",
        "charged = takeover and not base.open_calls",
        "charged = False",
        f"{STORES}/test_leases.py::test_a_takeover_adds_attempt_time_and_a_lost_model_call",
    ),
    Mutant(
        "I12",
        "running time starts anew with each attempt",
        "domain/task.py",
        "return since + limits.running_micros_max - task.running_micros",
        "return since + limits.running_micros_max",
        f"{LOOP}/test_next_move.py::test_running_time_of_earlier_stretches_counts",
    ),
    Mutant(
        "I13",
        "a cancel leaves a started write without an end",
        "domain/ending.py",
        "            settled[CallState.IN_DOUBT].append(record.call.id)\n",
        "            pass\n",
        f"{STORES}/test_commit.py::test_a_late_result_of_a_write_never_touches_the_task",
    ),
    Mutant(
        "I13",
        "the caller is told that a cancel won that lost",
        MEMORY,
        'return Cancelled(outcome="already_terminal", snapshot=row.snapshot)',
        'return Cancelled(outcome="cancelled", snapshot=row.snapshot)',
        f"{STORES}/test_cancel.py::test_cancel_against_finish_has_one_winner_who_is_named",
    ),
    Mutant(
        "I15",
        "another body with the same key gets the first task",
        CHANGING,
        "if body_hash != key.body_hash:",
        "if not body_hash:",
        f"{STORES}/test_add.py::test_the_same_key_with_another_body_is_refused",
    ),
    Mutant(
        "I15",
        "a key is kept for all principals",
        MEMORY,
        "key and (task.principal.tenant, task.principal.subject, key.route, key.key)",
        'key and ("", "", key.route, key.key)',
        f"{STORES}/test_add.py::test_keys_of_other_principals_and_routes_are_unrelated",
    ),
    Mutant(
        "I16",
        "whatever a tool says becomes its detail",
        "tools/observing.py",
        "if _STABLE_WORD.fullmatch(detail):",
        "if detail:",
        "tests/unit/tools/test_hostile_tools.py::test_the_text_of_an_exception_goes_nowhere",
    ),
    Mutant(
        "I16",
        "an unexpected error tells its text",
        "web/problems.py",
        '"Aegis failed; the operators\' log has the details."',
        "repr(error)",
        f"{WEB}/test_no_leaks.py::test_i16_an_unexpected_error_says_nothing",
    ),
    Mutant(
        "I17",
        "a task of the same tenant is shown to everybody",
        MEMORY,
        "return (owner.tenant, owner.subject) == (principal.tenant, principal.subject)",
        "return owner.tenant == principal.tenant",
        f"{STORES}/test_views.py::test_nobody_reads_what_belongs_to_somebody_else",
    ),
    Mutant(
        "I17",
        "evidence is found by its id alone",
        STATEMENTS,
        "WHERE evidence.id = :evidence_id AND tasks.tenant = :tenant AND tasks.subject = :subject",
        "WHERE evidence.id = :evidence_id",
        f"{STORES}/test_views.py::test_nobody_reads_what_belongs_to_somebody_else",
    ),
    Mutant(
        "I21",
        "a repeated key is let through",
        "domain/canonical.py",
        "    if len(members) != len(pairs):",
        "    if len(members) > len(pairs):",
        f"{WEB}/test_bad_input.py::test_what_is_not_one_strict_document_is_400_without_pointers",
    ),
    Mutant(
        "I21",
        "a body is read whole before its size is looked at",
        "web/strict_json.py",
        "if len(data) > size_bytes_max:",
        "if len(data) > 1_000_000_000:",
        f"{WEB}/test_bad_input.py::test_a_body_without_a_length_is_cut_off_while_it_streams",
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.invariant} {mutant.what}")
def test_the_planted_bug_is_found(tmp_path, mutant):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "src" / "aegis" / mutant.file
    text = file.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, "the replacement fits exactly one place"
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *PLUGINS, mutant.test],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src"), **QUICK},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert done.returncode == TESTS_FAILED, f"the bug was not found:\n{done.stdout[-3000:]}"


def test_every_invariant_of_this_release_has_a_mutant():
    held = {f"I{number}" for number in (1, 2, 3, 4, 5, 7, 10, 11, 12, 13, 15, 16, 17, 21)}
    assert {mutant.invariant for mutant in MUTANTS} == held


def test_the_copy_is_what_runs(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", "import aegis; print(aegis.__file__)"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith(str(tmp_path))
