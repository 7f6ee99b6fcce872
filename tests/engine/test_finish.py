"""The finish, step by step: the save, the check, the close; and how a loop is left.

One long file, because the steps of the contract's section 6 are one protocol.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from midcourse import (
    AdmissionClosed,
    Generation,
    GenerationOver,
    Input,
    Limits,
    Misuse,
    NoActiveGeneration,
    SteeringRefused,
)
from tests.engine.scene import (
    PROMPT,
    active,
    data_of,
    disposition,
    every_event,
    new_runtime,
    order_of,
    steer,
    submit,
    terminal_events,
    types,
    work,
)
from tests.support.backends import Backend
from tests.support.contexts import GatedContext, ListContext


class SaveFailed(Exception):
    """What a checkpoint raises."""


class Disk:
    """A checkpoint that is told how to behave, and notes what it saw."""

    def __init__(self, context: ListContext | None = None) -> None:
        self.context = context
        self.saves: list[list[str | None]] = []
        self.generations: list[str] = []
        self.saving = anyio.Event()
        self.gate: anyio.Event | None = None
        self.error: BaseException | None = None
        self.whole = 0

    async def save(self, generation: Generation) -> None:
        self.saves.append(list(self.context.ids) if self.context else [])
        self.generations.append(generation.id)
        self.saving.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.whole += 1


# ---------------------------------------------------------------------- step 1: the save


@pytest.mark.promise("finish.checkpoint", "finish.closes", "word.checkpoint")
def test_a_finish_saves_first_and_publishes_the_end_after_it(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        disk = Disk(context)
        seen: list[str] = []

        async def save(generation: Generation) -> None:
            await disk.save(generation)
            seen.extend(types(runtime)[-1:])
            assert generation.outcome is None
            assert generation.text == "done"

        async with runtime.open_generation(PROMPT, context=context, checkpoint=save) as generation:
            assert await generation.boundary()
            assert disk.saves == []
            assert await generation.finish("done") is True
            assert generation.outcome == "finished"
            assert runtime.generation is None
        assert disk.saves == [["prompt"]]
        assert disk.generations == ["g1"]
        assert seen == ["request.started"]
        assert data_of(runtime, "generation.finished") == {
            "generation_id": "g1",
            "text": "done",
            "input_ids": ("prompt",),
            "accepted_input_ids": (),
            "unknown_input_ids": (),
            "requests": 1,
        }

    run(test)


@pytest.mark.promise(
    "finish.checkpoint",
    "finish.continues",
    "finish.continues_same",
    "submit.prompt",
    "event.generation.continued",
    "I14",
    "I16",
)
def test_what_is_accepted_during_the_save_keeps_the_generation_going(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        disk = Disk(context)
        disk.gate = anyio.Event()
        tools: list[str] = []
        async with anyio.create_task_group() as others:

            async def person() -> None:
                await disk.saving.wait()
                await submit(runtime, "a", "b")
                assert disposition(runtime, "a") == ("queued", None)
                assert disk.gate is not None
                disk.gate.set()

            others.start_soon(person)
            async with runtime.open_generation(
                PROMPT, context=context, checkpoint=disk.save
            ) as generation:
                async for request in generation.requests():
                    if request.number == 1:
                        tools.append("ran")
                        await context.add_message({"role": "tool", "content": "result"})
                    request.finish(f"answer {request.number}")
        assert order_of(context) == ["prompt", "result", "a", "b"]
        assert tools == ["ran"]
        assert disk.saves == [["prompt"], ["prompt", "a", "b"]]
        assert generation.text == "answer 2"
        assert [t for t in types(runtime) if t.startswith(("generation", "request"))] == [
            "generation.started",
            "request.started",
            "generation.continued",
            "request.started",
            "generation.finished",
        ]
        assert data_of(runtime, "generation.continued") == {
            "generation_id": "g1",
            "input_ids": ("a", "b"),
        }
        assert data_of(runtime, "generation.finished")["input_ids"] == ("prompt", "a", "b")
        assert data_of(runtime, "generation.finished")["requests"] == 2

    run(test)


@pytest.mark.promise("finish.continues", "I16")
def test_what_was_accepted_before_the_proposal_keeps_the_generation_going(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            assert await generation.boundary()
            await submit(runtime, "a")
            assert await generation.finish("first answer") is False
            assert generation.outcome is None
            assert await generation.boundary() is True
            assert await generation.finish("second answer") is True
        assert context.ids == ["prompt", "a"]
        assert generation.text == "second answer"

    run(test)


@pytest.mark.promise("finish.checkpoint_failed", "finish.text", "held.failed", "block.same_object")
@pytest.mark.parametrize(
    "error", [SaveFailed("disk full"), ExceptionGroup("two", [SaveFailed(), OSError()])], ids=repr
)
def test_a_failing_save_fails_the_generation_and_is_not_tried_again(
    run: Backend, error: Exception
) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()
        disk.error = error
        caught: BaseException | None = None
        try:
            async with runtime.open_generation(
                PROMPT, context=context, checkpoint=disk.save
            ) as generation:
                assert await generation.boundary()
                await submit(runtime, "a")
                await generation.finish("done")
        except Exception as exc:  # noqa: BLE001  # compared below
            caught = exc
        assert caught is error
        assert len(disk.saves) == 1
        assert disposition(runtime, "a") == ("held", "failed")
        assert (generation.outcome, generation.text) == ("failed", "done")
        assert data_of(runtime, "generation.failed")["error_type"] == type(error).__name__

    run(test)


@pytest.mark.promise("block.swallowed", "boundary.over", "finish.checkpoint_failed")
def test_a_failing_save_that_the_host_swallows_is_a_failed_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()
        disk.error = SaveFailed()
        async with runtime.open_generation(
            PROMPT, context=context, checkpoint=disk.save
        ) as generation:
            assert await generation.boundary()
            with pytest.raises(SaveFailed):
                await generation.finish("done")
            with pytest.raises(GenerationOver):
                await generation.boundary()
            with pytest.raises(GenerationOver):
                await generation.finish("once more")
        assert terminal_events(runtime) == ["generation.failed"]
        assert generation.text == "done"
        assert len(disk.saves) == 1

    run(test)


@pytest.mark.promise("finish.checkpoint_protected", "finish.wanted", "limits.write_grace")
@pytest.mark.parametrize("how", ["scope", "stop"])
def test_a_hanging_save_has_its_grace_once_the_host_is_cancelled(run: Backend, how: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(limits=Limits(write_grace=3)), ListContext()
        disk = Disk()
        disk.gate = anyio.Event()
        before = anyio.current_time()
        async with anyio.create_task_group() as others:
            with anyio.CancelScope() as scope:

                async def person() -> None:
                    await disk.saving.wait()
                    await submit(runtime, "a")
                    scope.cancel() if how == "scope" else runtime.stop()
                    reason = "cancelled" if how == "scope" else "stopped"
                    await anyio.sleep(1)
                    assert disposition(runtime, "a") == ("held", reason)

                others.start_soon(person)
                async with runtime.open_generation(
                    PROMPT, context=context, checkpoint=disk.save
                ) as generation:
                    await generation.boundary()
                    await generation.finish("done")
        assert anyio.current_time() - before == pytest.approx(3)
        assert disk.whole == 0
        assert generation.outcome == "detached"
        assert generation.reason == ("cancelled" if how == "scope" else "stopped")
        assert generation.text == "done"

    run(test)


@pytest.mark.promise("finish.wanted", "finish.checkpoint_protected")
@pytest.mark.parametrize("error", [None, SaveFailed()])
@pytest.mark.parametrize("how", ["scope", "stop"])
def test_a_save_that_comes_back_in_time_does_not_undo_a_cancellation(
    run: Backend, how: str, error: Exception | None
) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()
        disk.gate, disk.error = anyio.Event(), error
        async with anyio.create_task_group() as others:
            with anyio.CancelScope() as scope:

                async def person() -> None:
                    await disk.saving.wait()
                    scope.cancel() if how == "scope" else runtime.stop()
                    await anyio.sleep(1)
                    assert disk.gate is not None
                    disk.gate.set()

                others.start_soon(person)
                async with runtime.open_generation(
                    PROMPT, context=context, checkpoint=disk.save
                ) as generation:
                    await generation.boundary()
                    await generation.finish("done")
        assert disk.whole == (error is None)
        assert generation.outcome == "detached"
        assert generation.reason == ("cancelled" if how == "scope" else "stopped")

    run(test)


@pytest.mark.promise("finish.wanted", "cancellation.wanted")
def test_a_deadline_that_passed_unnoticed_during_the_save_detaches(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def save(generation: Generation) -> None:
            scope.deadline = anyio.current_time() - 1

        with anyio.CancelScope() as scope:
            async with runtime.open_generation(
                PROMPT, context=context, checkpoint=save
            ) as generation:
                await generation.boundary()
                assert await generation.finish("done") is False
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("finish.wanted", "cancellation.wanted", "boundary.ends")
def test_a_deadline_around_the_finish_alone_detaches_too(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def save(generation: Generation) -> None:
            scope.deadline = anyio.current_time() - 1

        async with runtime.open_generation(PROMPT, context=context, checkpoint=save) as generation:
            await generation.boundary()
            with anyio.CancelScope() as scope:
                assert await generation.finish("done") is False
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("finish.wanted", "cancellation.wanted", "I9")
def test_a_finish_under_a_cancelled_scope_saves_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(
                PROMPT, context=context, checkpoint=disk.save
            ) as generation:
                await generation.boundary()
                scope.cancel()
                await generation.finish("done")
        assert scope.cancelled_caught
        assert disk.saves == []
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("finish.wanted", "cancellation.before_write")
@pytest.mark.parametrize("step", ["finish", "checkpoint"])
def test_a_deadline_that_passed_unnoticed_before_the_save_keeps_it_from_beginning(
    run: Backend, step: str
) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(
                PROMPT, context=context, checkpoint=disk.save
            ) as generation:
                await generation.boundary()
                scope.deadline = anyio.current_time() - 1
                if step == "finish":
                    await generation.finish("done")
                else:
                    await generation.checkpoint()
        assert disk.saves == []
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("finish.wanted", "finish.checkpoint_protected", "cancellation.before_write")
@pytest.mark.parametrize("how", ["scope", "stop"])
@pytest.mark.parametrize("steps", range(6))
def test_a_cancellation_that_races_the_beginning_of_the_save_never_tears_it(
    run: Backend, steps: int, how: str
) -> None:
    async def once() -> None:
        runtime, disk = new_runtime(), Disk()

        async def save(generation: Generation) -> None:
            await checkpoint()
            await disk.save(generation)
            await checkpoint()

        async def person() -> None:
            for _ in range(steps):
                await checkpoint()
            scope.cancel() if how == "scope" else runtime.stop()

        async with anyio.create_task_group() as others:
            with anyio.CancelScope() as scope:
                async with runtime.open_generation(
                    PROMPT, context=ListContext(), checkpoint=save
                ) as generation:
                    await generation.boundary()
                    others.start_soon(person)
                    await generation.finish("done")
                    await checkpoint()
        assert disk.whole == len(disk.saves)
        assert len(terminal_events(runtime)) == 1
        if generation.outcome == "finished":
            assert disk.whole == 1
        else:
            assert generation.reason == ("cancelled" if how == "scope" else "stopped")

    async def test() -> None:
        for _ in range(10):  # Trio shuffles what runs in one step
            await once()

    run(test)


# ------------------------------------------------------------- step 2: the check, step 3: the end


@pytest.mark.promise("finish.budget_spent", "held.call_budget_exhausted", "finish.race", "I16")
@pytest.mark.parametrize("when", ["before", "during"])
def test_with_the_budget_spent_a_finish_holds_what_waits_and_finishes(
    run: Backend, when: str
) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()

        async def save(generation: Generation) -> None:
            if when == "during":
                await submit(runtime, "a")
            await disk.save(generation)

        async with runtime.open_generation(
            PROMPT, context=context, checkpoint=save, max_requests=1
        ) as generation:
            await generation.boundary()
            if when == "before":
                await submit(runtime, "a")
            assert await generation.finish("done") is True
        assert disposition(runtime, "a") == ("held", "call_budget_exhausted")
        assert context.ids == ["prompt"]
        assert "generation.continued" not in types(runtime)
        assert data_of(runtime, "generation.finished") == {
            "generation_id": "g1",
            "text": "done",
            "input_ids": ("prompt",),
            "accepted_input_ids": ("a",),
            "unknown_input_ids": (),
            "requests": 1,
        }

    run(test)


@pytest.mark.promise("finish.closes", "admission.closes", "finish.race", "I8")
def test_a_submission_behind_the_end_is_refused(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await generation.boundary()
            await generation.finish("done")
            with pytest.raises(NoActiveGeneration):
                await runtime.submit_steering(steer("a"), generation.id)
        assert runtime.receipts() == []

    run(test)


@pytest.mark.promise("finish.race", "finish.continues", "I1", "I8", "I16")
@pytest.mark.parametrize("steps", range(12))
def test_a_submission_that_races_the_finish_is_accepted_or_refused(
    run: Backend, steps: int
) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()
        verdicts: list[str] = []

        async def save(generation: Generation) -> None:
            await checkpoint()
            await disk.save(generation)
            await checkpoint()

        async def person() -> None:
            anchor = active(runtime)
            for _ in range(steps):
                await checkpoint()
            try:
                await runtime.submit_steering(steer("a"), anchor)
            except SteeringRefused as refusal:
                verdicts.append(refusal.code)
            else:
                verdicts.append("accepted")

        async with (
            anyio.create_task_group() as others,
            runtime.open_generation(PROMPT, context=context, checkpoint=save) as generation,
        ):
            await generation.boundary()
            others.start_soon(person)
            while not await generation.finish("done"):
                await generation.boundary()
        if verdicts == ["accepted"]:
            assert disposition(runtime, "a") == ("applied", None)
            assert context.ids == ["prompt", "a"]
            assert generation.request_count == 2
        else:
            assert verdicts in (["no_active_generation"], ["admission_closed"])
            assert runtime.receipts() == []
            assert generation.request_count == 1
        assert generation.outcome == "finished"

    run(test)


# ------------------------------------------------------------------------ leaving the loop


@pytest.mark.promise("end.leaving", "held.generation_ended", "finish.checkpoint")
def test_leaving_the_loop_after_a_proposal_finishes_without_what_still_waits(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        disk = Disk(context)
        refused: list[SteeringRefused] = []

        async def save(generation: Generation) -> None:
            assert disposition(runtime, "a") == ("held", "generation_ended")
            assert runtime.generation is not None
            with pytest.raises(AdmissionClosed) as caught:
                await runtime.submit_steering(steer("b"), generation.id)
            refused.append(caught.value)
            await disk.save(generation)

        async with runtime.open_generation(PROMPT, context=context, checkpoint=save) as generation:
            async for request in generation.requests():
                request.finish("done")
                await submit(runtime, "a")
                break
        assert len(refused) == 1
        assert refused[0].active_generation_id == "g1"
        assert disk.saves == [["prompt"]]
        assert (generation.outcome, generation.text) == ("finished", "done")
        assert data_of(runtime, "generation.finished")["accepted_input_ids"] == ("a",)
        assert types(runtime)[-2:] == ["steering.held", "generation.finished"]

    run(test)


@pytest.mark.promise("end.leaving")
def test_a_return_out_of_the_loop_after_a_proposal_finishes(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def turn() -> Generation:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                async for request in generation.requests():
                    request.finish("done")
                    return generation
            raise AssertionError("unreachable")

        generation = await turn()
        assert (generation.outcome, generation.text) == ("finished", "done")

    run(test)


@pytest.mark.promise("end.leaving", "finish.wanted")
@pytest.mark.parametrize("how", ["stop", "scope", "raise", "aclose"])
def test_leaving_after_a_proposal_may_still_end_otherwise(run: Backend, how: str) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()
        left: list[Generation] = []

        async def save(generation: Generation) -> None:
            left.append(generation)
            if how == "stop":
                runtime.stop()
            elif how == "scope":
                scope.cancel()
            elif how == "aclose":
                await runtime.aclose()
            else:
                raise SaveFailed
            await disk.save(generation)

        try:
            with anyio.CancelScope() as scope:
                async with runtime.open_generation(
                    PROMPT, context=context, checkpoint=save
                ) as generation:
                    async for request in generation.requests():
                        request.finish("done")
                        await submit(runtime, "a")
                        break
        except SaveFailed:
            assert how == "raise"
        reasons = {
            "stop": ("detached", "stopped"),
            "scope": ("detached", "cancelled"),
            "raise": ("failed", "failed"),
            "aclose": ("detached", "runtime_closed"),
        }
        assert (left[0].outcome, left[0].reason) == reasons[how]
        assert disposition(runtime, "a") == ("held", "generation_ended")
        assert len(terminal_events(runtime)) == 1

    run(test)


@pytest.mark.promise("end.leaving", "finish.text")
def test_leaving_without_a_checkpoint_finishes_too(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            async for request in generation.requests():
                assert generation.text is None
                request.finish("")
                break
        assert (generation.outcome, generation.text) == ("finished", "")

    run(test)


# ---------------------------------------------------------------------------- misuse of it


@pytest.mark.promise("library.second_finish", "library.misuse")
def test_each_request_is_proposed_to_finish_with_once(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            with pytest.raises(Misuse):  # no request is open yet
                await generation.finish("too early")
            first = None
            async for request in generation.requests():
                if request.number == 1:
                    first = request
                    continue
                if request.number == 2:
                    assert first is not None
                    with pytest.raises(Misuse):
                        first.finish("of an older request")
                    await submit(runtime, "a")
                request.finish(f"answer {request.number}")
                with pytest.raises(Misuse):
                    request.finish("twice")
                with pytest.raises(Misuse):
                    await generation.finish("twice, by a call")
                with pytest.raises(Misuse):
                    await generation.boundary()
        assert generation.text == "answer 3"
        assert generation.outcome == "finished"
        assert context.ids == ["prompt", "a"]

    run(test)


@pytest.mark.promise("library.second_finish", "boundary.over")
def test_a_finish_behind_a_finish_is_misuse_and_changes_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            assert await generation.boundary()
            await submit(runtime, "a")
            assert await generation.finish("first") is False
            with pytest.raises(Misuse):  # the request is spent, the next one not begun
                await generation.finish("again")
            assert await generation.boundary()
            assert await generation.finish("second") is True
            with pytest.raises(GenerationOver):
                await generation.finish("third")
            with pytest.raises(GenerationOver):
                await generation.boundary()
            with pytest.raises(GenerationOver):
                await generation.checkpoint()
        assert generation.text == "second"
        assert terminal_events(runtime) == ["generation.finished"]

    run(test)


@pytest.mark.promise("library.misuse")
@pytest.mark.parametrize("text", [None, 3, b"bytes"])
def test_a_text_to_finish_with_is_a_string(run: Backend, text: Any) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            async for request in generation.requests():
                with pytest.raises(TypeError):
                    request.finish(text)
                request.finish("done")
        assert generation.text == "done"

    run(test)


@pytest.mark.promise("boundary.initial_written", "library.calls")
def test_a_host_that_wrote_the_initial_input_may_finish_at_once(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(
            PROMPT, context=ListContext(), initial_written=True
        ) as generation:
            assert await generation.finish("done")
        assert generation.request_count == 0
        assert generation.outcome == "finished"

    run(test)


# ------------------------------------------------------------------------ the lock, the saves


@pytest.mark.promise("finish.lock", "library.checkpoint")
def test_a_save_never_sees_half_a_batch(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2)
        disk = Disk(context)
        async with (
            anyio.create_task_group() as others,
            runtime.open_generation(PROMPT, context=context, checkpoint=disk.save) as generation,
        ):
            await submit(runtime, "a", "b")

            async def saves_in_between() -> None:
                await context.waiting.wait()
                others.start_soon(generation.checkpoint)
                await anyio.wait_all_tasks_blocked()
                assert disk.saves == []
                context.gate.set()

            others.start_soon(saves_in_between)
            assert await generation.boundary()
            await anyio.wait_all_tasks_blocked()
            assert disk.saves == [["prompt", "a", "b"]]
            await generation.finish("done")

    run(test)


@pytest.mark.promise("finish.lock", "library.checkpoint", "library.requests")
def test_a_host_may_save_in_between(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        disk = Disk(context)
        async with runtime.open_generation(
            PROMPT, context=context, checkpoint=disk.save
        ) as generation:
            await generation.checkpoint()
            async for request in generation.requests():
                await generation.checkpoint()
                await submit(runtime, "a") if request.number == 1 else request.finish("done")
        assert disk.saves == [[], ["prompt"], ["prompt", "a"], ["prompt", "a"]]
        assert set(disk.generations) == {"g1"}

    run(test)


@pytest.mark.promise("library.checkpoint")
def test_without_a_checkpoint_saving_in_between_is_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await generation.checkpoint()
            await work(generation)
        assert generation.outcome == "finished"

    run(test)


@pytest.mark.promise("library.checkpoint", "finish.checkpoint_failed", "boundary.over")
def test_a_save_in_between_that_fails_ends_the_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()
        disk.error = SaveFailed()
        async with runtime.open_generation(
            PROMPT, context=context, checkpoint=disk.save
        ) as generation:
            await generation.boundary()
            await submit(runtime, "a")
            with pytest.raises(SaveFailed):
                await generation.checkpoint()
            with pytest.raises(GenerationOver):
                await generation.checkpoint()
            with pytest.raises(GenerationOver):
                await generation.boundary()
        assert disposition(runtime, "a") == ("held", "failed")
        assert generation.outcome == "failed"

    run(test)


@pytest.mark.promise("finish.wanted", "library.checkpoint")
def test_a_save_in_between_under_a_cancelled_scope_is_not_begun(run: Backend) -> None:
    async def test() -> None:
        runtime, context, disk = new_runtime(), ListContext(), Disk()
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(
                PROMPT, context=context, checkpoint=disk.save
            ) as generation:
                await generation.boundary()
                scope.cancel()
                await generation.checkpoint()
        assert disk.saves == []
        assert generation.reason == "cancelled"

    run(test)


@pytest.mark.promise("boundary.reentrant", "finish.race", "submit.prompt")
def test_a_save_may_submit_an_ordinary_input_and_read(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        numbers: list[int] = []

        async def save(generation: Generation) -> None:
            numbers.append(len(numbers))
            if len(numbers) == 1:
                await runtime.submit(Input("steer", "one more thing", id="a"))
                assert len(runtime.pending()) == 1

        async with runtime.open_generation(PROMPT, context=context, checkpoint=save) as generation:
            await work(generation)
        assert context.ids == ["prompt", "a"]
        assert len(every_event(runtime, "generation.continued")) == 1
        assert numbers == [0, 1]

    run(test)


@pytest.mark.promise("library.second_finish", "boundary.over")
@pytest.mark.parametrize("how", ["finish", "fail"])
def test_a_request_of_a_generation_that_is_over_cannot_be_finished_with(
    run: Backend, how: str
) -> None:
    async def test() -> None:
        runtime, disk = new_runtime(), Disk()
        if how == "fail":
            disk.error = SaveFailed()
        async with runtime.open_generation(
            PROMPT, context=ListContext(), checkpoint=disk.save
        ) as generation:
            request = await anext(generation.requests())
            try:
                await generation.finish("done")
            except SaveFailed:
                assert how == "fail"
            with pytest.raises(GenerationOver):
                request.finish("too late")
        assert generation.text == "done"

    run(test)
