"""A generation opened and finished, against the scope that any generation needs."""

from __future__ import annotations

from time import thread_time
from typing import Any

from midcourse import Input, LiveRuntime, MemoryContext

from .backends import Backend
from .pairs import ratio

__all__ = ["opened_and_finished"]

TIMES = 20


async def _receive(channel: Any) -> None:
    async for _ in channel:
        pass
    channel.close()


async def opened_and_finished(on: Backend) -> float:
    """No checkpoint of the host's, the initial input written by the host."""

    async def floor() -> float:
        begin = thread_time()
        for _ in range(TIMES):
            async with on.open_nursery() as nursery:
                send, receive = on.open_channel(0)
                on.make_lock()
                nursery.start_soon(_receive, receive)
                send.close()
        return thread_time() - begin

    runtime = LiveRuntime()
    context = MemoryContext()
    initial = Input("user", "What does the corrected path look like?")

    async def ours() -> float:
        begin = thread_time()
        for _ in range(TIMES):
            async with runtime.open_generation(
                initial, context=context, initial_written=True
            ) as generation:
                await generation.finish("Like this.")
        return thread_time() - begin

    return await ratio(floor, ours)
