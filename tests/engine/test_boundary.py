"""The boundary: what is written, in which order, and how much of it."""

from __future__ import annotations

import contextvars
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from midcourse import Generation, Input, Limits, MemoryContext
from tests.engine.scene import (
    PROMPT,
    ActingContext,
    active,
    data_of,
    disposition,
    every_event,
    finish_at_once,
    new_runtime,
    order_of,
    steer,
    submit,
    types,
    work,
)
from tests.support.backends import Backend
from tests.support.contexts import GatedContext, ListContext, Message, YieldingContext


@pytest.mark.promise("boundary.initial_first", "boundary.order", "boundary.answer", "I7")
def test_the_initial_input_is_written_first_then_the_others_as_accepted(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b", "c")
            assert context.messages == []
            assert await generation.boundary() is True
            assert context.ids == ["prompt", "a", "b", "c"]
            assert await generation.finish("done") is True

    run(test)


@pytest.mark.promise("word.write", "message.shape", "message.delivery", "message.text")
def test_each_message_says_which_input_it_is_and_how_it_came(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a")
            await runtime.submit(Input("service", "42 degrees", id="s", source="thermometer"))
            await finish_at_once(generation)
        assert context.messages == [
            {
                "role": "user",
                "content": "the prompt",
                "metadata": {
                    "input_id": "prompt",
                    "target_generation_id": None,
                    "source": "user",
                    "delivery": "new_turn",
                },
            },
            {
                "role": "user",
                "content": "text of a",
                "metadata": {
                    "input_id": "a",
                    "target_generation_id": "g1",
                    "source": "user",
                    "delivery": "request_boundary",
                },
            },
            {
                "role": "user",
                "content": "42 degrees",
                "metadata": {
                    "input_id": "s",
                    "target_generation_id": None,
                    "source": "thermometer",
                    "delivery": "request_boundary",
                },
            },
        ]

    run(test)


@pytest.mark.promise("message.parts")
@pytest.mark.parametrize("text", ["", "look at this"])
def test_attachments_come_as_parts_behind_the_text(run: Backend, text: str) -> None:
    image = {"type": "image", "url": "data:,"}

    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext(attachment_kinds=["image"])
        async with runtime.open_generation(PROMPT, context=context) as generation:
            given = Input("steer", text, id="a", attachments=[image, image])
            await runtime.submit_steering(given, generation.id)
            await finish_at_once(generation)
        texts = [{"type": "text", "text": text}] if text else []
        assert context.messages[1]["content"] == [*texts, image, image]

    run(test)


@pytest.mark.promise("boundary.initial_written")
def test_an_initial_input_that_the_host_wrote_is_not_written_again(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext()
        block = runtime.open_generation(PROMPT, context=context, initial_written=True)
        async with block as generation:
            await submit(runtime, "a")
            await finish_at_once(generation)
        assert order_of(context) == ["a"]
        assert data_of(runtime, "request.started")["input_ids"] == ("a",)

    run(test)


@pytest.mark.promise("word.request_boundary", "word.boundary_queue", "boundary.order")
def test_what_waits_is_written_behind_the_results_of_the_tools(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                if request.number == 1:
                    await context.add_message({"role": "assistant", "content": "two calls"})
                    await submit(runtime, "a")
                    await context.add_message({"role": "tool", "content": "result 1"})
                    await submit(runtime, "b")
                    await context.add_message({"role": "tool", "content": "result 2"})
                else:
                    assert request.input_ids == ("a", "b")
                    request.finish("done")
        assert order_of(context) == ["prompt", "two calls", "result 1", "result 2", "a", "b"]

    run(test)


@pytest.mark.promise("boundary.joins", "I7")
def test_what_is_accepted_while_the_drain_runs_joins_it(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2)
        async with (
            anyio.create_task_group() as tasks,
            runtime.open_generation(PROMPT, context=context) as generation,
        ):
            await submit(runtime, "a", "b")

            async def while_it_is_written() -> None:
                await context.waiting.wait()
                await submit(runtime, "c", "d")
                context.gate.set()

            tasks.start_soon(while_it_is_written)
            await finish_at_once(generation)
        assert context.ids == ["prompt", "a", "b", "c", "d"]
        assert data_of(runtime, "request.started")["input_ids"] == ("prompt", "a", "b", "c", "d")

    run(test)


@pytest.mark.promise("boundary.flood")
def test_a_flood_does_not_postpone_the_request_for_ever(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime(limits=Limits(pending=3))

        async def submits_another(context: ActingContext, message: Message) -> None:
            context.messages.append(message)
            await submit(runtime, f"flood {len(context.messages)}")

        context = ActingContext(submits_another, at=0)
        written: list[int] = []
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                written.append(len(request.input_ids))
                if request.number == 3:
                    break
            runtime.stop()
            await checkpoint()
        # The initial input is no submission: it does not count.
        assert written == [4, 3, 3]

    run(test)


@pytest.mark.promise("boundary.no_request", "boundary.answer", "end.budget", "library.quiet")
def test_nothing_is_written_where_no_request_may_follow(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        block = runtime.open_generation(PROMPT, context=context, max_requests=1)
        async with block as generation:
            assert await generation.boundary() is True
            await submit(runtime, "a")
            assert await generation.boundary() is False
            assert await generation.boundary() is False
        assert (generation.outcome, generation.reason) == ("detached", "call_budget_exhausted")
        assert context.ids == ["prompt"]
        assert disposition(runtime, "a") == ("held", "call_budget_exhausted")
        assert data_of(runtime, "generation.detached") == {
            "generation_id": "g1",
            "reason": "call_budget_exhausted",
            "input_ids": ("prompt",),
            "accepted_input_ids": ("a",),
            "unknown_input_ids": (),
            "requests": 1,
        }

    run(test)


@pytest.mark.promise("library.requests", "word.generation", "event.request.started")
def test_a_loop_over_requests_is_a_whole_host(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        numbers: list[tuple[int, tuple[str, ...]]] = []
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                numbers.append((request.number, request.input_ids))
                if request.number == 1:
                    await submit(runtime, "a")
                elif request.number == 2:
                    request.finish("done")
        assert numbers == [(1, ("prompt",)), (2, ("a",))]
        assert (generation.outcome, generation.reason, generation.text) == (
            "finished",
            None,
            "done",
        )
        assert generation.request_count == 2
        assert [event.data["request"] for event in every_event(runtime, "request.started")] == [
            1,
            2,
        ]

    run(test)


@pytest.mark.promise("library.calls")
def test_a_loop_over_calls_gives_the_same_events_as_one_over_requests(run: Backend) -> None:
    async def by_requests(generation: Generation) -> None:
        await work(generation, steps=2)

    async def by_calls(generation: Generation) -> None:
        assert await generation.boundary()
        while await generation.boundary():
            if await generation.finish(f"answer {generation.request_count}"):
                break

    async def session(host: Any) -> list[dict[str, Any]]:
        runtime, context = new_runtime(), YieldingContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            await host(generation)
        return [event.to_json() for event in runtime.events()]

    async def test() -> None:
        assert await session(by_requests) == await session(by_calls)

    run(test)


@pytest.mark.promise("boundary.one_at_a_time")
def test_one_write_runs_at_a_time_and_the_host_is_asked_in_between(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        running: list[str] = []
        tasks_of_writes: set[Any] = set()

        class OneAtATime(ListContext):
            async def add_message(self, message: Message, /) -> None:
                assert running == []
                running.append(message["metadata"]["input_id"])
                tasks_of_writes.add(anyio.get_current_task().id)
                await checkpoint()
                self.messages.append(message)
                running.clear()

        context = OneAtATime()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            await finish_at_once(generation)
        assert context.ids == ["prompt", "a", "b"]
        assert anyio.get_current_task().id not in tasks_of_writes

    run(test)


@pytest.mark.promise("host_call.context")
def test_host_calls_see_a_copy_of_the_hosts_context_variables(run: Backend) -> None:
    variable = contextvars.ContextVar("variable", default="default")

    async def test() -> None:
        runtime = new_runtime()
        seen: list[tuple[str, str, bool]] = []
        host = anyio.get_current_task().id

        def look(what: str) -> None:
            seen.append((what, variable.get(), anyio.get_current_task().id == host))
            variable.set("changed by the call")

        class Looking(ListContext):
            async def add_message(self, message: Message, /) -> None:
                look("write")
                if message["metadata"]["input_id"] == "a":
                    raise ValueError

            async def confirm(self, input_id: str) -> bool:
                look("confirm")
                return True

        async def save(generation: Generation) -> None:
            look("checkpoint")

        with pytest.raises(ValueError):  # noqa: PT011, PT012  # the bare one of this test
            async with runtime.open_generation(
                PROMPT, context=Looking(), checkpoint=save
            ) as generation:
                variable.set("of the host")
                assert await generation.boundary()
                await generation.checkpoint()
                await submit(runtime, "a")
                await generation.boundary()
        # A confirm sees what its write has set: both stand in one copy.
        assert seen == [
            ("write", "of the host", False),
            ("checkpoint", "of the host", False),
            ("write", "of the host", False),
            ("confirm", "changed by the call", False),
        ]
        assert variable.get() == "of the host"

    run(test)


@pytest.mark.promise("event.input.delivered", "event.steering.applied", "event.request.started")
def test_a_boundary_publishes_each_write_and_then_the_request(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a")
            await runtime.submit(steer("ordinary"))
            before = len(runtime.events())
            assert await generation.boundary()
            assert [(e.type, dict(e.data)) for e in runtime.events(before)] == [
                ("input.delivered", {"input_id": "prompt", "delivery": "new_turn"}),
                (
                    "input.delivered",
                    {
                        "input_id": "a",
                        "delivery": "request_boundary",
                        "target_generation_id": "g1",
                    },
                ),
                (
                    "steering.applied",
                    {
                        "input_id": "a",
                        "delivery": "request_boundary",
                        "target_generation_id": "g1",
                    },
                ),
                ("input.delivered", {"input_id": "ordinary", "delivery": "request_boundary"}),
                (
                    "request.started",
                    {
                        "generation_id": "g1",
                        "request": 1,
                        "input_ids": ("prompt", "a", "ordinary"),
                    },
                ),
            ]
            await generation.finish("done")

    run(test)


@pytest.mark.promise("boundary.reentrant", "boundary.joins", "submit.prompt")
def test_a_write_may_submit_read_and_be_followed_by_what_it_submitted(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def submits(context: ActingContext, message: Message) -> None:
            await submit(runtime, "from the write")
            assert disposition(runtime, "from the write") == ("queued", None)
            assert len(runtime.pending()) == 1
            assert active(runtime) == "g1"
            context.messages.append(message)

        context = ActingContext(submits)
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await finish_at_once(generation)
        assert context.ids == ["prompt", "from the write"]

    run(test)


@pytest.mark.promise("boundary.answer")
def test_a_boundary_with_nothing_pending_begins_a_request_all_the_same(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            for _ in range(3):
                assert await generation.boundary()
            await generation.finish("done")
        assert [event.data["input_ids"] for event in every_event(runtime, "request.started")] == [
            ("prompt",),
            (),
            (),
        ]
        assert types(runtime)[-1] == "generation.finished"

    run(test)
