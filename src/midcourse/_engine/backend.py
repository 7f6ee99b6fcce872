"""Which primitives a generation runs on: the one place that names a backend.

On Trio the engine gets the `trio` module itself, nothing in between. On asyncio it gets
`on_anyio`, which offers the same names.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import trio
from trio.lowlevel import disable_ki_protection, enable_ki_protection

__all__ = [
    "Cancellations",
    "Primitives",
    "Token",
    "disable_ki_protection",
    "enable_ki_protection",
    "primitives",
]

if TYPE_CHECKING:

    class Primitives:
        """The names that the engine uses, with Trio's own types."""

        BrokenResourceError = trio.BrokenResourceError
        CancelScope = trio.CancelScope
        Cancelled = trio.Cancelled
        ClosedResourceError = trio.ClosedResourceError
        Event = trio.Event
        Lock = trio.Lock
        WouldBlock = trio.WouldBlock

        @staticmethod
        def current_effective_deadline() -> float: ...
        @staticmethod
        def current_time() -> float: ...
        @staticmethod
        def open_nursery() -> AbstractAsyncContextManager[trio.Nursery]: ...
        @staticmethod
        def open_memory_channel(
            max_buffer_size: int, /
        ) -> tuple[trio.MemorySendChannel[Any], trio.MemoryReceiveChannel[Any]]: ...

        class lowlevel:  # noqa: N801  # the name of Trio's module
            @staticmethod
            async def checkpoint() -> None: ...
            @staticmethod
            def current_task() -> object: ...
            @staticmethod
            def current_trio_token() -> trio.lowlevel.TrioToken: ...

    Token: TypeAlias = trio.lowlevel.TrioToken
else:
    Primitives = Token = Any


def primitives() -> type[Primitives]:
    """The primitives of the loop that the calling task runs on.

    Raises:
        RuntimeError: no event loop is running here.
    """
    if trio.lowlevel.in_trio_task():
        return cast("type[Primitives]", trio)
    module = import_module("midcourse._engine.on_anyio")
    module.lowlevel.current_trio_token()  # raises where there is no running loop
    return cast("type[Primitives]", module)


class Cancellations:
    """How often a task was told to cancel by its own `cancel()`, since this was made.

    Only asyncio has such a thing: it reaches a task past every scope, and nothing but the count
    tells of it before it is raised. The count stays up after a swallowed one, so it is compared
    with what it was. A Trio task has none.
    """

    __slots__ = ("_before", "_count", "_task")

    def __init__(self, task: Any) -> None:
        self._task = task
        self._count = getattr(task, "cancelling", None)
        self._before: int = self._count() if self._count is not None else 0

    def __bool__(self) -> bool:
        return self._count is not None and self._count() > self._before

    def ask_again(self) -> None:
        """Have a native cancellation that was already raised once raised once more."""
        self._task.uncancel()
        self._task.cancel()
