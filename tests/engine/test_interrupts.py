"""Ctrl-C, wherever it lands: no write and no step of the core is torn."""

# ruff: noqa: PT012  # a block that raises is what is tested

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from midcourse import Event, Generation, Input, LiveRuntime
from tests.engine.scene import (
    ON_ASYNCIO,
    ON_TRIO,
    PROMPT,
    ActingContext,
    disposition,
    new_runtime,
    steer,
    submit,
    terminal_events,
    types,
)
from tests.support.backends import Backend
from tests.support.contexts import ListContext, Message

on_trio = pytest.mark.parametrize("run", ON_TRIO, ids=repr)
on_asyncio = pytest.mark.parametrize("run", ON_ASYNCIO, ids=repr)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


class Clock:
    """Stands for a moment inside a step of the core: each event asks it for the time.

    Ctrl-C comes at the event number `at`.
    """

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self) -> float:
        self.left -= 1
        if self.left == 0:
            interrupt()
        return 0.0


def assert_whole(runtime: LiveRuntime) -> None:
    """What a torn step would leave behind."""
    events = runtime.events()
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert runtime.generation is None
    assert len(terminal_events(runtime)) == types(runtime).count("generation.started")
    for receipt in runtime.receipts():
        name = receipt["inputId"]
        of_it = [event for event in events if event.data.get("input_id") == name]
        accepted = [event.type for event in of_it].count("input.accepted")
        assert accepted == 1, of_it
        if receipt["disposition"] == "queued":
            assert receipt["generationId"] is None, receipt  # it waits in the inbox
            assert not runtime.closed
        else:
            assert any(settles(event, receipt["disposition"]) for event in of_it), of_it


def settles(event: Event, disposition: str) -> bool:
    return event.type.endswith("delivered" if disposition == "applied" else disposition)


# ------------------------------------------------------------------------------- a write


@pytest.mark.promise("protect.interrupt_trio", "write.returned_wanted", "I3", "I4")
@on_trio
def test_an_interrupt_inside_a_write_lets_it_return(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def interrupted(context: ActingContext, message: Message) -> None:
            interrupt()
            await anyio.sleep(1)
            interrupt()
            context.messages.append(message)

        context = ActingContext(interrupted, at=2)
        with pytest.raises(KeyboardInterrupt):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()
        assert context.ids == ["prompt", "a"]
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", "cancelled")
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    try:
        run(test)
    except KeyboardInterrupt:
        pass  # the second one, which came when there was nothing left to interrupt


@pytest.mark.promise("protect.interrupt_trio", "finish.checkpoint_protected")
@on_trio
def test_an_interrupt_inside_a_checkpoint_lets_it_return(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        saved: list[str] = []

        async def save(generation: Generation) -> None:
            interrupt()
            await anyio.sleep(1)
            saved.append(generation.id)

        with pytest.raises(KeyboardInterrupt):
            async with runtime.open_generation(
                PROMPT, context=ListContext(), checkpoint=save
            ) as generation:
                await generation.boundary()
                await generation.finish("done")
        assert saved == ["g1"]
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("protect.interrupt_trio")
@on_trio
def test_an_interrupt_reaches_the_main_task_when_the_host_is_another(run: Backend) -> None:
    runtime = new_runtime()

    async def test() -> None:
        async def interrupted(context: ActingContext, message: Message) -> None:
            interrupt()
            await anyio.sleep(1)
            context.messages.append(message)

        context = ActingContext(interrupted, at=2)

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host)
            await anyio.sleep_forever()

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
        run(test)
    assert disposition(runtime, "a") == ("applied", None)
    assert disposition(runtime, "b") == ("held", "cancelled")
    assert_whole(runtime)


@pytest.mark.promise("protect.interrupt_asyncio", "write.returned_wanted", "I3", "I4")
@on_asyncio
def test_an_interrupt_that_comes_as_cancellation_lets_a_write_return(run: Backend) -> None:
    runtime = new_runtime()

    async def interrupted(context: ActingContext, message: Message) -> None:
        interrupt()
        await anyio.sleep(1)
        context.messages.append(message)

    context = ActingContext(interrupted, at=2)

    async def test() -> None:
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            await generation.boundary()

    with pytest.raises(KeyboardInterrupt):
        run(test)
    assert context.ids == ["prompt", "a"]
    assert disposition(runtime, "a") == ("applied", None)
    assert disposition(runtime, "b") == ("held", "cancelled")
    assert_whole(runtime)


@pytest.mark.promise("protect.interrupt_trio", "held.cancelled", "I9")
@on_trio
def test_an_interrupt_in_the_body_detaches_the_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with pytest.raises(KeyboardInterrupt):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await generation.boundary()
                await submit(runtime, "a")
                interrupt()
                raise AssertionError("the body goes on")
        assert disposition(runtime, "a") == ("held", "cancelled")
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")
        assert_whole(runtime)

    run(test)


# ------------------------------------------------------------------ the steps of the core


async def a_whole_session(runtime: LiveRuntime, context: Any) -> None:
    async with runtime.open_generation(PROMPT, context=context) as generation:
        await submit(runtime, "a", "b")
        await runtime.submit(steer("ordinary"))
        await runtime.submit(Input("user", "later", id="later"))
        await generation.boundary()
        await submit(runtime, "c")
        while not await generation.finish("done"):
            await generation.boundary()


async def a_stop(runtime: LiveRuntime, context: Any) -> None:
    async with runtime.open_generation(PROMPT, context=context) as generation:
        await generation.boundary()
        await submit(runtime, "a", "b", "c")
        runtime.stop()
        await checkpoint()


async def a_submitted_stop(runtime: LiveRuntime, context: Any) -> None:
    async with runtime.open_generation(PROMPT, context=context) as generation:
        await generation.boundary()
        await submit(runtime, "a", "b", "c")
        await runtime.submit(Input("stop"))
        await checkpoint()


async def a_close(runtime: LiveRuntime, context: Any) -> None:
    for name in ("one", "two"):
        await runtime.submit(Input("user", name, id=name))
    async with runtime.open_generation(PROMPT, context=context):
        await submit(runtime, "a", "b")
        await runtime.aclose()


async def an_idle_runtime(runtime: LiveRuntime, context: Any) -> None:
    for name in ("one", "two", "three"):
        await runtime.submit(Input("user", name, id=name))
    await runtime.aclose()


async def a_batch_sent(runtime: LiveRuntime, context: Any) -> None:
    async with runtime.open_generation(PROMPT, context=context) as generation:
        await submit(runtime, "a", "b")
        batch = generation.take()
        batch.sent()
        await submit(runtime, "c", "d")
        generation.take().unsent()
        generation.take()
        runtime.stop()


async def a_budget_spent_by_taking(runtime: LiveRuntime, context: Any) -> None:
    async with runtime.open_generation(PROMPT, context=context, max_requests=1) as generation:
        await generation.boundary()
        await submit(runtime, "a", "b", "c")
        generation.take()
        await checkpoint()


async def served_and_stopped(runtime: LiveRuntime, context: Any) -> None:
    for name in ("one", "two", "three"):
        await runtime.submit(Input("user", name, id=name))

    async def turn(generation: Generation) -> None:
        await generation.boundary()
        await submit(runtime, f"steer for {generation.id}")
        runtime.stop()
        await checkpoint()

    await runtime.serve(turn, context=context)


SESSIONS: list[Callable[[LiveRuntime, Any], Any]] = [
    a_whole_session,
    a_stop,
    a_submitted_stop,
    a_close,
    an_idle_runtime,
    a_batch_sent,
    a_budget_spent_by_taking,
    served_and_stopped,
]


@pytest.mark.promise("protect.interrupt_trio", "protect.interrupt_asyncio", "I1", "I9", "I15")
@pytest.mark.parametrize("session", SESSIONS)
def test_an_interrupt_inside_any_step_of_the_core_leaves_the_state_whole(
    run: Backend, session: Callable[[LiveRuntime, Any], Any]
) -> None:
    at = interrupted = 0
    while True:
        at += 1
        clock = Clock(at)
        runtime, context = new_runtime(clock=clock), ListContext()

        async def test() -> None:
            await session(runtime, context)  # noqa: B023  # run at once
            await checkpoint()

        try:
            run(test)
        except KeyboardInterrupt:
            interrupted += 1
        except (RuntimeError, BaseExceptionGroup):
            interrupted += 1  # the program that was interrupted left its block in its own way
        if clock.left > 0:
            break  # the session has no event of this number any more
        assert_whole(runtime)
        held = [r["inputId"] for r in runtime.receipts() if r["disposition"] == "held"]
        assert not set(held) & set(context.ids)
    assert interrupted == at - 1
