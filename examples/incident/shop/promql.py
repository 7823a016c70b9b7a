"""The part of PromQL that a shop's dashboard needs, evaluated on the model.

    expr     := term (("+" | "-") term)*
    term     := factor (("*" | "/") factor)*
    factor   := NUMBER | "(" expr ")" | call | selector
    call     := ("rate" | "increase") "(" selector "[" DURATION "]" ")"
              | "sum" ["by" "(" LABEL ("," LABEL)* ")"] "(" expr ")"
    selector := METRIC ["{" LABEL "=" STRING ("," LABEL "=" STRING)* "}"]

Everything else is `BadQuery`. Operators match series with equal label sets, as Prometheus does.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from examples.incident.shop.model import SERVICES, Shop

Labels = tuple[tuple[str, str], ...]
Vector = dict[Labels, float]
Value = float | Vector
Evaluate = Callable[[Shop, float], Value]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)(?![a-z])|(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'|(?P<text>"(?:[^"\\]|\\.)*")|(?P<duration>\[\d+[smhd]\])|(?P<sign>[-+*/(){},=]))'
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
COUNTER = "http_requests_total"
CODES = ("200", "500")
GAUGES = ("http_request_duration_seconds_p95", "up")
EXPRESSION_CHARACTERS_MAX = 2000
DEPTH_MAX = 30


class BadQuery(Exception):
    """The expression is outside of the grammar above."""


@dataclass(frozen=True)
class Selector:
    """A metric and the label values that it must have."""

    metric: str
    wanted: Labels


def evaluate(expression: str, shop: Shop, at: float) -> Vector:
    """Return the instant vector of `expression` at a time. Raises `BadQuery`."""
    return run(parse(expression), shop, at)


def parse(expression: str) -> Evaluate:
    """Return the compiled expression. Raises `BadQuery`."""
    if len(expression) > EXPRESSION_CHARACTERS_MAX:
        raise BadQuery("expression too long")
    parser = _Parser(_tokens(expression))
    parsed = parser.expression(0)
    parser.expect_end()
    return parsed


def run(parsed: Evaluate, shop: Shop, at: float) -> Vector:
    """Return the value of a compiled expression as an instant vector."""
    value = parsed(shop, at)
    return value if isinstance(value, dict) else {(): value}


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    place = 0
    text = expression.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise BadQuery(f"unexpected character at position {place}")
        kind = str(match.lastgroup)
        tokens.append((kind, match.group(kind)))
        place = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._place = 0

    def expect_end(self) -> None:
        if self._place != len(self._tokens):
            raise BadQuery(f"unexpected {self._tokens[self._place][1]!r}")

    def expression(self, depth: int) -> Evaluate:
        if depth > DEPTH_MAX:
            raise BadQuery("nested too deeply")
        left = self._term(depth)
        while self._peek("+") or self._peek("-"):
            left = _operate(self._take()[1], left, self._term(depth))
        return left

    def _term(self, depth: int) -> Evaluate:
        left = self._factor(depth)
        while self._peek("*") or self._peek("/"):
            left = _operate(self._take()[1], left, self._factor(depth))
        return left

    def _factor(self, depth: int) -> Evaluate:
        kind, text = self._take()
        if kind == "number":
            number = float(text)
            return lambda _shop, _at: number
        if text == "(":
            inner = self.expression(depth + 1)
            self._need(")")
            return inner
        if kind != "word":
            raise BadQuery(f"unexpected {text!r}")
        if text in {"rate", "increase"} and self._peek("("):
            return self._range_function(text)
        if text == "sum":
            return self._sum(depth)
        selector = self._selector(text)
        return lambda shop, at: _instant(selector, shop, at)

    def _range_function(self, name: str) -> Evaluate:
        self._need("(")
        selector = self._selector(self._take()[1])
        kind, text = self._take()
        if kind != "duration":
            raise BadQuery("expected a range such as [5m]")
        self._need(")")
        span = int(text[1:-2]) * _UNITS[text[-2]]
        if span <= 0 or selector.metric != COUNTER:
            raise BadQuery(f"{name} needs a positive range of {COUNTER}")
        divisor = span if name == "rate" else 1
        return lambda shop, at: {
            labels: shop.increase(dict(labels)["service"], dict(labels)["code"], at - span, at)
            / divisor
            for labels in _labels(selector, shop, at)
        }

    def _sum(self, depth: int) -> Evaluate:
        by: tuple[str, ...] = ()
        if self._peek("by"):
            self._take()
            self._need("(")
            names = [self._take()[1]]
            while self._peek(","):
                self._take()
                names.append(self._take()[1])
            self._need(")")
            by = tuple(names)
        self._need("(")
        inner = self.expression(depth + 1)
        self._need(")")
        return lambda shop, at: _sum(inner(shop, at), by)

    def _selector(self, metric: str) -> Selector:
        wanted: list[tuple[str, str]] = []
        if self._peek("{"):
            self._take()
            while not self._peek("}"):
                label = self._take()[1]
                self._need("=")
                kind, text = self._take()
                if kind != "text":
                    raise BadQuery("expected a quoted label value")
                wanted.append((label, re.sub(r"\\(.)", r"\1", text[1:-1])))
                if not self._peek(","):
                    break
                self._take()
            self._need("}")
        return Selector(metric, tuple(wanted))

    def _peek(self, text: str) -> bool:
        return self._place < len(self._tokens) and self._tokens[self._place][1] == text

    def _take(self) -> tuple[str, str]:
        if self._place >= len(self._tokens):
            raise BadQuery("unexpected end of input")
        self._place += 1
        return self._tokens[self._place - 1]

    def _need(self, text: str) -> None:
        found = self._take()[1]
        if found != text:
            raise BadQuery(f"expected {text!r}, found {found!r}")


def _instant(selector: Selector, shop: Shop, at: float) -> Vector:
    return {
        labels: _value(selector.metric, labels, shop, at) for labels in _labels(selector, shop, at)
    }


def _labels(selector: Selector, shop: Shop, at: float) -> list[Labels]:
    """Return the label sets that match, without computing a value."""
    found: list[Labels] = []
    for service in SERVICES:
        if selector.metric == COUNTER:
            found += [(("code", code), ("service", service)) for code in CODES]
        elif selector.metric == "deployed_version_info":
            found.append((("service", service), ("version", shop.version(service, at))))
        elif selector.metric in GAUGES:
            found.append((("service", service),))
    return [labels for labels in found if _matches(labels, selector)]


def _value(metric: str, labels: Labels, shop: Shop, at: float) -> float:
    named = dict(labels)
    if metric == COUNTER:
        return shop.counted(named["service"], named["code"], at)
    if metric == "http_request_duration_seconds_p95":
        return shop.latency_p95(named["service"], at)
    return 1.0


def _matches(labels: Labels, selector: Selector) -> bool:
    have = dict(labels)
    return all(have.get(name, "") == value for name, value in selector.wanted)


def _sum(value: Value, by: tuple[str, ...]) -> Value:
    if not isinstance(value, dict):
        raise BadQuery("sum needs a vector")
    totals: Vector = {}
    for labels, number in value.items():
        kept = tuple(pair for pair in labels if pair[0] in by)
        totals[kept] = totals.get(kept, 0.0) + number
    return totals


def _operate(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    def apply(a: float, b: float) -> float:
        if sign == "+":
            return a + b
        if sign == "-":
            return a - b
        if sign == "*":
            return a * b
        return a / b if b else float("nan")

    def combined(shop: Shop, at: float) -> Value:
        a, b = left(shop, at), right(shop, at)
        if isinstance(a, dict) and isinstance(b, dict):
            return {labels: apply(a[labels], b[labels]) for labels in a if labels in b}
        if isinstance(a, dict):
            return {labels: apply(number, _scalar(b)) for labels, number in a.items()}
        if isinstance(b, dict):
            return {labels: apply(a, number) for labels, number in b.items()}
        return apply(a, b)

    return combined


def _scalar(value: Value) -> float:
    if isinstance(value, dict):
        raise BadQuery("expected a number")
    return value
