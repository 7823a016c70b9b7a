"""Serve the simulated shop: `python examples/incident/serve.py --port 0`.

Prints one JSON line with its address once it listens, and ends on SIGTERM.
"""

import argparse
import json
import socket
import sys
import time
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import uvicorn

from examples.incident.shop.app import make_app
from examples.incident.shop.model import Shop


def main() -> None:
    """Parse, listen, tell the address, serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8090, help="0 takes a free one")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--started-at", help="RFC 3339; without it now")
    parser.add_argument("--recovery-seconds", type=float, default=60.0)
    given = parser.parse_args()
    started = time.time()
    if given.started_at:
        started = datetime.fromisoformat(given.started_at).timestamp()
    shop = Shop(
        seed=given.seed,
        started_at=int(started),
        recovery_seconds=max(1.0, given.recovery_seconds),
    )
    listening = socket.create_server((given.host, given.port))
    url = f"http://{given.host}:{listening.getsockname()[1]}"
    print(json.dumps({"url": url, "ready": True}), flush=True)
    config = uvicorn.Config(make_app(shop), log_level="warning", timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
