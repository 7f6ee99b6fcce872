"""A cooperative tool waits until something waits for it."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from midcourse import Generation, Input, LiveRuntime
from tests.engine.scene import PROMPT, disposition, new_runtime, submit, types
from tests.support.backends import Backend
from tests.support.contexts import ListContext


class Tool:
    """Waits to be steered, in a task of its own, and notes that it returned."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.returned = 0

    async def work(self) -> None:
        await self.generation.wait_steered()
        self.returned += 1


@pytest.mark.promise("library.wait_steered", "admission.9")
@pytest.mark.parametrize("kind", ["anchored", "ordinary", "service"])
def test_a_tool_returns_when_an_input_waits(run: Backend, kind: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await generation.boundary()
            tool = Tool(generation)
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(tool.work)
                await anyio.wait_all_tasks_blocked()
                assert tool.returned == 0
                if kind == "anchored":
                    await submit(runtime, "a")
                elif kind == "ordinary":
                    await runtime.submit(Input("steer", "text", id="a"))
                else:
                    await runtime.submit(Input("service", "text", id="a", source="sensor"))
                await anyio.wait_all_tasks_blocked()
                assert tool.returned == 3
            assert disposition(runtime, "a") == ("queued", None)  # nothing was done for it
            await generation.boundary()
            await generation.finish("done")
        assert context.ids == ["prompt", "a"]

    run(test)


@pytest.mark.promise("library.wait_steered")
def test_a_tool_returns_at_once_when_something_waits_already(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await submit(runtime, "a")
            before = anyio.current_time()
            await generation.wait_steered()
            await generation.wait_steered()
            assert anyio.current_time() == before
            await generation.boundary()
            await generation.finish("done")

    run(test)


@pytest.mark.promise("library.wait_steered")
def test_what_was_written_already_wakes_no_tool(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            # The initial input waits, and is none that a tool waits for.
            with anyio.move_on_after(1) as scope:
                await generation.wait_steered()
            assert scope.cancelled_caught
            await submit(runtime, "a")
            await generation.boundary()
            for _ in range(2):
                with anyio.move_on_after(1) as scope:
                    await generation.wait_steered()
                assert scope.cancelled_caught
            assert generation.outcome is None
            await generation.finish("done")

    run(test)


@pytest.mark.promise("library.wait_steered")
def test_a_user_input_for_a_later_turn_wakes_no_tool(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await generation.boundary()
            await runtime.submit(Input("user", "later"))
            with anyio.move_on_after(1) as scope:
                await generation.wait_steered()
            assert scope.cancelled_caught
            await generation.finish("done")

    run(test)


@pytest.mark.promise("library.wait_steered", "two_step.unsent")
def test_a_batch_that_is_given_back_wakes_a_tool(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await generation.boundary()
            await submit(runtime, "a")
            batch = generation.take()
            tool = Tool(generation)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tool.work)
                await anyio.wait_all_tasks_blocked()
                assert tool.returned == 0
                batch.unsent()
                await anyio.wait_all_tasks_blocked()
                assert tool.returned == 1
            await generation.boundary()
            await generation.finish("done")

    run(test)


async def end(runtime: LiveRuntime, generation: Generation, how: str) -> None:
    if how == "stop":
        runtime.stop()
    elif how == "aclose":
        await runtime.aclose()
    elif how == "finish":
        await generation.finish("done")
    elif how == "spent":
        assert await generation.boundary() is False
    elif how == "spent by taking":
        generation.take()


@pytest.mark.promise("library.wait_steered", "I17")
@pytest.mark.parametrize("how", ["stop", "aclose", "finish", "spent", "spent by taking"])
def test_a_tool_outside_the_block_returns_when_the_generation_ends(run: Backend, how: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with anyio.create_task_group() as tasks:
            async with runtime.open_generation(
                PROMPT, context=context, max_requests=1
            ) as generation:
                await generation.boundary()
                tool = Tool(generation)
                tasks.start_soon(tool.work)
                await anyio.wait_all_tasks_blocked()
                await end(runtime, generation, how)
            await anyio.wait_all_tasks_blocked()
            assert tool.returned == 1
        await generation.wait_steered()

    run(test)


@pytest.mark.promise("library.wait_steered")
def test_a_cancelled_wait_changes_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await generation.boundary()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(generation.wait_steered)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            await submit(runtime, "a")
            await generation.wait_steered()
            await generation.boundary()
            await generation.finish("done")
        assert context.ids == ["prompt", "a"]
        assert types(runtime)[-1] == "generation.finished"

    run(test)


@pytest.mark.promise("library.wait_steered")
def test_waiting_is_a_checkpoint_even_where_it_need_not_wait(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await submit(runtime, "a")
            with anyio.CancelScope() as scope:
                scope.cancel()
                await generation.wait_steered()
            assert scope.cancelled_caught
            await checkpoint()
            await generation.boundary()
            await generation.finish("done")
        assert generation.outcome == "finished"

    run(test)
