"""The helpers of the tests do what the tests rely on."""

from __future__ import annotations

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
import trio
from anyio.lowlevel import checkpoint

from .backends import LIMIT, Backend, Hang

pytestmark = pytest.mark.promise("house.support")


def test_a_test_runs_on_the_backend_that_it_was_given_and_returns_its_result(run: Backend) -> None:
    async def test(number: int) -> tuple[int, bool]:
        await checkpoint()
        return number, trio.lowlevel.in_trio_task()

    assert run(test, 3) == (3, run.is_trio)


def test_an_hour_passes_at_once_and_exactly(run: Backend) -> None:
    async def test() -> float:
        before = anyio.current_time()
        await anyio.sleep(3600)
        return anyio.current_time() - before

    assert run(test) == 3600


def test_time_passes_while_a_cancelled_task_is_shielded(run: Backend) -> None:
    async def test() -> float:
        before = anyio.current_time()
        with anyio.CancelScope() as outer:
            outer.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.sleep(5)
        return anyio.current_time() - before

    assert run(test) == 5


def test_time_stands_still_while_anything_can_run(run: Backend) -> None:
    async def test() -> float:
        before = anyio.current_time()
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 10)
            for _ in range(1000):
                await checkpoint()
            group.cancel_scope.cancel()
        return anyio.current_time() - before

    assert run(test) == 0


def test_waiting_for_ever_is_a_hang(run: Backend) -> None:
    with pytest.raises(Hang, match=f"not done after {LIMIT}"):
        run(anyio.sleep_forever)


def test_waiting_for_ever_under_a_shield_is_a_hang(run: Backend) -> None:
    async def stuck() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.Event().wait()

    async def test() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(stuck)

    with pytest.raises(BaseException) as caught:  # noqa: PT011  # a group of hangs, or one
        run(test)
    assert hangs(caught.value)


def hangs(exc: BaseException) -> bool:
    if isinstance(exc, BaseExceptionGroup):
        return exc.subgroup(Hang) is not None
    return isinstance(exc, Hang)


def test_a_thread_is_waited_for_on_the_real_clock(run: Backend) -> None:
    async def test() -> int:
        def thread() -> int:
            return anyio.from_thread.run_sync(lambda: 7)

        return await anyio.to_thread.run_sync(thread)

    assert run(test, threads=True) == 7
