"""Every figure: what is measured, against which floor, and what it is to be at most."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from . import boundary, generation, imports, memory, submit
from .backends import BACKENDS, Backend

__all__ = ["FIGURES", "Figure"]

Measure = Callable[[], float]


class Figure(NamedTuple):
    """One line of the table.

    Attributes:
        key: names it in options and in the JSON file.
        what: is measured.
        floor: what it is divided by.
        measures: one ratio each time it is called, by backend; one of `"both"` where the
            backend plays no part.
        goals: the most that it is to be, by backend.
        steady: the same every time, so that once is enough.
    """

    key: str
    what: str
    floor: str
    measures: dict[str, Measure]
    goals: dict[str, float]
    steady: bool = False


def _on_each(measure: Callable[[Backend], Awaitable[float]]) -> dict[str, Measure]:
    return {on.name: partial(on.run, measure) for on in BACKENDS}


def _goals(trio: float, asyncio: float) -> dict[str, float]:
    return {"trio": trio, "asyncio": asyncio}


FIGURES = (
    Figure(
        "submit",
        "submit to receipt, one at a time",
        "zero-buffer hand-off",
        _on_each(submit.one_at_a_time),
        _goals(1.8, 1.8),
    ),
    Figure(
        "burst",
        "submit to receipt, in a burst of 100",
        "zero-buffer hand-off",
        _on_each(submit.in_a_burst),
        _goals(1.8, 1.8),
    ),
    Figure(
        "empty",
        "boundary with nothing pending",
        "one checkpoint",
        _on_each(boundary.empty_boundary),
        _goals(2.0, 2.2),
    ),
    Figure(
        "write",
        "boundary, per input of a batch of 128",
        "the write in a child task",
        _on_each(boundary.write_in_a_batch),
        _goals(1.4, 1.5),
    ),
    Figure(
        "generation",
        "generation opened and finished",
        "nursery, task, channel, lock",
        _on_each(generation.opened_and_finished),
        _goals(2.5, 2.5),
    ),
    Figure(
        "memory",
        "memory of an open generation",
        "task, nursery, drainer, channel, lock",
        _on_each(memory.open_runtimes),
        _goals(1.7, 1.7),
        steady=True,
    ),
    Figure(
        "resident",
        "10,000 open generations, resident",
        "10,000 of the same",
        {on.name: partial(memory.many_open_runtimes, on) for on in BACKENDS},
        _goals(1.7, 1.7),
        steady=True,
    ),
    Figure(
        "flat",
        "memory after 10,000 generations",
        "memory after 1,000",
        _on_each(memory.flat),
        _goals(1.01, 1.01),
        steady=True,
    ),
    Figure(
        "import",
        "import midcourse",
        "import trio, anyio",
        {"both": imports.import_time},
        {"both": 1.15},
    ),
)
