"""The metrics tool against a back end that answers like Prometheus, well and badly.

Proved here: only named queries reach it, quoted; the step is ours; empty, failed and cut are three
facts; NaN is no number; nothing that the back end says about its own failure gets out.
"""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aegis.domain.evidence import Trust
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import AssessedCall, CallState, RefusedCall
from aegis.domain.tool_result import ToolResult
from aegis.tools.ops.http_reader import RESPONSE_BYTES_MAX, HttpBackend, HttpReader
from aegis.tools.ops.metrics import (
    SERIES_MAX,
    MetricsQuery,
    MetricsSettings,
    MetricsTool,
    quoted,
    step_seconds,
)
from tests.contracts.tool_executor.executor_under_test import CANARY, Bench
from tests.fakes.clock import ManualClock
from tests.fakes.http_backend import Answer, Heard, HttpBackendFake, as_json

NOW = 1_700_000_000
PROMETHEUS_POINTS_MAX = 11_000

QUERIES = {
    "error_ratio": MetricsQuery(
        promql='sum(rate(errors{service={resource},other!="{x}"}[5m]))',
        unit="ratio",
        description="Share of failed requests.",
    ),
    "up": MetricsQuery(promql="up", unit="1", description="Whether it is scraped."),
}


def settings(*, raw: bool = False) -> MetricsSettings:
    return MetricsSettings(
        resources=("payment-service", 'odd"name\\'),
        queries=QUERIES,
        window_minutes_max=360,
        scrape_interval_seconds=15.0,
        raw_promql_allowed=raw,
    )


class Shop:
    """A metrics back end whose next answer the test sets."""

    def __init__(self) -> None:
        self.answer: Callable[[Heard], Answer] = lambda _heard: matrix()
        self.backend = HttpBackendFake(self._respond)
        self.bench: Bench

    def _respond(self, heard: Heard) -> Answer:
        return self.answer(heard)

    async def ask(self, **arguments: object) -> ToolResult:
        given = {"resource": "payment-service", "query": "error_ratio", **arguments}
        return await self.bench.run("metrics", json.dumps(given))

    async def content(self, **arguments: object) -> dict[str, Any]:
        result = await self.ask(**arguments)
        assert result.state is CallState.SUCCEEDED, result
        assert result.evidence is not None
        return json.loads(result.evidence.content)

    @property
    def last(self) -> Heard:
        return self.backend.heard[-1]


def matrix(*series: dict[str, Any], **more: object) -> Answer:
    result = {"resultType": "matrix", "result": list(series)}
    return as_json({"status": "success", "data": result, **more})


def one_series(*values: str, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "values": [[NOW + index, v] for index, v in enumerate(values)]}


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop = Shop()
    async with shop.backend as backend:
        headers = {"Authorization": f"Bearer {CANARY}"}
        reader = HttpReader(
            HttpBackend(name="shop", base_url=backend.url + "/prom/", headers=headers)
        )
        clock = ManualClock(NOW * 1_000_000 + 999_999)
        shop.bench = Bench([MetricsTool("metrics", settings(), reader, clock)])
        yield shop
        await reader.close()


async def test_a_range_query_covers_the_window_with_our_step(shop: Shop) -> None:
    content = await shop.content(window_minutes=60)
    assert shop.last.path == "/prom/api/v1/query_range"
    assert shop.last.params == {
        "query": 'sum(rate(errors{service="payment-service",other!="{x}"}[5m]))',
        "start": str(NOW - 3600),
        "end": str(NOW),
        "step": "60",
    }
    assert content["window"] == {"start": "2023-11-14T21:13:20Z", "end": "2023-11-14T22:13:20Z"}
    assert (content["resource"], content["query"], content["unit"], content["mode"]) == (
        "payment-service",
        "error_ratio",
        "ratio",
        "range",
    )


async def test_evidence_names_the_back_end_and_the_window_but_no_address_or_secret(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    result = await shop.ask(window_minutes=1)
    evidence = result.evidence
    assert evidence is not None
    assert (evidence.source, evidence.trust, evidence.synthetic) == (
        "prometheus:shop",
        Trust.MEASURED,
        False,
    )
    assert evidence.window is not None
    assert (evidence.window.start, evidence.window.end) == (
        (NOW - 60) * 1_000_000,
        NOW * 1_000_000,
    )
    assert shop.last.headers["authorization"] == f"bearer {CANARY}"
    assert CANARY not in repr(result)
    assert CANARY not in caplog.text
    assert "127.0.0.1" not in repr(result)


async def test_an_instant_query_asks_for_the_end_of_the_window(shop: Shop) -> None:
    shop.answer = lambda _heard: as_json(
        {
            "status": "success",
            "data": {
                "resultType": "vector",
                "result": [{"metric": {"job": "a"}, "value": [NOW, "0.25"]}],
            },
        }
    )
    content = await shop.content(mode="instant")
    assert (shop.last.path, shop.last.params["time"]) == ("/prom/api/v1/query", str(NOW))
    assert content["series"] == [
        {
            "labels": {"job": "a"},
            "summary": {
                "points": 1,
                "not_a_number": 0,
                "first": 0.25,
                "last": 0.25,
                "min": 0.25,
                "max": 0.25,
                "mean": 0.25,
            },
            "points": [[float(NOW), 0.25]],
        }
    ]


async def test_a_scalar_is_one_series_without_labels(shop: Shop) -> None:
    shop.answer = lambda _heard: as_json(
        {"status": "success", "data": {"resultType": "scalar", "result": [NOW, "3"]}}
    )
    content = await shop.content(mode="instant")
    assert [(item["labels"], item["summary"]["last"]) for item in content["series"]] == [({}, 3.0)]


async def test_no_data_is_a_fact_of_its_own(shop: Shop) -> None:
    content = await shop.content()
    assert (content["status"], content["series"], content["series_left_out"]) == ("empty", [], 0)


async def test_values_that_are_no_numbers_are_null_and_counted(shop: Shop) -> None:
    shop.answer = lambda _heard: matrix(one_series("1", "NaN", "+Inf", "-Inf", "3"))
    content = await shop.content()
    (series,) = content["series"]
    assert [value for _, value in series["points"]] == [1.0, None, None, None, 3.0]
    assert series["summary"] == {
        "points": 5,
        "not_a_number": 3,
        "first": 1.0,
        "last": 3.0,
        "min": 1.0,
        "max": 3.0,
        "mean": 2.0,
    }


async def test_nothing_but_nan_has_no_summary_that_reads_as_zero(shop: Shop) -> None:
    shop.answer = lambda _heard: matrix(one_series("NaN"))
    content = await shop.content()
    assert content["status"] == "data"
    assert content["series"][0]["summary"] == {"points": 1, "not_a_number": 1}


async def test_series_beyond_the_cap_are_counted(shop: Shop) -> None:
    many = [one_series("1", pod=f"p{index}") for index in range(SERIES_MAX + 7)]
    shop.answer = lambda _heard: matrix(*many, warnings=[CANARY], infos=[CANARY])
    result = await shop.ask()
    assert result.evidence is not None
    content = json.loads(result.evidence.content)
    assert (len(content["series"]), content["series_left_out"]) == (SERIES_MAX, 7)
    assert content["warnings"] == 1
    assert CANARY not in result.evidence.content


async def test_a_cut_for_the_model_takes_points_and_never_the_facts(shop: Shop) -> None:
    shop.answer = lambda _heard: matrix(one_series(*["0.123456789"] * 60))
    arguments = '{"resource":"payment-service","query":"up"}'
    context = shop.bench.context(shown_bytes_max=600)
    result = await shop.bench.run("metrics", arguments, context)
    assert result.evidence is not None
    assert result.evidence.truncated
    for fact in ('"status":"data"', '"unit":"1"', '"series_left_out":0', '"summary":{"points":60'):
        assert fact in result.evidence.content


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (
            as_json({"status": "error", "errorType": "bad_data", "error": CANARY}, 400),
            "bad_data",
        ),
        (as_json({"status": "error", "errorType": "timeout", "error": CANARY}, 503), "timeout"),
        (as_json({"status": "error", "errorType": CANARY, "error": CANARY}, 422), "http_422"),
        (as_json({"detail": CANARY}, 500), "http_500"),
        (Answer(body=b"<html>hunter2-canary</html>", status=502), "http_502"),
        (Answer(body=b"<html>hunter2-canary</html>"), "backend_sent_no_json"),
        (
            Answer(body=b"", status=302, headers={"Location": "http://127.0.0.1:9/"}),
            "http_302",
        ),
        (as_json([CANARY]), "backend_sent_no_prometheus_reply"),
        (as_json({"status": "success"}), "backend_sent_no_prometheus_reply"),
        (as_json({"status": "success", "data": [CANARY]}), "backend_sent_no_prometheus_reply"),
        (matrix({"metric": {}}), "backend_sent_no_prometheus_reply"),
        (matrix({"metric": {}, "values": [[1, CANARY]]}), "backend_sent_no_prometheus_reply"),
        (matrix({"metric": [], "values": [[1, "1"]]}), "backend_sent_no_prometheus_reply"),
        (matrix({"metric": {}, "values": 3}), "backend_sent_no_prometheus_reply"),
        (as_json({"status": "success", "data": {"resultType": "matrix", "result": [3]}}),
         "backend_sent_no_prometheus_reply"),
        (as_json({"status": "success", "data": {"resultType": "streams", "result": []}}),
         "backend_sent_no_prometheus_reply"),
        (matrix({"metric": {}, "histograms": []}), "native_histogram_not_supported"),
        (Answer(body=b"x" * (RESPONSE_BYTES_MAX + 1)), "response_too_large"),
        (Answer(body=b"[" * 200_000), "backend_sent_no_json"),
    ],
)  # fmt: skip
async def test_a_failure_keeps_a_stable_word_and_no_text(
    shop: Shop, answer: Answer, detail: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop.answer = lambda _heard: answer
    result = await shop.ask()
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_ERROR)
    assert result.evidence is not None
    assert json.loads(result.evidence.content) == {"error": "TOOL_ERROR", "detail": detail}
    assert len(shop.backend.heard) == 1
    assert CANARY not in caplog.text


async def test_an_error_key_in_a_success_is_no_failure(shop: Shop) -> None:
    shop.answer = lambda _heard: matrix(one_series("1"), error=None, errorType=None)
    assert (await shop.content())["status"] == "data"


async def test_names_are_quoted_into_the_query(shop: Shop) -> None:
    await shop.content(resource='odd"name\\')
    assert 'service="odd\\"name\\\\"' in shop.last.params["query"]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"resource": "payment-service"},
        {"resource": "payment-service", "query": "other"},
        {"resource": "other", "query": "up"},
        {"resource": "payment-service", "query": "up", "promql": "up"},
        {"promql": "up"},
        {"resource": "payment-service", "query": "up", "step": 1},
        {"resource": "payment-service", "query": "up", "window_minutes": 361},
        {"resource": "payment-service", "query": "up", "window_minutes": 0},
        {"resource": "payment-service", "query": "up", "mode": "subquery"},
    ],
)
async def test_only_named_queries_of_known_resources_can_be_asked(
    shop: Shop, arguments: dict[str, object]
) -> None:
    refused = await shop.bench.assess("metrics", json.dumps(arguments))
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.INVALID_DECISION
    assert shop.backend.heard == []


async def test_raw_promql_exists_only_where_configured() -> None:
    async with HttpBackendFake(lambda _heard: matrix()) as backend:
        reader = HttpReader(HttpBackend(name="shop", base_url=backend.url, headers={}))
        bench = Bench([MetricsTool("metrics", settings(raw=True), reader, ManualClock())])
        result = await bench.run("metrics", '{"promql":"rate(x[1m])"}')
        assert result.evidence is not None
        content = json.loads(result.evidence.content)
        assert (content["promql"], content["query"], content["resource"]) == (
            "rate(x[1m])",
            None,
            None,
        )
        assert backend.heard[-1].params["query"] == "rate(x[1m])"
        named = await bench.assess("metrics", '{"resource":"payment-service","query":"up"}')
        both = await bench.assess("metrics", '{"promql":"up","query":"up"}')
        neither = await bench.assess("metrics", "{}")
        assert isinstance(named, AssessedCall)
        assert isinstance(both, RefusedCall)
        assert isinstance(neither, RefusedCall)
        await reader.close()


@given(st.integers(1, 100_000), st.floats(0.001, 3600))
def test_the_step_never_asks_for_too_many_points(minutes: int, interval: float) -> None:
    step = step_seconds(minutes, interval)
    assert step >= interval
    assert minutes * 60 / step <= 60 < PROMETHEUS_POINTS_MAX


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_quoted_name_ends_where_it_should(name: str) -> None:
    literal = quoted(name)
    inside = literal[1:-1].replace("\\\\", "").replace('\\"', "").replace("\\n", "")
    assert literal[0] == literal[-1] == '"'
    assert '"' not in inside
    assert "\\" not in inside
    assert "\n" not in literal
