"""The searches find the bugs of toy programs, replay their tokens, and spare right programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
import anyio.lowlevel
import pytest

from . import asyncio_search, trio_search
from .schedule import Bounds, Injection, Make, Plan, Planned, Policy, Probe, Run, explore, reduce

pytestmark = pytest.mark.promise("search.explorers")

RunOne = Callable[[Make, Policy], Run]
both = pytest.mark.parametrize("run_one", [trio_search.run_one, asyncio_search.run_one])


class Toy:
    """A counter that two tasks increase with an await between read and write."""

    pause = True

    def __init__(self, probe: Probe) -> None:
        self.counter = 0
        self.arrived = False
        self.gate: anyio.Event | None = None

    async def add(self) -> None:
        seen = self.counter
        if self.pause:
            await anyio.lowlevel.checkpoint()
        self.counter = seen + 1

    async def late(self) -> None:
        self.gate = anyio.Event()
        await self.gate.wait()
        await self.add()

    async def early(self) -> None:
        for _ in range(6):
            await anyio.lowlevel.checkpoint()
        await self.add()
        await anyio.sleep(1)
        if self.gate is not None:
            self.gate.set()

    async def main(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.late)
            group.start_soon(self.early)

    def events(self) -> Mapping[str, Injection]:
        return {"arrive": Injection(self.arrive, lambda: self.gate is not None)}

    def arrive(self) -> None:
        assert self.gate is not None
        self.gate.set()

    def check(self) -> None:
        if self.counter != 2:
            raise AssertionError("an increment was lost")


class RightToy(Toy):
    pause = False


class Deadlock(Toy):
    """Two tasks take two locks in opposite orders."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self.shielded = False

    async def take(self, first: anyio.Lock, second: anyio.Lock) -> None:
        with anyio.CancelScope(shield=self.shielded):
            async with first:
                await anyio.lowlevel.checkpoint()
                async with second:
                    self.counter += 1

    async def main(self) -> None:
        one, two = anyio.Lock(), anyio.Lock()
        async with anyio.create_task_group() as group:
            group.start_soon(self.take, one, two)
            group.start_soon(self.take, two, one)

    def events(self) -> Mapping[str, Injection]:
        return {}


class ShieldedDeadlock(Deadlock):
    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self.shielded = True


class Spin(Deadlock):
    """A task that never stops."""

    async def main(self) -> None:
        while True:
            await anyio.lowlevel.checkpoint()


class Order(Toy):
    """Right only in order of creation."""

    async def put(self, number: int) -> None:
        self.counter = number

    async def main(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.put, 1)
            group.start_soon(self.put, 2)

    def events(self) -> Mapping[str, Injection]:
        return {}


@both
def test_a_lost_update_is_found_and_its_token_replays_it(run_one: RunOne) -> None:
    report = explore(lambda policy: run_one(Toy, policy), Bounds(events=1))
    assert report.failures
    found = reduce(lambda policy: run_one(Toy, policy), report.failures[0])
    again = run_one(Toy, Planned(Plan.parse(found.token)))
    assert (again.token, str(again.error)) == (found.token, str(found.error))
    assert again.points == found.points
    assert run_one(RightToy, Planned(Plan.parse(found.token))).error is None


@both
def test_a_right_program_survives_the_whole_search(run_one: RunOne) -> None:
    report = explore(lambda policy: run_one(RightToy, policy), Bounds(events=1, random=50))
    assert not report.failures
    assert report.complete
    assert report.schedules > 5


@both
@pytest.mark.parametrize("toy", [Deadlock, ShieldedDeadlock])
def test_a_deadlock_is_a_failure_even_under_a_shield(run_one: RunOne, toy: Make) -> None:
    run = run_one(toy, Planned(Plan()))
    assert run.kind == "Stuck"
    assert "deadlock" in str(run.error)
    assert "take" in str(run.error)


@both
def test_a_livelock_is_a_failure(run_one: RunOne) -> None:
    run = run_one(Spin, Planned(Plan()))
    assert run.kind == "Stuck"
    assert "livelock" in str(run.error)


def test_a_reordering_inside_a_batch_is_found_on_trio() -> None:
    report = explore(
        lambda policy: trio_search.run_one(Order, policy), Bounds(events=0, reorderings=1)
    )
    assert [run.token for run in report.failures]
    assert all(run.token.endswith(":1") for run in report.failures)


def test_a_token_reads_back_as_the_plan_that_it_names() -> None:
    plan = Plan(((3, "stop"), (3, "cancel host"), (9, "x")), ((0, 1), (7, 2)))
    assert Plan.parse(str(plan)) == plan
    assert Plan.parse("") == Plan()
    with pytest.raises(ValueError, match="not a deviation"):
        Plan.parse("nonsense")


def test_two_events_before_one_step_are_tried_in_both_orders() -> None:
    tokens = set()

    def run(policy: Policy) -> Run:
        done = trio_search.run_one(Pair, policy)
        tokens.add(done.token)
        return done

    explore(run, Bounds(events=2))
    assert {"a@1,b@1", "b@1,a@1"} <= tokens


class Pair(Toy):
    async def main(self) -> None:
        await anyio.lowlevel.checkpoint()

    def events(self) -> Mapping[str, Injection]:
        return {"a": Injection(lambda: None), "b": Injection(lambda: None)}

    def check(self) -> None:
        pass


def test_an_unknown_trio_is_refused() -> None:
    with pytest.raises(RuntimeError, match="knows trio"):
        trio_search.check_trio_version("9.1.0")
