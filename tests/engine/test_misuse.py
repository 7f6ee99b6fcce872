"""Steps that exclude each other are refused at once, never waited for by themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from midcourse import Generation, GenerationBusy, MidcourseError, Misuse
from tests.engine.scene import (
    PROMPT,
    ActingContext,
    finish_at_once,
    new_runtime,
    submit,
    terminal_events,
)
from tests.support.backends import Backend
from tests.support.contexts import GatedContext, ListContext, Message

Step = Callable[[Generation], Awaitable[object]]


async def boundary(generation: Generation) -> None:
    await generation.boundary()


async def finish(generation: Generation) -> None:
    await generation.finish("re-entered")


async def save(generation: Generation) -> None:
    await generation.checkpoint()


async def take(generation: Generation) -> None:
    generation.take()


async def next_request(generation: Generation) -> None:
    await anext(generation.requests())


EVERY = [boundary, finish, save, take, next_request]
EXCLUSIVE = [boundary, finish, take, next_request]


async def refused_at_once(step: Step, generation: Generation) -> None:
    before = anyio.current_time()
    with pytest.raises(Misuse):
        await step(generation)
    assert anyio.current_time() == before


@pytest.mark.promise("boundary.busy", "library.misuse")
@pytest.mark.parametrize("step", EVERY)
def test_a_write_that_makes_a_step_of_its_own_generation_is_refused(
    run: Backend, step: Step
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        refused: list[bool] = []

        async def steps(context: ActingContext, message: Message) -> None:
            await refused_at_once(step, generation)
            refused.append(True)
            context.messages.append(message)

        context = ActingContext(steps, at=2)
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await generation.boundary()
            await submit(runtime, "a")
            assert await generation.boundary()
            assert await generation.finish("done")
        assert refused == [True]
        assert context.ids == ["prompt", "a"]
        assert terminal_events(runtime) == ["generation.finished"]

    run(test)


@pytest.mark.promise("boundary.busy", "library.misuse")
@pytest.mark.parametrize(
    ("saved_by", "step"),
    [("finish", step) for step in EVERY]
    # While a host saves in between, a batch may be taken: it waits for nothing.
    + [("checkpoint", step) for step in EVERY if step is not take],
)
def test_a_checkpoint_that_makes_a_step_of_its_own_generation_is_refused(
    run: Backend, step: Step, saved_by: str
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        refused: list[bool] = []

        async def steps(generation: Generation) -> None:
            if not refused:
                await refused_at_once(step, generation)
                refused.append(True)

        async with runtime.open_generation(PROMPT, context=context, checkpoint=steps) as generation:
            assert await generation.boundary()
            if saved_by == "checkpoint":
                await generation.checkpoint()
            assert await generation.finish("done")
        assert refused == [True]
        assert terminal_events(runtime) == ["generation.finished"]

    run(test)


@pytest.mark.promise("boundary.busy")
@pytest.mark.parametrize("step", EXCLUSIVE)
def test_a_second_task_is_refused_while_a_boundary_runs(run: Backend, step: Step) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2)
        async with (
            anyio.create_task_group() as others,
            runtime.open_generation(PROMPT, context=context) as generation,
        ):
            await generation.boundary()
            await submit(runtime, "a")

            async def second() -> None:
                await context.waiting.wait()
                await refused_at_once(step, generation)
                context.gate.set()

            others.start_soon(second)
            assert await generation.boundary()
            assert await generation.finish("done")
        assert context.ids == ["prompt", "a"]
        assert generation.outcome == "finished"

    run(test)


@pytest.mark.promise("boundary.busy")
@pytest.mark.parametrize("step", EXCLUSIVE)
def test_a_second_task_is_refused_while_a_finish_runs(run: Backend, step: Step) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        saving, gate = anyio.Event(), anyio.Event()

        async def slow(generation: Generation) -> None:
            saving.set()
            await gate.wait()

        async with (
            anyio.create_task_group() as others,
            runtime.open_generation(PROMPT, context=context, checkpoint=slow) as generation,
        ):
            await generation.boundary()

            async def second() -> None:
                await saving.wait()
                await refused_at_once(step, generation)
                gate.set()

            others.start_soon(second)
            assert await generation.finish("done")
        assert (generation.outcome, generation.text) == ("finished", "done")

    run(test)


@pytest.mark.promise("finish.lock", "boundary.busy")
def test_a_boundary_beside_a_hosts_own_save_waits_for_it(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        order: list[str] = []
        saving = anyio.Event()

        async def slow(generation: Generation) -> None:
            order.append("save begins")
            saving.set()
            await anyio.sleep(1)
            order.append("save ends")

        async with (
            anyio.create_task_group() as others,
            runtime.open_generation(PROMPT, context=context, checkpoint=slow) as generation,
        ):
            others.start_soon(generation.checkpoint)
            await saving.wait()
            assert await generation.boundary()
            order.append("boundary")
            await generation.finish("done")
        assert order == ["save begins", "save ends", "boundary", "save begins", "save ends"]

    run(test)


@pytest.mark.promise("finish.lock", "library.checkpoint")
def test_a_task_that_a_write_has_started_may_save_when_the_write_is_done(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        saves: list[str] = []
        written = anyio.Event()

        async def save(generation: Generation) -> None:
            saves.append(generation.id)

        async def later(generation: Generation) -> None:
            await written.wait()
            await generation.checkpoint()

        async def starts(context: ActingContext, message: Message) -> None:
            others.start_soon(later, generation)
            context.messages.append(message)

        async with (
            anyio.create_task_group() as others,
            runtime.open_generation(
                PROMPT, context=ActingContext(starts), checkpoint=save
            ) as generation,
        ):
            await generation.boundary()
            written.set()
            await anyio.wait_all_tasks_blocked()
            assert saves == ["g1"]
            await generation.finish("done")

    run(test)


@pytest.mark.promise("boundary.busy", "library.errors")
def test_a_refused_step_is_an_error_of_the_program(run: Backend) -> None:
    assert issubclass(GenerationBusy, Misuse)
    assert issubclass(Misuse, MidcourseError)
    assert issubclass(Misuse, RuntimeError)

    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            batch = generation.take()
            with pytest.raises(GenerationBusy):
                await generation.boundary()
            with pytest.raises(GenerationBusy):
                generation.take()
            assert batch.unsent()
            await finish_at_once(generation)

    run(test)


@pytest.mark.promise("library.misuse", "block.loops")
@pytest.mark.parametrize("step", ["boundary", "checkpoint", "wait_steered"])
def test_a_generation_is_not_stepped_on_the_loop_of_another_thread(run: Backend, step: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:

            def elsewhere() -> None:
                anyio.run(getattr(generation, step), backend="trio" if run.is_trio else "asyncio")

            with pytest.raises(Misuse, match="on the loop that it was opened on"):
                await anyio.to_thread.run_sync(elsewhere)
            assert await generation.boundary()
            assert await generation.finish("done")

    run(test, threads=True)


@pytest.mark.promise("finish.text")
def test_an_answer_that_is_proposed_beside_a_stop_stays_readable(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as before:
            async for request in before.requests():
                request.finish("before the stop")
                runtime.stop()
        assert (before.outcome, before.text) == ("detached", "before the stop")
        async with runtime.open_generation(PROMPT, context=ListContext()) as after:
            async for request in after.requests():
                runtime.stop()
                request.finish("after the stop")
        assert (after.outcome, after.text) == ("detached", "after the stop")

    run(test)
