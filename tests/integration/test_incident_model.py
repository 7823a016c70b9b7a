"""The formulae, the grammar and the change desk of the simulated shop, without a process.

Proved: the bad release shows at its minute and nowhere before; counters never fall; the order of
questions changes nothing; a rollback rewrites no line that was read; what the grammar does not
know is refused.
"""

from datetime import datetime

import pytest

from examples.incident.shop.changes import ChangeDesk, ChangeOrder
from examples.incident.shop.logs import lines_between
from examples.incident.shop.problems import Problem
from examples.incident.shop.promql import QueryRefused, parse
from examples.incident.shop.series import evaluate, formatted
from examples.incident.shop.times import parse_duration, parse_instant, rfc3339
from examples.incident.shop.topology import SERVICES

START = int(datetime.fromisoformat("2026-03-01T12:00:00Z").timestamp())
ONSET = START - 22 * 60
START_MS = START * 1000


def ratio_of(service: str, window: str = "2m") -> str:
    return (
        f'sum(rate(http_requests_total{{service="{service}",code="500"}}[{window}]))'
        f' / sum(rate(http_requests_total{{service="{service}"}}[{window}]))'
    )


def desk(seed: int = 7, recovery_ms: int = 60_000) -> ChangeDesk:
    return ChangeDesk(seed=seed, started_at_ms=START_MS, recovery_ms=recovery_ms)


def number(shop: ChangeDesk, expression: str, at: float) -> float:
    value = evaluate(parse(expression), shop.world, round(at * 1000))
    if isinstance(value, dict):
        (value,) = value.values()
    return value


@pytest.mark.parametrize(
    ("service", "before", "after"),
    [
        ("payment-service", 0.002, 0.08),
        ("checkout-service", 0.0015, 0.05),
        ("api-gateway", 0.001, 0.02),
        ("fraud-check", 0.001, 0.001),
        ("catalog-service", 0.0012, 0.0012),
    ],
)
def test_the_release_shows_where_it_should(service: str, before: float, after: float):
    shop = desk()
    # A 20-minute window averages the noise of single minutes and of small counts.
    assert number(shop, ratio_of(service, "20m"), ONSET) == pytest.approx(before, rel=0.1)
    assert number(shop, ratio_of(service, "20m"), START) == pytest.approx(after, rel=0.1)


def test_the_error_ratio_is_flat_until_the_minute_of_the_release_and_risen_a_minute_later():
    shop = desk()
    assert number(shop, ratio_of("payment-service", "1m"), ONSET) < 0.004
    assert number(shop, ratio_of("payment-service", "1m"), ONSET + 120) > 0.07


def test_a_counter_never_falls_and_what_is_asked_first_does_not_matter():
    forward, backward = desk(), desk()
    times = range(START - 3600, START + 3600, 37)
    expression = 'sum(http_requests_total{service="payments-db"})'
    ahead = [number(forward, expression, at) for at in times]
    behind = [number(backward, expression, at) for at in reversed(times)]
    assert ahead == sorted(ahead)
    assert ahead == behind[::-1]


def test_another_seed_is_another_shop():
    expression = 'http_request_duration_seconds_p95{service="payment-service"}'
    assert number(desk(seed=7), expression, START) != number(desk(seed=8), expression, START)


def test_a_rollback_never_rewrites_lines_that_were_read():
    shop = desk()
    read = list(lines_between(shop.world, "payment-service", START_MS - 1_800_000, START_MS))
    shop.apply(
        ChangeOrder(service="payment-service", to_version="2.13.4"),
        idempotency_key="k",
        fencing_token=None,
        now_ms=START_MS,
    )
    again = list(lines_between(shop.world, "payment-service", START_MS - 1_800_000, START_MS))
    assert again == read


def test_a_refused_order_leaves_its_key_free():
    shop = desk()
    for version in ("9.9.9", "2.14.0"):
        with pytest.raises(Problem):
            shop.apply(
                ChangeOrder(service="payment-service", to_version=version),
                idempotency_key="k",
                fencing_token=None,
                now_ms=START_MS,
            )
    assert shop.find(idempotency_key="k") is None
    assert shop.applied == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("-(2 - 5) / 2", 1.5),
        ("8 / 2 / 2", 2.0),
        ("1e3 - .5", 999.5),
        ("sum(up)", float(len(SERVICES))),
        ("sum(up) by (job) * 2", 2.0 * len(SERVICES)),
        ("sum by () (up{service='payments-db',})", 1.0),
    ],
)
def test_expressions(expression: str, expected: float):
    assert number(desk(), expression, START) == expected


def test_labels_decide_which_sides_match():
    per_version = evaluate(
        parse("sum by (service, version) (rate(http_requests_total[30m]))"), desk().world, START_MS
    )
    assert isinstance(per_version, dict)
    versions = {
        dict(labels)["version"]
        for labels in per_version
        if ("service", "payment-service") in labels
    }
    assert versions == {"2.13.4", "2.14.0"}
    unmatched = evaluate(parse("up / deployed_version_info"), desk().world, START_MS)
    assert unmatched == {}


@pytest.mark.parametrize(
    "expression",
    [
        "",
        " ",
        "avg(up)",
        'up{service=~"pay.*"}',
        'up{service!="x"}',
        "up offset 5m",
        "up[5m]",
        "rate(up[5m])",
        "rate(http_requests_total)",
        "rate(http_requests_total[0s])",
        "rate(http_requests_total[5m:1m])",
        "sum(1)",
        "sum by (service (up)",
        "sum without (code) (up)",
        "1 +",
        "1 2",
        "up == 1",
        'up{service="a',
        "up\x00",
        "(" * 200 + "1" + ")" * 200,
        "-" * 200 + "1",
        "1" + "+1" * 2000,
        "up" * 3000,
    ],
)
def test_everything_else_is_bad_data(expression: str):
    with pytest.raises(QueryRefused) as refused:
        evaluate(parse(expression), desk().world, START_MS)
    assert refused.value.kind == "bad_data"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"),
        (0.1, "0.1"),
        (1e-7, "0.0000001"),
        (1e21, "1000000000000000000000"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
    ],
)
def test_numbers_look_like_those_of_prometheus(value: float, text: str):
    assert formatted(value) == text


def test_times_and_durations():
    assert parse_instant("1772366430.5") == 1_772_366_430_500
    assert parse_instant("2026-03-01T12:00:30.123456789Z") == 1_772_366_430_123
    assert parse_instant("2026-03-01T13:00:30+01:00") == 1_772_366_430_000
    assert rfc3339(1_772_366_430_123) == "2026-03-01T12:00:30.123Z"
    assert parse_duration("1h30m") == 5_400_000
    for text in ("", "5", "m", "1m1h", "2026-13-01T00:00:00Z"):
        with pytest.raises(ValueError, match="is no duration"):
            parse_duration(text)
