"""Submitting: cancelled means not admitted, admitted means reported, and it is always prompt."""

# ruff: noqa: SIM117  # the order of two blocks is what is tested

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint

from midcourse import Generation, Input, LiveRuntime, NoActiveGeneration, Receipt, SteeringRefused
from tests.engine.scene import (
    ON_ASYNCIO,
    PROMPT,
    active,
    disposition,
    finish_at_once,
    new_runtime,
    steer,
    submit,
    tasks,
    types,
    work,
)
from tests.support.backends import Backend
from tests.support.contexts import GatedContext, ListContext

on_asyncio = pytest.mark.parametrize("run", ON_ASYNCIO, ids=repr)

Submit = Callable[[], Awaitable[Receipt]]
Wrapped = Callable[[Submit, int], Awaitable[str]]


async def pause(steps: int) -> None:
    for _ in range(steps):
        await checkpoint()


def assert_nothing_between(runtime: LiveRuntime, name: str, seen: str) -> None:
    """What the caller saw is what happened."""
    receipt = runtime.receipt(name)
    if seen == "cancelled":
        assert receipt is None
        assert not [e for e in runtime.events() if e.data.get("input_id") == name]
    elif seen == "accepted":
        assert receipt is not None
    else:
        raise AssertionError(seen)


# --------------------------------------------------------------------- cancelled submitters


async def in_a_scope(submit: Submit, steps: int) -> str:
    seen = "cancelled"
    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:

            async def cancel() -> None:
                await pause(steps)
                scope.cancel()

            group.start_soon(cancel)
            await submit()
            seen = "accepted"
    return seen


async def natively(submit: Submit, steps: int) -> str:
    task = asyncio.ensure_future(submit())
    await pause(steps)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled"
    return "accepted"


async def in_wait_for(submit: Submit, steps: int) -> str:
    async def waits() -> None:
        await asyncio.wait_for(submit(), 1000)

    task = asyncio.create_task(waits())
    await pause(steps)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled"
    return "accepted"


async def in_a_timeout(submit: Submit, steps: int) -> str:
    try:
        async with asyncio.timeout(None) as timeout:
            asyncio.get_running_loop().call_soon(
                later, steps, lambda: timeout.reschedule(asyncio.get_running_loop().time())
            )
            await submit()
    except TimeoutError:
        return "cancelled"
    return "accepted"


def later(steps: int, call: Callable[[], object]) -> None:
    """Call it after so many passes of the loop."""
    if steps:
        asyncio.get_running_loop().call_soon(later, steps - 1, call)
    else:
        try:
            call()
        except RuntimeError:
            pass  # that time-out is over


async def in_a_task_group(submit: Submit, steps: int) -> str:
    class Crash(Exception):
        pass

    async def crash() -> None:
        await pause(steps)
        raise Crash

    seen = "cancelled"
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(crash())
            await submit()
            seen = "accepted"
            await asyncio.sleep(1)
    except* Crash:
        pass
    return seen


async def many_submitters(wrapped: Wrapped, steps: int, crowd: int) -> None:
    """One submitter is cancelled while `crowd` others submit, and the host takes boundaries."""
    runtime, context = new_runtime(), ListContext()
    async with (
        anyio.create_task_group() as group,
        runtime.open_generation(PROMPT, context=context) as generation,
    ):
        await generation.boundary()
        for number in range(crowd):
            group.start_soon(submit, runtime, f"{number}")
        seen = await wrapped(lambda: runtime.submit_steering(steer("a"), generation.id), steps)
        assert_nothing_between(runtime, "a", seen)
        while len(runtime.receipts()) < crowd + (seen == "accepted"):
            await checkpoint()
        while not await generation.finish("done"):
            await generation.boundary()
    assert ("a" in context.ids) == (seen == "accepted")
    assert len(context.ids) == 1 + crowd + (seen == "accepted")


@pytest.mark.promise("submit.cancelled", "submit.reported", "submit.hand_off", "I12")
@pytest.mark.parametrize("crowd", [0, 1, 5])
@pytest.mark.parametrize("steps", range(9))
def test_a_submit_that_a_scope_cancels_was_not_admitted(
    run: Backend, steps: int, crowd: int
) -> None:
    run(many_submitters, in_a_scope, steps, crowd)


@pytest.mark.promise("submit.cancelled", "submit.reported", "submit.hand_off", "I12")
@pytest.mark.parametrize("wrapped", [natively, in_wait_for, in_a_timeout, in_a_task_group])
@pytest.mark.parametrize("crowd", [0, 1, 5])
@pytest.mark.parametrize("steps", range(9))
@on_asyncio
def test_a_submit_that_asyncio_cancels_was_not_admitted(
    run: Backend, steps: int, crowd: int, wrapped: Wrapped
) -> None:
    run(many_submitters, wrapped, steps, crowd)


@pytest.mark.promise("submit.cancelled", "I12", "word.admission")
def test_a_submit_under_a_cancelled_scope_is_not_admitted_whatever_it_would_have_got(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def cancelled(given: Input) -> bool:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await runtime.submit(given)
            return scope.cancelled_caught

        assert await cancelled(Input("user", "text"))  # idle
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            assert await cancelled(steer("a"))
            assert await cancelled(Input("stop"))
            await submit(runtime, "b")
            assert await cancelled(steer("b"))
            await finish_at_once(generation)
        assert [receipt["inputId"] for receipt in runtime.receipts()] == ["b"]
        assert generation.outcome == "finished"

    run(test)


# ------------------------------------------------------------------------ prompt, in turn


@pytest.mark.promise("submit.prompt", "I13", "submit.in_turn", "boundary.reentrant")
@pytest.mark.parametrize("blocked_in", ["tool", "write", "checkpoint"])
def test_submitting_takes_a_bounded_number_of_steps_whatever_the_loop_does(
    run: Backend, blocked_in: str
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2)
        blocked, gate = anyio.Event(), anyio.Event()
        took: list[int] = []

        async def save(generation: Generation) -> None:
            if blocked_in == "checkpoint":
                blocked.set()
                await gate.wait()

        async def person(name: str) -> None:
            steps, done = 0, anyio.Event()

            async def submits() -> None:
                await submit(runtime, name)
                done.set()

            async with anyio.create_task_group() as group:
                group.start_soon(submits)
                while not done.is_set():
                    steps += 1
                    await checkpoint()
            took.append(steps)

        async def people() -> None:
            await (context.waiting if blocked_in == "write" else blocked).wait()
            before = anyio.current_time()
            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(person, f"{number}")
            assert anyio.current_time() == before
            context.gate.set()
            gate.set()

        async with (
            anyio.create_task_group() as group,
            runtime.open_generation(PROMPT, context=context, checkpoint=save) as generation,
        ):
            await generation.boundary()
            if blocked_in == "write":
                await submit(runtime, "slow")
            group.start_soon(people)
            if blocked_in == "tool":
                blocked.set()
                await gate.wait()
                context.gate.set()
            elif blocked_in == "write":
                await generation.boundary()
            while not await generation.finish("done"):
                await generation.boundary()
        # A few steps for the hand-off itself, and a few for each of the nine before it.
        assert max(took) <= 6 * 10
        assert len(runtime.receipts()) == 10 + (blocked_in == "write")

    run(test)


@pytest.mark.promise("submit.in_turn", "I7", "I13")
def test_submitters_that_wait_are_served_in_order(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await generation.boundary()
            async with anyio.create_task_group() as group:
                for number in range(128):
                    group.start_soon(submit, runtime, f"{number}")
            accepted = [receipt["inputId"] for receipt in runtime.receipts()]
            await generation.boundary()
            await generation.finish("done")
        assert sorted(accepted, key=int) == [f"{number}" for number in range(128)]
        assert context.ids == ["prompt", *accepted]

    run(test)


@pytest.mark.promise("submit.closing", "I8", "submit.named_states")
@pytest.mark.parametrize("how", ["stop", "aclose", "cancel"])
@pytest.mark.parametrize("steps", range(6))
def test_when_admission_closes_every_waiting_submitter_is_answered(
    run: Backend, how: str, steps: int
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        answers: list[str] = []

        async def person(name: str) -> None:
            try:
                receipt = await runtime.submit_steering(steer(name), "g1")
            except SteeringRefused as refusal:
                answers.append(refusal.code.value)
            else:
                answers.append(receipt["disposition"])

        async with anyio.create_task_group() as people:
            with anyio.CancelScope() as scope:
                async with runtime.open_generation(PROMPT, context=context) as generation:
                    await generation.boundary()
                    for number in range(20):
                        people.start_soon(person, f"{number}")
                    await pause(steps)
                    if how == "stop":
                        runtime.stop()
                    elif how == "aclose":
                        await runtime.aclose()
                    else:
                        scope.cancel()
                    await checkpoint()
        assert len(answers) == 20
        assert set(answers) <= {
            "queued",
            "held",
            "no_active_generation",
            "admission_closed",
            "runtime_closed",
        }
        assert len(runtime.receipts()) == answers.count("queued") + answers.count("held")
        assert runtime.pending() == []
        assert context.ids == ["prompt"]

    run(test)


@pytest.mark.promise(
    "word.admission", "admission.synchronous", "admission.9", "submit.named_states"
)
def test_at_the_moment_of_the_receipt_everything_is_recorded(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            before = types(runtime)
            receipt = await runtime.submit_steering(steer("a"), generation.id)
            assert runtime.receipt("a") == receipt
            assert runtime.pending() == [receipt]
            assert types(runtime) == [
                *before,
                "input.accepted",
                "steering.accepted",
                "input.queued",
            ]
            for event in runtime.events(len(before)):
                assert event.data == {
                    "input_id": "a",
                    "target_generation_id": "g1",
                    "delivery": "request_boundary",
                }
            await finish_at_once(generation)

    run(test)


@pytest.mark.promise("submit.closing", "block.one_active", "I6")
def test_a_submitter_that_waits_while_the_next_generation_begins_is_judged_by_it(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        answers: list[str] = []

        async def person(name: str) -> None:
            try:
                await runtime.submit_steering(steer(name), "g1")
            except SteeringRefused as refusal:
                answers.append(refusal.code.value)
            else:
                answers.append("accepted")

        async with anyio.create_task_group() as people:
            async with runtime.open_generation(PROMPT, context=context) as first:
                await first.boundary()
                for number in range(30):
                    people.start_soon(person, f"{number}")
                await pause(2)
                runtime.stop()
                with anyio.CancelScope(shield=True):
                    async with runtime.open_generation(
                        Input("user", "next", id="next"), context=context
                    ) as second:
                        assert active(runtime) == "g2"
                        await finish_at_once(second)
        assert len(answers) == 30
        assert set(answers) <= {"accepted", "generation_mismatch", "no_active_generation"}
        assert context.ids == ["prompt", "next"]
        assert {disposition(runtime, r["inputId"]) for r in runtime.receipts()} <= {
            ("held", "stopped")
        }

    run(test)


# ---------------------------------------------------------------------- asyncio as a host


@pytest.mark.promise("I17", "submit.reported")
@on_asyncio
def test_a_program_of_asyncio_alone_hosts_and_steers(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        before = tasks()

        async def host() -> str | None:
            async with asyncio.timeout(60):
                async with runtime.open_generation(PROMPT, context=context) as generation:
                    async for request in generation.requests():
                        await asyncio.sleep(1)
                        request.finish(f"answer {request.number}")
                return generation.outcome

        async def person() -> Receipt:
            await asyncio.sleep(0.5)
            return await asyncio.wait_for(runtime.submit_steering(steer("a"), "g1"), 5)

        async with asyncio.TaskGroup() as group:
            hosted = group.create_task(host())
            submitted = group.create_task(person())
        assert hosted.result() == "finished"
        assert submitted.result()["disposition"] == "queued"
        assert await runtime.settled("a") == runtime.receipt("a")
        assert context.ids == ["prompt", "a"]
        assert tasks() == before
        with pytest.raises(NoActiveGeneration):
            await asyncio.wait_for(runtime.submit_steering(steer("b"), "g1"), 5)

    run(test)


@pytest.mark.promise("stop.synchronous", "stop.nothing_after", "protect.stop")
@pytest.mark.parametrize("writing", [False, True])
@on_asyncio
def test_a_callback_of_the_loop_may_stop_and_submit_nothing_else(
    run: Backend, writing: bool
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2 if writing else 99)
        loop = asyncio.get_running_loop()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            if writing:
                loop.call_later(1, runtime.stop)  # as a signal handler would
                loop.call_later(2, context.gate.set)
                await generation.boundary()
            else:
                loop.call_soon(runtime.stop)
            await asyncio.sleep(3600)
        assert (generation.outcome, generation.reason) == ("detached", "stopped")
        assert disposition(runtime, "b") == ("held", "stopped")
        assert context.ids == (["prompt", "a"] if writing else [])

    run(test)


@pytest.mark.promise("library.deterministic")
def test_one_scripted_session_gives_the_same_events_on_every_backend() -> None:
    from tests.support.backends import BACKENDS

    async def session() -> list[dict[str, object]]:
        begin, context = anyio.current_time(), ListContext()
        runtime = new_runtime(clock=lambda: anyio.current_time() - begin)

        async def save(generation: Generation) -> None:
            await anyio.sleep(1)

        async def person() -> None:
            await anyio.sleep(0.5)
            await submit(runtime, "a", "b")
            await anyio.sleep(2)
            await runtime.submit(Input("user", "later", id="later"))
            await runtime.submit(Input("service", "reading", id="reading", source="sensor"))

        async with anyio.create_task_group() as group:
            group.start_soon(person)
            async with runtime.open_generation(
                PROMPT, context=context, checkpoint=save
            ) as generation:
                async for request in generation.requests():
                    await anyio.sleep(1)
                    request.finish(f"answer {request.number}")
        with anyio.move_on_after(10):
            await runtime.serve(work, context=context, checkpoint=save)
        async with runtime.open_generation(Input("user", "last", id="last"), context=context):
            await submit(runtime, "c")
            runtime.stop()
        await runtime.aclose()
        return [event.to_json() for event in runtime.events()]

    first, *others = [backend(session) for backend in BACKENDS]
    assert others
    for other in others:
        for mine, yours in zip(first, other, strict=True):
            assert mine == yours
