"""Runs a scenario on asyncio under one schedule: moments of events chosen, time virtual.

Strategy: asyncio promises first come, first served, so order is not ours to choose; the whole
search space is when things happen. The event loop's queue of ready handles is replaced by one that
meets a choice point before each handle, and the selector by one that never sleeps but moves the
clock to the next timer. Native `Task.cancel()` is one more event, and it pierces what a cancel
scope respects.

This file alone uses private names of asyncio's loop: `_ready`, `_selector`, `_scheduled`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from .schedule import Chooser, Make, Policy, Run, Stuck

VIRTUAL_LIMIT = 1e6
STEP_LIMIT = 20_000
# AnyIO delivers a cancellation again on every pass until its tasks have left the scope. If nothing
# else ran in so many passes, time may move: on a real clock it would.
RETRY_LIMIT = 20
CLEANUP_PASSES = 200


class _Ready(deque[asyncio.Handle]):
    """The queue of ready handles, with a choice point before each."""

    before: Callable[[asyncio.Handle], None] | None = None

    def popleft(self) -> asyncio.Handle:
        if self.before is not None and self:
            self.before(self[0])
        return super().popleft()


class _Loop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; also the scenario's probe."""

    backend = "asyncio"

    def __init__(self, chooser: Chooser) -> None:
        super().__init__()
        self._chooser = chooser
        self._virtual = 0.0
        self._ticks = 0
        self._retries = 0
        self._searching = True
        self._main: asyncio.Task[None] | None = None
        self._ready: _Ready = _Ready(self._ready)
        self._ready.before = self._before
        selector: Any = self._selector  # type: ignore[attr-defined]
        self._poll: Callable[[float], list[Any]] = selector.select
        selector.select = self._select

    def time(self) -> float:
        return self._virtual

    def _select(self, timeout: float | None = None) -> list[Any]:
        if not self._searching:
            return self._poll(0)
        self._ticks += 1
        if timeout is None:
            raise Stuck(f"deadlock: nothing is runnable; {self._whereabouts()}")
        if self._chooser.steps > STEP_LIMIT:
            raise Stuck(f"livelock: {STEP_LIMIT} steps; {self._whereabouts()}")
        retrying = all(_is_retry(handle) for handle in self._ready)
        self._retries = self._retries + 1 if retrying and self._ready else 0
        if self._retries > RETRY_LIMIT:
            timers = self._scheduled  # type: ignore[attr-defined]
            if not timers:
                raise Stuck(f"deadlock: cancelled, but {self._whereabouts()}")
            timeout = max(0.0, timers[0].when() - self._virtual)
            self._retries = 0
        self._virtual += timeout
        if self._virtual > VIRTUAL_LIMIT:
            raise Stuck(f"deadlock: waiting for ever; {self._whereabouts()}")
        return self._poll(0)

    def _before(self, handle: asyncio.Handle) -> None:
        # A cancelled handle runs nothing and AnyIO's retry decides nothing: an event before one of
        # them is the same schedule as an event before the next handle.
        if self._searching and not handle.cancelled() and not _is_retry(handle):
            self._chooser.step()

    # The probe.
    def ticks(self) -> int:
        return self._ticks

    def now(self) -> float:
        return self._virtual

    def live_tasks(self) -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks(self) if task is not self._main]

    def _whereabouts(self) -> str:
        return "; ".join(f"{t.get_name()} in {_innermost(t)}" for t in asyncio.all_tasks(self))

    def execute(self, main: Callable[[], Any]) -> None:
        """Run `main` to its end, or until the run is stuck; leave no task behind."""
        self._main = self.create_task(main())
        try:
            self.run_until_complete(self._main)
        finally:
            self._searching = False
            for _ in range(CLEANUP_PASSES):
                left = asyncio.all_tasks(self)
                if not left:
                    break
                for task in left:
                    task.cancel()
                self.run_until_complete(_pass())
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
            self.close()


async def _pass() -> None:
    await asyncio.sleep(0)


def _is_retry(handle: asyncio.Handle) -> bool:
    callback = getattr(handle, "_callback", None)
    return getattr(callback, "__name__", "") == "_deliver_cancellation"


def _innermost(task: asyncio.Task[Any]) -> str:
    names = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        code = getattr(waiting, "cr_code", None)
        if code is not None:
            names.append(code.co_name)
        waiting = getattr(waiting, "cr_await", None)
    return " > ".join(names[-5:])


def run_one(make: Make, policy: Policy) -> Run:
    """Execute one schedule of a scenario on asyncio and judge it.

    Args:
        make: Builds a fresh scenario for the run that it is given the probe of.
        policy: Answers the choice points.
    """
    chooser = Chooser(policy)
    loop = _Loop(chooser)
    scenario = make(loop)
    chooser.injections = dict(scenario.events())
    error: BaseException | None = None

    def unretrieved(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        chooser.errors.append(context.get("exception") or Stuck(context["message"]))

    loop.set_exception_handler(unretrieved)
    try:
        loop.execute(scenario.main)
        scenario.check()
    # Any failure is a finding.
    except Stuck as stuck:
        error = stuck.judged(scenario.check)
    except (Exception, asyncio.CancelledError, BaseExceptionGroup) as failure:  # noqa: BLE001
        error = failure
    return Run(
        str(chooser.plan),
        error or (chooser.errors[0] if chooser.errors else None),
        chooser.points,
        chooser.steps,
    )
