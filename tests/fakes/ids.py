"""Identifiers that a test can predict: they count."""

import itertools


class SequentialIds:
    """`new` and `random` count separately, so that an id names its place in the test."""

    def __init__(self) -> None:
        self._new = itertools.count(1)
        self._random = itertools.count(1)

    def new(self, prefix: str) -> str:
        return f"{prefix}_{next(self._new):026d}"

    def random(self) -> str:
        return f"{next(self._random):032x}"
