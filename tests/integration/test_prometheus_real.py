"""A real Prometheus answers the metrics tool: instant and range, data, empty and refused.

The server is the Debian package `prometheus`, started here on a free loopback port with a
directory of its own; it scrapes itself. Where the program is missing, the tests skip.
"""

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from aegis.domain.evidence import Trust
from aegis.domain.micros import Micros
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import CallState
from aegis.domain.tool_result import ToolResult
from aegis.tools.ops.http_reader import HttpBackend, HttpReader
from aegis.tools.ops.metrics import MetricsQuery, MetricsSettings, MetricsTool
from tests.contracts.tool_executor.executor_under_test import Bench
from tests.fakes.clock import ManualClock

PROGRAM = shutil.which("prometheus")

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        PROGRAM is None, reason="the program 'prometheus' is not installed (apt install prometheus)"
    ),
]

POLL_SECONDS = 0.05

CONFIGURATION = """
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: aegis-test
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""

SETTINGS = MetricsSettings(
    resources=("aegis-test", "no-such-job"),
    queries={
        "up": MetricsQuery(promql="up{job={resource}}", unit="1", description="Whether it is up."),
        "not_a_number": MetricsQuery(
            promql="0 * up{job={resource}} / 0", unit="1", description="Never a number."
        ),
        "broken": MetricsQuery(promql="sum({resource}", unit="1", description="No PromQL."),
    },
    window_minutes_max=60,
    scrape_interval_seconds=1.0,
    raw_promql_allowed=True,
)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _scraped_at(client: httpx2.AsyncClient, url: str) -> float | None:
    """Return the time of the newest sample of `up`, None while there is none."""
    try:
        reply = await client.get(f"{url}/api/v1/query", params={"query": "timestamp(up) and up==1"})
    except httpx2.TransportError:
        return None
    if reply.status_code != 200:
        return None
    found = reply.json()["data"]["result"]
    return float(found[0]["value"][1]) if found else None


class Prometheus:
    """A running server: its bench, whose clock stands just after a scrape that succeeded."""

    def __init__(self, url: str, reader: HttpReader, now: Micros) -> None:
        self.url = url
        self.bench = Bench([MetricsTool("metrics", SETTINGS, reader, ManualClock(now))])

    async def ask(self, **arguments: object) -> ToolResult:
        given = {"resource": "aegis-test", "query": "up", "window_minutes": 5, **arguments}
        return await self.bench.run("metrics", json.dumps(given))

    async def content(self, **arguments: object) -> dict[str, Any]:
        result = await self.ask(**arguments)
        assert result.state is CallState.SUCCEEDED, result
        assert result.evidence is not None
        assert (result.evidence.source, result.evidence.trust) == (
            "prometheus:real",
            Trust.MEASURED,
        )
        return json.loads(result.evidence.content)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prometheus]:
    folder: Path = tmp_path_factory.mktemp("prometheus")
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    configuration = folder / "prometheus.yml"
    configuration.write_text(CONFIGURATION.format(port=port))
    server = await asyncio.create_subprocess_exec(
        str(PROGRAM),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(60), httpx2.AsyncClient(trust_env=False) as client:
            scraped = None
            while scraped is None:
                assert server.returncode is None, "prometheus ended before it answered"
                scraped = await _scraped_at(client, url)
                # Between two looks at the server's state it gets the processor.
                await asyncio.sleep(POLL_SECONDS)
        reader = HttpReader(HttpBackend(name="real", base_url=url, headers={}))
        # A whole second after the sample: the query asks for whole seconds.
        yield Prometheus(url, reader, (int(scraped) + 1) * 1_000_000)
        await reader.close()
    finally:
        if server.returncode is None:
            server.terminate()
        await server.wait()


async def test_an_instant_query_reads_the_newest_value(prometheus: Prometheus) -> None:
    content = await prometheus.content(mode="instant")
    assert content["promql"] == 'up{job="aegis-test"}'
    (series,) = content["series"]
    assert series["labels"]["job"] == "aegis-test"
    assert (series["summary"]["points"], series["summary"]["last"]) == (1, 1.0)


async def test_a_range_query_reads_the_window(prometheus: Prometheus) -> None:
    content = await prometheus.content(mode="range")
    assert content["status"] == "data"
    (series,) = content["series"]
    assert 1 <= series["summary"]["points"] <= 61
    assert (series["summary"]["last"], series["summary"]["not_a_number"]) == (1.0, 0)


async def test_no_such_series_is_empty_and_not_zero(prometheus: Prometheus) -> None:
    for mode in ("instant", "range"):
        content = await prometheus.content(resource="no-such-job", mode=mode)
        assert (content["status"], content["series"]) == ("empty", [])


async def test_a_value_that_is_no_number_is_null(prometheus: Prometheus) -> None:
    content = await prometheus.content(query="not_a_number", mode="instant")
    (series,) = content["series"]
    assert [value for _, value in series["points"]] == [None]
    assert series["summary"] == {"points": 1, "not_a_number": 1}


async def test_a_broken_query_is_a_failure_with_the_servers_code(prometheus: Prometheus) -> None:
    result = await prometheus.ask(query="broken")
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_ERROR)
    assert result.evidence is not None
    assert json.loads(result.evidence.content) == {"error": "TOOL_ERROR", "detail": "bad_data"}


async def test_a_raw_scalar_is_one_series(prometheus: Prometheus) -> None:
    result = await prometheus.bench.run(
        "metrics", '{"promql":"scalar(vector(2))","mode":"instant"}'
    )
    assert result.evidence is not None
    content = json.loads(result.evidence.content)
    assert [series["summary"]["last"] for series in content["series"]] == [2.0]
