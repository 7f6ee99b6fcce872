"""Events: numbered, published after the state, read at the reader's own pace."""

from __future__ import annotations

import json
import threading
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from midcourse import Event, Gap, Input, Limits, LiveRuntime, Misuse
from midcourse._loops import Waiter
from tests.engine.scene import (
    PROMPT,
    disposition,
    finish_at_once,
    new_runtime,
    submit,
    types,
    work,
)
from tests.support.backends import Backend
from tests.support.contexts import ListContext


async def some(runtime: LiveRuntime, count: int) -> None:
    """Publish two events `count` times."""
    for _ in range(count):
        await runtime.submit(Input("user", "text"))


@pytest.mark.promise("event.fields", "event.sequence", "library.values", "library.deterministic")
def test_every_event_has_its_number_its_session_and_its_time(run: Backend) -> None:
    async def test() -> None:
        times = iter(range(100, 200))
        runtime = new_runtime(session_id="s", clock=lambda: float(next(times)))
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await submit(runtime, "a")
            await finish_at_once(generation)
        events = runtime.events()
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert {(event.version, event.session_id) for event in events} == {(1, "s")}
        assert [event.time for event in events] == [100.0 + n for n in range(len(events))]
        for event in events:
            flat = event.to_json()
            assert json.loads(json.dumps(flat)) == flat
            assert list(flat)[:5] == ["version", "sequence", "session_id", "time", "type"]
        finished = events[-1].to_json()
        assert finished["input_ids"] == ["prompt", "a"]
        finished["input_ids"].append("changed")
        assert events[-1].to_json()["input_ids"] == ["prompt", "a"]
        data: Any = events[-1].data
        with pytest.raises(TypeError):
            data["text"] = "changed"

    run(test)


@pytest.mark.promise("event.catch_up", "event.subscription_ends")
@pytest.mark.parametrize("after", [0, 3, None])
def test_a_subscription_begins_where_it_is_told(run: Backend, after: int | None) -> None:
    async def test() -> None:
        runtime = new_runtime()
        await some(runtime, 3)
        subscription = runtime.subscribe(after=after)
        await some(runtime, 1)
        await runtime.aclose()
        read = [item.sequence async for item in subscription if isinstance(item, Event)]
        first = 7 if after is None else after + 1
        assert read == list(range(first, 13))
        assert [event.sequence for event in runtime.events(after or 0)][-1] == read[-1]

    run(test)


@pytest.mark.promise("event.after_state", "event.never_slows")
def test_a_reader_sees_the_state_that_an_event_tells_of(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        seen: list[tuple[str, Any]] = []

        async def reader() -> None:
            async for item in runtime.subscribe():
                assert isinstance(item, Event)
                if item.type == "generation.started":
                    seen.append((item.type, runtime.generation is not None))
                elif item.type in ("steering.accepted", "steering.applied"):
                    seen.append((item.type, disposition(runtime, "a")[0]))
                elif item.type == "generation.finished":
                    seen.append((item.type, runtime.generation))
                    return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await anyio.wait_all_tasks_blocked()
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await anyio.wait_all_tasks_blocked()
                await submit(runtime, "a")
                await anyio.wait_all_tasks_blocked()
                await generation.boundary()
                await anyio.wait_all_tasks_blocked()
                await generation.finish("done")
        assert seen == [
            ("generation.started", True),
            ("steering.accepted", "queued"),
            ("steering.applied", "applied"),
            ("generation.finished", None),
        ]

    run(test)


@pytest.mark.promise("event.no_host_code", "event.never_slows")
def test_publishing_runs_no_reader(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        read: list[str] = []

        async def reader() -> None:
            async for item in runtime.subscribe():
                assert isinstance(item, Event)
                read.append(item.type)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await anyio.wait_all_tasks_blocked()
            async with runtime.open_generation(PROMPT, context=ListContext()):
                await submit(runtime, "a")
                await anyio.wait_all_tasks_blocked()
                before = len(read)
                runtime.stop()  # publishes three events
                assert len(types(runtime)) == before + 3
                assert len(read) == before
            await runtime.aclose()
        assert read == types(runtime)

    run(test)


@pytest.mark.promise("event.gap", "event.catch_up", "event.never_slows")
def test_a_slow_reader_sees_what_it_lost_and_can_catch_up(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        subscription = runtime.subscribe(buffer=4)
        await some(runtime, 10)
        gap = await anext(subscription)
        assert gap == Gap(lost=16, first=1, last=16)
        assert [(await anext(subscription)).sequence for _ in range(4)] == [17, 18, 19, 20]  # type: ignore[union-attr]
        lost = [event for event in runtime.events(gap.first - 1) if event.sequence <= gap.last]
        assert len(lost) == gap.lost
        await some(runtime, 3)
        assert await anext(subscription) == Gap(lost=2, first=21, last=22)

    run(test)


@pytest.mark.promise("event.gap", "event.history", "limits.event_history")
def test_the_history_bounds_every_buffer_and_says_so(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime(limits=Limits(event_history=5))
        subscription = runtime.subscribe(after=0, buffer=1000)
        await some(runtime, 4)
        assert [event.sequence for event in runtime.events()] == [4, 5, 6, 7, 8]
        assert [event.sequence for event in runtime.events(6)] == [7, 8]
        assert runtime.events(8) == runtime.events(80) == []
        assert await anext(subscription) == Gap(lost=3, first=1, last=3)
        late = runtime.subscribe(after=1)
        assert await anext(late) == Gap(lost=2, first=2, last=3)
        following = await anext(late)
        assert isinstance(following, Event)
        assert following.sequence == 4

    run(test)


@pytest.mark.promise("event.never_slows", "event.catch_up")
def test_several_readers_read_each_at_his_own_pace(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        read: dict[str, list[int]] = {"quick": [], "slow": []}

        async def reader(name: str, pause: float) -> None:
            async for item in runtime.subscribe(after=0):
                assert isinstance(item, Event)
                read[name].append(item.sequence)
                await anyio.sleep(pause)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader, "quick", 0)
            tasks.start_soon(reader, "slow", 10)
            await anyio.wait_all_tasks_blocked()
            before = anyio.current_time()
            async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
                await submit(runtime, "a", "b")
                await work(generation)
            assert anyio.current_time() == before
            await runtime.aclose()
        numbers = list(range(1, len(types(runtime)) + 1))
        assert read == {"quick": numbers, "slow": numbers}

    run(test)


@pytest.mark.promise("event.subscription_ends")
def test_a_subscription_ends_behind_the_last_event_of_a_closed_runtime(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        ended: list[str] = []

        async def reader() -> None:
            async for item in runtime.subscribe():
                assert isinstance(item, Event)
                ended.append(item.type)
            ended.append("end")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await anyio.wait_all_tasks_blocked()

            class Slow(ListContext):
                async def add_message(self, message: dict[str, Any], /) -> None:
                    await runtime.aclose()
                    await anyio.sleep(1)
                    assert "end" not in ended  # the generation is not over yet
                    await super().add_message(message)

            async with runtime.open_generation(PROMPT, context=Slow()) as generation:
                await generation.boundary()
        assert ended[-2:] == ["generation.detached", "end"]
        late = runtime.subscribe()
        with pytest.raises(StopAsyncIteration):
            await anext(late)

    run(test)


@pytest.mark.promise("event.subscription_ends")
def test_a_closed_subscription_stops_at_its_next_step(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        with runtime.subscribe() as subscription:
            await some(runtime, 1)
            assert isinstance(await anext(subscription), Event)
        await some(runtime, 1)
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)

    run(test)


@pytest.mark.promise("event.subscription_ends")
def test_closing_a_subscription_wakes_its_reader(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        subscription = runtime.subscribe()
        read: list[object] = []

        async def reader() -> None:
            read.extend([item async for item in subscription])
            read.append("end")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await anyio.wait_all_tasks_blocked()
            subscription.close()
        assert read == ["end"]

    run(test)


@pytest.mark.promise("event.never_slows", "event.catch_up")
def test_cancelling_a_reader_loses_it_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        subscription = runtime.subscribe()
        for _ in range(3):
            with anyio.move_on_after(1) as scope:
                await anext(subscription)
            assert scope.cancelled_caught
        await some(runtime, 1)
        with anyio.CancelScope() as cancelled:
            cancelled.cancel()
            await anext(subscription)
        assert cancelled.cancelled_caught
        first = await anext(subscription)
        assert isinstance(first, Event)
        assert first.sequence == 1
        assert runtime._waiters == set()

    run(test)


@pytest.mark.promise("library.misuse")
def test_a_subscription_is_read_by_one_task(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        subscription = runtime.subscribe()
        with pytest.raises(ValueError, match="buffer"):
            runtime.subscribe(buffer=0)

        async def reader() -> None:
            await anext(subscription)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(Misuse):
                await anext(subscription)
            await some(runtime, 1)
        item = await anext(subscription)
        assert isinstance(item, Event)
        assert item.sequence == 2

    run(test)


@pytest.mark.promise("event.never_slows")
def test_each_step_of_a_reader_is_a_checkpoint(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        await some(runtime, 5)
        order: list[str] = []

        async def other() -> None:
            for _ in range(3):
                order.append("other")
                await checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            subscription = runtime.subscribe(after=0)
            for _ in range(10):
                await anext(subscription)
                order.append("reader")
        assert order.index("other") < order.index("reader") + 2
        assert order[-1] == "reader"

    run(test)


@pytest.mark.promise("library.logging")
def test_no_event_and_no_log_line_carries_what_was_said(
    run: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        secret = Input("steer", "the secret", id="a")
        async with runtime.open_generation(
            Input("user", "the secret", id="p"), context=ListContext()
        ) as generation:
            await runtime.submit(secret)
            await work(generation)
        assert "secret" not in json.dumps([event.to_json() for event in runtime.events()])

    with caplog.at_level("DEBUG", logger="midcourse"):
        run(test)
    assert "secret" not in caplog.text


@pytest.mark.promise("library.misuse", "event.catch_up")
def test_a_subscription_begins_at_a_number_that_there_can_be() -> None:
    runtime = new_runtime()
    with pytest.raises(ValueError, match="after"):
        runtime.subscribe(after=-1)
    with pytest.raises(ValueError, match="buffer"):
        runtime.subscribe(buffer=0)


@pytest.mark.promise("event.never_slows", "event.no_host_code", "thread.never_hangs")
def test_a_reader_whose_loop_is_gone_makes_no_step_fail(run: Backend) -> None:
    runtime = new_runtime()

    async def leaves_a_waiter() -> None:
        # What a reader leaves behind whose loop was ended under it.
        runtime._waiters.add(Waiter())

    thread = threading.Thread(target=run, args=(leaves_a_waiter,))
    thread.start()
    thread.join(30)
    receipt = runtime.from_thread.submit(Input("user", "text"))
    assert receipt["disposition"] == "queued"
