"""Start the incident and a server, diagnose over HTTP, print timeline and cited answer, end.

With `--keep` both stay up until Ctrl-C, for exploring.
"""

import argparse
import asyncio
import json
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path

from aegis.bootstrap.remote_session import open_remote
from aegis.cli.output import describe_event, print_outcome, result_console

ROOT = Path(__file__).resolve().parents[1]
PROMPT = "The error rate of payment-service rose over the last 30 minutes. Why?"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0


async def main() -> int:
    """Play the story and return the exit status: 0 only for a cited answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave both running until Ctrl-C")
    keep: bool = parser.parse_args().keep
    console = result_console()
    token = secrets.token_urlsafe(24)
    processes: list[asyncio.subprocess.Process] = []
    with tempfile.TemporaryDirectory(prefix="aegis-demo-") as folder:
        try:
            console.rule("1. The incident", align="left")
            shop = await _start(
                processes, [str(ROOT / "examples/incident/serve.py"), "--port", "0"], {}, folder
            )
            incident = json.loads(shop)["url"]
            console.print(f"a simulated shop serves metrics, logs and releases at {incident}")
            console.rule("2. The server", align="left")
            environ = {
                "AEGIS_INCIDENT_URL": incident,
                "AEGIS_DEMO_AUTH": "true",
                "AEGIS_DEMO_TOKEN": token,
                "AEGIS_HOME": folder,
            }
            served = await _start(
                processes, ["-m", "aegis", "serve", "--port", "0"], environ, folder
            )
            url = served.rpartition(" ")[2].strip()
            console.print(f"Aegis listens on {url}, its database is SQLite, no key was needed")
            console.rule("3. The diagnosis, over HTTP", align="left")
            console.print(f"[bold]{PROMPT}[/bold]")
            state = await _diagnose(url, token)
            console.rule("4. Explore", align="left")
            console.print(
                f'curl -H "Authorization: Bearer {token}" {url}/api/v1/tasks', soft_wrap=True
            )
            if keep:
                console.print("Both keep running; press Ctrl-C to end them.")
                await _until_interrupted()
            else:
                console.print("Both end now; `scripts/demo --keep` leaves them running.")
        finally:
            await _end(processes)
    return 0 if state == "SUCCEEDED" else 1


async def _diagnose(url: str, token: str) -> str:
    console = result_console()
    async with open_remote(url, token) as session:
        created = await session.create("ops-diagnosis", PROMPT)
        async for event in session.events(created["id"], 0):
            console.print(describe_event(event))
        task = await session.show(created["id"])
        print_outcome(console, task, await session.evidence(created["id"]))
    return str(task["state"])


async def _start(
    processes: list[asyncio.subprocess.Process],
    arguments: list[str],
    environ: dict[str, str],
    folder: str,
) -> str:
    """Start a Python process and return the first line that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=folder,
        env={"PATH": os.environ.get("PATH", ""), **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    processes.append(process)
    assert process.stdout is not None  # noqa: S101 - asked for above
    async with asyncio.timeout(START_SECONDS_MAX):
        line = (await process.stdout.readline()).decode()
    if not line:
        raise SystemExit(f"demo: {arguments[0]} did not start")
    return line


async def _until_interrupted() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


async def _end(processes: list[asyncio.subprocess.Process]) -> None:
    for process in reversed(processes):
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
