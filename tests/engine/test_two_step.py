"""The two-step boundary, for loops that the runtime does not own."""

# ruff: noqa: PT012  # a block that raises is what is tested

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from midcourse import Batch, Generation, GenerationBusy, GenerationUnfinished, Misuse
from tests.engine.scene import (
    PROMPT,
    data_of,
    disposition,
    every_event,
    new_runtime,
    submit,
    terminal_events,
    types,
)
from tests.support.backends import Backend
from tests.support.contexts import ListContext


@pytest.mark.promise("two_step.take", "two_step.sent", "two_step.queued", "event.request.started")
def test_a_taken_batch_is_queued_until_it_is_sent_and_then_applied(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            batch = generation.take()
            assert [given.id for given in batch.inputs] == ["prompt", "a", "b"]
            assert [m["content"] for m in batch.messages] == [
                "the prompt",
                "text of a",
                "text of b",
            ]
            assert [m["metadata"]["delivery"] for m in batch.messages] == [
                "new_turn",
                "request_boundary",
                "request_boundary",
            ]
            assert disposition(runtime, "a") == ("queued", None)
            assert len(runtime.pending()) == 2
            before = len(runtime.events())
            assert batch.sent() is True
            assert disposition(runtime, "a") == disposition(runtime, "b") == ("applied", None)
            assert [event.type for event in runtime.events(before)] == [
                "input.delivered",
                "input.delivered",
                "steering.applied",
                "input.delivered",
                "steering.applied",
                "request.started",
            ]
            assert data_of(runtime, "request.started") == {
                "generation_id": "g1",
                "request": 1,
                "input_ids": ("prompt", "a", "b"),
            }
            assert generation.request_count == 1
            assert await generation.finish("done")
        assert context.begun == []  # the runtime wrote nothing itself
        assert data_of(runtime, "generation.finished")["input_ids"] == ("prompt", "a", "b")

    run(test)


@pytest.mark.promise("two_step.unsent", "I7")
def test_what_was_not_sent_is_queued_again_in_its_old_place(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            batch = generation.take()
            await submit(runtime, "c")
            assert batch.unsent() is True
            assert disposition(runtime, "a") == ("queued", None)
            assert await generation.boundary()
            assert context.ids == ["prompt", "a", "b", "c"]
            assert await generation.finish("done")
        assert generation.request_count == 1

    run(test)


@pytest.mark.promise("two_step.take", "boundary.order")
def test_what_comes_while_a_batch_is_out_waits_for_the_next_one(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            first = generation.take()
            await submit(runtime, "a")
            assert first.sent()
            second = generation.take()
            assert [given.id for given in second.inputs] == ["a"]
            assert second.sent()
            assert await generation.finish("done")
        assert [e.data["input_ids"] for e in every_event(runtime, "request.started")] == [
            ("prompt",),
            ("a",),
        ]

    run(test)


@pytest.mark.promise("two_step.ended", "unknown.write_interrupted", "I1", "I5")
@pytest.mark.parametrize("how", ["stop", "error", "cancel", "aclose"])
def test_a_batch_that_is_out_at_the_end_is_unknown(run: Backend, how: str) -> None:
    async def test() -> None:
        runtime = new_runtime()
        batches: list[Batch] = []
        try:
            with anyio.CancelScope() as scope:
                async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
                    generation.take().sent()
                    await submit(runtime, "a")
                    batches.append(generation.take())
                    await submit(runtime, "b")
                    if how == "error":
                        raise ValueError
                    if how == "cancel":
                        scope.cancel()
                    elif how == "stop":
                        runtime.stop()
                    else:
                        await runtime.aclose()
                    await checkpoint()
        except ValueError:
            pass
        reasons = {
            "stop": "stopped",
            "error": "failed",
            "cancel": "cancelled",
            "aclose": "runtime_closed",
        }
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")
        assert disposition(runtime, "b") == ("held", reasons[how])
        assert batches[0].sent() is False
        assert batches[0].unsent() is False
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")
        assert len(every_event(runtime, "steering.unknown")) == 1
        assert len(terminal_events(runtime)) == 1

    run(test)


@pytest.mark.promise("two_step.exactly_one", "I15")
def test_a_batch_is_settled_once(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            batch = generation.take()
            assert batch.unsent() is True
            assert batch.unsent() is False
            assert batch.sent() is False
            again = generation.take()
            assert batch.sent() is False  # an old batch says nothing of the new one
            assert again.sent() is True
            assert again.sent() is False
            assert again.unsent() is False
            empty, other = generation.take(), None
            assert empty.inputs == ()
            assert empty.sent() is True
            other = generation.take()
            assert empty.sent() is False
            assert other.sent() is True
            assert generation.request_count == 3
            assert await generation.finish("done")

    run(test)


@pytest.mark.promise("two_step.queued", "finish.continues")
def test_a_batch_that_is_out_counts_as_pending_at_the_finish(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            generation.take().sent()
            await submit(runtime, "a")
            batch = generation.take()
            assert await generation.finish("first") is False
            assert data_of(runtime, "generation.continued")["input_ids"] == ("a",)
            assert batch.sent()
            assert await generation.finish("second") is True
        assert disposition(runtime, "a") == ("applied", None)

    run(test)


@pytest.mark.promise("end.budget", "held.call_budget_exhausted", "library.quiet")
def test_taking_beyond_the_budget_ends_the_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context, max_requests=1) as generation:
            generation.take().sent()
            await submit(runtime, "a")
            batch = generation.take()
            assert batch.inputs == ()
            assert generation.reason == "call_budget_exhausted"
            assert batch.sent() is False
        assert disposition(runtime, "a") == ("held", "call_budget_exhausted")
        assert data_of(runtime, "generation.detached")["requests"] == 1

    run(test)


@pytest.mark.promise("boundary.busy", "two_step.exactly_one")
def test_a_batch_that_is_out_keeps_boundaries_and_other_batches_off(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            batch = generation.take()
            with pytest.raises(GenerationBusy):
                generation.take()
            with pytest.raises(GenerationBusy):
                await generation.boundary()
            with pytest.raises(Misuse):
                await generation.finish("no request is open")
            assert batch.sent()
            assert await generation.finish("done")

    run(test)


@pytest.mark.promise("library.misuse", "two_step.take")
def test_a_batch_is_not_taken_while_a_proposal_waits(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                request.finish("done")
                with pytest.raises(Misuse):
                    generation.take()
        assert generation.outcome == "finished"

    run(test)


@pytest.mark.promise("two_step.take")
def test_after_the_end_there_is_nothing_to_take(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            generation.take().sent()
            await generation.finish("done")
            batch = generation.take()
        assert (batch.inputs, batch.messages) == ((), ())
        assert batch.sent() is batch.unsent() is False
        assert types(runtime)[-1] == "generation.finished"

    run(test)


@pytest.mark.promise("two_step.take", "library.unfinished")
def test_leaving_with_a_batch_out_and_no_proposal_fails(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        with pytest.raises(GenerationUnfinished):
            async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
                await submit(runtime, "a")
                generation.take()
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")

    run(test)


@pytest.mark.promise("two_step.take", "two_step.sent", "two_step.unsent")
def test_a_loop_on_another_thread_takes_sends_and_gives_back(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        def loop_of_a_framework(generation: Generation, steps: list[str]) -> None:
            batch = generation.take()
            steps.append(",".join(given.id for given in batch.inputs))
            steps.append(str(batch.unsent()))
            batch = generation.take()
            steps.append(str(batch.sent()))
            steps.append(str(batch.sent()))
            steps.append(threading.current_thread().name)

        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await submit(runtime, "a")
            steps: list[str] = []
            await anyio.to_thread.run_sync(loop_of_a_framework, generation, steps)
            assert steps[:4] == ["prompt,a", "True", "True", "False"]
            assert steps[4] != threading.current_thread().name
            assert await generation.finish("done")
        assert disposition(runtime, "a") == ("applied", None)

    run(test, threads=True)


@pytest.mark.promise("two_step.exactly_one", "two_step.take")
def test_of_many_threads_that_take_at_once_one_gets_the_batch(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        got: list[int] = []
        busy: list[GenerationBusy] = []
        start = threading.Barrier(6)

        def take(generation: Generation) -> None:
            start.wait(30)
            try:
                got.append(len(generation.take().inputs))
            except GenerationBusy as error:
                busy.append(error)

        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await submit(runtime, "a")
            async with anyio.create_task_group() as tasks:
                for _ in range(6):
                    tasks.start_soon(anyio.to_thread.run_sync, take, generation)
            runtime.stop()
        assert got == [2]
        assert len(busy) == 5

    run(test, threads=True)
