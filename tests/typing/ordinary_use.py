"""Ordinary use, for the type checkers: this file is checked by mypy and pyright, and never run.

What a host writes without a cast or an `Any` is what is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, assert_type

import anyio

from midcourse import (
    Batch,
    ContextUnchanged,
    Event,
    Gap,
    Generation,
    GenerationMismatch,
    Input,
    Limits,
    LiveRuntime,
    MemoryContext,
    Receipt,
    RefusalCode,
    Request,
    SteeringRefused,
    Subscription,
    TooLate,
)

# ------------------------------------------------------------------------------- contexts


class Minimal:
    """The least that a context is."""

    async def add_message(self, message: dict[str, Any]) -> None:
        raise ContextUnchanged("read-only")


class Complete:
    """Everything that a context may have."""

    attachment_kinds: Sequence[str] = ("image",)

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def add_message(self, message: dict[str, Any], /) -> int:
        self.messages.append(message)
        return len(self.messages)

    async def confirm(self, input_id: str) -> bool | None:
        return None


class Broader:
    """A context that takes more than it is given."""

    async def add_message(self, message: Mapping[str, object], *, flush: bool = True) -> object:
        return None


# ---------------------------------------------------------------------------------- hosts


async def save(generation: Generation) -> None:
    assert_type(generation.id, str)
    assert_type(generation.text, str | None)


async def loop_over_requests(runtime: LiveRuntime) -> str | None:
    context = MemoryContext(attachment_kinds={"image"})
    block = runtime.open_generation(
        Input("user", "the prompt"), context=context, checkpoint=save, max_requests=50
    )
    async with block as generation:
        assert_type(generation, Generation)
        async for request in generation.requests():
            assert_type(request, Request)
            assert_type(request.number, int)
            assert_type(request.input_ids, tuple[str, ...])
            await context.add_message({"role": "assistant", "content": "text"})
            request.finish("done")
    assert_type(generation.outcome, str | None)
    assert_type(generation.reason, str | None)
    assert_type(generation.request_count, int)
    return generation.text


async def loop_over_calls(runtime: LiveRuntime, prompt: Input) -> None:
    async with runtime.open_generation(
        prompt, context=Minimal(), initial_written=True
    ) as generation:
        while True:
            going = await generation.boundary()
            assert_type(going, bool)
            if not going:
                break
            await generation.checkpoint()
            async with anyio.create_task_group() as tools:
                tools.start_soon(generation.wait_steered)
                tools.cancel_scope.cancel()
            finished = await generation.finish("done")
            assert_type(finished, bool)
            if finished:
                break


async def turn(generation: Generation) -> str | None:
    async for request in generation.requests():
        request.finish("done")
    return generation.text


async def serve() -> None:
    limits = Limits(pending=10, write_grace=1.5)
    async with LiveRuntime(session_id="demo", limits=limits, clock=lambda: 0.0) as runtime:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events, runtime)
            await runtime.serve(turn, context=Complete(), checkpoint=save, max_requests=5)
        await runtime.serve(turn, context=Broader())


def made_anywhere() -> LiveRuntime:
    return LiveRuntime(mode="unavailable", new_id=lambda: "fixed")


def two_steps(generation: Generation) -> None:
    batch = generation.take()
    assert_type(batch, Batch)
    assert_type(batch.inputs, tuple[Input, ...])
    assert_type(batch.messages, tuple[dict[str, Any], ...])
    assert_type(batch.sent(), bool)
    assert_type(batch.unsent(), bool)


# ------------------------------------------------------------------------------ submitting


async def person(runtime: LiveRuntime) -> Receipt | None:
    active = runtime.generation
    if active is None:
        return None
    assert_type(active, Mapping[str, str])
    given = Input("steer", "Use the corrected path", attachments=[{"type": "image"}])
    try:
        receipt = await runtime.submit_steering(given, active["id"])
    except GenerationMismatch as refusal:
        assert_type(refusal.active_generation_id, str | None)
        return None
    except TooLate as refusal:
        assert_type(refusal.code, RefusalCode)
        return None
    except SteeringRefused as refusal:
        assert_type(refusal.to_json(), dict[str, object])
        assert_type(refusal.input_id, str | None)
        return None
    assert_type(receipt, Receipt)
    assert_type(receipt["accepted"], Literal[True])
    assert_type(receipt["generationId"], str | None)
    assert_type(receipt["disposition"], Literal["queued", "applied", "held", "unknown"])
    if "reason" in receipt:
        assert_type(receipt["reason"], str)
    await runtime.submit(Input("stop"))
    return await runtime.settled(given.id)


def reading(runtime: LiveRuntime) -> None:
    assert_type(runtime.receipt("a"), Receipt | None)
    assert_type(runtime.receipts(), list[Receipt])
    assert_type(runtime.pending(), list[Receipt])
    assert_type(runtime.input("a"), Input | None)
    assert_type(runtime.events(), list[Event])
    assert_type(runtime.closed, bool)
    assert_type(runtime.session_id, str)
    assert_type(runtime.capability, Mapping[str, object])
    runtime.stop()


def thread(runtime: LiveRuntime, anchor: str) -> str:
    receipt = runtime.from_thread.submit_steering(Input("steer", "text"), anchor)
    assert_type(receipt, Receipt)
    assert_type(runtime.from_thread.submit(Input("user", "text")), Receipt)
    assert_type(runtime.from_thread.receipt("a"), Receipt | None)
    assert_type(runtime.from_thread.receipts(), list[Receipt])
    assert_type(runtime.from_thread.pending(), list[Receipt])
    assert_type(runtime.from_thread.input("a"), Input | None)
    runtime.from_thread.stop()
    return receipt["disposition"]


async def events(runtime: LiveRuntime) -> None:
    with runtime.subscribe(after=0, buffer=10) as subscription:
        assert_type(subscription, Subscription)
        async for item in subscription:
            assert_type(item, Event | Gap)
            if isinstance(item, Gap):
                assert_type(item.lost, int)
                runtime.events(item.first - 1)
            else:
                assert_type(item.sequence, int)
                assert_type(item.type, str)
                assert_type(item.to_json(), dict[str, Any])


def wire(line: dict[str, Any]) -> dict[str, Any]:
    given = Input.from_json(line)
    assert_type(given, Input)
    assert_type(given.text, str)
    return given.to_json()
