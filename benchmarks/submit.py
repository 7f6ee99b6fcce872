"""Submit to receipt, warm, against the zero-buffer hand-off that it cannot do without."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from time import thread_time
from typing import Any

from midcourse import Event, Input, Limits, LiveRuntime, MemoryContext, Subscription

from .backends import Backend
from .pairs import ratio

__all__ = ["in_a_burst", "one_at_a_time"]

TEXT = "Use the corrected path. " * 8 + "Not /tmp"  # 200 characters
BATCH = 100  # fits in the boundary queue
NO_BOUND = 10**9
SETTLES = 12  # steps of the scheduler until everybody waits again

Call = Callable[[], Awaitable[object]]


async def _receive(channel: Any) -> None:
    async for _ in channel:
        pass
    channel.close()


class _Reader:
    """A subscriber that keeps up."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._seen = 0

    async def read(self) -> None:
        async for item in self._subscription:
            self._seen = item.sequence if isinstance(item, Event) else item.last

    async def caught_up(self, on: Backend, runtime: LiveRuntime) -> None:
        last = runtime.events(self._seen)[-1].sequence
        while self._seen < last:
            await on.checkpoint()


async def one_at_a_time(on: Backend) -> float:
    """One submission at a time: the drainer is parked, the subscriber waits for events."""
    return await _submit(on, _one_by_one)


async def in_a_burst(on: Backend) -> float:
    """One submission after another: the drainer and the subscriber run between them."""
    return await _submit(on, _burst)


async def _one_by_one(on: Backend, calls: Iterable[Call]) -> float:
    taken = 0.0
    for call in calls:
        begin = thread_time()
        await call()
        taken += thread_time() - begin
        for _ in range(SETTLES):
            await on.checkpoint()
    return taken


async def _burst(on: Backend, calls: Iterable[Call]) -> float:
    begin = thread_time()
    for call in calls:
        await call()
    return thread_time() - begin


async def _submit(
    on: Backend, timed: Callable[[Backend, Iterable[Call]], Awaitable[float]]
) -> float:
    context = MemoryContext()
    runtime = LiveRuntime(limits=Limits(identities=NO_BOUND))
    async with on.open_nursery() as nursery:
        send, receive = on.open_channel(0)
        nursery.start_soon(_receive, receive)
        hand_off = partial(send.send, None)

        async def floor() -> float:
            return await timed(on, [hand_off] * BATCH)

        async with (
            runtime,
            runtime.open_generation(
                Input("user", TEXT), context=context, initial_written=True
            ) as generation,
        ):
            reader = _Reader(runtime.subscribe())
            nursery.start_soon(reader.read)

            async def ours() -> float:
                submit, anchor = runtime.submit_steering, generation.id
                calls = [partial(submit, Input("steer", TEXT), anchor) for _ in range(BATCH)]
                taken = await timed(on, calls)
                await generation.boundary()
                context.messages.clear()
                await reader.caught_up(on, runtime)
                return taken

            measured = await ratio(floor, ours)
            await generation.finish("")
        send.close()
    return measured
