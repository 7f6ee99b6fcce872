"""The cases from the field, F01 to F40: what users of other agents reported, and how it is here.

Where a case is a race, both of its orders are a parameter. One long file, because a case is looked
up by its number.
"""

# ruff: noqa: PT012  # a block that raises is what is tested
# ruff: noqa: SIM117  # the order of two blocks is what is tested

from __future__ import annotations

import gc
import itertools
import json
import random
import sys
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from midcourse import (
    Event,
    Generation,
    GenerationMismatch,
    IdentityConflict,
    Input,
    InvalidInput,
    Limits,
    LiveRuntime,
    MemoryContext,
    NoActiveGeneration,
    SteeringRefused,
)
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
    terminal_events,
    types,
    work,
)
from tests.support.backends import Backend
from tests.support.contexts import (
    FailingContext,
    GatedContext,
    HalfContext,
    HangingContext,
    ListContext,
    Message,
    StubbornContext,
    WriteFailed,
)


async def verdict(runtime: LiveRuntime, name: str, anchor: str) -> str:
    """Submit, and tell what became of it as one word."""
    try:
        receipt = await runtime.submit_steering(steer(name), anchor)
    except SteeringRefused as refusal:
        return refusal.code.value
    return receipt["disposition"]


@pytest.mark.promise("F01", "finish.race")
@pytest.mark.parametrize("when", ["during the clean-up", "behind it"])
def test_f01_a_message_during_the_clean_up_continues_the_run_or_is_refused(
    run: Backend, when: str
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        got: list[str] = []

        async def clean_up(generation: Generation) -> None:
            if not got and when == "during the clean-up":
                got.append(await verdict(runtime, "a", generation.id))

        async with runtime.open_generation(
            PROMPT, context=context, checkpoint=clean_up
        ) as generation:
            await work(generation)
            if not got:
                got.append(await verdict(runtime, "a", generation.id))
        if when == "behind it":
            assert (got, context.ids) == (["no_active_generation"], ["prompt"])
        else:
            assert (got, context.ids) == (["queued"], ["prompt", "a"])
            assert generation.request_count == 2

    run(test)


@pytest.mark.promise("F02", "admission.closes")
def test_f02_who_sees_the_end_and_steers_at_once_is_refused(run: Backend) -> None:
    async def test() -> None:
        runtime, context, got = new_runtime(), ListContext(), []

        async def watcher() -> None:
            async for item in runtime.subscribe():
                assert isinstance(item, Event)
                if item.type == "generation.finished":
                    got.append(await verdict(runtime, "a", "g1"))
                    return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watcher)
            await anyio.wait_all_tasks_blocked()
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await work(generation)
                await anyio.wait_all_tasks_blocked()
                assert got == ["no_active_generation"]
        assert runtime.receipts() == []

    run(test)


@pytest.mark.promise("F03", "finish.continues", "I16")
@pytest.mark.parametrize("when", ["before the proposal", "after the proposal"])
def test_f03_a_steer_after_the_last_request_gets_one_more(run: Backend, when: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                if request.number == 1 and when == "before the proposal":
                    await submit(runtime, "a")
                request.finish(f"answer {request.number}")
                if request.number == 1 and when == "after the proposal":
                    await submit(runtime, "a")
        assert disposition(runtime, "a") == ("applied", None)
        assert [e.data["input_ids"] for e in every_event(runtime, "request.started")] == [
            ("prompt",),
            ("a",),
        ]
        assert generation.text == "answer 2"

    run(test)


@pytest.mark.promise("F04", "held.stopped", "event.steering.held")
def test_f04_a_steer_while_the_provider_hangs_is_held_when_the_user_stops(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def person() -> None:
            await submit(runtime, "a")
            await anyio.sleep(60)
            runtime.stop()

        async with anyio.create_task_group() as tasks:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                async for _ in generation.requests():
                    tasks.start_soon(person)
                    await anyio.sleep_forever()  # the provider
        assert disposition(runtime, "a") == ("held", "stopped")
        assert data_of(runtime, "steering.held") == {
            "input_id": "a",
            "target_generation_id": "g1",
            "delivery": "request_boundary",
            "reason": "stopped",
        }

    run(test)


@pytest.mark.promise("F05", "finish.continues")
def test_f05_a_steer_during_a_text_only_answer_still_gets_its_request(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def model(generation: Generation) -> str:
            if generation.request_count == 1:
                await submit(runtime, "a")
            return "text only"

        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                request.finish(await model(generation))
        assert generation.request_count == 2
        assert disposition(runtime, "a") == ("applied", None)

    run(test)


@pytest.mark.promise("F06", "held.call_budget_exhausted")
@pytest.mark.parametrize("how", ["asks for more", "finishes"])
def test_f06_a_steer_at_the_request_limit_is_held_and_not_written(run: Backend, how: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context, max_requests=2) as generation:
            async for request in generation.requests():
                if request.number == 2:
                    await submit(runtime, "a")
                    if how == "finishes":
                        request.finish("done")
        assert disposition(runtime, "a") == ("held", "call_budget_exhausted")
        assert context.ids == ["prompt"]
        assert generation.outcome == ("finished" if how == "finishes" else "detached")

    run(test)


@pytest.mark.promise("F07", "I16", "end.leaving")
@pytest.mark.parametrize("how", ["goes on", "leaves the loop"])
def test_f07_a_steer_while_wrapping_up_is_applied_only_if_a_request_follows(
    run: Backend, how: str
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                request.finish("wrapping up")
                if request.number == 1:
                    await submit(runtime, "a")
                    if how == "leaves the loop":
                        break
        if how == "goes on":
            assert disposition(runtime, "a") == ("applied", None)
            assert generation.request_count == 2
        else:
            assert disposition(runtime, "a") == ("held", "generation_ended")
            assert context.ids == ["prompt"]
        assert generation.outcome == "finished"

    run(test)


@pytest.mark.promise("F08", "admission.opens")
def test_f08_a_steer_at_the_first_sight_of_the_generation_is_accepted(run: Backend) -> None:
    async def test() -> None:
        runtime, context, got = new_runtime(), ListContext(), []

        async def watcher() -> None:
            async for item in runtime.subscribe():
                assert isinstance(item, Event)
                if item.type == "generation.started":
                    got.append(await verdict(runtime, "a", item.data["generation_id"]))
                    return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watcher)
            await anyio.wait_all_tasks_blocked()
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await anyio.wait_all_tasks_blocked()
                await work(generation)
        assert got == ["queued"]
        assert context.ids == ["prompt", "a"]

    run(test)


@pytest.mark.promise("F09", "I6", "disposition.never_replayed")
@pytest.mark.parametrize("when", ["before the end", "behind the end"])
def test_f09_a_late_steer_is_never_taken_for_the_answer_to_a_later_question(
    run: Backend, when: str
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as first:
            await first.boundary()
            if when == "before the end":
                await submit(runtime, "yes")
                runtime.stop()
            else:
                await first.finish("done")
                assert await verdict(runtime, "yes", "g1") == "no_active_generation"
        question = Input("user", "Delete everything?", id="question")
        async with runtime.open_generation(question, context=context) as second:
            await work(second)
        assert context.ids == ["prompt", "question"]

    run(test)


@pytest.mark.promise("F10", "refusal.no_active_generation")
def test_f10_steering_an_idle_session_opens_no_turn(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await runtime.serve(work, context=context)

            tasks.start_soon(serve)
            await anyio.wait_all_tasks_blocked()
            for anchor in ("g1", "g0"):
                with pytest.raises(NoActiveGeneration):
                    await runtime.submit_steering(steer("a"), anchor)
            await anyio.sleep(1)
            assert runtime.events() == []
            runtime.stop()
        assert context.messages == []

    run(test)


@pytest.mark.promise("F11", "I6", "block.unmoved")
def test_f11_a_stale_loop_gets_nothing_of_the_next_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, old, new = new_runtime(), ListContext(), ListContext()
        async with runtime.open_generation(PROMPT, context=old) as stale:
            await stale.boundary()
            runtime.stop()
        async with runtime.open_generation(Input("user", "next", id="n"), context=new) as fresh:
            await submit(runtime, "a")
            assert await stale.boundary() is False
            assert stale.take().inputs == ()
            assert await stale.finish("stale") is False
            assert disposition(runtime, "a") == ("queued", None)
            await work(fresh)
        assert old.ids == ["prompt"]
        assert new.ids == ["n", "a"]

    run(test)


@pytest.mark.promise("F12", "disposition.queued", "event.steering.applied")
def test_f12_an_input_is_queued_until_it_is_written(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2)
        async with anyio.create_task_group() as tasks:

            async def person() -> None:
                await context.waiting.wait()
                assert disposition(runtime, "a") == ("queued", None)  # even while it is written
                assert "steering.applied" not in types(runtime)
                context.gate.set()

            tasks.start_soon(person)
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await generation.boundary()
                await submit(runtime, "a")
                await generation.boundary()
                await generation.finish("done")
        order = [type for type in types(runtime) if type.startswith(("steering", "request"))]
        assert order == [
            "request.started",
            "steering.accepted",
            "steering.applied",
            "request.started",
        ]

    run(test)


@pytest.mark.promise("F13", "disposition.unknown", "unknown.write_failed")
def test_f13_an_unconfirmed_write_is_unknown_in_event_receipt_and_log(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HalfContext(at=2)
        with pytest.raises(WriteFailed):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()
        assert disposition(runtime, "a") == ("unknown", "write_failed")
        assert data_of(runtime, "steering.unknown")["input_id"] == "a"
        assert data_of(runtime, "generation.failed")["unknown_input_ids"] == ("a",)
        assert "steering.applied" not in types(runtime)
        assert data_of(runtime, "generation.failed")["input_ids"] == ("prompt",)

    run(test)


@pytest.mark.promise("F14", "held.closed_enum", "event.generation.detached")
@pytest.mark.parametrize("who", ["user", "watchdog", "budget", "failure", "closing"])
def test_f14_the_reason_tells_who_ended_it(run: Backend, who: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        try:
            with anyio.move_on_after(60 if who == "watchdog" else 3600):
                async with runtime.open_generation(
                    PROMPT, context=context, max_requests=1
                ) as generation:
                    await generation.boundary()
                    await submit(runtime, "a")
                    if who == "user":
                        runtime.stop()
                    elif who == "budget":
                        await generation.boundary()
                    elif who == "failure":
                        raise WriteFailed
                    elif who == "closing":
                        await runtime.aclose()
                    if who != "budget":
                        await anyio.sleep(120)
        except WriteFailed:
            pass
        reasons = {
            "user": "stopped",
            "watchdog": "cancelled",
            "budget": "call_budget_exhausted",
            "failure": "failed",
            "closing": "runtime_closed",
        }
        assert generation.reason == reasons[who]
        assert disposition(runtime, "a") == ("held", reasons[who])

    run(test)


@pytest.mark.promise("F15", "I2", "disposition.never_replayed", "disposition.unknown_sticky")
def test_f15_an_entry_whose_insertion_failed_is_never_written_again(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=2)
        with pytest.raises(WriteFailed):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()
        for name in ("next", "and next"):
            prompt = Input("user", name, id=name)
            async with runtime.open_generation(prompt, context=context) as generation:
                await work(generation)
        assert context.begun == ["prompt", "a", "next", "and next"]
        assert disposition(runtime, "a") == ("unknown", "write_failed")

    run(test)


@pytest.mark.promise("F16", "I10", "I3")
@pytest.mark.parametrize("when", ["at once", "after the write", "after the end"])
def test_f16_a_retry_after_a_lost_reply_makes_no_second_copy(run: Backend, when: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a")
            if when == "at once":
                await submit(runtime, "a")
            await generation.boundary()
            if when == "after the write":
                await submit(runtime, "a")
            await generation.finish("done")
        receipt = await runtime.submit_steering(steer("a"), "g1")
        assert receipt == runtime.receipt("a")
        assert receipt["disposition"] == "applied"
        assert context.ids == ["prompt", "a"]
        assert types(runtime).count("steering.accepted") == 1

    run(test)


@pytest.mark.promise("F17", "I10", "admission.2.sameness")
def test_f17_the_order_of_keys_is_no_difference_and_any_change_is_one(run: Backend) -> None:
    def given(image: dict[str, Any]) -> Input:
        return Input("steer", "look", id="a", attachments=[image])

    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext(attachment_kinds=["image"])
        first = {"type": "image", "size": {"w": 1, "h": 2}}
        async with runtime.open_generation(PROMPT, context=context) as generation:
            receipt = await runtime.submit_steering(given(first), "g1")
            again = {"size": {"h": 2, "w": 1}, "type": "image"}
            assert await runtime.submit_steering(given(again), "g1") == receipt
            before = types(runtime)
            for changed in (
                {"type": "image", "size": {"w": 1, "h": 3}},
                {"type": "image", "size": {"w": 1}},
                {"type": "image", "size": {"w": 1, "h": "2"}},
                {"type": "image", "size": {"w": True, "h": 2}},
            ):
                with pytest.raises(IdentityConflict):
                    await runtime.submit_steering(given(changed), "g1")
            assert types(runtime) == before
            await work(generation)
        assert context.messages[1]["content"][1] == first

    run(test)


@pytest.mark.promise("F18", "word.input")
def test_f18_two_steers_with_equal_text_have_a_status_each(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=3)
        with pytest.raises(WriteFailed):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                for name in ("one", "two", "three"):
                    await runtime.submit_steering(Input("steer", "same", id=name), "g1")
                await generation.boundary()
        assert disposition(runtime, "one") == ("applied", None)
        assert disposition(runtime, "two") == ("unknown", "write_failed")
        assert disposition(runtime, "three") == ("held", "failed")

    run(test)


@pytest.mark.promise("F19", "I4", "I5", "boundary.ends")
@pytest.mark.parametrize("at", [1, 2, 3, 4])
@pytest.mark.parametrize("returns", [True, False])
def test_f19_an_abort_in_the_middle_of_a_batch_holds_what_was_not_begun(
    run: Backend, at: int, returns: bool
) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def aborts(context: ActingContext, message: Message) -> None:
            scope.cancel()
            await anyio.sleep(1 if returns else 3600)
            context.messages.append(message)

        context = ActingContext(aborts, at=at)
        names = ["a", "b", "c"]
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, *names)
                await generation.boundary()
        order = ["prompt", *names]
        assert context.begun == order[:at]
        for number, name in enumerate(order):
            if name == "prompt":
                continue
            if number < at - 1 or (number == at - 1 and returns):
                assert disposition(runtime, name) == ("applied", None)
            elif number == at - 1:
                assert disposition(runtime, name) == ("unknown", "write_interrupted")
            else:
                assert disposition(runtime, name) == ("held", "cancelled")

    run(test)


@pytest.mark.promise("F20", "I4", "cancellation.wanted")
@pytest.mark.parametrize("order", ["steer, abort", "abort, steer"])
def test_f20_a_steer_in_an_aborted_run_is_not_consumed(run: Backend, order: str) -> None:
    async def test() -> None:
        runtime, context, got = new_runtime(), ListContext(), []
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await generation.boundary()

                async def person() -> None:
                    got.append(await verdict(runtime, "a", "g1"))

                if order == "steer, abort":
                    await person()
                    scope.cancel()
                else:
                    scope.cancel()
                    with anyio.CancelScope(shield=True):
                        await person()
                await generation.boundary()
        assert got in (["queued"], ["admission_closed"], ["no_active_generation"])
        if got == ["queued"]:
            assert disposition(runtime, "a") == ("held", "cancelled")
        assert context.ids == ["prompt"]

    run(test)


@pytest.mark.promise("F21", "event.steering.held", "I1")
def test_f21_every_queued_steer_of_an_interrupted_turn_gets_its_event(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        names = [f"{number}" for number in range(50)]
        with anyio.CancelScope() as scope:
            async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
                await generation.boundary()
                await submit(runtime, *names)
                scope.cancel()
                await checkpoint()
        assert [e.data["input_id"] for e in every_event(runtime, "steering.held")] == names
        assert data_of(runtime, "generation.detached")["accepted_input_ids"] == tuple(names)
        assert types(runtime)[-1] == "generation.detached"

    run(test)


@pytest.mark.promise("F22", "stop.nothing_after", "I8")
def test_f22_text_behind_a_stop_is_refused_at_once(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), StubbornContext(at=2)
        got: list[str] = []

        async def person() -> None:
            await context.waiting.wait()
            runtime.stop()
            before = anyio.current_time()
            got.append(await verdict(runtime, "b", "g1"))
            assert anyio.current_time() == before
            context.gate.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(person)
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a")
                await generation.boundary()
        assert got == ["admission_closed"]
        assert runtime.receipt("b") is None

    run(test)


@pytest.mark.promise("F23", "stop.wins")
@pytest.mark.parametrize("order", ["steer, stop", "stop, steer"])
def test_f23_a_stop_wins_over_a_steer_in_flight(run: Backend, order: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await runtime.serve(waits, context=context)

            async def waits(generation: Generation) -> None:
                await generation.boundary()
                await anyio.sleep_forever()

            await runtime.submit(Input("user", "begin", id="begin"))
            tasks.start_soon(serve)
            await anyio.wait_all_tasks_blocked()
            if order == "steer, stop":
                tasks.start_soon(verdict, runtime, "a", "g1")
                await checkpoint()
                runtime.stop()
            else:
                runtime.stop()
                tasks.start_soon(verdict, runtime, "a", "g1")
        assert types(runtime).count("generation.started") == 1
        assert context.ids == ["begin"]
        if (receipt := runtime.receipt("a")) is not None:
            assert (receipt["disposition"], receipt["reason"]) == ("held", "stopped")

    run(test)


@pytest.mark.promise("F24", "block.unmoved", "I15")
def test_f24_the_clean_up_of_one_run_settles_nothing_of_its_successor(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        leave, opened = anyio.Event(), anyio.Event()

        async def predecessor() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await finish_at_once(generation)
                opened.set()
                await leave.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(predecessor)
            await opened.wait()
            prompt = Input("user", "next", id="next")
            async with runtime.open_generation(prompt, context=context) as second:
                await submit(runtime, "a")
                leave.set()
                await anyio.wait_all_tasks_blocked()
                assert disposition(runtime, "a") == ("queued", None)
                assert active(runtime) == "g2"
                await submit(runtime, "b")
                await work(second)
        assert context.ids == ["prompt", "next", "a", "b"]
        assert second.outcome == "finished"

    run(test)


@pytest.mark.promise("F25", "stop.synchronous", "end.synchronous")
def test_f25_a_stop_holds_before_anything_is_awaited(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2)

        async def person() -> None:
            await context.waiting.wait()
            runtime.stop()
            # In this very step: what waits is held, whatever the abort takes.
            assert disposition(runtime, "b") == disposition(runtime, "c") == ("held", "stopped")
            await anyio.sleep(1)
            context.gate.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(person)
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b", "c")
                await generation.boundary()
        assert context.ids == ["prompt", "a"]

    run(test)


@pytest.mark.promise("F26", "content.kept")
def test_f26_what_people_had_typed_stays_readable_after_a_stop(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()):
            await submit(runtime, "a")
            await runtime.submit(Input("user", "and later this", id="b"))
            runtime.stop()
        given = [runtime.input(name) for name in ("a", "b")]
        assert [each.text if each else None for each in given] == ["text of a", "and later this"]

    run(test)


@pytest.mark.promise("F27", "boundary.order", "I14")
def test_f27_a_steer_skips_no_tool_call(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                if request.number == 2:
                    request.finish("done")
                    continue
                for number in range(3):
                    await context.add_message({"role": "tool", "content": f"result {number}"})
                    if number == 0:
                        await submit(runtime, "a")
        assert order_of(context) == ["prompt", "result 0", "result 1", "result 2", "a"]

    run(test)


@pytest.mark.promise("F28", "message.shape", "I7")
def test_f28_a_steer_is_its_own_message_behind_what_was_sent_already(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext()
        sent: list[list[dict[str, Any]]] = []
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                sent.append(json.loads(json.dumps(context.messages)))
                await context.add_message({"role": "tool", "content": f"r{request.number}"})
                if request.number < 4:
                    await submit(runtime, f"{request.number}")
                else:
                    request.finish("done")
        for earlier, later in itertools.pairwise(sent):
            assert later[: len(earlier)] == earlier
        assert [len(messages) for messages in sent] == [1, 3, 5, 7]
        assert {m["role"] for m in context.messages if "metadata" in m} == {"user"}

    run(test)


@pytest.mark.promise("F29", "I7")
@pytest.mark.parametrize("seed", range(3))
def test_f29_the_order_in_the_context_is_the_order_of_acceptance(run: Backend, seed: int) -> None:
    async def test() -> None:
        chance = random.Random(seed)  # no secret
        runtime, context = new_runtime(), ListContext()

        async def person(name: str) -> None:
            for number in range(10):
                await anyio.sleep(chance.random())
                await submit(runtime, f"{name}{number}")

        async with runtime.open_generation(PROMPT, context=context) as generation:
            async with anyio.create_task_group() as people:
                for name in "abc":
                    people.start_soon(person, name)
                for _ in range(20):
                    await anyio.sleep(chance.random() / 2)
                    await generation.boundary()
            await generation.boundary()
            await generation.finish("done")
        assert context.ids == ["prompt", *(r["inputId"] for r in runtime.receipts())]

    run(test)


@pytest.mark.promise("F30", "word.boundary_queue")
def test_f30_compacting_the_context_deletes_no_accepted_message(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for request in generation.requests():
                if request.number == 1:
                    await submit(runtime, "a", "b")
                    context.messages[:] = [{"role": "system", "content": "a summary"}]
                else:
                    request.finish("done")
        assert order_of(context) == ["a summary", "a", "b"]

    run(test)


@pytest.mark.promise("F31", "I6", "word.session")
def test_f31_no_message_reaches_another_session(run: Backend) -> None:
    async def test() -> None:
        count = 8
        runtimes = [
            new_runtime(session_id=f"{n}", new_id=iter([f"g of {n}"]).__next__)
            for n in range(count)
        ]
        contexts = [ListContext() for _ in range(count)]
        ready = [anyio.Event() for _ in range(count)]
        go = anyio.Event()

        async def session(number: int) -> None:
            runtime, context = runtimes[number], contexts[number]
            async with runtime.open_generation(
                Input("user", "go", id=f"prompt {number}"), context=context
            ) as generation:
                ready[number].set()
                await go.wait()
                await work(generation)

        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(session, number)
            for event in ready:
                await event.wait()
            for here, runtime in enumerate(runtimes):
                for there in range(count):
                    got = await verdict(runtime, f"{here} to {there}", f"g of {there}")
                    assert got == ("queued" if here == there else "generation_mismatch")
            go.set()
        assert [context.ids for context in contexts] == [
            [f"prompt {n}", f"{n} to {n}"] for n in range(count)
        ]

    run(test)


@pytest.mark.promise("F32", "submit.prompt")
def test_f32_a_steer_during_an_approval_waits_and_answers_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        asked, approved = anyio.Event(), anyio.Event()
        answers: list[str] = []

        async def person() -> None:
            await asked.wait()
            await submit(runtime, "a")
            await anyio.sleep(10)
            assert answers == []
            assert disposition(runtime, "a") == ("queued", None)
            approved.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(person)
            async with runtime.open_generation(PROMPT, context=context) as generation:
                async for request in generation.requests():
                    if request.number == 1:
                        asked.set()
                        await approved.wait()
                        answers.append("approved")
                    else:
                        assert answers == ["approved"]
                        request.finish("done")
        assert context.ids == ["prompt", "a"]

    run(test)


@pytest.mark.promise("F33", "I13", "submit.prompt")
@pytest.mark.parametrize("blocked_in", ["provider", "write", "checkpoint"])
def test_f33_submitting_is_prompt_while_the_loop_is_blocked(run: Backend, blocked_in: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2)
        gate, blocked = context.gate, context.waiting

        async def blocks(generation: Generation) -> None:
            if blocked_in == "checkpoint":
                blocked.set()
                await gate.wait()

        async def client() -> None:
            await blocked.wait()
            before = anyio.current_time()
            assert await verdict(runtime, "b", "g1") == "queued"
            assert anyio.current_time() == before
            gate.set()  # the loop waits for the client: nobody deadlocks

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client)
            async with runtime.open_generation(
                PROMPT, context=context, checkpoint=blocks
            ) as generation:
                await generation.boundary()
                if blocked_in == "provider":
                    blocked.set()
                    await gate.wait()
                elif blocked_in == "write":
                    await submit(runtime, "a")
                    await generation.boundary()
                while not await generation.finish("done"):
                    await generation.boundary()
        assert disposition(runtime, "b") == ("applied", None)

    run(test)


@pytest.mark.promise("F34", "message.parts", "admission.6")
@pytest.mark.parametrize("takes", [True, False])
def test_f34_an_image_without_text_is_accepted_whole_or_refused(run: Backend, takes: bool) -> None:
    image = {"type": "image", "url": "data:,"}

    async def test() -> None:
        runtime = new_runtime()
        context = MemoryContext(attachment_kinds=["image"] if takes else [])
        async with runtime.open_generation(PROMPT, context=context) as generation:
            given = Input("steer", id="a", attachments=[image])
            if takes:
                await runtime.submit_steering(given, "g1")
            else:
                with pytest.raises(InvalidInput):
                    await runtime.submit_steering(given, "g1")
                with pytest.raises(InvalidInput):
                    await runtime.submit_steering(Input("steer", id="b"), "g1")
            await work(generation)
        contents = [m["content"] for m in context.messages[1:]]
        assert contents == ([[image]] if takes else [])

    run(test)


@pytest.mark.promise("F35", "I7", "boundary.order")
def test_f35_the_second_steer_replaces_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await generation.boundary()
            await submit(runtime, "first", "second")
            await generation.boundary()
            await generation.finish("done")
        assert context.ids == ["prompt", "first", "second"]
        assert {receipt["disposition"] for receipt in runtime.receipts()} == {"applied"}

    run(test)


@pytest.mark.promise("F36", "refusal.fields", "refusal.json")
def test_f36_codes_tell_no_turn_and_another_turn_apart(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        with pytest.raises(NoActiveGeneration) as none:
            await runtime.submit_steering(steer("a"), "g0")
        async with runtime.open_generation(PROMPT, context=context) as generation:
            with pytest.raises(GenerationMismatch) as another:
                await runtime.submit_steering(steer("a"), "g0")
            await finish_at_once(generation)
        wires = [none.value.to_json(), another.value.to_json()]
        assert [(w["code"], w["activeGenerationId"]) for w in wires] == [
            ("no_active_generation", None),
            ("generation_mismatch", "g1"),
        ]

    run(test)


@pytest.mark.promise("F37", "thread.same", "submit.prompt")
@pytest.mark.parametrize("from_where", ["task", "thread"])
def test_f37_a_second_connection_reaches_the_live_run(run: Backend, from_where: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def connection(anchor: str) -> None:
            if from_where == "task":
                await runtime.submit_steering(steer("a"), anchor)
            else:
                await anyio.to_thread.run_sync(
                    runtime.from_thread.submit_steering, steer("a"), anchor
                )

        async with runtime.open_generation(PROMPT, context=context) as generation:
            await generation.boundary()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection, generation.id)
            await generation.boundary()
            await generation.finish("done")
        assert context.ids == ["prompt", "a"]

    run(test, threads=True)


@pytest.mark.promise("F38", "word.receipt", "admission.9")
def test_f38_what_was_accepted_is_recorded(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        accepted: list[str] = []

        async def person(name: str) -> None:
            if await verdict(runtime, name, "g1") == "queued":
                accepted.append(name)
                assert runtime.receipt(name) is not None

        async with anyio.create_task_group() as people:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                for number in range(40):
                    people.start_soon(person, f"{number}")
                await work(generation)
        assert sorted(accepted) == sorted(r["inputId"] for r in runtime.receipts())
        settled = [name for name in accepted if disposition(runtime, name)[0] != "queued"]
        assert settled == accepted

    run(test)


@pytest.mark.promise("F39", "disposition.unknown", "I2")
@pytest.mark.parametrize("kind", [HalfContext, HangingContext])
def test_f39_a_write_that_failed_half_way_does_not_poison_the_session(
    run: Backend, kind: type[HalfContext | HangingContext]
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(limits=Limits(write_grace=1)), kind(at=2)
        with anyio.move_on_after(60):
            try:
                async with runtime.open_generation(PROMPT, context=context) as generation:
                    await submit(runtime, "a")
                    await generation.boundary()
            except WriteFailed:
                pass
        assert disposition(runtime, "a")[0] == "unknown"
        prompt = Input("user", "next", id="next")
        async with runtime.open_generation(prompt, context=context) as generation:
            await submit(runtime, "b")
            await work(generation)
        assert generation.outcome == "finished"
        assert disposition(runtime, "b") == ("applied", None)
        assert disposition(runtime, "a")[0] == "unknown"
        assert terminal_events(runtime)[-1] == "generation.finished"

    run(test)


# ------------------------------------------------------------------------------------ F40

GENERATIONS = 10_000  # on Trio; where all the library's own objects are the same, fewer do
FIRST = 1_000  # behind them caches are full and strings interned


@pytest.mark.promise("F40", "I17", "limits.memory")
def test_f40_memory_is_flat_over_ten_thousand_generations(run: Backend) -> None:
    async def test() -> int:
        # A history of a few events, so that only what is kept for each generation can grow.
        runtime, context = LiveRuntime(limits=Limits(event_history=10)), MemoryContext()
        before = 0
        for number in range(GENERATIONS if run.is_trio else GENERATIONS // 4):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await generation.boundary()
                if number % 3 == 0:
                    runtime.stop()
                else:
                    await generation.finish("done")
            context.messages.clear()
            if number == FIRST:
                gc.collect()
                before = sys.getallocatedblocks()
        gc.collect()
        return sys.getallocatedblocks() - before

    # One object kept for each generation would be thousands.
    assert run(test) < 500
