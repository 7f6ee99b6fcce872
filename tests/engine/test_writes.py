"""What becomes of a write, row by row of the contract's section 5, and of what stands behind it.

In each test the prompt is written, the write of "a" is the one that goes wrong, and "b" waits
behind it. One long file, because it is one table: a row is read beside its neighbours.
"""

# ruff: noqa: PT012  # a block that raises is what is tested

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from midcourse import ContextUnchanged, Generation, GenerationOver, Limits, LiveRuntime
from tests.engine.scene import (
    PROMPT,
    ActingContext,
    data_of,
    disposition,
    every_event,
    finish_at_once,
    new_runtime,
    steer,
    submit,
    terminal_events,
    types,
)
from tests.support.backends import Backend
from tests.support.contexts import (
    ABSENT,
    LATE,
    Answer,
    FailingContext,
    GatedContext,
    HalfContext,
    HangingContext,
    ListContext,
    Message,
    StubbornContext,
    UnchangedContext,
    WriteFailed,
)

Way = Callable[[LiveRuntime, anyio.CancelScope], object]

UNDECIDED = [
    pytest.param(ABSENT, id="no confirm"),
    pytest.param(None, id="confirm says None"),
    pytest.param(ValueError("no database"), id="confirm raises"),
    pytest.param(LATE, id="confirm hangs"),
]


def by_scope(runtime: LiveRuntime, scope: anyio.CancelScope) -> None:
    scope.cancel()


def by_stop(runtime: LiveRuntime, scope: anyio.CancelScope) -> None:
    runtime.stop()


WAYS = [
    pytest.param(by_scope, "cancelled", id="scope"),
    pytest.param(by_stop, "stopped", id="stop"),
]


@asynccontextmanager
async def host(
    runtime: LiveRuntime, context: Any, left: list[Generation]
) -> AsyncIterator[tuple[anyio.CancelScope, anyio.abc.TaskGroup]]:
    """A host at the boundary that writes the prompt, "a" and "b", in a task of its own."""
    scope = anyio.CancelScope()

    async def run_host() -> None:
        with scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                left.append(generation)
                await submit(runtime, "a", "b")
                await generation.boundary()
                raise AssertionError("the boundary did not end the generation")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_host)
        yield scope, tasks


# ------------------------------------------------------------------------------ returned


@pytest.mark.promise("write.returned", "disposition.applied", "I3")
def test_a_write_that_returns_is_applied_and_the_generation_goes_on(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext(answer=False)
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a")
            await finish_at_once(generation)
        assert disposition(runtime, "a") == ("applied", None)
        assert context.asked == []
        assert generation.outcome == "finished"

    run(test)


@pytest.mark.promise(
    "write.returned_wanted", "protect.scope", "protect.stop", "stop.wins", "I3", "I4"
)
@pytest.mark.parametrize(("way", "reason"), WAYS)
def test_a_write_that_returns_within_its_grace_is_applied_and_the_generation_detached(
    run: Backend, way: Way, reason: str
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2, answer=False)
        left: list[Generation] = []
        async with host(runtime, context, left) as (scope, _):
            await context.waiting.wait()
            way(runtime, scope)
            await anyio.sleep(4.9)
            assert disposition(runtime, "a") == ("queued", None)
            assert disposition(runtime, "b") == ("held", reason)
            assert terminal_events(runtime) == []
            context.gate.set()
        assert disposition(runtime, "a") == ("applied", None)
        assert context.ids == ["prompt", "a"]
        assert context.asked == []
        assert (left[0].outcome, left[0].reason) == ("detached", reason)

    run(test)


# ------------------------------------------------------------------------------ not begun


@pytest.mark.promise("write.not_begun", "cancellation.before_write", "held.cancelled", "I4")
def test_nothing_is_written_once_cancellation_is_wanted(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def cancels(context: ActingContext, message: Message) -> None:
            context.messages.append(message)
            scope.cancel()

        context = ActingContext(cancels, at=2)
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()
        assert scope.cancelled_caught
        assert context.begun == ["prompt", "a"]
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", "cancelled")
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("write.not_begun", "cancellation.wanted", "I4")
def test_nothing_at_all_is_written_by_a_host_that_was_cancelled_before(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                scope.cancel()
                await generation.boundary()
        assert context.begun == []
        assert disposition(runtime, "a") == ("held", "cancelled")
        assert data_of(runtime, "input.held") == {
            "input_id": "prompt",
            "delivery": "new_turn",
            "reason": "cancelled",
        }
        assert generation.outcome == "detached"

    run(test)


@pytest.mark.promise("cancellation.wanted", "write.not_begun", "protect.deadline")
def test_a_deadline_that_has_passed_but_was_not_noticed_counts(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def lets_it_pass(context: ActingContext, message: Message) -> None:
            context.messages.append(message)
            scope.deadline = anyio.current_time() - 1  # passed now, and nobody has noticed

        context = ActingContext(lets_it_pass, at=2)
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()
                await checkpoint()
        assert context.begun == ["prompt", "a"]
        assert disposition(runtime, "b") == ("held", "cancelled")
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("cancellation.wanted", "write.returned_wanted")
def test_a_deadline_that_passes_in_the_last_write_detaches_the_generation(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def lets_it_pass(context: ActingContext, message: Message) -> None:
            context.messages.append(message)
            scope.deadline = anyio.current_time() - 1

        context = ActingContext(lets_it_pass, at=1)
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                assert await generation.boundary() is False
        assert context.begun == ["prompt"]
        assert generation.request_count == 0
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    run(test)


# ---------------------------------------------------------------------------------- told


async def told(
    runtime: LiveRuntime, context: HangingContext, way: Way, left: list[Generation]
) -> None:
    """Cancel the host while "a" is being written, and wait until it is gone."""
    async with host(runtime, context, left) as (scope, _):
        await context.hanging.wait()
        way(runtime, scope)


@pytest.mark.promise(
    "write.told_undecided",
    "write.told_detached",
    "unknown.write_interrupted",
    "cancellation.grace",
    "limits.write_grace",
    "confirm.bounded",
    "limits.confirm_timeout",
    "disposition.unknown",
    "event.steering.unknown",
    "I5",
)
@pytest.mark.parametrize(("way", "reason"), WAYS)
@pytest.mark.parametrize("answer", UNDECIDED)
def test_a_told_write_that_nobody_can_confirm_is_unknown(
    run: Backend, answer: Answer, way: Way, reason: str
) -> None:
    async def test() -> None:
        limits = Limits(write_grace=3, confirm_timeout=2)
        runtime, context = new_runtime(limits=limits), HangingContext(at=2, answer=answer)
        left: list[Generation] = []
        before = anyio.current_time()
        await told(runtime, context, way, left)
        # The grace, and the time of a confirm that hangs, to the second and no more.
        assert anyio.current_time() - before == pytest.approx(5 if answer is LATE else 3)
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")
        assert disposition(runtime, "b") == ("held", reason)
        assert context.begun == ["prompt", "a"]
        assert context.ids == ["prompt"]
        assert data_of(runtime, "steering.unknown") == {
            "input_id": "a",
            "target_generation_id": "g1",
            "delivery": "request_boundary",
            "reason": "write_interrupted",
        }
        assert data_of(runtime, "generation.detached") == {
            "generation_id": "g1",
            "reason": reason,
            "input_ids": ("prompt",),
            "accepted_input_ids": ("b",),
            "unknown_input_ids": ("a",),
            "requests": 0,
        }
        assert types(runtime)[-1] == "generation.detached"

    run(test)


@pytest.mark.promise("write.told_confirmed", "disposition.applied", "write.told_detached")
@pytest.mark.parametrize(("way", "reason"), WAYS)
def test_a_told_write_that_the_context_confirms_is_applied(
    run: Backend, way: Way, reason: str
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HangingContext(at=2, answer=True)
        left: list[Generation] = []
        await told(runtime, context, way, left)
        assert context.asked == ["a"]
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", reason)
        assert (left[0].outcome, left[0].reason) == ("detached", reason)

    run(test)


@pytest.mark.promise("write.told_denied", "held.context_refused", "disposition.held", "I4")
@pytest.mark.parametrize(("way", "reason"), WAYS)
def test_a_told_write_that_the_context_denies_is_held(run: Backend, way: Way, reason: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HangingContext(at=2, answer=False)
        left: list[Generation] = []
        await told(runtime, context, way, left)
        assert disposition(runtime, "a") == ("held", "context_refused")
        assert disposition(runtime, "b") == ("held", reason)
        assert [e.data["input_id"] for e in every_event(runtime, "steering.held")] == ["b", "a"]
        assert (left[0].outcome, left[0].reason) == ("detached", reason)

    run(test)


@pytest.mark.promise("write.told_undecided", "write.told_confirmed")
@pytest.mark.parametrize("answer", ["yes", 1, 0, object()])
def test_only_a_plain_answer_of_confirm_is_one(run: Backend, answer: Any) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HangingContext(at=2)
        left: list[Generation] = []

        async def confirm(input_id: str) -> Any:
            return answer

        context.confirm = confirm
        await told(runtime, context, by_scope, left)
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")

    run(test)


@pytest.mark.promise("write.told_undecided", "confirm.bounded")
def test_an_answer_that_comes_after_the_time_out_is_none(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HangingContext(at=2)
        left: list[Generation] = []

        async def confirm(input_id: str) -> bool:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(60)
            return True

        context.confirm = confirm
        await told(runtime, context, by_scope, left)
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")

    run(test)


@pytest.mark.promise("write.told_undecided", "write.told_confirmed", "write.told_denied")
@pytest.mark.parametrize("then", ["returns", "raises", "raises ContextUnchanged"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, ("applied", None)),
        (False, ("held", "context_refused")),
        (None, ("unknown", "write_interrupted")),
        (ABSENT, ("unknown", "write_interrupted")),
    ],
)
def test_what_a_told_write_then_does_decides_nothing(
    run: Backend, answer: Answer, expected: tuple[str, str | None], then: str
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        left: list[Generation] = []
        writing = anyio.Event()

        async def swallows(context: ActingContext, message: Message) -> None:
            try:
                writing.set()
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                if then == "raises":
                    raise WriteFailed("cut off") from None
                if then == "raises ContextUnchanged":
                    raise ContextUnchanged from None

        context = ActingContext(swallows, at=2, answer=answer)
        async with host(runtime, context, left) as (scope, _):
            await writing.wait()
            scope.cancel()
        assert disposition(runtime, "a") == expected
        assert context.begun == ["prompt", "a"]
        assert (left[0].outcome, left[0].reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("cancellation.ignored", "disposition.queued", "I1", "I8")
@pytest.mark.parametrize(("way", "reason"), WAYS)
def test_a_write_that_ignores_being_told_is_waited_for(run: Backend, way: Way, reason: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), StubbornContext(at=2)
        left: list[Generation] = []
        async with host(runtime, context, left) as (scope, _):
            await context.waiting.wait()
            way(runtime, scope)
            await anyio.sleep(3600)
            assert disposition(runtime, "a") == ("queued", None)
            assert disposition(runtime, "b") == ("held", reason)
            assert terminal_events(runtime) == []
            assert runtime.generation is not None
            context.gate.set()
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")
        assert types(runtime)[-2:] == ["steering.unknown", "generation.detached"]
        assert runtime.generation is None

    run(test)


@pytest.mark.promise("cancellation.grace")
def test_being_cancelled_again_and_again_gives_a_write_no_more_time(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HangingContext(at=2)
        left: list[Generation] = []
        before = anyio.current_time()
        async with host(runtime, context, left) as (scope, _):
            await context.hanging.wait()
            scope.cancel()
            for _ in range(8):
                await anyio.sleep(1)
                runtime.stop()
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")
        assert anyio.current_time() - before == pytest.approx(8)
        assert left[0].reason == "cancelled"

    run(test)


@pytest.mark.promise("cancellation.grace", "limits.write_grace")
def test_without_any_grace_a_write_that_does_not_wait_is_still_whole(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime(limits=Limits(write_grace=0))

        async def stops(context: ActingContext, message: Message) -> None:
            runtime.stop()
            context.messages.append(message)

        context = ActingContext(stops, at=2, answer=True)
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            await generation.boundary()
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", "stopped")
        assert (generation.outcome, generation.reason) == ("detached", "stopped")

    run(test)


# -------------------------------------------------------------------------------- raised


@pytest.mark.promise(
    "write.raised", "unknown.write_failed", "held.failed", "receipt.detail", "boundary.ends", "I5"
)
@pytest.mark.parametrize("kind", [FailingContext, HalfContext])
@pytest.mark.parametrize("answer", UNDECIDED)
def test_a_failed_write_that_nobody_can_confirm_is_unknown(
    run: Backend, answer: Answer, kind: type[FailingContext | HalfContext]
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), kind(at=2, answer=answer)
        before = anyio.current_time()
        with pytest.raises(WriteFailed) as caught:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()
        assert caught.value is context.error
        assert anyio.current_time() - before == (5 if answer is LATE else 0)
        assert runtime.receipt("a") == {
            "accepted": True,
            "inputId": "a",
            "generationId": "g1",
            "disposition": "unknown",
            "reason": "write_failed",
            "detail": "WriteFailed: disk full",
        }
        assert disposition(runtime, "b") == ("held", "failed")
        assert data_of(runtime, "generation.failed") == {
            "generation_id": "g1",
            "error_type": "WriteFailed",
            "input_ids": ("prompt",),
            "accepted_input_ids": ("b",),
            "unknown_input_ids": ("a",),
            "requests": 0,
        }

    run(test)


@pytest.mark.promise("write.raised", "held.context_refused", "receipt.detail")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [(True, ("applied", None)), (False, ("held", "context_refused"))],
)
def test_a_failed_write_is_what_the_context_says_it_is(
    run: Backend, answer: bool, expected: tuple[str, str | None]
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=2, answer=answer)
        with pytest.raises(WriteFailed, match="disk full"):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()
        receipt = runtime.receipt("a")
        assert receipt is not None
        assert disposition(runtime, "a") == expected
        assert ("detail" in receipt) == (receipt["disposition"] != "applied")
        assert disposition(runtime, "b") == ("held", "failed")
        assert (generation.outcome, generation.reason) == ("failed", "failed")

    run(test)


@pytest.mark.promise("write.unchanged", "held.context_refused", "receipt.detail", "I4")
def test_a_write_that_states_that_nothing_was_written_is_held(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), UnchangedContext(at=2, answer=True)
        with pytest.raises(ContextUnchanged):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()
        assert context.asked == []
        assert disposition(runtime, "a") == ("held", "context_refused")
        receipt = runtime.receipt("a")
        assert receipt is not None
        assert "the conversation is read-only" in receipt["detail"]
        assert disposition(runtime, "b") == ("held", "failed")
        assert generation.outcome == "failed"

    run(test)


@pytest.mark.promise("write.unchanged", "write.raised")
@pytest.mark.parametrize(("way", "reason"), WAYS)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ContextUnchanged(), ("held", "context_refused")),
        (WriteFailed("disk full"), ("unknown", "write_failed")),
    ],
)
def test_a_write_that_fails_while_cancellation_is_wanted_detaches(
    run: Backend, error: Exception, expected: tuple[str, str], way: Way, reason: str
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        left: list[Generation] = []
        writing = anyio.Event()

        async def fails_later(context: ActingContext, message: Message) -> None:
            writing.set()
            await anyio.sleep(1)
            raise error

        async with host(runtime, ActingContext(fails_later, at=2), left) as (scope, _):
            await writing.wait()
            way(runtime, scope)
        assert disposition(runtime, "a") == expected
        assert disposition(runtime, "b") == ("held", reason)
        assert (left[0].outcome, left[0].reason) == ("detached", reason)

    run(test)


@pytest.mark.promise("write.raised", "block.same_object")
def test_an_exception_group_of_a_write_leaves_as_it_is(run: Backend) -> None:
    group = ExceptionGroup("two", [ValueError("one"), OSError("two")])

    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=2)
        context.error = group
        with pytest.raises(ExceptionGroup) as caught:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()
        assert caught.value is group
        assert disposition(runtime, "a") == ("unknown", "write_failed")
        assert data_of(runtime, "generation.failed")["error_type"] == "ExceptionGroup"

    run(test)


class Grave(BaseException):
    """Nothing that `except Exception` would see."""


@pytest.mark.promise("write.raised", "block.same_object")
@pytest.mark.parametrize("kind", [Grave, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("wanted", [False, True])
def test_what_is_no_exception_travels_on_from_a_write(
    run: Backend, kind: type[BaseException], wanted: bool
) -> None:
    async def test() -> None:
        runtime, error, scope = new_runtime(), kind("grave"), anyio.CancelScope()

        async def fails(context: ActingContext, message: Message) -> None:
            if wanted:
                scope.cancel()
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(1)
            raise error

        context = ActingContext(fails, at=2)
        caught: BaseException | None = None
        with scope:
            try:
                async with runtime.open_generation(PROMPT, context=context) as generation:
                    await submit(runtime, "a", "b")
                    await generation.boundary()
            except kind as exc:
                caught = exc
        assert caught is error
        assert disposition(runtime, "a") == ("unknown", "write_failed")
        assert disposition(runtime, "b") == ("held", "cancelled" if wanted else "failed")
        assert generation.outcome == ("detached" if wanted else "failed")

    run(test)


@pytest.mark.promise("write.raised", "block.same_object")
def test_what_is_no_exception_travels_on_from_confirm(run: Backend) -> None:
    async def test() -> None:
        runtime, context, error = new_runtime(), FailingContext(at=2), Grave()

        async def confirm(input_id: str) -> bool:
            raise error

        context.confirm = confirm
        with pytest.raises(Grave) as caught:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()
        assert caught.value is error
        assert disposition(runtime, "a") == ("unknown", "write_failed")
        assert generation.outcome == "failed"

    run(test)


@pytest.mark.promise("block.swallowed", "boundary.over", "boundary.ends")
def test_a_failed_write_that_the_host_swallows_is_a_failed_generation_all_the_same(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=2)
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            with pytest.raises(WriteFailed):
                await generation.boundary()
            assert generation.outcome == "failed"
            for step in (generation.boundary, generation.checkpoint):
                with pytest.raises(GenerationOver):
                    await step()
            with pytest.raises(GenerationOver):
                await generation.finish("done")
            with pytest.raises(GenerationOver):
                async for _ in generation.requests():
                    raise AssertionError("no request follows")
            assert generation.take().inputs == ()
        assert terminal_events(runtime) == ["generation.failed"]
        assert context.ids == ["prompt"]

    run(test)


@pytest.mark.promise("write.raised", "event.input.unknown")
def test_the_initial_input_is_settled_in_the_events_like_any_other(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=1)
        with pytest.raises(WriteFailed):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()
        assert data_of(runtime, "input.unknown") == {
            "input_id": "prompt",
            "delivery": "new_turn",
            "reason": "write_failed",
        }
        assert data_of(runtime, "generation.failed")["unknown_input_ids"] == ("prompt",)
        assert runtime.receipt("prompt") is None

    run(test)


@pytest.mark.promise("write.raised", "event.input.unknown", "event.input.held")
def test_ordinary_inputs_are_settled_by_events_of_their_own(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=2)
        with pytest.raises(WriteFailed):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await runtime.submit(steer("a"))
                await runtime.submit(steer("b"))
                await generation.boundary()
        delivery = {"delivery": "request_boundary"}
        assert data_of(runtime, "input.unknown") == {
            "input_id": "a",
            "reason": "write_failed",
            **delivery,
        }
        assert data_of(runtime, "input.held") == {"input_id": "b", "reason": "failed", **delivery}

    run(test)


@pytest.mark.promise("write.raised", "library.misuse")
@pytest.mark.parametrize("context", [object(), pytest.param(None, id="None")])
def test_a_context_that_cannot_be_written_to_fails_the_generation(
    run: Backend, context: Any
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        with pytest.raises(AttributeError):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()
        assert generation.outcome == "failed"
        assert disposition(runtime, "a") == ("held", "failed")

    run(test)


@pytest.mark.promise("write.raised")
def test_a_write_that_is_no_coroutine_function_fails_as_a_write(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        class Synchronous:
            def add_message(self, message: Message) -> None:
                pass

        context: Any = Synchronous()
        with pytest.raises(TypeError):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await generation.boundary()
        assert generation.outcome == "failed"
        assert data_of(runtime, "input.unknown")["reason"] == "write_failed"

    run(test)


@pytest.mark.promise("receipt.detail")
def test_a_long_text_of_an_error_is_kept_short(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=2)
        context.error = ValueError("x" * 100_000)
        with pytest.raises(ValueError, match="x"):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()
        receipt = runtime.receipt("a")
        assert receipt is not None
        assert receipt["detail"].startswith("ValueError: xxx")
        assert len(receipt["detail"]) == 1000

    run(test)


@pytest.mark.promise("write.raised", "library.requests")
@pytest.mark.parametrize("kind", [StopAsyncIteration, StopIteration])
def test_an_error_that_would_look_like_the_end_of_a_loop_does_not(
    run: Backend, kind: type[Exception]
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=2)
        context.error = kind("strange")
        went_on: list[str] = []
        with pytest.raises((RuntimeError, StopAsyncIteration)):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                async for request in generation.requests():
                    await submit(runtime, f"{request.number}")
                went_on.append("as if the loop had ended")
        assert went_on == []
        assert disposition(runtime, "1")[0] == "unknown"
        assert generation.outcome == "failed"

    run(test)


class Unshowable(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.promise("receipt.detail", "receipt.json")
@pytest.mark.parametrize("error", [Unshowable(), ValueError("lone \ud800 surrogate")])
def test_an_error_that_cannot_be_shown_is_told_of_all_the_same(
    run: Backend, error: Exception
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=2)
        context.error = error
        with pytest.raises(type(error)):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()
        receipt = runtime.receipt("a")
        assert receipt is not None
        assert (receipt["disposition"], receipt["reason"]) == ("unknown", "write_failed")
        assert receipt["detail"].encode().decode() == receipt["detail"]

    run(test)


@pytest.mark.promise("house.internal_error", "I9", "I17")
def test_an_error_of_our_own_in_a_write_ends_the_generation_and_travels(run: Backend) -> None:
    async def test() -> None:
        broken: list[bool] = []

        def clock() -> float:
            if broken:
                broken.clear()
                raise RuntimeError("the clock stands still")
            return 0.0

        runtime = new_runtime(clock=clock)

        async def breaks(context: ActingContext, message: Message) -> None:
            context.messages.append(message)
            broken.append(True)  # and the step that settles this write fails

        context = ActingContext(breaks, at=2)
        with pytest.raises(RuntimeError, match="stands still"):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()
        assert generation.outcome == "failed"
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", "failed")
        assert runtime.generation is None

    run(test)
