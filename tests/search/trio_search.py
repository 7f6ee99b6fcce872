"""Runs a scenario on Trio under one schedule: batch order and injected events chosen, time virtual.

Strategy: Trio shuffles every batch of runnable tasks with a random source of its own; put a chooser
in that source's place and the schedule is ours. An instrument meets the other choice point, before
each task step. `MockClock` jumps when everything is blocked.

This file alone uses private names of Trio: `trio._core._run._r`, the source;
`trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING`, which makes Trio sort a batch by creation before
it shuffles; and, only to end a run that is blocked under a shield, `Task._attempt_abort`. It
refuses to run on a version on which they have not been looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import trio
from trio._core import _run
from trio.testing import MockClock

from .schedule import Chooser, Make, Policy, Run, Stuck

KNOWN_TRIO = ("0.35",)
VIRTUAL_LIMIT = 1e6
STEP_LIMIT = 20_000
# With the clock at zero threshold a run in which nothing can move spins through empty batches.
IDLE_LIMIT = 50
GIVE_UP_ROUNDS = 200


def check_trio_version(version: str = trio.__version__) -> None:
    """Refuse a Trio whose scheduler this file does not know.

    Raises:
        RuntimeError: If the version is not a known one, or the private names are gone.
    """
    if ".".join(version.split(".")[:2]) not in KNOWN_TRIO:
        raise RuntimeError(
            f"the schedule search knows trio {', '.join(KNOWN_TRIO)}, this is {version}: "
            "compare the batch loop in trio/_core/_run.py with trio_search.py, then add the version"
        )
    for name in ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING"):
        if not hasattr(_run, name):
            raise RuntimeError(f"trio {version} has no trio._core._run.{name}")
    if not hasattr(trio.lowlevel.Task, "_attempt_abort"):
        raise RuntimeError(f"trio {version} has no Task._attempt_abort")


class _Scheduler(trio.abc.Instrument):
    """Trio's random source and instrument for one run; also the scenario's probe."""

    backend = "trio"

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self._ticks = 0
        self._idle = 0
        self.clock = MockClock(autojump_threshold=0)
        self.main: trio.lowlevel.Task | None = None
        self.limit = trio.CancelScope()
        self.stuck: Stuck | None = None
        self._rounds = 0

    # The random source. The run loop calls it on every pass, with an empty batch too,
    # and pops from the end.
    def shuffle(self, batch: list[trio.lowlevel.Task]) -> None:
        self._idle = 0 if batch else self._idle + 1
        if self._idle > IDLE_LIMIT:
            self._give_up("deadlock under a shield")
        elif self._chooser.steps > STEP_LIMIT:
            self._give_up(f"livelock, {STEP_LIMIT} steps")
        if not batch and self.clock.current_time() > VIRTUAL_LIMIT / 2 and self.stuck is None:
            self.stuck = Stuck(f"deadlock: nothing is runnable; {self._whereabouts()}")
        self._ticks += bool(batch)
        chosen: list[trio.lowlevel.Task] = []
        while batch:
            chosen.append(batch.pop(self._chooser.order(len(batch)) if len(batch) > 1 else 0))
        batch[:] = chosen[::-1]

    def _give_up(self, why: str) -> None:
        self.stuck = self.stuck or Stuck(f"{why}; {self._whereabouts()}")
        self._rounds += 1
        if self._rounds > GIVE_UP_ROUNDS:
            raise self.stuck
        self.limit.cancel()
        if self._idle <= IDLE_LIMIT:
            return
        # A shield keeps cancellation out, so abort the waits themselves, of those who wait for
        # nobody's end: the run unwinds, and Trio is left in order for the next one.
        self._idle = 0
        for task in self._tasks():
            if not any(nursery.child_tasks for nursery in task.child_nurseries):
                task._attempt_abort(self._raise_stuck)
                break

    def _raise_stuck(self) -> NoReturn:
        assert self.stuck is not None
        raise self.stuck

    # The instrument.
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._chooser.step()

    # The probe.
    def ticks(self) -> int:
        return self._ticks

    def now(self) -> float:
        return self.clock.current_time()

    def live_tasks(self) -> list[str]:
        return [task.name for task in self._tasks() if task is not self.main]

    def _tasks(self) -> Iterator[trio.lowlevel.Task]:
        waiting = [self.main] if self.main is not None else []
        while waiting:
            task = waiting.pop()
            yield task
            for nursery in task.child_nurseries:
                waiting.extend(nursery.child_tasks)

    def _whereabouts(self) -> str:
        return "; ".join(f"{task.name} in {_innermost(task)}" for task in self._tasks())


def _innermost(task: trio.lowlevel.Task) -> str:
    names = [frame.f_code.co_name for frame, _ in task.iter_await_frames()]
    return " > ".join(names[-5:])


@contextmanager
def _scheduled_by(scheduler: _Scheduler) -> Iterator[None]:
    names: dict[str, Any] = vars(_run)
    saved = {name: names[name] for name in ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING")}
    names.update(_r=scheduler, _ALLOW_DETERMINISTIC_SCHEDULING=True)
    try:
        yield
    finally:
        names.update(saved)


def run_one(make: Make, policy: Policy) -> Run:
    """Execute one schedule of a scenario on Trio and judge it.

    Args:
        make: Builds a fresh scenario for the run that it is given the probe of.
        policy: Answers the choice points.

    Raises:
        RuntimeError: If this version of Trio is not a known one.
    """
    check_trio_version()
    chooser = Chooser(policy)
    scheduler = _Scheduler(chooser)
    scenario = make(scheduler)
    chooser.injections = dict(scenario.events())
    error: BaseException | None = None

    async def main() -> None:
        scheduler.main = trio.lowlevel.current_task()
        with scheduler.limit:
            scheduler.limit.deadline = VIRTUAL_LIMIT
            await scenario.main()

    try:
        with _scheduled_by(scheduler):
            trio.run(main, clock=scheduler.clock, instruments=[scheduler])
        if scheduler.stuck is None:
            scenario.check()
    except (Exception, BaseExceptionGroup) as failure:  # noqa: BLE001 - any failure is a finding
        error = failure
    if chooser.errors:
        error = chooser.errors[0]
    if scheduler.stuck is not None:
        error = scheduler.stuck.judged(scenario.check)
    return Run(str(chooser.plan), error, chooser.points, chooser.steps)
