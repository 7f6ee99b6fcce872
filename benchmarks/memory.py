"""Memory: what an open generation takes, and that finished ones leave nothing behind."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from midcourse import Input, Limits, LiveRuntime, MemoryContext

from .backends import Backend

__all__ = ["flat", "many_open_runtimes", "open_runtimes"]

COUNT = 2_000  # enough for what is there once not to count
MANY = 10_000
SETTLES = 5  # steps of the scheduler until the drainers wait

CONTEXT = MemoryContext()  # the host's: its size is not ours

Host = Callable[[Backend, Any, Any], Awaitable[None]]
"""A host task: opens its things, calls the second argument, waits for the third."""


async def _receive(channel: Any) -> None:
    async for _ in channel:
        pass


async def _bare(on: Backend, opened: Any, leave: Any) -> None:
    async with on.open_nursery() as nursery:
        send, receive = on.open_channel(0)
        lock = on.make_lock()
        nursery.start_soon(_receive, receive)
        opened()
        await leave.wait()
        send.close()
        del lock


async def _live(on: Backend, opened: Any, leave: Any) -> None:
    runtime = LiveRuntime()
    async with runtime.open_generation(
        Input("user", "begin"), context=CONTEXT, initial_written=True
    ) as generation:
        opened()
        await leave.wait()
        await generation.finish("")


async def _compared(on: Backend, count: int, size: Callable[[], int]) -> float:
    """How many times as much `size` grows with live hosts as with bare ones, all open at once."""
    leave = on.make_event()
    async with on.open_nursery() as nursery:

        async def grown(host: Host, count: int) -> int:
            opened = 0

            def one_more() -> None:
                nonlocal opened
                opened += 1

            gc.collect()
            before = size()
            for _ in range(count):
                nursery.start_soon(host, on, one_more, leave)
            while opened < count:
                await on.checkpoint()
            for _ in range(SETTLES):
                await on.checkpoint()
            gc.collect()
            return size() - before

        for host in (_bare, _live):  # what is made once and kept
            await grown(host, 1)
        below = await grown(_bare, count)
        above = await grown(_live, count)
        leave.set()
    return above / below


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]


async def open_runtimes(on: Backend) -> float:
    """One runtime with an open generation, host task included."""
    tracemalloc.start()
    try:
        return await _compared(on, COUNT, _traced)
    finally:
        tracemalloc.stop()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])  # pages


async def many_open_runtimes(on: Backend) -> float:
    """10,000 of them at once in this process, as the operating system sees it (Linux)."""
    return await _compared(on, MANY, _resident)


async def flat(on: Backend) -> float:
    """One runtime after 10,000 generations, against itself after 1,000."""
    runtime = LiveRuntime(limits=Limits(event_history=1_000))
    context = MemoryContext()
    tracemalloc.start()
    try:

        async def open_and_finish(count: int) -> int:
            for _ in range(count):
                async with runtime.open_generation(
                    Input("user", "begin"), context=context, initial_written=True
                ) as generation:
                    await generation.finish("")
            context.messages.clear()
            gc.collect()
            return _traced()

        below = await open_and_finish(MANY // 10)
        above = await open_and_finish(MANY - MANY // 10)
    finally:
        tracemalloc.stop()
    return above / below
