"""Who cancels the host, and by which means: nothing tears a write, and everybody gets his own."""

# ruff: noqa: PT012  # a block that raises is what is tested

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
import trio
from anyio.lowlevel import checkpoint

from midcourse import Generation, GenerationOver, LiveRuntime
from tests.engine.scene import (
    ON_ASYNCIO,
    PROMPT,
    ActingContext,
    data_of,
    disposition,
    finish_at_once,
    new_runtime,
    submit,
    terminal_events,
    types,
)
from tests.support.backends import Backend
from tests.support.contexts import HangingContext, ListContext, Message, StubbornContext

Host = Callable[[], Awaitable[None]]
Means = Callable[[Host, anyio.Event], Awaitable[None]]

on_asyncio = pytest.mark.parametrize("run", ON_ASYNCIO, ids=repr)


class Crash(Exception):
    """A crash beside the host."""


async def outer_scope(host: Host, writing: anyio.Event) -> None:
    async with anyio.create_task_group() as tasks:

        async def cancel() -> None:
            await writing.wait()
            scope.cancel()

        tasks.start_soon(cancel)
        with anyio.CancelScope() as scope:
            await host()
    assert scope.cancelled_caught


async def crash_beside(host: Host, writing: anyio.Event) -> None:
    async def crash() -> None:
        await writing.wait()
        raise Crash

    with pytest.raises(ExceptionGroup) as caught:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crash)
            await host()
    assert caught.group_contains(Crash)
    assert len(caught.value.exceptions) == 1


async def outer_deadline(host: Host, writing: anyio.Event) -> None:
    with anyio.move_on_after(0.5) as scope:
        await host()
    assert scope.cancelled_caught


async def fail_after(host: Host, writing: anyio.Event) -> None:
    with pytest.raises(TimeoutError), anyio.fail_after(0.5):
        await host()


async def native_cancel(host: Host, writing: anyio.Event) -> None:
    task = asyncio.ensure_future(host())
    await writing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def cancelled_thrice(host: Host, writing: anyio.Event) -> None:
    task = asyncio.ensure_future(host())
    await writing.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.2)
    with pytest.raises(asyncio.CancelledError):
        await task


async def asyncio_timeout(host: Host, writing: anyio.Event) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await host()


async def wait_for(host: Host, writing: anyio.Event) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(host(), 0.5)


async def crash_of_the_parent(host: Host, writing: anyio.Event) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(host())  # type: ignore[arg-type]
            await writing.wait()
            raise Crash
    assert len(caught.value.exceptions) == 1


async def crash_of_a_sibling(host: Host, writing: anyio.Event) -> None:
    async def crash() -> None:
        await writing.wait()
        raise Crash

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(crash())
            await host()
    assert len(caught.value.exceptions) == 1


ANYWHERE: list[Means] = [outer_scope, crash_beside, outer_deadline, fail_after]
NATIVE: list[Means] = [
    native_cancel,
    cancelled_thrice,
    asyncio_timeout,
    wait_for,
    crash_of_the_parent,
    crash_of_a_sibling,
]


async def cancelled_in_a_write(means: Means) -> None:
    """The host is cancelled by `means` while "a" is written, which takes a second."""
    runtime, writing = new_runtime(), anyio.Event()

    async def takes_a_second(context: ActingContext, message: Message) -> None:
        context.messages.append({"content": "half"})
        writing.set()
        await anyio.sleep(1)  # a torn write never comes back from here
        context.messages[-1] = message

    context = ActingContext(takes_a_second, at=2)
    before = anyio.current_time()

    async def host() -> None:
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            await generation.boundary()
            raise AssertionError("the boundary did not end the generation")

    await means(host, writing)
    assert anyio.current_time() - before == pytest.approx(1, abs=0.5)
    assert context.ids == ["prompt", "a"]
    assert disposition(runtime, "a") == ("applied", None)
    assert disposition(runtime, "b") == ("held", "cancelled")
    assert data_of(runtime, "generation.detached")["reason"] == "cancelled"
    assert runtime.generation is None
    # The program goes on, and nothing of the cancellation is left.
    for _ in range(3):
        await checkpoint()
    async with runtime.open_generation(PROMPT, context=context) as generation:
        await finish_at_once(generation)
    assert generation.outcome == "finished"


@pytest.mark.promise("protect.scope", "protect.deadline", "write.returned_wanted", "I3", "I4")
@pytest.mark.parametrize("means", ANYWHERE)
def test_no_scope_and_no_deadline_tears_a_write(run: Backend, means: Means) -> None:
    run(cancelled_in_a_write, means)


@pytest.mark.promise("protect.native_cancel", "protect.asyncio_timeout", "I3", "I4")
@pytest.mark.parametrize("means", NATIVE)
@on_asyncio
def test_no_native_cancellation_tears_a_write(run: Backend, means: Means) -> None:
    run(cancelled_in_a_write, means)


async def cancelled_while_it_hangs(means: Means) -> None:
    runtime, context = new_runtime(), HangingContext(at=2)
    before = anyio.current_time()

    async def host() -> None:
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            await generation.boundary()

    await means(host, context.hanging)
    assert 5 <= anyio.current_time() - before <= 5.6
    assert disposition(runtime, "a") == ("unknown", "write_interrupted")
    assert disposition(runtime, "b") == ("held", "cancelled")
    assert terminal_events(runtime) == ["generation.detached"]


@pytest.mark.promise("cancellation.grace", "write.told_undecided")
@pytest.mark.parametrize("means", ANYWHERE)
def test_after_any_cancellation_a_write_has_its_grace(run: Backend, means: Means) -> None:
    run(cancelled_while_it_hangs, means)


@pytest.mark.promise("cancellation.grace", "write.told_undecided", "protect.native_cancel")
@pytest.mark.parametrize("means", NATIVE)
@on_asyncio
def test_after_any_native_cancellation_a_write_has_its_grace(run: Backend, means: Means) -> None:
    run(cancelled_while_it_hangs, means)


@pytest.mark.promise("cancellation.wanted", "boundary.ends", "boundary.over")
def test_a_scope_around_the_boundary_alone_ends_the_whole_generation(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def cancels(context: ActingContext, message: Message) -> None:
            context.messages.append(message)
            scope.cancel()

        context = ActingContext(cancels, at=2)
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            with anyio.CancelScope() as scope:
                await generation.boundary()
            assert scope.cancelled_caught
            assert (generation.outcome, generation.reason) == ("detached", "cancelled")
            await checkpoint()  # the body itself was not cancelled
            with pytest.raises(GenerationOver):
                await generation.boundary()
        assert disposition(runtime, "b") == ("held", "cancelled")
        assert terminal_events(runtime) == ["generation.detached"]

    run(test)


@pytest.mark.promise("protect.asyncio_timeout", "boundary.ends", "boundary.over")
@on_asyncio
def test_an_asyncio_timeout_around_the_boundary_alone_ends_the_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HangingContext(at=2)
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await generation.boundary()
            assert generation.reason == "cancelled"
            await checkpoint()
            with pytest.raises(GenerationOver):
                await generation.finish("done")
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")

    run(test)


@pytest.mark.promise("cancellation.before_write", "protect.native_cancel", "I4")
@on_asyncio
def test_a_native_cancellation_between_two_writes_stops_the_second(run: Backend) -> None:
    async def test() -> None:
        runtime, tasks = new_runtime(), set[asyncio.Task[None]]()

        async def cancels(context: ActingContext, message: Message) -> None:
            context.messages.append(message)
            for task in tasks:
                task.cancel()

        context = ActingContext(cancels, at=2)

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()

        tasks.add(asyncio.create_task(host()))
        (task,) = tasks
        with pytest.raises(asyncio.CancelledError):
            await task
        assert context.begun == ["prompt", "a"]
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", "cancelled")

    run(test)


async def cancelled_between(how: str, steps: int) -> None:
    """The host is cancelled `steps` steps into a batch of writes that take no time at all."""
    runtime, context = new_runtime(), ListContext()
    begun_before: list[int] = []
    names = [f"{number}" for number in range(5)]
    scope = anyio.CancelScope()
    hosts: list[asyncio.Task[None]] = []

    async def host() -> None:
        with scope:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, *names)
                start.set()
                await generation.boundary()
                await checkpoint()
                runtime.stop()

    async def person() -> None:
        await start.wait()
        for _ in range(steps):
            await checkpoint()
        begun_before.append(len(context.begun))
        if how == "scope":
            scope.cancel()
        elif how == "deadline":
            scope.deadline = anyio.current_time() - 1
        elif how == "stop":
            runtime.stop()
        else:
            hosts[0].cancel()

    start = anyio.Event()
    async with anyio.create_task_group() as others:
        if how == "native":
            hosts.append(asyncio.create_task(host()))
            others.start_soon(person)
            await asyncio.wait(hosts)
        else:
            others.start_soon(host)
            others.start_soon(person)
    # Not one write was begun behind the moment in which cancellation was wanted.
    assert len(context.begun) == begun_before[0]
    assert context.ids == context.begun
    for name in names:
        applied = name in context.ids
        assert disposition(runtime, name)[0] == ("applied" if applied else "held")


@pytest.mark.promise("cancellation.before_write", "write.not_begun", "stop.wins", "I4")
@pytest.mark.parametrize("how", ["scope", "deadline", "stop"])
@pytest.mark.parametrize("steps", range(24))
def test_no_write_is_begun_behind_the_moment_of_a_cancellation(
    run: Backend, steps: int, how: str
) -> None:
    run(cancelled_between, how, steps)


@pytest.mark.promise("cancellation.before_write", "write.not_begun", "protect.native_cancel", "I4")
@pytest.mark.parametrize("steps", range(24))
@on_asyncio
def test_no_write_is_begun_behind_the_moment_of_a_native_cancellation(
    run: Backend, steps: int
) -> None:
    run(cancelled_between, "native", steps)


@pytest.mark.promise("cancellation.wanted", "protect.native_cancel")
@on_asyncio
def test_a_native_cancellation_that_the_host_swallowed_before_counts_no_more(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.sleep(0)
                assert task.cancelling() == 1
                await finish_at_once(generation)
            assert generation.outcome == "finished"

        await asyncio.create_task(host())

    run(test)


@pytest.mark.promise("boundary.ends", "boundary.over", "protect.native_cancel")
@on_asyncio
def test_a_native_cancellation_that_the_host_swallows_detaches_all_the_same(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), HangingContext(at=2)
        left: list[Generation] = []

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                left.append(generation)
                await submit(runtime, "a", "b")
                with pytest.raises(asyncio.CancelledError):
                    await generation.boundary()
                with pytest.raises(GenerationOver):
                    await generation.boundary()

        task = asyncio.create_task(host())
        await context.hanging.wait()
        task.cancel()
        await task
        assert (left[0].outcome, left[0].reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("cancellation.wanted", "protect.native_cancel")
@pytest.mark.parametrize("proposed", [False, True])
@on_asyncio
def test_a_body_left_with_its_cancellation_still_to_come_is_detached(
    run: Backend, proposed: bool
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        left: list[Generation] = []

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                left.append(generation)
                async for request in generation.requests():
                    if proposed:
                        request.finish("done")
                    break
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            await asyncio.sleep(0)

        task = asyncio.create_task(host())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (left[0].outcome, left[0].reason) == ("detached", "cancelled")

    run(test)


@pytest.mark.promise("cancellation.wanted", "held.cancelled")
def test_a_host_cancelled_while_it_waits_for_the_checkpoint_lock_is_detached(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        saving = anyio.Event()
        saved: list[float] = []

        async def save(generation: Generation) -> None:
            saving.set()
            await anyio.sleep(1)
            saved.append(anyio.current_time())

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                async with runtime.open_generation(
                    PROMPT, context=context, checkpoint=save
                ) as generation:
                    assert await generation.boundary()
                    await submit(runtime, "a")
                    tasks.start_soon(generation.checkpoint)
                    await saving.wait()
                    scope.cancel()
                    await generation.boundary()
        assert scope.cancelled_caught
        assert len(saved) == 1  # the save of the other task was not torn
        assert disposition(runtime, "a") == ("held", "cancelled")
        assert context.ids == ["prompt"]

    run(test)


# ---------------------------------------------------------------------------------- stop


def stop_now(runtime: LiveRuntime) -> None:
    runtime.stop()
    assert runtime.pending() == []


@pytest.mark.promise(
    "stop.synchronous", "stop.nothing_after", "end.synchronous", "library.quiet", "held.stopped"
)
def test_a_tool_may_stop_its_own_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        went_on: list[str] = []
        async with runtime.open_generation(PROMPT, context=context) as generation:
            async for _ in generation.requests():
                await submit(runtime, "a")
                stop_now(runtime)
                assert generation.outcome == "detached"  # before anything is awaited
                assert types(runtime)[-2:] == ["steering.held", "generation.detached"]
                went_on.append("synchronously")
                await checkpoint()
                went_on.append("too far")
        assert went_on == ["synchronously"]
        assert (generation.outcome, generation.reason) == ("detached", "stopped")
        assert disposition(runtime, "a") == ("held", "stopped")

    run(test)


@pytest.mark.promise("stop.synchronous", "stop.nothing_after", "protect.stop", "boundary.reentrant")
def test_a_write_may_stop_its_own_generation(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def stops(context: ActingContext, message: Message) -> None:
            runtime.stop()
            await checkpoint()
            context.messages.append(message)

        context = ActingContext(stops, at=2)
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            await generation.boundary()
            raise AssertionError("the body goes on")
        assert context.begun == ["prompt", "a"]
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", "stopped")
        assert (generation.outcome, generation.reason) == ("detached", "stopped")

    run(test)


@pytest.mark.promise("stop.synchronous", "finish.wanted", "boundary.reentrant")
def test_a_checkpoint_may_stop_its_own_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def stops(generation: Generation) -> None:
            stop_now(runtime)
            await checkpoint()

        async with runtime.open_generation(PROMPT, context=context, checkpoint=stops) as generation:
            assert await generation.boundary()
            await submit(runtime, "a")
            await generation.finish("done")
        assert disposition(runtime, "a") == ("held", "stopped")
        assert (generation.outcome, generation.reason) == ("detached", "stopped")
        assert generation.text == "done"

    run(test)


@pytest.mark.promise("stop.synchronous", "stop.wins", "held.stopped", "library.quiet")
def test_another_task_may_stop_a_host_that_waits_for_its_provider(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                async for _ in generation.requests():
                    await anyio.sleep_forever()
            assert generation.reason == "stopped"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host)
            await anyio.wait_all_tasks_blocked()
            await submit(runtime, "a", "b")
            stop_now(runtime)
            assert runtime.generation is None
        assert disposition(runtime, "a") == disposition(runtime, "b") == ("held", "stopped")
        assert context.ids == ["prompt"]

    run(test)


@pytest.mark.promise("stop.wins", "boundary.answer")
def test_a_step_in_a_task_outside_the_block_is_told_of_a_stop_quietly(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            assert await generation.boundary()
            runtime.stop()
        assert await generation.boundary() is False
        assert await generation.finish("late") is False
        await generation.checkpoint()
        assert [request async for request in generation.requests()] == []
        assert terminal_events(runtime) == ["generation.detached"]

    run(test)


@pytest.mark.promise("stop.wins", "cancellation.ignored")
def test_a_stop_during_confirm_changes_nothing_any_more(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()

        async def fails(context: ActingContext, message: Message) -> None:
            raise Crash

        context = ActingContext(fails, at=2)

        async def confirm(input_id: str) -> bool:
            runtime.stop()
            await anyio.sleep(1)
            return True

        context.confirm = confirm
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a", "b")
            with pytest.raises((Crash, anyio.get_cancelled_exc_class())):
                await generation.boundary()
        assert disposition(runtime, "a") == ("applied", None)
        assert disposition(runtime, "b") == ("held", "failed")
        assert (generation.outcome, generation.reason) == ("failed", "failed")

    run(test)


# -------------------------------------------------------------------------- a loop that ends


@pytest.mark.promise("write.told_undecided", "I1", "I9", "protect.native_cancel")
@pytest.mark.parametrize("kind", [HangingContext, StubbornContext])
def test_a_loop_that_is_shut_down_in_the_middle_of_a_write_leaves_everything_settled(
    run: Backend, kind: type[HangingContext | StubbornContext]
) -> None:
    runtime = new_runtime()
    left: list[asyncio.Task[None]] = []

    async def test() -> None:
        context = kind(at=2)

        async def host() -> None:
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()

        if run.is_trio:
            trio.lowlevel.spawn_system_task(host)
        else:
            left.append(asyncio.create_task(host()))
        await anyio.wait_all_tasks_blocked()
        assert disposition(runtime, "a") == ("queued", None)
        if isinstance(context, StubbornContext):
            context.gate.set()

    run(test)
    assert disposition(runtime, "a") in [("unknown", "write_interrupted"), ("applied", None)]
    assert disposition(runtime, "b") == ("held", "cancelled")
    assert terminal_events(runtime) == ["generation.detached"]
    assert runtime.generation is None


@pytest.mark.promise("protect.native_cancel", "write.returned_wanted")
@pytest.mark.parametrize("run", ON_ASYNCIO, ids=repr)
def test_a_block_left_behind_a_cancelled_step_of_another_task_is_detached(run: Backend) -> None:
    async def test() -> None:
        entered, returns = asyncio.Event(), asyncio.Event()

        class Slow:
            async def add_message(self, message: object, /) -> None:
                entered.set()
                await returns.wait()

        async with new_runtime().open_generation(PROMPT, context=Slow()) as generation:
            driver = asyncio.create_task(generation.boundary())
            await entered.wait()
            driver.cancel()
            returns.set()
        assert (generation.outcome, generation.reason) == ("detached", "cancelled")
        assert (await asyncio.gather(driver, return_exceptions=True))[0].__class__ is (
            asyncio.CancelledError
        )

    run(test)
