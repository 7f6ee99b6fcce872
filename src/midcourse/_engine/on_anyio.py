"""Trio's names that the engine uses, on top of AnyIO, for asyncio hosts.

On a Trio host nothing of this is used, nor imported. Where a name means the same in both, it is
AnyIO's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVarTuple, Unpack

from anyio import (
    BrokenResourceError,
    CancelScope,
    ClosedResourceError,
    Event,
    Lock,
    WouldBlock,
    create_memory_object_stream,
    current_effective_deadline,
)
from anyio import create_task_group as open_nursery

__all__ = [
    "BrokenResourceError",
    "CancelScope",
    "Cancelled",
    "ClosedResourceError",
    "Event",
    "Lock",
    "WouldBlock",
    "current_effective_deadline",
    "current_time",
    "lowlevel",
    "open_memory_channel",
    "open_nursery",
]

_Args = TypeVarTuple("_Args")

Cancelled = asyncio.CancelledError


def open_memory_channel(max_buffer_size: int) -> tuple[Any, Any]:
    return create_memory_object_stream[Any](max_buffer_size)


def current_time() -> float:
    # AnyIO's asks for the current task; a stop may come from a callback of the loop.
    return asyncio.get_running_loop().time()


async def checkpoint() -> None:
    await asyncio.sleep(0)  # as AnyIO's own, found without asking which loop runs


class _Token:
    """The half of `trio.lowlevel.TrioToken` that is used."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def run_sync_soon(self, function: Callable[[Unpack[_Args]], object], *args: *_Args) -> None:
        self._loop.call_soon_threadsafe(function, *args)


lowlevel = SimpleNamespace(
    checkpoint=checkpoint,
    current_task=asyncio.current_task,
    current_trio_token=_Token,
)
