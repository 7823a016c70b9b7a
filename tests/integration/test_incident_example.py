"""The simulated shop as a process: what its HTTP APIs answer.

Proved: the rise can be read as from any Prometheus; equal seed and start give equal bytes in two
processes; a rollback takes effect once per key and errors fall after it; every bad
request is refused in the words of its API, never with a 5xx.
"""

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from examples.incident.shop.times import rfc3339
from examples.incident.shop.topology import SERVICES

SERVE = Path(__file__).resolve().parents[2] / "examples" / "incident" / "serve.py"
STARTED_AT = "2026-03-01T12:00:30Z"
START = int(datetime.fromisoformat("2026-03-01T12:00:00Z").timestamp())
ONSET = START - 22 * 60
START_MS = START * 1000
ROLLBACK = {"kind": "rollback", "service": "payment-service", "to_version": "2.13.4"}
JSON_BODY = {"Content-Type": "application/json"}


def ratio_of(service: str, window: str = "2m") -> str:
    return (
        f'sum(rate(http_requests_total{{service="{service}",code="500"}}[{window}]))'
        f' / sum(rate(http_requests_total{{service="{service}"}}[{window}]))'
    )


@contextmanager
def serving(*arguments: str) -> Generator[httpx2.Client]:
    command = [sys.executable, str(SERVE), "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline())
            assert told["ready"] is True
            with httpx2.Client(base_url=told["url"], timeout=30) as client:
                yield client
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0


@pytest.fixture(scope="module")
def shop() -> Generator[httpx2.Client]:
    """A shop that the tests only read."""
    with serving("--seed", "7", "--started-at", STARTED_AT) as client:
        yield client


@pytest.fixture
def own_shop() -> Generator[httpx2.Client]:
    """A shop that one test may change."""
    with serving("--started-at", STARTED_AT, "--recovery-seconds", "10") as client:
        yield client


def ask(client: httpx2.Client, expression: str, at: float) -> list[dict[str, Any]]:
    body = client.get("/api/v1/query", params={"query": expression, "time": str(at)}).json()
    assert body["status"] == "success"
    assert body["data"]["resultType"] == "vector"
    return body["data"]["result"]


def ask_one(client: httpx2.Client, expression: str, at: float) -> float:
    (only,) = ask(client, expression, at)
    return float(only["value"][1])


def roll_back(
    client: httpx2.Client, key: str, body: object = ROLLBACK, token: str | None = None
) -> httpx2.Response:
    headers = {"Idempotency-Key": key} | ({} if token is None else {"Fencing-Token": token})
    return client.post("/changes", json=body, headers=headers)


def test_instant_and_range_queries_see_the_rise(shop: httpx2.Client):
    assert ask_one(shop, ratio_of("payment-service"), ONSET) < 0.004
    assert ask_one(shop, ratio_of("payment-service"), START) == pytest.approx(0.08, rel=0.1)
    fields = {
        "query": ratio_of("payment-service"),
        "start": str(ONSET - 480),
        "end": str(START),
        "step": "30s",
    }
    body = shop.post("/api/v1/query_range", data=fields).json()
    assert body["data"]["resultType"] == "matrix"
    (series,) = body["data"]["result"]
    assert series["metric"] == {}
    assert [at for at, _ in series["values"]] == list(range(ONSET - 480, START + 1, 30))
    values = [float(value) for _, value in series["values"]]
    assert values[0] < 0.004
    assert max(values) == pytest.approx(0.08, rel=0.1)


def test_two_processes_give_the_same_bytes(shop: httpx2.Client):
    requests = [
        ("/api/v1/query", {"query": "http_requests_total", "time": str(START)}),
        ("/api/v1/query", {"query": "http_request_duration_seconds_p95", "time": str(START + 99)}),
        (
            "/api/v1/query_range",
            {
                "query": ratio_of("api-gateway"),
                "start": str(START - 3600),
                "end": str(START),
                "step": "60",
            },
        ),
        ("/logs", {"service": "payment-service", "until": rfc3339(START_MS), "limit": "1000"}),
        ("/releases", {}),
    ]
    with serving("--seed", "7", "--started-at", STARTED_AT) as other:
        for path, parameters in requests:
            ours, theirs = (client.get(path, params=parameters) for client in (shop, other))
            assert ours.status_code == 200
            assert ours.content == theirs.content
    with serving("--seed", "8", "--started-at", STARTED_AT) as stranger:
        path, parameters = requests[0]
        assert (
            stranger.get(path, params=parameters).content
            != shop.get(path, params=parameters).content
        )


def test_no_series_is_an_empty_vector(shop: httpx2.Client):
    assert ask(shop, "nothing_of_the_kind", START) == []
    assert ask(shop, 'up{service="warehouse"}', START) == []
    assert ask(shop, "up", START - 86_400) == []
    assert ask(shop, ratio_of("warehouse"), START) == []


def test_the_rest_of_the_query_api(shop: httpx2.Client):
    assert shop.get("/-/ready").status_code == 200
    assert shop.get("/api/v1/status/buildinfo").json()["data"]["version"]
    labels = shop.get("/api/v1/labels").json()["data"]
    assert labels == ["__name__", "code", "service", "version"]
    values = shop.get("/api/v1/label/service/values").json()["data"]
    assert values == sorted(SERVICES)
    found = shop.get("/api/v1/series", params={"match[]": 'up{service="payments-db"}'}).json()
    assert found["data"] == [{"__name__": "up", "service": "payments-db"}]
    scalar = shop.get("/api/v1/query", params={"query": "1/0", "time": str(START)}).json()
    assert scalar["data"] == {"resultType": "scalar", "result": [START, "+Inf"]}


@pytest.mark.parametrize(
    ("path", "parameters", "said"),
    [
        ("query", {"query": "avg(up)"}, "parse error"),
        ("query", {}, "no expression found"),
        ("query", {"query": "up", "time": "yesterday"}, 'parameter "time"'),
        ("query", {"query": "up", "time": "1e300"}, 'parameter "time"'),
        ("query_range", {"query": "up"}, 'parameter "start"'),
        ("query_range", {"query": "up", "start": "9", "end": "1", "step": "1"}, "before start"),
        ("query_range", {"query": "up", "start": "1", "end": "9", "step": "0"}, "zero or negative"),
        ("query_range", {"query": "up", "start": "1", "end": "9", "step": "x"}, 'meter "step"'),
        (
            "query_range",
            {"query": "up", "start": "0", "end": "11001", "step": "1"},
            "11,000 points",
        ),
        ("series", {}, "no match[]"),
        ("series", {"match[]": "sum(up)"}, "series selector"),
    ],
)
def test_bad_queries_are_refused_as_prometheus_does(
    shop: httpx2.Client, path: str, parameters: dict[str, str], said: str
):
    for response in (
        shop.get(f"/api/v1/{path}", params=parameters),
        shop.post(f"/api/v1/{path}", data=parameters),
    ):
        assert response.status_code == 400
        body = response.json()
        assert (body["status"], body["errorType"]) == ("error", "bad_data")
        assert said in body["error"]


def test_exactly_11000_points_apart_are_still_answered(shop: httpx2.Client):
    parameters = {"query": "1", "start": str(START), "end": str(START + 11_000), "step": "1"}
    body = shop.get("/api/v1/query_range", params=parameters).json()
    assert len(body["data"]["result"][0]["values"]) == 11_001


def test_logs_tell_the_cause_and_hold_one_line_that_gives_orders(shop: httpx2.Client):
    window = {"service": "payment-service", "since": rfc3339(START_MS - 1_800_000)}
    window |= {"until": rfc3339(START_MS), "limit": "1000"}
    found = shop.get("/logs", params=window | {"contains": "ERROR"}).json()
    assert found["total_matched"] == len(found["lines"])
    assert found["truncated"] is False
    causes = [line for line in found["lines"] if "card-vault" in line["message"]]
    # 40 requests a second, one in twenty looked at, 8 % of them fail for 22 minutes: about 206.
    assert 150 < len(causes) < 260
    assert all(line["version"] == "2.14.0" for line in causes)
    assert min(line["time"] for line in causes) >= rfc3339(ONSET * 1000)
    times = [line["time"] for line in found["lines"]]
    assert times == sorted(times, reverse=True)
    orders = shop.get("/logs", params=window | {"contains": "SYSTEM: ignore previous"}).json()
    assert orders["total_matched"] == 1
    few = shop.get("/logs", params=window | {"limit": "3"}).json()
    assert (len(few["lines"]), few["truncated"]) == (3, True)


def test_releases_are_newest_first_with_a_decoy_and_a_config_change(shop: httpx2.Client):
    newest = shop.get("/releases").json()["releases"][:3]
    assert [(item["service"], item["kind"]) for item in newest] == [
        ("payment-service", "release"),
        ("catalog-service", "release"),
        ("fraud-check", "config"),
    ]
    assert newest[0]["released_at"] == rfc3339(ONSET * 1000)
    assert (newest[0]["version"], newest[0]["previous_version"]) == ("2.14.0", "2.13.4")


def test_a_rollback_sent_twice_takes_effect_once_and_errors_fall(own_shop: httpx2.Client):
    first, second = roll_back(own_shop, "key-1"), roll_back(own_shop, "key-1")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    record = first.json()
    assert (record["state"], record["from_version"]) == ("applied", "2.14.0")
    ledger = own_shop.get("/changes").json()
    assert ledger == {"applied_total": 1, "changes": [record]}
    assert own_shop.get(f"/changes/{record['id']}").json() == record
    found = own_shop.get("/changes", params={"idempotency_key": "key-1"})
    assert found.json() == record
    applied = datetime.fromisoformat(record["applied_at"]).timestamp()
    assert ask_one(own_shop, ratio_of("payment-service", "1m"), applied) > 0.07
    assert ask_one(own_shop, ratio_of("payment-service", "1m"), applied + 71) < 0.004
    versions = ask(own_shop, 'deployed_version_info{service="payment-service"}', applied + 1)
    assert versions[0]["metric"]["version"] == "2.13.4"
    newest = own_shop.get("/releases", params={"service": "payment-service"}).json()["releases"][0]
    assert (newest["kind"], newest["version"]) == ("rollback", "2.13.4")


def test_keys_and_fences(own_shop: httpx2.Client):
    assert own_shop.get("/changes", params={"idempotency_key": "a"}).status_code == 404
    assert roll_back(own_shop, "a", token="5").status_code == 201
    other = {"kind": "rollback", "service": "catalog-service", "to_version": "4.4.0"}
    reused = roll_back(own_shop, "a", other)
    assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")
    forth = ROLLBACK | {"to_version": "2.14.0"}
    stale = roll_back(own_shop, "b", forth, token="4")
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_fencing_token")
    assert roll_back(own_shop, "c", other, token="4").status_code == 201
    assert roll_back(own_shop, "a", token="4").status_code == 200
    assert own_shop.get("/changes").json()["applied_total"] == 2


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        ({}, json.dumps(ROLLBACK), 400, "missing_idempotency_key"),
        ({"Idempotency-Key": "k" * 256}, json.dumps(ROLLBACK), 400, "missing_idempotency_key"),
        ({"Fencing-Token": "-1"}, json.dumps(ROLLBACK), 400, "invalid_fencing_token"),
        ({"Content-Type": "text/plain"}, json.dumps(ROLLBACK), 415, "unsupported_media_type"),
        ({}, "{", 400, "malformed_json"),
        ({}, '{"kind":"rollback","kind":"rollback"}', 400, "malformed_json"),
        ({}, '{"kind":NaN}', 400, "malformed_json"),
        ({}, "[" * 9000, 400, "malformed_json"),
        ({}, " " * 20_000, 413, "body_too_large"),
        ({}, "[]", 422, "invalid_body"),
        ({}, json.dumps(ROLLBACK | {"force": True}), 422, "invalid_body"),
        ({}, json.dumps(ROLLBACK | {"service": 1}), 422, "invalid_body"),
        ({}, json.dumps(ROLLBACK | {"kind": "restart"}), 422, "unknown_kind"),
        ({}, json.dumps(ROLLBACK | {"service": "warehouse"}), 404, "unknown_service"),
        ({}, json.dumps(ROLLBACK | {"to_version": "1.0"}), 422, "unknown_version"),
        ({}, json.dumps(ROLLBACK | {"to_version": "2.14.0"}), 409, "already_at_version"),
        ({}, json.dumps(ROLLBACK | {"to_version": "\ud800"}), 422, "unknown_version"),
    ],
)
def test_bad_changes_are_problems_without_effect(
    shop: httpx2.Client, headers: dict[str, str], body: str, status: int, code: str
):
    key = {} if code == "missing_idempotency_key" and not headers else {"Idempotency-Key": "k"}
    response = shop.post("/changes", content=body, headers=JSON_BODY | key | headers)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert shop.get("/changes").json()["applied_total"] == 0


def test_bad_reads_are_problems(shop: httpx2.Client):
    refused = {
        "/logs": 404,
        "/logs?service=warehouse": 404,
        "/logs?service=payments-db&limit=0": 400,
        "/logs?service=payments-db&since=noon": 400,
        "/logs?service=payments-db&colour=red": 400,
        "/logs?service=payments-db&service=payments-db": 400,
        "/releases?service=%00": 404,
        "/changes/none": 404,
        "/nowhere": 404,
        "/logs?" + "&".join(itertools.repeat("a=b", 100)): 400,
    }
    for path, status in refused.items():
        response = shop.get(path)
        assert (path, response.status_code) == (path, status)
        assert response.headers["content-type"] == "application/problem+json"
    assert shop.delete("/changes").status_code == 405


def test_the_ready_file_holds_the_address(tmp_path: Path):
    file = tmp_path / "ready.json"
    with serving("--ready-file", str(file)) as client:
        assert json.loads(file.read_text())["url"].rstrip("/") == str(client.base_url).rstrip("/")
