"""Reading the events of a session, at the reader's pace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import final

from anyio.lowlevel import checkpoint

from ._core.errors import Misuse
from ._core.events import Event, EventLog, Gap

__all__ = ["Subscription"]


@final
class Subscription:
    """An iterator over events, made by `LiveRuntime.subscribe`, for one task.

    It yields `Event` in order, and a `Gap` in place of events that it was too slow for. It ends
    once the runtime is closed, no generation is active any more, and everything was read. Each
    step is a checkpoint; cancelling one loses nothing. It may be used in a `with` block, which
    ends it.
    """

    __slots__ = (
        "_buffer",
        "_cursor",
        "_ended",
        "_log",
        "_over",
        "_reading",
        "_step",
        "_until",
        "_wake",
    )

    def __init__(
        self,
        log: EventLog,
        *,
        after: int,
        buffer: int,
        over: Callable[[], bool],
        until: Callable[[Callable[[], bool]], Awaitable[None]],
        step: Callable[[Callable[[], Event | Gap | None]], Event | Gap | None],
        wake: Callable[[], None],
    ) -> None:
        self._log = log
        self._cursor = after
        self._buffer = buffer
        self._over = over
        self._until = until
        self._step = step
        self._wake = wake
        self._ended = False
        self._reading = False

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event | Gap:
        if self._reading:
            raise Misuse("a subscription is read by one task")
        self._reading = True
        try:
            await checkpoint()
            item = self._step(self._next)
            if item is None:
                await self._until(self._ready)
                item = self._step(self._next)  # only this task moves the cursor on
        finally:
            self._reading = False
        if item is None:
            raise StopAsyncIteration
        return item

    def _ready(self) -> bool:
        return self._cursor < self._log.last or self._ended or self._over()

    def _next(self) -> Event | Gap | None:
        """The next item, if there is one: the cursor moves past it in the same step."""
        log = self._log
        if self._ended:
            return None
        oldest = max(log.first, log.last - self._buffer + 1)
        if self._cursor + 1 < oldest:
            gap = Gap(oldest - 1 - self._cursor, self._cursor + 1, oldest - 1)
            self._cursor = gap.last
            return gap
        if self._cursor >= log.last:
            return None
        self._cursor += 1
        return log.get(self._cursor)

    def close(self) -> None:
        """End it: the iterator stops at its next step."""
        self._ended = True
        self._wake()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
