"""Expressions evaluated on the model: instant values, ranges, and numbers as Prometheus prints.

The model knows its counters at every instant, so `increase(c[w])` at t is exactly c(t) - c(t - w)
and `rate` is that divided by w: there is no scrape and no extrapolation.
"""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import TypeAlias, assert_never

from .model import World
from .promql import Binary, Expression, Growth, Number, QueryRefused, Selector, Total, count_leaves
from .times import MS_PER_MINUTE, MS_PER_SECOND
from .topology import SERVICES

# Sorted (name, value) pairs; `__name__` is among them until a function or an operator drops it.
Labels: TypeAlias = tuple[tuple[str, str], ...]
Vector: TypeAlias = dict[Labels, float]

COUNTER = "http_requests_total"
LATENCY = "http_request_duration_seconds_p95"
VERSION_INFO = "deployed_version_info"
UP = "up"
METRICS = (VERSION_INFO, LATENCY, COUNTER, UP)
CODES = ("200", "500")
STALE_MS = 5 * MS_PER_MINUTE
LEAVES_MAX = 25_000


def evaluate(tree: Expression, world: World, at_ms: int) -> float | Vector:
    """Return a number, or a value per series. Raises `QueryRefused` (bad_data, execution)."""
    match tree:
        case Number(value=value):
            return value
        case Selector():
            return _instant(tree, world, at_ms)
        case Growth():
            return _growth(tree, world, at_ms)
        case Total(by=by, of=of):
            return _total(evaluate(of, world, at_ms), by)
        case Binary(sign=sign, left=left, right=right):
            return _combine(sign, evaluate(left, world, at_ms), evaluate(right, world, at_ms))
        case _:
            assert_never(tree)


def evaluate_range(
    tree: Expression, world: World, start_ms: int, end_ms: int, step_ms: int
) -> dict[Labels, list[tuple[int, float]]]:
    """Return the points (milliseconds, value) of every series over start, start + step, ... end.

    Raises `QueryRefused`, also for work that would keep the shop from answering others.
    """
    if ((end_ms - start_ms) // step_ms + 1) * count_leaves(tree) > LEAVES_MAX:
        raise QueryRefused(
            "execution",
            "query processing would load too many samples into memory in query execution",
        )
    found: dict[Labels, list[tuple[int, float]]] = {}
    for at_ms in range(start_ms, end_ms + 1, step_ms):
        value = evaluate(tree, world, at_ms)
        vector = value if isinstance(value, dict) else {(): value}
        for labels, number in vector.items():
            found.setdefault(labels, []).append((at_ms, number))
    return found


def series_between(
    selector: Selector, world: World, after_ms: int, until_ms: int
) -> Iterator[Labels]:
    """Yield the series of a selector that had a value in (after, until]."""
    if until_ms < world.begins_ms or after_ms >= world.ends_ms:
        return
    for service in SERVICES:
        for labels in _series_of(selector.metric, service, world, after_ms, until_ms):
            have = dict(labels)
            if all(have.get(name, "") == value for name, value in selector.wanted):
                yield labels


def formatted(value: float) -> str:
    """Return a value as Prometheus prints it: never an exponent, `NaN`, `+Inf`, `-Inf`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value.is_integer():
        return f"{value:.0f}"
    return f"{Decimal(repr(value)):f}"


def _series_of(
    metric: str, service: str, world: World, after_ms: int, until_ms: int
) -> Iterator[Labels]:
    named = ("__name__", metric)
    if metric == COUNTER:
        for version in world.versions_between(service, after_ms, until_ms):
            for code in CODES:
                yield (named, ("code", code), ("service", service), ("version", version))
    elif metric == VERSION_INFO:
        yield (named, ("service", service), ("version", world.version_at(service, until_ms)))
    elif metric in {LATENCY, UP}:
        yield (named, ("service", service))


def _instant(selector: Selector, world: World, at_ms: int) -> Vector:
    if not world.has_data(at_ms):
        return {}
    vector: Vector = {}
    for labels in series_between(selector, world, at_ms - STALE_MS, at_ms):
        have = dict(labels)
        if selector.metric == COUNTER:
            vector[labels] = world.requests(have["service"], have["version"], have["code"], at_ms)
        elif selector.metric == LATENCY:
            vector[labels] = world.p95_seconds(have["service"], at_ms)
        else:
            vector[labels] = 1.0
    return vector


def _growth(tree: Growth, world: World, at_ms: int) -> Vector:
    if tree.selector.metric in METRICS and tree.selector.metric != COUNTER:
        message = f"rate and increase need a counter; {tree.selector.metric} is a gauge"
        raise QueryRefused("bad_data", f'invalid parameter "query": {message}')
    divisor = tree.window_ms / MS_PER_SECOND if tree.per_second else 1.0
    vector: Vector = {}
    before_ms = at_ms - tree.window_ms
    for labels in series_between(tree.selector, world, before_ms, at_ms):
        have = dict(labels)
        of = (have["service"], have["version"], have["code"])
        grown = world.requests(*of, at_ms) - world.requests(*of, before_ms)
        vector[_nameless(labels)] = grown / divisor
    return vector


def _total(value: float | Vector, by: frozenset[str]) -> Vector:
    if not isinstance(value, dict):
        raise QueryRefused("bad_data", 'invalid parameter "query": sum needs an instant vector')
    totals: Vector = {}
    for labels, number in value.items():
        kept = tuple(pair for pair in labels if pair[0] in by)
        totals[kept] = totals.get(kept, 0.0) + number
    return totals


def _combine(sign: str, left: float | Vector, right: float | Vector) -> float | Vector:
    if isinstance(left, dict) and isinstance(right, dict):
        ours, theirs = _by_labels(left), _by_labels(right)
        return {
            labels: _calculate(sign, number, theirs[labels])
            for labels, number in ours.items()
            if labels in theirs
        }
    if isinstance(left, dict) and not isinstance(right, dict):
        return {key: _calculate(sign, value, right) for key, value in _by_labels(left).items()}
    if isinstance(right, dict) and not isinstance(left, dict):
        return {key: _calculate(sign, left, value) for key, value in _by_labels(right).items()}
    assert isinstance(left, float | int)  # noqa: S101 - tells the type checker what remains
    assert isinstance(right, float | int)  # noqa: S101 - tells the type checker what remains
    return _calculate(sign, left, right)


def _by_labels(vector: Vector) -> Vector:
    """Return the vector without metric names. Raises `QueryRefused` when two series coincide."""
    nameless = {_nameless(labels): value for labels, value in vector.items()}
    if len(nameless) < len(vector):
        raise QueryRefused("execution", "found duplicate series for the match group")
    return nameless


def _nameless(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] != "__name__")


def _calculate(sign: str, left: float, right: float) -> float:
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if right != 0:
        return left / right
    # As Go divides: by zero is infinite, and zero by zero is no number.
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
