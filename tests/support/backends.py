"""Runs an async test on Trio or on asyncio, in virtual time, and fails it where it hangs.

On neither backend does a test wait on the wall clock: when nothing can run, the clock jumps to the
next deadline. A test that is not done by `LIMIT`, or in which nothing can ever run again, not even
under a shield, raises `Hang`. Only tests with threads need a real clock; they are bounded by it.

Public names only: a selector and a few overridden methods on asyncio, an instrument on Trio.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
import sys
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack, final

import anyio
import outcome
import trio
import trio.abc
import trio.testing

__all__ = ["BACKENDS", "LIMIT", "Backend", "Hang"]

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

LIMIT = 10_000.0  # virtual seconds
REAL_LIMIT = 60.0  # seconds, for tests with threads: far more than any of them takes
IDLE_PASSES = 50  # passes of a loop in which nothing ran: nothing will, without a new deadline
BUSY_PASSES = 5_000_000  # no test needs a tenth of it


class Hang(AssertionError):
    """The test waits for what never happens."""


@final
class Backend:
    """Runs async functions on one backend; tests get one as the fixture `run`.

    Attributes:
        name: `"trio"`, `"asyncio"`, or `"asyncio-eager"` (Python 3.12 and later).
        is_trio: Whether it is Trio.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_trio = name == "trio"

    def __repr__(self) -> str:
        return self.name

    def __call__(
        self,
        function: Callable[[Unpack[_Args]], Awaitable[_T]],
        *args: *_Args,
        threads: bool = False,
    ) -> _T:
        """Run `function(*args)` to its end and return what it returns.

        Args:
            function: The async test.
            args: What it is called with.
            threads: Whether it uses other threads. Virtual time does not wait for them, so the
                clock is a real one then.

        Raises:
            Hang: It did not end.
        """
        limit = REAL_LIMIT if threads else LIMIT
        watch = _Watch()

        async def bounded() -> _T:
            if self.is_trio:
                watch.main = trio.lowlevel.current_task()
            with anyio.move_on_after(limit) as scope:
                return await function(*args)
            assert scope.cancelled_caught
            raise Hang(f"not done after {limit} seconds")

        options: dict[str, Any] = {}
        if self.is_trio:
            if not threads:
                options = {"clock": trio.testing.MockClock(autojump_threshold=0)}
                options["instruments"] = [watch]
        else:
            options = {"loop_factory": self._real_loop if threads else self._virtual_loop}
        backend = "trio" if self.is_trio else "asyncio"
        return anyio.run(bounded, backend=backend, backend_options=options)

    def _real_loop(self) -> asyncio.AbstractEventLoop:
        return self._prepared(asyncio.SelectorEventLoop())

    def _virtual_loop(self) -> asyncio.AbstractEventLoop:
        return self._prepared(_VirtualLoop())

    def _prepared(self, loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
        if self.name == "asyncio-eager":
            loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  # 3.12
        return loop


BACKENDS = [Backend("trio"), Backend("asyncio")]
if sys.version_info >= (3, 12):
    BACKENDS.append(Backend("asyncio-eager"))


@final
class _Watch(trio.abc.Instrument):
    """Ends a Trio run in which nothing can ever run again.

    A time-out does not reach what waits under a shield, so what it waits for is broken off.
    """

    def __init__(self) -> None:
        self.main: trio.lowlevel.Task | None = None
        self._idle = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._idle = 0

    def before_io_wait(self, timeout: float) -> None:
        self._idle += 1
        if self._idle > IDLE_PASSES and self.main is not None:
            self._idle = 0
            trio.lowlevel.reschedule(self._leaf(self.main), outcome.Error(Hang("a deadlock")))

    def _leaf(self, task: trio.lowlevel.Task) -> trio.lowlevel.Task:
        """A task below `task` that waits for nobody's end."""
        for nursery in task.child_nurseries:
            for child in nursery.child_tasks:
                return self._leaf(child)
        return task


@final
class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time.

    AnyIO delivers a cancellation again on every pass until its scope is left. If nothing else ran
    for so many passes, time moves: on a real clock it would.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._deadlines: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._idle = 0
        self._passes = 0
        super().__init__(_VirtualSelector(self))

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if getattr(callback, "__name__", "") != "_deliver_cancellation":
            self._idle = 0
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        self._count += 1
        heapq.heappush(self._deadlines, (when, self._count, handle))
        return handle

    def move_on(self, timeout: float | None) -> None:
        """Before each pass: `timeout` is how long a real loop would sleep."""
        self._idle += 1
        self._passes += 1
        deadlines = self._deadlines
        while deadlines and (deadlines[0][2].cancelled() or deadlines[0][0] <= self._now):
            heapq.heappop(deadlines)
        if self._passes > BUSY_PASSES:
            raise Hang("a livelock")
        if timeout is None or (self._idle > IDLE_PASSES and not deadlines):
            raise Hang("a deadlock")
        if self._idle > IDLE_PASSES or timeout > 0:
            self._idle = 0
            self._now = max(self._now, deadlines[0][0]) if deadlines else self._now + timeout


@final
class _VirtualSelector(selectors.SelectSelector):
    """Never sleeps."""

    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.move_on(timeout)
        return super().select(0)
