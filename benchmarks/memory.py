"""Memory: what an open generation takes, and that finished ones leave nothing behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from midcourse import Input, Limits, LiveRuntime, MemoryContext

from .backends import BACKENDS, Backend

__all__ = ["flat", "many_open_runtimes", "open_runtimes"]

COUNT = 2_000  # enough for what is there once not to count
MANY = 10_000
SETTLES = 5  # steps of the scheduler until the drainers wait
CONTEXT = MemoryContext()  # the host's: its size is not ours

Host = Callable[[Backend, Callable[[], None], Any], Awaitable[None]]
"""A host task: opens its things, calls the second argument, waits for the third."""


async def _receive(channel: Any) -> None:
    async for _ in channel:
        pass
    channel.close()


async def _bare(on: Backend, opened: Callable[[], None], leave: Any) -> None:
    async with on.open_nursery() as nursery:
        send, receive = on.open_channel(0)
        lock = on.make_lock()
        nursery.start_soon(_receive, receive)
        opened()
        await leave.wait()
        send.close()
        del lock


async def _live(on: Backend, opened: Callable[[], None], leave: Any) -> None:
    runtime = LiveRuntime()
    async with runtime.open_generation(
        Input("user", "begin"), context=CONTEXT, initial_written=True
    ) as generation:
        opened()
        await leave.wait()
        await generation.finish("")


HOSTS: dict[str, Host] = {"bare": _bare, "live": _live}


async def _growth(on: Backend, host: Host, count: int, size: Callable[[], int]) -> int:
    """By how much `size` grows with `count` hosts that have opened their things."""
    leave = on.make_event()
    opened = 0

    def one_more() -> None:
        nonlocal opened
        opened += 1

    async with on.open_nursery() as nursery:

        async def open_to(count: int) -> int:
            for _ in range(count - opened):
                nursery.start_soon(host, on, one_more, leave)
            while opened < count:
                await on.checkpoint()
            for _ in range(SETTLES):
                await on.checkpoint()
            gc.collect()
            return size()

        before = await open_to(1)  # with what is made once and kept
        after = await open_to(1 + count)
        leave.set()
    return after - before


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])  # pages


async def open_runtimes(on: Backend) -> float:
    """One runtime with an open generation, host task included."""
    tracemalloc.start()
    try:
        below = await _growth(on, _bare, COUNT, _traced)
        above = await _growth(on, _live, COUNT, _traced)
    finally:
        tracemalloc.stop()
    return above / below


def many_open_runtimes(on: Backend) -> float:
    """10,000 of them at once in one process, as the operating system sees it (Linux)."""

    def pages(host: str) -> int:
        command = [sys.executable, "-m", "benchmarks.memory", on.name, host]
        return int(subprocess.run(command, check=True, capture_output=True).stdout)

    return pages("live") / pages("bare")


async def flat(on: Backend) -> float:
    """One runtime after 10,000 generations, against itself after 1,000."""
    runtime = LiveRuntime(limits=Limits(event_history=1_000))
    initial = Input("user", "begin")

    async def after(count: int) -> int:
        for _ in range(count):
            async with runtime.open_generation(
                initial, context=CONTEXT, initial_written=True
            ) as generation:
                await generation.finish("")
        gc.collect()
        return _traced()

    tracemalloc.start()
    try:
        below = await after(MANY // 10)
        above = await after(MANY - MANY // 10)
    finally:
        tracemalloc.stop()
    return above / below


if __name__ == "__main__":
    [backend] = (on for on in BACKENDS if on.name == sys.argv[1])

    async def main(on: Backend) -> int:
        return await _growth(on, HOSTS[sys.argv[2]], MANY, _resident)

    print(backend.run(main))
