"""The command line as people run it: processes, exit statuses, stdout and stderr apart."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aegis.experiments.server_process import TOKEN, running_server, session_with, start_server

ROOT = Path(__file__).resolve().parents[2]


def aegis(*arguments, cwd, **environ):
    clean = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run(
        [sys.executable, "-m", "aegis", *arguments],
        cwd=cwd,
        env=clean,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_run_prints_the_cited_answer_and_nothing_else_on_stdout(tmp_path):
    done = aegis("run", "Why is it slow?", "--watch", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "SUCCEEDED" in done.stdout
    assert "cannot determine the cause" in done.stdout
    assert "ev_" in done.stdout
    assert "task.succeeded" in done.stderr
    assert "task.succeeded" not in done.stdout
    assert "\x1b[" not in done.stdout + done.stderr, "no colour where there is no terminal"


def test_json_is_one_document_with_the_evidence(tmp_path):
    done = aegis("run", "Why?", "--agent", "fault-normal", "--json", cwd=tmp_path)
    task = json.loads(done.stdout)
    assert task["state"] == "SUCCEEDED"
    assert task["output"]["evidence_ids"] == [item["id"] for item in task["evidence"]]


def test_exit_status_0_means_succeeded_only(tmp_path):
    done = aegis("run", "Why?", "--agent", "fault-tool-error", cwd=tmp_path)
    assert done.returncode == 1
    assert "TOOL_ERROR" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


def test_an_unknown_agent_is_an_error_that_says_so(tmp_path):
    done = aegis("run", "Why?", "--agent", "nobody", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("aegis: UNKNOWN_AGENT:")
    assert "Traceback" not in done.stderr


def test_tasks_are_listed_shown_followed_and_cancelled(tmp_path):
    task = json.loads(aegis("run", "Why?", "--json", cwd=tmp_path).stdout)
    listed = aegis("task", "list", "--json", cwd=tmp_path)
    assert [json.loads(line)["id"] for line in listed.stdout.splitlines()] == [task["id"]]
    shown = aegis("task", "show", task["id"], cwd=tmp_path)
    assert "step 1" in shown.stdout
    assert "SUCCEEDED" in shown.stdout
    events = aegis("task", "events", task["id"], "--json", cwd=tmp_path)
    numbers = [json.loads(line)["seq"] for line in events.stdout.splitlines()]
    assert numbers == list(range(1, task["last_seq"] + 1))
    cancelled = aegis("task", "cancel", task["id"], cwd=tmp_path)
    assert cancelled.returncode == 1
    assert "had already ended: SUCCEEDED" in cancelled.stdout
    missing = aegis("task", "show", "task_nowhere", cwd=tmp_path)
    assert (missing.returncode, missing.stderr.split(":")[1].strip()) == (2, "NOT_FOUND")


def test_a_new_project_runs_its_own_tool(tmp_path):
    assert aegis("init", cwd=tmp_path).returncode == 0
    done = aegis("run", "how many words are these", cwd=tmp_path)
    assert "Your prompt has 5 words." in done.stdout
    again = aegis("init", cwd=tmp_path)
    assert again.returncode == 2
    assert "overwrites nothing" in again.stderr
    checked = aegis("doctor", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    assert "aegis.toml is valid" in checked.stdout


def test_doctor_names_what_is_wrong_and_what_to_do(tmp_path):
    (tmp_path / "aegis.toml").write_text("version = 1\nsurprise = true\n")
    done = aegis("doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert "surprise" in done.stdout


def test_doctor_finds_a_back_end_that_does_not_answer(tmp_path):
    done = aegis("doctor", cwd=tmp_path, AEGIS_INCIDENT_URL="http://127.0.0.1:9")
    assert done.returncode == 1
    assert "does not answer" in done.stdout


def test_serve_without_an_identity_source_refuses_and_names_demo(tmp_path):
    done = aegis("serve", "--port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "--demo" in done.stderr


def test_demo_auth_listens_on_this_machine_only(tmp_path):
    done = aegis("serve", "--demo", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "0.0.0.0" in done.stderr


def test_migrate_makes_a_database_that_runs(tmp_path):
    first = aegis("migrate", cwd=tmp_path)
    assert "to 0001" in first.stdout
    assert "already" in aegis("migrate", cwd=tmp_path).stdout
    assert aegis("run", "Why?", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("url", ["postgresql://localhost/aegis", "sqlite:", "mysql://x"])
def test_a_store_that_this_release_lacks_is_refused_in_words(tmp_path, url):
    done = aegis("run", "Why?", cwd=tmp_path, AEGIS_DATABASE_URL=url)
    assert done.returncode == 2
    assert done.stderr.startswith("aegis: CONFIGURATION_ERROR:")


async def test_the_client_works_against_a_server(tmp_path):
    async with running_server(tmp_path, f"sqlite:///{tmp_path / 'a.db'}") as server:
        environ = {"AEGIS_URL": server.url, "AEGIS_API_KEY": TOKEN}
        done = await asyncio.to_thread(aegis, "run", "Why?", "--watch", cwd=tmp_path, **environ)
        assert done.returncode == 0, done.stderr
        assert "task.succeeded" in done.stderr
        wrong = await asyncio.to_thread(
            aegis, "task", "list", cwd=tmp_path, AEGIS_URL=server.url, AEGIS_API_KEY="wrong"
        )
        assert wrong.stderr.startswith("aegis: UNAUTHENTICATED:")


async def test_sigterm_hands_the_open_task_back_and_the_next_server_finishes_it(tmp_path):
    database = f"sqlite:///{tmp_path / 'a.db'}"
    server = await start_server(tmp_path, database)
    async with session_with(server) as session:
        task_id = (await session.create("fault-interrupted", "Why?"))["id"]
        async for event in session.events(task_id, 0):
            if event["type"] == "call.finished":
                break
    assert await server.end(signal.SIGTERM) == 0

    async with running_server(tmp_path, database) as again, session_with(again) as session:
        kinds = [event["type"] async for event in session.events(task_id, 0)]
        task = await session.show(task_id)
    assert task["state"] == "SUCCEEDED"
    assert task["attempts"] == 1, "a drain adds no attempt"
    assert kinds.count("task.released") == 1
    assert kinds.count("call.finished") == 1


def test_the_experiments_all_hold(tmp_path):
    done = aegis("experiments", "--json", "--out", str(tmp_path / "out"), cwd=tmp_path)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, [item for item in results if not item["ok"]]
    expected = [f"E{n}" for n in range(1, 13)] + ["E13-memory", "E13-sqlite"]
    expected += [f"H{n}" for n in range(1, 10)] + ["X1", "X2"]
    assert [item["id"] for item in results] == expected
    assert "25 of 25 hold" in (tmp_path / "out" / "experiments.md").read_text()
    assert len(list((tmp_path / "out" / "raw").glob("*.json"))) == 25


def test_the_demo_ends_by_itself_with_a_cited_answer():
    done = subprocess.run(
        [ROOT / "scripts" / "demo"], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rose from" in done.stdout
    assert done.stdout.count("ev_") >= 12, "each piece of evidence in the timeline and cited"
    assert "payment-service error_ratio: first" in done.stdout


def test_the_bench_prints_every_figure_of_the_runtime(tmp_path):
    arguments = ("--runs", "1", "--concurrency", "8", "--scale", "0.05")
    done = aegis("bench", "runtime", *arguments, cwd=tmp_path)
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    short = {f["figure"]: f["median"] for f in figures if f["task"] == "short"}
    assert short["commits_per_task"] == 3.0
    assert {f["figure"] for f in figures} == {
        "tasks_per_s",
        "cpu_s_per_1000_tasks",
        "latency_p50_ms",
        "latency_p99_ms",
        "commits_per_task",
        "bytes_written_per_task",
        "peak_memory_mb",
        "import_cli_ms",
        "cold_run_s",
    }
    assert all(f["min"] <= f["median"] <= f["max"] for f in figures)
