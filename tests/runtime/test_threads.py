"""Other threads: the same receipts and refusals, and nobody hangs.

These tests use a real clock, for virtual time does not wait for threads; each wait is bounded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from midcourse import (
    GenerationMismatch,
    IdentityConflict,
    Input,
    Limits,
    LiveRuntime,
    Misuse,
    NoActiveGeneration,
    RuntimeClosed,
    SteeringRefused,
)
from tests.engine.scene import (
    PROMPT,
    disposition,
    finish_at_once,
    new_runtime,
    steer,
    submit,
    terminal_events,
    types,
    work,
)
from tests.support.backends import BACKENDS, Backend
from tests.support.contexts import HangingContext, ListContext

_T = TypeVar("_T")

BOUND = 30.0  # seconds; none of these waits takes one


async def on_a_thread(call: Callable[..., _T], *args: Any) -> _T:
    with anyio.fail_after(BOUND):
        return await anyio.to_thread.run_sync(call, *args)


@pytest.mark.promise("thread.same", "submit.prompt")
def test_a_thread_steers_the_active_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        threads = runtime.from_thread
        async with runtime.open_generation(PROMPT, context=context) as generation:
            receipt = await on_a_thread(threads.submit_steering, steer("a"), generation.id)
            assert receipt == {
                "accepted": True,
                "inputId": "a",
                "generationId": "g1",
                "disposition": "queued",
            }
            assert await on_a_thread(threads.submit, steer("b"))
            assert await on_a_thread(threads.receipt, "a") == receipt
            assert await on_a_thread(threads.receipt, "nobody") is None
            assert len(await on_a_thread(threads.receipts)) == 2
            assert len(await on_a_thread(threads.pending)) == 2
            given = await on_a_thread(threads.input, "b")
            assert given is not None
            assert given.text == "text of b"
            await finish_at_once(generation)
        assert context.ids == ["prompt", "a", "b"]

    run(test, threads=True)


@pytest.mark.promise("thread.same", "refusal.fields")
def test_a_thread_is_refused_with_the_same_codes(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        threads = runtime.from_thread
        with pytest.raises(NoActiveGeneration):
            await on_a_thread(threads.submit_steering, steer("a"), "g1")
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            with pytest.raises(GenerationMismatch) as caught:
                await on_a_thread(threads.submit_steering, steer("a"), "g0")
            assert caught.value.active_generation_id == "g1"
            await on_a_thread(threads.submit_steering, steer("a"), "g1")
            with pytest.raises(IdentityConflict):
                await on_a_thread(threads.submit, steer("a"))
            await finish_at_once(generation)
        await runtime.aclose()
        with pytest.raises(RuntimeClosed):
            await on_a_thread(threads.submit, steer("b"))
        again = await on_a_thread(threads.submit_steering, steer("a"), "g1")
        assert again["disposition"] == "applied"

    run(test, threads=True)


@pytest.mark.promise("thread.stop", "stop.synchronous")
@pytest.mark.parametrize("how", ["from_thread", "stop", "submitted"])
def test_a_thread_stops_the_active_generation(run: Backend, how: str) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        calls: dict[str, Callable[[], object]] = {
            "from_thread": runtime.from_thread.stop,
            "stop": runtime.stop,
            "submitted": lambda: runtime.from_thread.submit(Input("stop")),
        }

        async with anyio.create_task_group() as tasks:

            async def stopper() -> None:
                await on_a_thread(calls[how])

            async with runtime.open_generation(PROMPT, context=context) as generation:
                await generation.boundary()
                await submit(runtime, "a")
                tasks.start_soon(stopper)
                await anyio.sleep(BOUND)
        assert (generation.outcome, generation.reason) == ("detached", "stopped")
        assert disposition(runtime, "a") == ("held", "stopped")

    run(test, threads=True)


@pytest.mark.promise("thread.stop", "cancellation.grace")
def test_a_thread_that_stops_during_a_write_gives_it_its_grace(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(limits=Limits(write_grace=0.05)), HangingContext(at=2)

        async with anyio.create_task_group() as tasks:

            async def stopper() -> None:
                await context.hanging.wait()
                await on_a_thread(runtime.from_thread.stop)

            tasks.start_soon(stopper)
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "a", "b")
                await generation.boundary()
        assert disposition(runtime, "a") == ("unknown", "write_interrupted")
        assert disposition(runtime, "b") == ("held", "stopped")

    run(test, threads=True)


@pytest.mark.promise("library.misuse", "thread.never_hangs")
def test_the_calls_for_threads_are_refused_on_the_loop_that_would_wait_for_itself(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            with pytest.raises(Misuse):
                runtime.from_thread.submit_steering(steer("a"), generation.id)
            with pytest.raises(Misuse):
                runtime.from_thread.pending()
            await finish_at_once(generation)
        assert runtime.receipts() == []

    run(test, threads=True)


@pytest.mark.promise("thread.same", "library.anywhere")
def test_without_a_loop_any_thread_may_submit() -> None:
    runtime = new_runtime()
    with ThreadPoolExecutor(8) as pool:
        given = [Input("user", "text", id=f"{number}") for number in range(100)]
        receipts = list(pool.map(runtime.from_thread.submit, given, timeout=BOUND))
    assert {receipt["disposition"] for receipt in receipts} == {"queued"}
    assert len(runtime.receipts()) == 100
    assert [event.sequence for event in runtime.events()] == list(range(1, 201))
    runtime.from_thread.stop()
    assert len(runtime.pending()) == 100


@pytest.mark.promise("thread.same", "thread.never_hangs", "submit.in_turn", "I7", "I11", "I13")
def test_many_threads_submit_at_once_and_everything_accepted_is_applied_in_order(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        threads, each = 8, 12

        def submits(number: int) -> list[str]:
            return [
                runtime.from_thread.submit_steering(steer(f"{number}/{n}"), "g1")["disposition"]
                for n in range(each)
            ]

        async with runtime.open_generation(PROMPT, context=context) as generation:
            async with anyio.create_task_group() as tasks:
                for number in range(threads):
                    tasks.start_soon(on_a_thread, submits, number)
                for name in ("x", "y", "z"):
                    await submit(runtime, name)
            await generation.boundary()
            await generation.finish("done")
        assert sorted(str(name) for name in context.ids) == sorted(
            ["prompt", "x", "y", "z"]
            + [f"{number}/{n}" for number in range(threads) for n in range(each)]
        )
        for number in range(threads):  # each thread's own, in its order
            own = [name for name in context.ids if name and name.startswith(f"{number}/")]
            assert own == [f"{number}/{n}" for n in range(each)]
        assert context.ids[1:] == [receipt["inputId"] for receipt in runtime.receipts()]

    run(test, threads=True)


@pytest.mark.promise(
    "thread.closed", "thread.never_hangs", "thread.again", "settled.closing", "submit.closing"
)
@pytest.mark.parametrize("ends", ["aclose", "stop", "finish", "serve"])
def test_threads_that_submit_while_it_ends_get_a_receipt_or_a_refusal(
    run: Backend, ends: str
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        accepted: list[str] = []
        refused: list[str] = []
        enough = threading.Event()

        def submits(number: int) -> None:
            for n in range(1000):
                name = f"{number}/{n}"
                given = steer(name) if ends != "serve" else Input("user", "text", id=name)
                try:
                    runtime.from_thread.submit(
                        Input("steer", given.text, id=name, target_generation_id="g1")
                        if ends != "serve"
                        else given
                    )
                except SteeringRefused as refusal:
                    refused.append(refusal.code.value)
                    if refusal.code != "queue_full" or ends == "serve":
                        return
                else:
                    accepted.append(name)
                if len(accepted) > 40:
                    enough.set()

        async def host() -> None:
            if ends == "serve":

                async def serve() -> None:
                    await runtime.serve(work, context=context)

                async with anyio.create_task_group() as serving:
                    serving.start_soon(serve)
                    await on_a_thread(enough.wait, BOUND)
                    runtime.stop()
                await runtime.aclose()
                return
            async with runtime.open_generation(
                PROMPT, context=context, max_requests=8
            ) as generation:
                await generation.boundary()
                await on_a_thread(enough.wait, BOUND)
                if ends == "aclose":
                    await runtime.aclose()
                elif ends == "stop":
                    runtime.stop()
                else:
                    while not await generation.finish("done"):
                        await generation.boundary()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host)
            if ends != "serve":
                await anyio.wait_all_tasks_blocked()
            for number in range(4):
                tasks.start_soon(on_a_thread, submits, number)
        if ends != "aclose":
            await runtime.aclose()
        assert {receipt["inputId"] for receipt in runtime.receipts()} == set(accepted)
        assert runtime.pending() == []
        assert set(refused) <= {
            "no_active_generation",
            "admission_closed",
            "runtime_closed",
            "queue_full",
        }
        applied = {r["inputId"] for r in runtime.receipts() if r["disposition"] == "applied"}
        assert applied == set(context.ids) - {"prompt"}
        retried = runtime.from_thread.submit(
            Input("user", "text", id=accepted[0])
            if ends == "serve"
            else Input("steer", f"text of {accepted[0]}", id=accepted[0], target_generation_id="g1")
        )
        assert retried == runtime.receipt(accepted[0])

    run(test, threads=True)


@pytest.mark.promise("thread.never_hangs", "thread.same")
def test_a_thread_that_submits_while_the_loop_does_something_else_waits_for_it(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        pool = ThreadPoolExecutor(1)
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            call: Future[Any] = pool.submit(
                runtime.from_thread.submit_steering, steer("a"), generation.id
            )
            hold_the_loop_until(lambda: bool(runtime._loops._calls))
            assert not call.done()
            await on_a_thread(call.result, BOUND)
            assert call.result(0)["disposition"] == "queued"
            await finish_at_once(generation)
        pool.shutdown()
        assert disposition(runtime, "a") == ("applied", None)

    run(test, threads=True)


@pytest.mark.promise("thread.closed", "thread.never_hangs")
def test_a_call_on_its_way_when_the_generation_ends_is_decided_then(run: Backend) -> None:
    call: list[Future[Any]] = []
    runtime = new_runtime()

    async def test() -> None:
        pool = ThreadPoolExecutor(1)
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            runtime.stop()
            call.append(pool.submit(runtime.from_thread.submit_steering, steer("a"), generation.id))
            hold_the_loop_until(lambda: bool(runtime._loops._calls))
        # It is decided where the block is left; the loop that comes to it later finds nothing.
        assert isinstance(call[0].exception(BOUND), NoActiveGeneration)
        for _ in range(10):
            await checkpoint()
        pool.shutdown(wait=False)

    run(test, threads=True)
    assert terminal_events(runtime) == ["generation.detached"]


@pytest.mark.promise("thread.closed", "thread.never_hangs")
def test_a_call_on_its_way_when_the_loop_lets_go_of_the_runtime_is_decided_then(
    run: Backend,
) -> None:
    async def test() -> None:
        pool = ThreadPoolExecutor(1)
        call: list[Future[Any]] = []

        def new_id() -> str:
            # Between the moment in which the loop takes the runtime and the refusal.
            call.append(pool.submit(runtime.from_thread.submit, Input("user", "text")))
            hold_the_loop_until(lambda: bool(runtime._loops._calls))
            return "g1"

        runtime = new_runtime(new_id=new_id)
        await runtime.aclose()
        with pytest.raises(RuntimeClosed):
            await runtime.open_generation(PROMPT, context=ListContext()).__aenter__()
        assert isinstance(call[0].exception(BOUND), RuntimeClosed)
        for _ in range(10):
            await checkpoint()  # the loop comes to the call at last, and finds it made
        pool.shutdown()

    run(test, threads=True)


def hold_the_loop_until(ready: Callable[[], bool]) -> None:
    """Let nothing run on this loop until another thread has come so far."""
    end = time.monotonic() + BOUND
    while not ready():
        assert time.monotonic() < end


# ------------------------------------------------------------------------- several loops


@pytest.mark.promise("block.loops", "library.anywhere")
def test_an_idle_runtime_may_be_used_from_another_loop_later() -> None:
    runtime, context = new_runtime(), ListContext()

    async def turn(name: str) -> None:
        prompt = Input("user", "again", id=f"prompt {name}")
        async with runtime.open_generation(prompt, context=context) as generation:
            await submit(runtime, f"steer {name}")
            await work(generation)

    for number, backend in enumerate(BACKENDS * 2):
        backend(turn, f"{number}")
    assert types(runtime).count("generation.finished") == len(BACKENDS) * 2
    assert len(context.ids) == len(BACKENDS) * 4

    def other_thread() -> None:
        BACKENDS[0](turn, "thread", threads=True)

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join(BOUND)
    assert context.ids[-2:] == ["prompt thread", "steer thread"]


@pytest.mark.promise("block.loops", "library.misuse")
@pytest.mark.parametrize("other", BACKENDS, ids=repr)
def test_the_loop_of_another_thread_is_refused_while_a_generation_is_open(
    run: Backend, other: Backend
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        refused: list[str] = []

        async def on_the_wrong_loop() -> None:
            with pytest.raises(Misuse):
                await runtime.submit(steer("a"))
            with pytest.raises(Misuse):
                await runtime.submit_steering(steer("a"), "g1")
            with pytest.raises(Misuse):
                await runtime.open_generation(PROMPT, context=ListContext()).__aenter__()
            with pytest.raises(Misuse):
                await runtime.serve(work, context=ListContext())
            refused.append("all")

        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await on_a_thread(lambda: other(on_the_wrong_loop, threads=True))
            assert refused == ["all"]
            assert runtime.receipts() == []
            await finish_at_once(generation)
        assert types(runtime).count("generation.started") == 1

    run(test, threads=True)


@pytest.mark.promise("block.loops", "settled.waits", "event.never_slows")
def test_another_loop_may_wait_and_read(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        got: list[Any] = []
        waiting = threading.Event()

        async def on_another_loop() -> None:
            async with anyio.create_task_group() as tasks:

                async def reads() -> None:
                    async for item in runtime.subscribe(after=0):
                        got.append(item.type)  # type: ignore[union-attr]
                        waiting.set()
                        if got[-1] == "generation.finished":
                            return

                tasks.start_soon(reads)
                receipt = await runtime.settled("a")
                got.append(receipt["disposition"])

        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await submit(runtime, "a")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(on_a_thread, lambda: BACKENDS[1](on_another_loop, threads=True))
                await on_a_thread(waiting.wait, BOUND)
                await finish_at_once(generation)
        assert "applied" in got
        assert [item for item in got if item != "applied"] == types(runtime)

    run(test, threads=True)


@pytest.mark.promise("thread.closed", "settled.closing")
def test_a_runtime_may_be_closed_from_another_loop(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await submit(runtime, "a")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(on_a_thread, lambda: BACKENDS[1](runtime.aclose, threads=True))
                await anyio.sleep(BOUND)
        assert generation.reason == "runtime_closed"
        assert disposition(runtime, "a") == ("held", "runtime_closed")

    run(test, threads=True)


@pytest.mark.promise("event.after_state", "event.sequence")
def test_a_reader_on_another_thread_never_gets_an_event_under_the_wrong_number() -> None:
    asked, answered = threading.Event(), threading.Event()
    armed: list[bool] = []

    def clock() -> float:
        if armed:
            asked.set()  # an event is being published: let the other thread look now
            answered.wait(0.2)
        return 0.0

    runtime = new_runtime(clock=clock)
    runtime.from_thread.submit(Input("user", "first", id="a"))
    seen: list[tuple[int, str]] = []

    def publishes() -> None:
        armed.append(True)
        runtime.from_thread.submit(Input("user", "second", id="b"))

    async def reads() -> None:
        subscription = runtime.subscribe(after=0)
        publisher = threading.Thread(target=publishes)
        publisher.start()
        assert asked.wait(BOUND)
        for _ in range(4):
            item: Any = await anext(subscription)
            seen.append((item.sequence, item.data["input_id"]))
            answered.set()
        publisher.join(BOUND)

    BACKENDS[0](reads, threads=True)
    assert seen == [(1, "a"), (2, "a"), (3, "b"), (4, "b")]


@pytest.mark.promise("thread.closed", "thread.never_hangs")
def test_a_loop_that_is_gone_without_closing_refuses_instead_of_hanging(run: Backend) -> None:
    runtime = new_runtime()

    token_of_a_dead_loop(run, runtime)
    result: list[BaseException] = []

    def submits() -> None:
        try:
            runtime.from_thread.submit(Input("user", "text"))
        except RuntimeClosed as error:
            result.append(error)

    thread = threading.Thread(target=submits)
    thread.start()
    thread.join(BOUND)
    assert not thread.is_alive()
    assert len(result) == 1


def token_of_a_dead_loop(run: Backend, runtime: LiveRuntime) -> None:
    """Leave the runtime bound to a loop that does not run any more."""

    async def binds() -> None:
        runtime._loops.bind()

    run(binds)
