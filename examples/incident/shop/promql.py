"""The part of PromQL that a shop's dashboard needs: text in, a small tree out.

    expr     := term (("+" | "-") term)*
    term     := factor (("*" | "/") factor)*
    factor   := "-" factor | NUMBER | "(" expr ")" | call | sum | selector
    call     := ("rate" | "increase") "(" selector "[" DURATION "]" ")"
    sum      := "sum" [by] "(" expr ")" [by]        with at most one `by`
    by       := "by" "(" [LABEL ("," LABEL)* [","]] ")"
    selector := METRIC ["{" [LABEL "=" STRING ("," LABEL "=" STRING)* [","]] "}"]

Everything else is `QueryRefused`, never a guess.
"""

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from .times import MS_PER_DAY, parse_duration

EXPRESSION_CHARACTERS_MAX = 4096
TOKENS_MAX = 256
DEPTH_MAX = 32
RANGE_DAYS_MAX = 30

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<duration>(?:\d+(?:ms|[smhdw]))+)
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)(?![A-Za-z0-9_.])
    |(?P<word>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<sign>[-+*/(){}\[\],=])""",
    re.ASCII | re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Words that PromQL reserves, or functions that this grammar leaves out on purpose.
_LEFT_OUT = frozenset({
    "and", "avg", "bool", "bottomk", "by", "count", "group_left", "group_right", "ignoring",
    "max", "min", "offset", "on", "or", "quantile", "stddev", "stdvar", "topk", "unless", "without",
})  # fmt: skip


class QueryRefused(Exception):
    """A query that gets no answer: `kind` is Prometheus' `errorType`, `message` its `error`."""

    def __init__(self, kind: Literal["bad_data", "execution"], message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Number(Struct, frozen=True, kw_only=True):
    """A scalar."""

    value: float


class Selector(Struct, frozen=True, kw_only=True):
    """A metric and the label values that a series must have; an absent label counts as ""."""

    metric: str
    wanted: tuple[tuple[str, str], ...]


class Growth(Struct, frozen=True, kw_only=True):
    """`rate` or `increase` of a counter over the window before an instant."""

    per_second: bool
    selector: Selector
    window_ms: int


class Total(Struct, frozen=True, kw_only=True):
    """`sum`, keeping the labels in `by`."""

    by: frozenset[str]
    of: "Expression"


class Binary(Struct, frozen=True, kw_only=True):
    """Arithmetic of two sides."""

    sign: str
    left: "Expression"
    right: "Expression"


Expression: TypeAlias = Number | Selector | Growth | Total | Binary


def parse(text: str) -> Expression:
    """Return the tree of an expression. Raises `QueryRefused` (bad_data)."""
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise _refused(0, f"more than {EXPRESSION_CHARACTERS_MAX} characters")
    reader = _Reader(_tokens(text))
    if reader.kind == "end":
        raise _refused(0, "no expression found in input")
    tree = reader.expression(0)
    if reader.kind != "end":
        raise reader.unexpected("end of input")
    return tree


def parse_selector(text: str) -> Selector:
    """Return a plain selector, as `match[]` takes it. Raises `QueryRefused` (bad_data)."""
    tree = parse(text)
    if not isinstance(tree, Selector):
        raise _refused(0, "expected a series selector")
    return tree


def is_scalar(tree: Expression) -> bool:
    """Say whether an expression has no series at all, only a number."""
    match tree:
        case Number():
            return True
        case Binary(left=left, right=right):
            return is_scalar(left) and is_scalar(right)
        case _:
            return False


def count_leaves(tree: Expression) -> int:
    """Return how many numbers, selectors and growths an expression has: the work of one instant."""
    match tree:
        case Total(of=of):
            return count_leaves(of)
        case Binary(left=left, right=right):
            return count_leaves(left) + count_leaves(right)
        case _:
            return 1


class _Token(Struct, frozen=True):
    kind: str
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _refused(at, f"unexpected character {text[at]!r}")
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(_Token(kind, match.group(), at))
        at = match.end()
    if len(tokens) > TOKENS_MAX:
        raise _refused(0, f"more than {TOKENS_MAX} tokens")
    return [*tokens, _Token("end", "", len(text))]


class _Reader:
    """Recursive descent over the tokens; the last token is always `end`."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._place = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._place].kind

    def unexpected(self, wanted: str) -> QueryRefused:
        token = self._tokens[self._place]
        found = repr(token.text) if token.text else "end of input"
        return _refused(token.at, f"unexpected {found}, expected {wanted}")

    def expression(self, depth: int) -> Expression:
        left = self._term(depth)
        while (sign := self._sign("+", "-")) is not None:
            left = Binary(sign=sign, left=left, right=self._term(depth))
        return left

    def _term(self, depth: int) -> Expression:
        left = self._factor(depth)
        while (sign := self._sign("*", "/")) is not None:
            left = Binary(sign=sign, left=left, right=self._factor(depth))
        return left

    def _factor(self, depth: int) -> Expression:
        if depth > DEPTH_MAX:
            raise _refused(self._tokens[self._place].at, f"nested deeper than {DEPTH_MAX}")
        if self._sign("-") is not None:
            inner = self._factor(depth + 1)
            return Binary(sign="*", left=Number(value=-1.0), right=inner)
        if self._sign("(") is not None:
            inner = self.expression(depth + 1)
            self._need(")")
            return inner
        if self.kind == "number":
            return Number(value=float(self._take("number")))
        name = self._take("word", "a number, a metric, rate, increase or sum")
        following = self._tokens[self._place].text
        if name in {"rate", "increase"} and following == "(":
            return self._growth(per_second=name == "rate")
        if name == "sum" and following in {"(", "by"}:
            return self._total(depth)
        if name in _LEFT_OUT or following == "(":
            self._place -= 1
            raise self.unexpected("rate, increase or sum: nothing else is supported here")
        return self._selector(name)

    def _growth(self, *, per_second: bool) -> Growth:
        self._need("(")
        selector = self._selector(self._take("word", "a metric"))
        self._need("[")
        window_at = self._tokens[self._place].at
        text = self._take("duration", "a duration such as 5m")
        try:
            window_ms = parse_duration(text)
        except ValueError as error:
            raise _refused(window_at, str(error)) from None
        if not 0 < window_ms <= RANGE_DAYS_MAX * MS_PER_DAY:
            raise _refused(window_at, f"a range must be above 0 and at most {RANGE_DAYS_MAX}d")
        self._need("]")
        self._need(")")
        return Growth(per_second=per_second, selector=selector, window_ms=window_ms)

    def _total(self, depth: int) -> Total:
        by = self._by()
        self._need("(")
        of_at = self._tokens[self._place].at
        of = self.expression(depth + 1)
        self._need(")")
        if is_scalar(of):
            message = "expected type instant vector in aggregation expression, got scalar"
            raise _refused(of_at, message)
        if by is None:
            by = self._by()
        return Total(by=by or frozenset(), of=of)

    def _by(self) -> frozenset[str] | None:
        if self._tokens[self._place].text != "by":
            return None
        self._place += 1
        self._need("(")
        labels: set[str] = set()
        while self._sign(")") is None:
            labels.add(self._label())
            if self._sign(",") is None:
                self._need(")")
                break
        return frozenset(labels)

    def _selector(self, metric: str) -> Selector:
        wanted: list[tuple[str, str]] = []
        if self._sign("{") is not None:
            while self._sign("}") is None:
                label = self._label()
                self._need("=")
                wanted.append((label, _unquoted(self._take("string", "a quoted label value"))))
                if self._sign(",") is None:
                    self._need("}")
                    break
        return Selector(metric=metric, wanted=tuple(wanted))

    def _label(self) -> str:
        token = self._tokens[self._place]
        if token.kind != "word" or not _LABEL.fullmatch(token.text):
            raise self.unexpected("a label name")
        self._place += 1
        return token.text

    def _sign(self, *signs: str) -> str | None:
        token = self._tokens[self._place]
        if token.kind != "sign" or token.text not in signs:
            return None
        self._place += 1
        return token.text

    def _need(self, sign: str) -> None:
        if self._sign(sign) is None:
            raise self.unexpected(repr(sign))

    def _take(self, kind: str, wanted: str = "") -> str:
        if self.kind != kind:
            raise self.unexpected(wanted)
        self._place += 1
        return self._tokens[self._place - 1].text


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])


def _refused(at: int, what: str) -> QueryRefused:
    return QueryRefused("bad_data", f'invalid parameter "query": 1:{at + 1}: parse error: {what}')
