"""The block: what leaves it, how the generation ends by it, and that nothing is left behind."""

# ruff: noqa: PT012  # a block that raises is what is tested
# ruff: noqa: SIM117  # the order of two blocks is what is tested

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
import trio
from anyio.lowlevel import checkpoint

from midcourse import (
    Generation,
    GenerationActive,
    GenerationUnfinished,
    IdentityConflict,
    Input,
    InvalidInput,
    LiveRuntime,
    Misuse,
    NoActiveGeneration,
    RuntimeClosed,
)
from tests.engine.scene import (
    ON_ASYNCIO,
    PROMPT,
    active,
    data_of,
    disposition,
    finish_at_once,
    new_runtime,
    steer,
    submit,
    tasks,
    terminal_events,
    types,
    work,
)
from tests.support.backends import Backend
from tests.support.contexts import FailingContext, HangingContext, ListContext, WriteFailed

on_asyncio = pytest.mark.parametrize("run", ON_ASYNCIO, ids=repr)


class Grave(BaseException):
    """Nothing that `except Exception` would see."""


ERRORS = [
    ValueError("plain"),
    ExceptionGroup("one", [ValueError("inner")]),
    ExceptionGroup("two", [ValueError("inner"), OSError("other")]),
    BaseExceptionGroup("grave", [Grave(), ValueError("inner")]),
    Grave("grave"),
    SystemExit(3),
    StopAsyncIteration("strange"),
]


# ------------------------------------------------------------------------- what leaves it


@pytest.mark.promise("block.same_object", "held.failed", "event.generation.failed", "I9")
@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("after_boundary", [False, True])
def test_what_the_body_raises_leaves_as_the_same_object(
    run: Backend, error: BaseException, after_boundary: bool
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        caught: BaseException | None = None
        try:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                if after_boundary:
                    await generation.boundary()
                    await submit(runtime, "b")
                raise error
        except BaseException as exc:  # noqa: BLE001  # compared below
            caught = exc
        assert caught is error
        assert disposition(runtime, "b" if after_boundary else "a") == ("held", "failed")
        assert data_of(runtime, "generation.failed") == {
            "generation_id": "g1",
            "error_type": type(error).__name__,
            "input_ids": ("prompt", "a") if after_boundary else (),
            "accepted_input_ids": ("b",) if after_boundary else ("prompt", "a"),
            "unknown_input_ids": (),
            "requests": int(after_boundary),
        }

    run(test)


@pytest.mark.promise("block.same_object", "held.failed")
def test_an_error_after_a_proposal_is_a_failure(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with pytest.raises(ValueError, match="late"):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                async for request in generation.requests():
                    request.finish("done")
                    raise ValueError("late")
        assert (generation.outcome, generation.reason) == ("failed", "failed")

    run(test)


@pytest.mark.promise("block.same_object", "block.own_cancellation")
def test_what_the_body_raises_after_a_stop_leaves_it_too(run: Backend) -> None:
    error = ValueError("in the clean-up")

    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with pytest.raises(ValueError, match="clean-up") as caught:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                runtime.stop()
                try:
                    await anyio.sleep_forever()
                finally:
                    raise error
        assert caught.value is error
        assert (generation.outcome, generation.reason) == ("detached", "stopped")

    run(test)


@pytest.mark.promise("block.own_cancellation", "block.same_object")
def test_of_a_group_that_a_stop_made_only_the_bodys_own_error_is_left(run: Backend) -> None:
    error = ValueError("in the clean-up")

    async def fails_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise error

    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with pytest.raises(ExceptionGroup) as caught:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                async with anyio.create_task_group() as group:
                    group.start_soon(fails_when_cancelled)
                    group.start_soon(anyio.sleep_forever)
                    await anyio.wait_all_tasks_blocked()
                    runtime.stop()
                    await anyio.sleep_forever()
        assert caught.value.exceptions == (error,)
        assert generation.reason == "stopped"
        for _ in range(3):
            await checkpoint()

    run(test)


@pytest.mark.promise("library.quiet", "block.own_cancellation")
@pytest.mark.parametrize("how", ["stop", "aclose"])
def test_a_stopped_block_ends_quietly_and_its_host_goes_on(run: Backend, how: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            if how == "stop":
                runtime.stop()
            else:
                await runtime.aclose()
            await anyio.sleep_forever()
        for _ in range(5):
            await checkpoint()
        assert generation.outcome == "detached"
        assert generation.reason == ("stopped" if how == "stop" else "runtime_closed")
        task = asyncio.current_task() if not run.is_trio else None
        assert task is None or task.cancelling() == 0

    run(test)


@pytest.mark.promise("block.callers_cancellation", "held.cancelled")
@pytest.mark.parametrize("stop_first", [False, True])
def test_a_cancellation_beside_a_stop_stays_the_callers(run: Backend, stop_first: bool) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                if stop_first:
                    runtime.stop()
                scope.cancel()
                if not stop_first:
                    runtime.stop()
                await anyio.sleep_forever()
            await checkpoint()
            raise AssertionError("the caller's cancellation is gone")
        assert scope.cancelled_caught
        assert generation.reason == "stopped"
        await checkpoint()

    run(test)


@pytest.mark.promise("block.callers_cancellation", "protect.native_cancel")
@pytest.mark.parametrize("order", ["native first", "stop first"])
@on_asyncio
def test_a_native_cancellation_beside_a_stop_stays_the_callers(run: Backend, order: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        went_on: list[str] = []

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context):
                await anyio.sleep_forever()
            await asyncio.sleep(0)
            went_on.append("too far")

        task = asyncio.create_task(host())
        await anyio.wait_all_tasks_blocked()
        if order == "native first":
            task.cancel()
            runtime.stop()
        else:
            runtime.stop()
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert went_on == []
        assert terminal_events(runtime) == ["generation.detached"]

    run(test)


# What is still running in another task when the block is left: a save that takes a second.


async def left_during_a_save(
    runtime: LiveRuntime, leaving: Callable[[], None], left: list[BaseException | None]
) -> None:
    saving = anyio.Event()

    async def save(generation: Generation) -> None:
        saving.set()
        await anyio.sleep(1)

    async with anyio.create_task_group() as outside:
        try:
            async with runtime.open_generation(
                PROMPT, context=ListContext(), checkpoint=save
            ) as generation:
                await generation.boundary()
                outside.start_soon(generation.checkpoint)
                await saving.wait()
                leaving()
        except BaseException as exc:
            left.append(exc)
            raise
        else:
            left.append(None)
        for _ in range(3):
            await checkpoint()
        left.append(AssertionError("the host went on"))


@pytest.mark.promise("block.same_object", "block.callers_cancellation", "protect.native_cancel")
@on_asyncio
def test_an_error_leaves_and_a_native_cancellation_that_came_meanwhile_follows(
    run: Backend,
) -> None:
    error = ValueError("plain")

    async def test() -> None:
        runtime = new_runtime()
        seen: list[BaseException | None] = []
        followed: list[str] = []

        def leaving() -> None:
            raise error

        async def host() -> None:
            try:
                await left_during_a_save(runtime, leaving, seen)
            except ExceptionGroup:
                pass
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                followed.append("cancellation")
                raise

        task = asyncio.create_task(host())
        await asyncio.sleep(0.5)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        assert seen[0] is error
        # It is raised where the host awaits next: while its task group is left, or behind it.
        assert followed == ["cancellation"] or task.cancelled()

    run(test)


@pytest.mark.promise("block.callers_cancellation", "protect.native_cancel")
@on_asyncio
def test_a_native_cancellation_while_a_stopped_block_is_left_is_not_lost(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        seen: list[BaseException | None] = []

        async def host() -> None:
            await left_during_a_save(runtime, runtime.stop, seen)

        task = asyncio.create_task(host())
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not any(isinstance(exc, AssertionError) for exc in seen)

    run(test)


@pytest.mark.promise("block.same_object", "block.callers_cancellation", "protect.scope")
def test_an_error_leaves_a_body_whose_scope_was_cancelled_in_the_same_step(run: Backend) -> None:
    error = ValueError("plain")

    async def test() -> None:
        runtime = new_runtime()
        with pytest.raises(ValueError, match="plain") as caught, anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
                await submit(runtime, "a")
                scope.cancel()
                raise error
        assert caught.value is error
        assert generation.outcome == "failed"
        assert disposition(runtime, "a") == ("held", "failed")
        for _ in range(3):
            await checkpoint()  # nothing of the cancellation is left behind its scope

    run(test)


@pytest.mark.promise("block.callers_cancellation", "protect.scope")
def test_a_scope_cancelled_while_the_block_is_left_is_heard_behind_it(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        seen: list[BaseException | None] = []
        with anyio.move_on_after(0.5) as scope:
            await left_during_a_save(runtime, runtime.stop, seen)
        assert scope.cancelled_caught
        assert runtime.generation is None

    run(test)


@pytest.mark.promise("cancellation.grace", "I17")
def test_a_step_in_another_task_is_waited_for_no_longer_than_its_grace(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HangingContext(at=2)
        before = anyio.current_time()
        ended: list[float] = []
        with pytest.raises(ExceptionGroup) as caught:
            async with anyio.create_task_group() as outside:
                try:
                    async with runtime.open_generation(PROMPT, context=context) as generation:
                        await generation.boundary()
                        await submit(runtime, "a")
                        outside.start_soon(generation.boundary)
                        await context.hanging.wait()
                        raise ValueError("plain")
                finally:
                    ended.append(anyio.current_time() - before)
        assert caught.group_contains(ValueError)
        assert ended == [pytest.approx(5)]
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")
        assert data_of(runtime, "generation.failed")["error_type"] == "ValueError"

    run(test)


# --------------------------------------------------------------------------- how it ends


@pytest.mark.promise("library.unfinished", "held.failed")
@pytest.mark.parametrize("requests", [0, 1])
def test_leaving_without_a_proposal_is_a_failure(run: Backend, requests: int) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with pytest.raises(GenerationUnfinished):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                for _ in range(requests):
                    await generation.boundary()
                await submit(runtime, "a")
        assert data_of(runtime, "generation.failed")["error_type"] == "GenerationUnfinished"
        assert (generation.outcome, generation.reason) == ("failed", "failed")
        assert disposition(runtime, "a") == ("held", "failed")

    run(test)


@pytest.mark.promise("library.unfinished")
def test_leaving_after_a_finish_that_went_on_is_a_failure(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with pytest.raises(GenerationUnfinished):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await generation.boundary()
                await submit(runtime, "a")
                assert await generation.finish("done") is False
        assert disposition(runtime, "a") == ("held", "failed")
        assert generation.text == "done"

    run(test)


@pytest.mark.promise("held.cancelled", "cancellation.wanted")
def test_leaving_normally_under_a_cancelled_scope_is_no_failure(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await generation.boundary()
                scope.cancel()
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("word.generation", "I9", "event.generation.started", "capability.generation")
def test_a_generation_is_active_from_its_opening_to_its_terminal_event(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        assert runtime.generation is None
        for name in ("g1", "g2"):
            prompt = Input("user", "again", id=f"prompt of {name}")
            async with runtime.open_generation(prompt, context=context) as generation:
                assert generation.id == name
                assert runtime.generation == {"id": name, "initial_input_id": prompt.id}
                assert generation.outcome is None
                assert generation.reason is None
                await finish_at_once(generation)
                assert runtime.generation is None
            assert runtime.generation is None
        assert [t for t in types(runtime) if t.startswith("generation")] == [
            "generation.started",
            "generation.finished",
        ] * 2

    run(test)


@pytest.mark.promise("block.one_active", "library.misuse")
def test_a_second_generation_is_refused_and_changes_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            second = runtime.open_generation(Input("user", "second"), context=context)
            with pytest.raises(GenerationActive):
                await second.__aenter__()
            assert active(runtime) == generation.id
            await submit(runtime, "a")
            await finish_at_once(generation)
        assert context.ids == ["prompt", "a"]
        assert types(runtime).count("generation.started") == 1

    run(test)


@pytest.mark.promise("block.one_active", "word.generation")
def test_the_next_generation_may_begin_while_the_last_one_is_being_left(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as first:
            await finish_at_once(first)
            # The terminal event is out: the word is that it is not active any more.
            async with runtime.open_generation(Input("user", "next"), context=context) as second:
                await submit(runtime, "a")
                await finish_at_once(second)
        assert (first.outcome, second.outcome) == ("finished", "finished")
        assert data_of(runtime, "steering.applied")["target_generation_id"] == "g2"

    run(test)


@pytest.mark.promise("library.misuse")
def test_a_block_is_used_once(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        block = runtime.open_generation(PROMPT, context=ListContext())
        async with block as generation:
            await finish_at_once(generation)
        with pytest.raises(Misuse):
            await block.__aenter__()
        assert types(runtime).count("generation.started") == 1

    run(test)


@pytest.mark.promise("library.misuse", "refusal.invalid_input", "refusal.runtime_closed")
def test_what_cannot_begin_a_generation_opens_none(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with pytest.raises(InvalidInput):
            runtime.open_generation(Input("user", ""), context=context)
        with pytest.raises(InvalidInput):
            runtime.open_generation(Input("stop"), context=context)
        anchored = Input("steer", "text", target_generation_id="g1")
        with pytest.raises(InvalidInput):
            runtime.open_generation(anchored, context=context)
        with pytest.raises(ValueError, match="max_requests"):
            runtime.open_generation(PROMPT, context=context, max_requests=0)
        image = Input("user", "look", attachments=[{"type": "image"}])
        with pytest.raises(InvalidInput, match="image"):
            await runtime.open_generation(image, context=context).__aenter__()
        await runtime.submit(Input("user", "an ordinary one", id="taken"))
        taken = Input("user", "an ordinary one", id="taken")
        with pytest.raises(IdentityConflict):
            await runtime.open_generation(taken, context=context).__aenter__()
        await runtime.aclose()
        with pytest.raises(RuntimeClosed):
            await runtime.open_generation(PROMPT, context=context).__aenter__()
        assert runtime.generation is None
        assert "generation.started" not in types(runtime)

    run(test)


@pytest.mark.promise("word.generation", "block.callers_cancellation")
def test_entering_under_a_cancellation_opens_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with runtime.open_generation(PROMPT, context=ListContext()):
                raise AssertionError("entered")
        assert scope.cancelled_caught
        assert runtime.events() == []
        assert runtime.generation is None

    run(test)


# --------------------------------------------------------------------------- nothing is left


async def finishes(runtime: LiveRuntime) -> None:
    async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
        await submit(runtime, "a")
        await work(generation)


async def is_stopped(runtime: LiveRuntime) -> None:
    async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
        await generation.boundary()
        runtime.stop()
        await anyio.sleep_forever()


async def is_cancelled(runtime: LiveRuntime) -> None:
    with anyio.move_on_after(1):
        async with runtime.open_generation(PROMPT, context=HangingContext(at=1)) as generation:
            await generation.boundary()


async def fails(runtime: LiveRuntime) -> None:
    with pytest.raises(WriteFailed):
        async with runtime.open_generation(PROMPT, context=FailingContext(at=1)) as generation:
            await generation.boundary()


async def is_spent(runtime: LiveRuntime) -> None:
    block = runtime.open_generation(PROMPT, context=ListContext(), max_requests=1)
    async with block as generation:
        async for _ in generation.requests():
            pass


async def is_left(runtime: LiveRuntime) -> None:
    with pytest.raises(GenerationUnfinished):
        async with runtime.open_generation(PROMPT, context=ListContext()):
            await checkpoint()


async def is_closed(runtime: LiveRuntime) -> None:
    async with runtime.open_generation(PROMPT, context=ListContext()):
        await runtime.aclose()


@pytest.mark.promise("I17", "I9")
@pytest.mark.parametrize(
    "way", [finishes, is_stopped, is_cancelled, fails, is_spent, is_left, is_closed]
)
def test_no_task_of_a_generation_outlives_its_block(run: Backend, way: Any) -> None:
    async def test() -> None:
        runtime = new_runtime()
        before = tasks()
        await way(runtime)
        assert tasks() == before
        assert len(terminal_events(runtime)) == 1
        assert runtime.generation is None
        assert runtime.pending() == []
        with pytest.raises((NoActiveGeneration, RuntimeClosed)):
            await runtime.submit_steering(steer("late"), "g1")
        for _ in range(3):
            await checkpoint()

    run(test)


@pytest.mark.promise("I17", "limits.memory")
def test_nothing_keeps_a_generation_alive_that_is_over(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await submit(runtime, "a")
            await work(generation)
        gone = weakref.ref(generation)
        del generation
        await checkpoint()
        gc.collect()
        assert gone() is None

    run(test)


# ------------------------------------------------------------------- an async generator


@pytest.mark.promise("block.finalised_late", "I9")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_of_a_block_in_an_async_generator_finalised_late_the_end_is_published_first(
    run: Backend,
) -> None:
    runtime = new_runtime()

    async def answers() -> AsyncIterator[int]:
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            async for request in generation.requests():
                yield request.number

    async def test() -> None:
        iterator = answers()
        assert await anext(iterator) == 1
        await submit(runtime, "a")
        assert disposition(runtime, "a") == ("queued", None)
        published.append(len(terminal_events(runtime)))
        # The iterator is dropped without `aclosing`: whoever finalises it does so in another
        # task, or when the loop ends.
        del iterator
        gc.collect()

    published: list[int] = []
    # A nursery that is left in another task is an error of the host's; Trio even gives up.
    with contextlib.suppress(trio.TrioInternalError, RuntimeError):
        run(test)
    assert published == [0]
    assert terminal_events(runtime) == ["generation.detached"]
    assert disposition(runtime, "a") == ("held", "cancelled")
    assert runtime.generation is None


@pytest.mark.promise("block.finalised_late", "boundary.over")
def test_a_block_in_an_async_generator_that_is_closed_in_time_is_detached(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        left: list[Generation] = []

        async def answers() -> AsyncIterator[int]:
            async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
                left.append(generation)
                async for request in generation.requests():
                    yield request.number

        iterator = answers()
        assert await anext(iterator) == 1
        await iterator.aclose()  # type: ignore[attr-defined]
        assert (left[0].outcome, left[0].reason) == ("detached", "cancelled")
        assert await left[0].boundary() is False

    run(test)
