"""The boundary: with nothing to do against one checkpoint, per input against one bare write."""

from __future__ import annotations

from time import thread_time

from midcourse import Input, Limits, LiveRuntime, MemoryContext

from .backends import Backend
from .pairs import ratio

__all__ = ["empty_boundary", "write_in_a_batch"]

TIMES = 50
BATCH = 128
NO_BOUND = 10**9


async def empty_boundary(on: Backend) -> float:
    """A boundary with nothing pending."""

    async def floor() -> float:
        begin = thread_time()
        for _ in range(TIMES):
            await on.checkpoint()
        return thread_time() - begin

    runtime = LiveRuntime()
    async with runtime.open_generation(
        Input("user", "begin"), context=MemoryContext(), initial_written=True
    ) as generation:

        async def ours() -> float:
            begin = thread_time()
            for _ in range(TIMES):
                await generation.boundary()
            return thread_time() - begin

        measured = await ratio(floor, ours)
        await generation.finish("")
    return measured


async def write_in_a_batch(on: Backend) -> float:
    """One of 128 inputs that a boundary writes; the write itself is next to nothing."""
    context = MemoryContext()
    message = {"role": "user", "content": "text", "metadata": {}}

    async def floor() -> float:
        context.messages.clear()
        begin = thread_time()
        for _ in range(BATCH):
            async with on.open_nursery() as nursery:
                nursery.start_soon(context.add_message, message)
        return thread_time() - begin

    runtime = LiveRuntime(limits=Limits(identities=NO_BOUND))
    async with runtime.open_generation(
        Input("user", "begin"), context=context, initial_written=True
    ) as generation:

        async def ours() -> float:
            context.messages.clear()
            for _ in range(BATCH):
                await runtime.submit_steering(Input("steer", "text"), generation.id)
            begin = thread_time()
            await generation.boundary()
            return thread_time() - begin

        measured = await ratio(floor, ours)
        await generation.finish("")
    return measured
