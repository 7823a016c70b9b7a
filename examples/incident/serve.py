"""Serve the simulated shop: `python examples/incident/serve.py --port 0`.

Prints one JSON line with its address once it listens, and ends on SIGTERM with status 0.
"""

import argparse
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import FrameType

import uvicorn
from shop.app import make_app, running_clock
from shop.times import MS_PER_SECOND, parse_rfc3339

RECOVERY_SECONDS_MAX = 3600.0
PORT_MAX = 65_535
STOP_SECONDS_MAX = 1


class AnnouncedServer(uvicorn.Server):
    """Tells its address when it really answers, not when it begins to start."""

    def __init__(self, config: uvicorn.Config, url: str, ready_file: Path | None) -> None:
        super().__init__(config)
        self._line = json.dumps({"url": url, "ready": True})
        self._ready_file = ready_file

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then print the line and write the ready file."""
        await super().startup(sockets)
        if self.started:
            if self._ready_file is not None:
                _write_whole(self._ready_file, self._line + "\n")
            print(self._line, flush=True)


def main() -> None:
    """Parse, listen, serve until a signal."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    given = _arguments()
    started_at_ms = given.started_at
    if started_at_ms is None:
        started_at_ms = time.time_ns() // 1_000_000
    try:
        listening = socket.create_server((given.host, given.port))
    except OSError as error:
        sys.exit(f"serve: {given.host}:{given.port} cannot be bound: {error.strerror}")
    app = make_app(
        seed=given.seed,
        started_at_ms=started_at_ms,
        recovery_ms=round(given.recovery_seconds * MS_PER_SECOND),
        now_ms=running_clock(started_at_ms),
    )
    config = uvicorn.Config(
        app, log_level="warning", lifespan="off", timeout_graceful_shutdown=STOP_SECONDS_MAX
    )
    url = f"http://{given.host}:{listening.getsockname()[1]}"
    AnnouncedServer(config, url, given.ready_file).run(sockets=[listening])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=_port, default=8090, help="0 takes a free one")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--started-at", type=_instant, help="RFC 3339; the shop's clock runs on from there"
    )
    parser.add_argument(
        "--recovery-seconds", type=_recovery, default=60.0, help="how long errors take to fall"
    )
    parser.add_argument("--ready-file", type=Path, help="also write the JSON line there")
    return parser.parse_args()


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"must be 0 to {PORT_MAX}")
    return number


def _instant(text: str) -> int:
    try:
        return parse_rfc3339(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _recovery(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= RECOVERY_SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"must be 0 to {RECOVERY_SECONDS_MAX:.0f}")
    return seconds


def _write_whole(path: Path, text: str) -> None:
    # A reader that waits for the file must never see half of it.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _end(_number: int, _frame: FrameType | None) -> None:
    # The server stops gracefully first and raises the signal again when it is done.
    raise SystemExit(0)


if __name__ == "__main__":
    main()
