"""Ordinary inputs, the inbox, and `serve`."""

# ruff: noqa: SIM117  # the order of two blocks is what is tested

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from midcourse import (
    Generation,
    GenerationUnfinished,
    Input,
    Limits,
    LiveRuntime,
    MemoryContext,
    Misuse,
    QueueFull,
    RuntimeClosed,
)
from tests.engine.scene import (
    PROMPT,
    data_of,
    disposition,
    every_event,
    finish_at_once,
    new_runtime,
    order_of,
    steer,
    submit,
    terminal_events,
    types,
    work,
)
from tests.support.backends import Backend
from tests.support.contexts import GatedContext, HangingContext, ListContext

Turn = Callable[[Generation], Awaitable[object]]


def user(name: str) -> Input:
    return Input("user", f"text of {name}", id=name)


def service(name: str) -> Input:
    return Input("service", f"text of {name}", id=name, source="sensor")


@asynccontextmanager
async def served(
    runtime: LiveRuntime, context: Any, turn: Turn = work, **options: Any
) -> AsyncIterator[None]:
    """Serve in a task of its own; stopped at the end, if it was not before."""

    async def serve() -> None:
        await runtime.serve(turn, context=context, **options)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await anyio.wait_all_tasks_blocked()
        yield
        await anyio.wait_all_tasks_blocked()
        runtime.stop()


def started(runtime: LiveRuntime) -> list[str]:
    """The inputs that began a generation, in order."""
    return [e.data["initial_input_id"] for e in every_event(runtime, "generation.started")]


# --------------------------------------------------------------------------------- order


@pytest.mark.promise("ordinary.user", "serve.order", "word.inbox", "word.ordinary_input", "I7")
def test_each_user_input_begins_a_generation_of_its_own_in_order(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        await runtime.submit(user("a"))
        await runtime.submit(user("b"))
        assert types(runtime) == ["input.accepted", "input.queued"] * 2
        assert every_event(runtime, "input.queued")[0].data == {
            "input_id": "a",
            "delivery": "new_turn",
        }
        async with served(runtime, context):
            await runtime.submit(user("c"))
        assert started(runtime) == context.ids == ["a", "b", "c"]
        assert [r["generationId"] for r in runtime.receipts()] == ["g1", "g2", "g3"]
        assert {r["disposition"] for r in runtime.receipts()} == {"applied"}
        assert [m["metadata"]["delivery"] for m in context.messages] == ["new_turn"] * 3
        assert terminal_events(runtime) == ["generation.finished"] * 3

    run(test)


@pytest.mark.promise("ordinary.user", "serve.order")
def test_a_user_input_that_comes_during_a_turn_waits_for_the_next_one(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def turn(generation: Generation) -> None:
            async for request in generation.requests():
                if generation.id == "g1" and request.number == 1:
                    await runtime.submit(user("b"))
                    assert disposition(runtime, "b") == ("queued", None)
                    receipt = runtime.receipt("b")
                    assert receipt is not None
                    assert receipt["generationId"] is None
                request.finish("done")

        await runtime.submit(user("a"))
        async with served(runtime, context, turn):
            pass
        assert started(runtime) == ["a", "b"]
        assert "generation.continued" not in types(runtime)

    run(test)


@pytest.mark.promise("ordinary.waits", "serve.order")
@pytest.mark.parametrize("make", [steer, service])
def test_an_ordinary_input_between_generations_begins_one(
    run: Backend, make: Callable[[str], Input]
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        await runtime.submit(make("a"))
        async with served(runtime, context):
            await runtime.submit(make("b"))
        assert started(runtime) == ["a", "b"]
        assert context.messages[0]["metadata"]["delivery"] == "new_turn"
        assert context.messages[0]["metadata"]["source"] == make("a").source

    run(test)


@pytest.mark.promise("ordinary.steer_joins", "ordinary.service_joins", "event.input.accepted")
@pytest.mark.parametrize("make", [steer, service])
def test_an_ordinary_input_during_a_generation_joins_it(
    run: Backend, make: Callable[[str], Input]
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def turn(generation: Generation) -> None:
            async for request in generation.requests():
                if request.number == 1:
                    receipt = await runtime.submit(make("b"))
                    assert receipt["generationId"] == generation.id
                request.finish("done")

        await runtime.submit(user("a"))
        async with served(runtime, context, turn):
            pass
        assert started(runtime) == ["a"]
        assert context.ids == ["a", "b"]
        assert context.messages[1]["metadata"] == {
            "input_id": "b",
            "target_generation_id": None,
            "source": make("b").source,
            "delivery": "request_boundary",
        }
        assert every_event(runtime, "input.accepted")[1].data == {
            "input_id": "b",
            "delivery": "request_boundary",
        }
        assert not [type for type in types(runtime) if type.startswith("steering")]

    run(test)


@pytest.mark.promise("ordinary.waits", "end.leaving")
def test_an_ordinary_input_while_a_generation_is_being_left_waits_for_the_next(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def save(generation: Generation) -> None:
            if runtime.receipt("late") is None:
                receipt = await runtime.submit(steer("late"))
                assert receipt["generationId"] is None

        async def turn(generation: Generation) -> None:
            async for request in generation.requests():
                request.finish("done")
                break

        await runtime.submit(user("a"))
        async with served(runtime, context, turn, checkpoint=save):
            pass
        assert started(runtime) == ["a", "late"]

    run(test)


@pytest.mark.promise("ordinary.anchored_apart", "admission.9.no_inbox", "I6")
def test_an_anchored_steer_never_begins_a_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HangingContext(at=1)
        with anyio.move_on_after(1):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "anchored")
                await generation.boundary()
        assert disposition(runtime, "anchored") == ("held", "cancelled")
        async with served(runtime, context):
            await runtime.submit(user("a"))
        assert started(runtime) == ["prompt", "a"]
        assert context.ids == ["a"]

    run(test)


# ---------------------------------------------------------------------------------- stop


@pytest.mark.promise(
    "serve.stop", "ordinary.stop_inbox", "held.stopped", "stop.nothing_after", "event.input.held"
)
@pytest.mark.parametrize("how", ["call", "submitted"])
def test_a_stop_ends_the_turn_holds_the_inbox_and_makes_serve_return(
    run: Backend, how: str
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        for name in ("a", "b"):
            await runtime.submit(user(name))

        async def turn(generation: Generation) -> None:
            await generation.boundary()
            await submit(runtime, "steer")
            if how == "call":
                runtime.stop()
            else:
                receipt = await runtime.submit(Input("stop"))
                assert receipt["generationId"] == "g1"
                assert (receipt["disposition"], receipt["reason"]) == ("held", "stopped")
            assert runtime.pending() == []
            await anyio.sleep_forever()

        await runtime.serve(turn, context=context)
        assert started(runtime) == ["a"]
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", "stopped")
        assert disposition(runtime, "steer") == ("held", "stopped")
        assert data_of(runtime, "input.held") == {
            "input_id": "b",
            "reason": "stopped",
            "delivery": "new_turn",
        }
        # The runtime stays usable, and what comes now waits for the next serve.
        await runtime.submit(user("c"))
        await anyio.sleep(1)
        assert disposition(runtime, "c") == ("queued", None)
        async with served(runtime, context):
            pass
        assert context.ids == ["a", "c"]

    run(test)


@pytest.mark.promise("serve.stop", "ordinary.stop", "stop.synchronous")
@pytest.mark.parametrize("how", ["call", "submitted"])
def test_a_stop_makes_an_idle_serve_return(run: Backend, how: str) -> None:
    async def test() -> None:
        runtime = new_runtime()
        returned: list[bool] = []

        async def serve() -> None:
            await runtime.serve(work, context=ListContext())
            returned.append(True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await anyio.wait_all_tasks_blocked()
            runtime.stop() if how == "call" else await runtime.submit(Input("stop"))
        assert returned == [True]
        assert runtime.receipts() == []

    run(test)


@pytest.mark.promise("serve.stop", "stop.nothing_after", "ordinary.stop_inbox")
@pytest.mark.parametrize("steps", range(7))
def test_what_is_accepted_behind_a_stop_waits_for_the_next_serve(run: Backend, steps: int) -> None:
    async def once() -> None:
        runtime, context = new_runtime(), ListContext()
        stopped_after: list[int] = []

        async def stops() -> None:
            for _ in range(steps):
                await checkpoint()
            stopped_after.append(len(runtime.events()))
            runtime.stop()

        async def submits() -> None:
            for _ in range(max(steps - 1, 0)):
                await checkpoint()
            await runtime.submit(user("second"))

        async def serve() -> None:
            await runtime.serve(work, context=context)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await anyio.wait_all_tasks_blocked()
            await runtime.submit(user("first"))
            tasks.start_soon(stops)
            tasks.start_soon(submits)
        accepted = next(
            event.sequence
            for event in every_event(runtime, "input.accepted")
            if event.data["input_id"] == "second"
        )
        if accepted > stopped_after[0]:
            assert disposition(runtime, "second") == ("queued", None)
            assert "second" not in started(runtime)

    async def test() -> None:
        for _ in range(20):  # Trio shuffles what runs in one step
            await once()

    run(test)


@pytest.mark.promise("stop.idle", "ordinary.stop", "admission.7.stop")
def test_a_stop_of_an_idle_runtime_does_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        runtime.stop()
        await runtime.submit(user("a"))
        before = types(runtime)
        runtime.stop()
        receipt = await runtime.submit(Input("stop"))
        assert receipt["generationId"] is None
        assert types(runtime) == before
        assert disposition(runtime, "a") == ("queued", None)
        # Nor does it make the next serve return at once.
        async with served(runtime, context):
            pass
        assert context.ids == ["a"]
        await runtime.aclose()
        runtime.stop()
        assert runtime.receipt(receipt["inputId"]) is None

    run(test)


@pytest.mark.promise("ordinary.stop", "ordinary.stop_inbox", "admission.7.stop")
def test_a_submitted_stop_ends_a_generation_that_the_host_opened(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await generation.boundary()
            await submit(runtime, "a")
            await runtime.submit(user("later"))
            await runtime.submit(Input("stop"))
            await anyio.sleep_forever()
        assert (generation.outcome, generation.reason) == ("detached", "stopped")
        assert disposition(runtime, "a") == disposition(runtime, "later") == ("held", "stopped")
        assert [r["inputId"] for r in runtime.receipts()] == ["a", "later"]

    run(test)


# --------------------------------------------------------------------------- other ends


class TurnFailed(Exception):
    """What a turn raises."""


@pytest.mark.promise("serve.exception", "held.failed", "block.same_object")
def test_an_exception_of_a_turn_leaves_serve_and_the_inbox_stays(run: Backend) -> None:
    error = TurnFailed()

    async def fails(generation: Generation) -> None:
        await generation.boundary()
        raise error

    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        for name in ("a", "b", "c"):
            await runtime.submit(user(name))
        with pytest.raises(TurnFailed) as caught:
            await runtime.serve(fails, context=context)
        assert caught.value is error
        assert [r["inputId"] for r in runtime.pending()] == ["b", "c"]
        assert runtime.generation is None
        async with served(runtime, context):
            pass
        assert started(runtime) == context.ids == ["a", "b", "c"]
        assert terminal_events(runtime) == ["generation.failed"] + ["generation.finished"] * 2

    run(test)


@pytest.mark.promise("serve.exception", "library.unfinished")
def test_a_turn_that_proposes_nothing_is_such_an_exception(run: Backend) -> None:
    async def returns(generation: Generation) -> None:
        await generation.boundary()

    async def test() -> None:
        runtime = new_runtime()
        await runtime.submit(user("a"))
        with pytest.raises(GenerationUnfinished):
            await runtime.serve(returns, context=ListContext())

    run(test)


@pytest.mark.promise("serve.exception", "held.cancelled", "serve.order")
@pytest.mark.parametrize("busy", [False, True])
def test_cancelling_serve_detaches_the_turn_and_keeps_the_inbox(run: Backend, busy: bool) -> None:
    async def hangs(generation: Generation) -> None:
        await generation.boundary()
        await anyio.sleep_forever()

    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        if busy:
            await runtime.submit(user("a"))
            await runtime.submit(user("b"))
        with anyio.move_on_after(1) as scope:
            await runtime.serve(hangs, context=context)
        assert scope.cancelled_caught
        if busy:
            assert data_of(runtime, "generation.detached")["reason"] == "cancelled"
            assert [r["inputId"] for r in runtime.pending()] == ["b"]
        await runtime.submit(user("c"))
        async with served(runtime, context):
            pass
        assert started(runtime) == (["a", "b", "c"] if busy else ["c"])

    run(test)


@pytest.mark.promise("serve.closed", "held.runtime_closed")
@pytest.mark.parametrize("where", ["turn", "outside"])
def test_closing_the_runtime_makes_serve_return(run: Backend, where: str) -> None:
    async def test() -> None:
        runtime = new_runtime()
        await runtime.submit(user("a"))
        await runtime.submit(user("b"))

        async def turn(generation: Generation) -> None:
            await generation.boundary()
            if where == "turn":
                await runtime.aclose()
            await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await runtime.serve(turn, context=ListContext())

            tasks.start_soon(serve)
            await anyio.wait_all_tasks_blocked()
            if where == "outside":
                await runtime.aclose()
        assert disposition(runtime, "b") == ("held", "runtime_closed")
        assert data_of(runtime, "generation.detached")["reason"] == "runtime_closed"
        with pytest.raises(RuntimeClosed):
            await runtime.serve(work, context=ListContext())

    run(test)


@pytest.mark.promise("serve.closed")
def test_closing_makes_an_idle_serve_return(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await runtime.serve(work, context=ListContext())

            tasks.start_soon(serve)
            await anyio.wait_all_tasks_blocked()
            await runtime.aclose()

    run(test)


@pytest.mark.promise("library.misuse", "serve.order")
def test_a_runtime_is_served_once_at_a_time(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with served(runtime, context):
            with pytest.raises(Misuse):
                await runtime.serve(work, context=context)
            await runtime.submit(user("a"))
        assert context.ids == ["a"]
        with pytest.raises(ValueError, match="max_requests"):
            await runtime.serve(work, context=context, max_requests=0)

    run(test)


@pytest.mark.promise("end.budget", "serve.order", "library.quiet")
def test_each_served_generation_has_the_whole_budget(run: Backend) -> None:
    async def endless(generation: Generation) -> None:
        async for _ in generation.requests():
            await checkpoint()

    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        for name in ("a", "b"):
            await runtime.submit(user(name))
        async with served(runtime, context, endless, max_requests=3):
            pass
        assert started(runtime) == ["a", "b"]
        detached = every_event(runtime, "generation.detached")
        assert [event.data["requests"] for event in detached] == [3, 3]
        assert {event.data["reason"] for event in detached} == {"call_budget_exhausted"}

    run(test)


@pytest.mark.promise("serve.order", "block.one_active")
def test_serve_waits_while_the_host_has_a_generation_of_its_own(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with served(runtime, context):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await runtime.submit(user("a"))
                await anyio.sleep(1)
                assert started(runtime) == ["prompt"]
                await finish_at_once(generation)
        assert started(runtime) == ["prompt", "a"]

    run(test)


# ---------------------------------------------------------------------------- attachments


def with_image(name: str, kind: str = "user") -> Input:
    return Input(kind, "look", id=name, attachments=[{"type": "image"}])


@pytest.mark.promise("serve.attachments", "held.context_refused", "admission.6")
def test_what_the_served_context_does_not_take_is_held_and_the_next_one_begins(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        await runtime.submit(with_image("a"))  # nobody serves yet: nobody can tell
        await runtime.submit(user("b"))
        async with served(runtime, context):
            with pytest.raises(Exception, match="image"):
                await runtime.submit(with_image("c"))
        assert disposition(runtime, "a") == ("held", "context_refused")
        kept = runtime.input("a")
        assert kept is not None
        assert list(kept.attachments) == [{"type": "image"}]
        assert runtime.receipt("c") is None
        assert started(runtime) == context.ids == ["b"]

    run(test)


@pytest.mark.promise("serve.attachments", "message.parts")
def test_what_the_served_context_takes_begins_a_generation_whole(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext(attachment_kinds=["image"])
        await runtime.submit(with_image("a"))
        async with served(runtime, context):
            await runtime.submit(with_image("b"))
        assert order_of(context) == ["a", "b"]
        assert context.messages[0]["content"] == [
            {"type": "text", "text": "look"},
            {"type": "image"},
        ]

    run(test)


# ------------------------------------------------------------------------------- closing


@pytest.mark.promise("settled.closing", "capability.unavailable_closed", "held.runtime_closed")
def test_a_write_may_close_the_runtime_and_is_not_waited_for_by_itself(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        class Closing(ListContext):
            async def misbehave(self, message: dict[str, Any]) -> None:
                await runtime.aclose()
                assert runtime.closed
                await super().misbehave(message)

        context = Closing(at=2)
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            await generation.boundary()
        assert context.ids == ["prompt", "a"]
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", "runtime_closed")
        assert generation.reason == "runtime_closed"

    run(test)


@pytest.mark.promise("settled.closing", "cancellation.ignored", "I8")
def test_closing_from_another_task_waits_until_the_last_write_is_settled(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(limits=Limits(write_grace=2)), HangingContext(at=2)
        before = anyio.current_time()

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host)
            await context.hanging.wait()
            await runtime.aclose()
            assert anyio.current_time() - before == 2
            assert disposition(runtime, "a") == ("unknown", "write_interrupted")
            assert terminal_events(runtime) == ["generation.detached"]
            await runtime.aclose()

    run(test)


@pytest.mark.promise("settled.closing", "end.synchronous")
def test_a_cancelled_close_has_closed_all_the_same(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=1)

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host)
            await context.waiting.wait()
            with anyio.move_on_after(1) as scope:
                await runtime.aclose()
            assert scope.cancelled_caught
            assert runtime.closed
            assert disposition(runtime, "a") == ("held", "runtime_closed")
            context.gate.set()
        assert context.ids == ["prompt"]
        assert data_of(runtime, "generation.detached")["input_ids"] == ("prompt",)

    run(test)


@pytest.mark.promise("settled.closing", "held.runtime_closed")
def test_leaving_the_runtimes_own_block_closes_it(run: Backend) -> None:
    async def test() -> None:
        async with new_runtime() as runtime:
            await runtime.submit(user("a"))
        assert runtime.closed
        assert disposition(runtime, "a") == ("held", "runtime_closed")
        before = types(runtime)
        await runtime.aclose()
        assert types(runtime) == before

    run(test)


@pytest.mark.promise("admission.8", "refusal.queue_full")
def test_the_inbox_has_room_again_when_a_turn_has_begun(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(limits=Limits(pending=2)), ListContext()
        for name in ("a", "b"):
            await runtime.submit(user(name))
        with pytest.raises(QueueFull):
            await runtime.submit(user("c"))
        async with served(runtime, context):
            pass
        await runtime.submit(user("c"))
        assert disposition(runtime, "c") == ("queued", None)

    run(test)
