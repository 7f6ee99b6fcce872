"""What the tests of the engine, the facade and the field cases set up again and again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, final

import trio

from midcourse import Event, Generation, Input, LiveRuntime
from tests.support.backends import BACKENDS
from tests.support.contexts import ABSENT, Answer, ListContext, Message

__all__ = [
    "ON_ASYNCIO",
    "ON_TRIO",
    "PROMPT",
    "ActingContext",
    "active",
    "data_of",
    "disposition",
    "every_event",
    "finish_at_once",
    "new_runtime",
    "order_of",
    "steer",
    "submit",
    "tasks",
    "terminal_events",
    "types",
    "work",
]

PROMPT = Input("user", "the prompt", id="prompt")
ON_ASYNCIO = [backend for backend in BACKENDS if not backend.is_trio]
ON_TRIO = [backend for backend in BACKENDS if backend.is_trio]


def new_runtime(**options: Any) -> LiveRuntime:
    """A runtime whose generations are g1, g2, ..., at time 0."""
    numbers = itertools.count(1)
    fixed: dict[str, Any] = {
        "session_id": "session",
        "new_id": lambda: f"g{next(numbers)}",
        "clock": lambda: 0.0,
    }
    return LiveRuntime(**(fixed | options))


def steer(name: str) -> Input:
    return Input("steer", f"text of {name}", id=name)


def active(runtime: LiveRuntime) -> str:
    """The id of the active generation."""
    assert runtime.generation is not None
    return runtime.generation["id"]


async def submit(runtime: LiveRuntime, *names: str) -> None:
    """Submit anchored steers to the active generation."""
    for name in names:
        await runtime.submit_steering(steer(name), active(runtime))


def disposition(runtime: LiveRuntime, name: str) -> tuple[str, str | None]:
    """The disposition of an input and its reason."""
    receipt = runtime.receipt(name)
    assert receipt is not None
    return receipt["disposition"], receipt.get("reason")


def types(runtime: LiveRuntime) -> list[str]:
    """The types of all events."""
    return [event.type for event in runtime.events()]


def every_event(runtime: LiveRuntime, type: str) -> list[Event]:
    return [event for event in runtime.events() if event.type == type]


def data_of(runtime: LiveRuntime, type: str) -> dict[str, Any]:
    """The data of the one event of this type."""
    (event,) = every_event(runtime, type)
    return dict(event.data)


def terminal_events(runtime: LiveRuntime) -> list[str]:
    ends = {"generation.finished", "generation.failed", "generation.detached"}
    return [type for type in types(runtime) if type in ends]


def order_of(context: Any) -> list[str]:
    """What a context holds, in order: the ids of inputs, and what the host added itself."""
    return [
        message["metadata"]["input_id"] if "metadata" in message else message["content"]
        for message in context.messages
    ]


async def work(generation: Generation, steps: int = 1) -> None:
    """The smallest host: make requests, and propose to finish with each from the last one on."""
    async for request in generation.requests():
        if request.number >= steps:
            request.finish(f"answer {request.number}")


async def finish_at_once(generation: Generation) -> None:
    """One request and its answer, by calls."""
    assert await generation.boundary()
    assert await generation.finish("done")


def tasks() -> set[object]:
    """All tasks of this loop."""
    if not trio.lowlevel.in_trio_task():
        return set(asyncio.all_tasks())
    found: set[object] = set()
    left = [trio.lowlevel.current_root_task()]
    while left:
        task = left.pop()
        if task is not None and task not in found:
            found.add(task)
            left += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


@final
class ActingContext(ListContext):
    """Does as it is told at one message, or at each (`at=0`), and is a plain list at the others.

    `act` is called with the context and the message.
    """

    def __init__(
        self,
        act: Callable[[ActingContext, Message], Awaitable[object]],
        *,
        at: int = 1,
        answer: Answer = ABSENT,
    ) -> None:
        super().__init__(at=at, answer=answer)
        self._act = act
        self._every = not at

    async def add_message(self, message: Message, /) -> None:
        if self._every:
            await self._act(self, message)
        else:
            await super().add_message(message)

    async def misbehave(self, message: Message) -> None:
        await self._act(self, message)
