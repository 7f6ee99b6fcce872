"""All scenarios: every race that the contract and the cases from the field name, and some more."""

from __future__ import annotations

from types import ModuleType

from . import races, sessions, writes
from .stage import Stage


def _of(module: ModuleType) -> list[type[Stage]]:
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Stage) and each.__module__ == module.__name__
    ]


SCENARIOS: tuple[type[Stage], ...] = (*_of(races), *_of(writes), *_of(sessions))
