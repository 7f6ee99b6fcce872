"""What the floors are made of: the raw primitives of each backend, under one set of names.

The library's own layer between the two backends is not used here, because it is measured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.lowlevel
import trio

__all__ = ["BACKENDS", "Backend"]

_T = TypeVar("_T")


class Backend(NamedTuple):
    """One event loop and its primitives, Trio's own or AnyIO's on asyncio."""

    name: str
    checkpoint: Callable[[], Awaitable[None]]
    open_nursery: Callable[[], Any]
    open_channel: Callable[[float], tuple[Any, Any]]
    make_lock: Callable[[], Any]
    make_event: Callable[[], Any]

    def run(self, main: Callable[[Backend], Awaitable[_T]]) -> _T:
        """Run `main` in a new event loop."""
        return anyio.run(main, self, backend=self.name)


_TRIO = Backend(
    "trio",
    trio.lowlevel.checkpoint,
    trio.open_nursery,
    trio.open_memory_channel[Any],
    trio.Lock,
    trio.Event,
)
_ASYNCIO = Backend(
    "asyncio",
    anyio.lowlevel.checkpoint,
    anyio.create_task_group,
    anyio.create_memory_object_stream[Any],
    anyio.Lock,
    anyio.Event,
)

BACKENDS = (_TRIO, _ASYNCIO)
