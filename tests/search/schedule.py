"""What both searches share: scenarios, choice points, tokens and the walk over schedules.

A run meets two kinds of choice point: "which of the runnable tasks goes first" (an order) and
"before this task step, fire one of the scenario's one-shot events". The default answer is always
the first: creation order, no event. A run is named by its deviations from that default, and the
name is its replay token: `stop@41,7:2` fires `stop` before step 41 and answers the eighth order
choice with 2. Because a run is a function of its answers, two runs are the same schedule exactly
when their executed tokens are equal; that is what is counted.

The walk is breadth first over the number of deviations, complete within its bounds where the budget
allows it, a seeded sample of a level where it does not, and seeded random runs after that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Stuck(AssertionError):
    """The run cannot end: nothing is runnable for ever (deadlock), or it never stops (livelock).

    Attributes:
        promises: `Stuck`, and what the scenario says was broken by then.
    """

    promises: tuple[str, ...] = ("Stuck",)

    def judged(self, check: Callable[[], None]) -> Stuck:
        """This, with what the scenario has to say of the run as far as it came."""
        try:
            check()
        except AssertionError as error:
            found = Stuck(f"{self}\n{error}")
            found.promises = ("Stuck", *getattr(error, "promises", ()))
            return found
        return self


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Injection:
    """A one-shot event of a scenario, fired by the search between two task steps.

    Args:
        fire: Called synchronously on the scheduler's own stack; it must not wait.
        ready: Whether firing now would mean anything. A choice is offered only while it is true, so
            that schedules which differ in nothing are not counted twice.
    """

    fire: Callable[[], None]
    ready: Callable[[], bool] = _always


class Probe(Protocol):
    """What a scenario may ask the search about the run that it is in."""

    @property
    def backend(self) -> str:
        """`"trio"` or `"asyncio"`."""

    def ticks(self) -> int:
        """Scheduler passes so far: within one, every runnable task takes one step."""

    def now(self) -> float:
        """The virtual time in seconds."""

    def live_tasks(self) -> list[str]:
        """The tasks alive now, apart from the run's own, as `file:function`."""


class Scenario(Protocol):
    """One small program, its possible disturbances and the judgement of what it did."""

    async def main(self) -> None:
        """Run the program. A scenario object runs once."""

    def events(self) -> Mapping[str, Injection]:
        """The one-shot events; names contain none of `@`, `:` and `,`."""

    def check(self) -> None:
        """Raise `AssertionError` if a promise broke."""


Make = Callable[[Probe], Scenario]


class Point(NamedTuple):
    """One choice point of a run: its position, what was offered, and the answer (0 by default)."""

    position: int
    events: tuple[str, ...]
    orders: int
    chosen: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The deviations that name a run, in the order in which they are executed."""

    events: tuple[tuple[int, str], ...] = ()
    orders: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, token: str) -> Plan:
        """Read a replay token.

        Raises:
            ValueError: If the token is malformed.
        """
        events: list[tuple[int, str]] = []
        orders: list[tuple[int, int]] = []
        for part in filter(None, token.split(",")):
            name, at, step = part.partition("@")
            position, colon, answer = part.partition(":")
            if at:
                events.append((int(step), name))
            elif colon:
                orders.append((int(position), int(answer)))
            else:
                raise ValueError(f"not a deviation: {part!r} (want name@step or position:answer)")
        return cls(tuple(events), tuple(orders))

    def __str__(self) -> str:
        return ",".join(
            [f"{name}@{step}" for step, name in self.events] + [f"{n}:{k}" for n, k in self.orders]
        )

    def __len__(self) -> int:
        return len(self.events) + len(self.orders)

    def without(self, index: int) -> Plan:
        """The plan that lacks one deviation, counted over events and then orders."""
        orders = index - len(self.events)
        if orders < 0:
            return Plan(self.events[:index] + self.events[index + 1 :], self.orders)
        return Plan(self.events, self.orders[:orders] + self.orders[orders + 1 :])


class Policy(Protocol):
    """Answers the choice points of one run."""

    def event(self, step: int, names: Sequence[str]) -> int:
        """0 to fire nothing, else 1 + the index of the event to fire."""

    def order(self, position: int, count: int) -> int:
        """Which of `count` runnable tasks, in order of creation, goes first."""


class Planned:
    """Deviates where the plan says, and nowhere else."""

    def __init__(self, plan: Plan) -> None:
        self._events: dict[int, list[str]] = {}
        for step, name in plan.events:
            self._events.setdefault(step, []).append(name)
        self._orders = dict(plan.orders)

    def event(self, step: int, names: Sequence[str]) -> int:
        wanted = self._events.get(step)
        if not wanted or wanted[0] not in names:
            return 0
        return 1 + list(names).index(wanted.pop(0))

    def order(self, position: int, count: int) -> int:
        return min(self._orders.get(position, 0), count - 1)


class Randomised:
    """Fires up to `events` events at steps drawn from the first `steps`, and shuffles by the seed.

    How much is shuffled is drawn first: a run that reorders everything hides the races that need
    one late task among punctual ones.
    """

    def __init__(self, seed: int, *, events: int, steps: int) -> None:
        self._random = random.Random(seed)
        count = self._random.randint(1, max(1, events))
        self._steps = sorted(self._random.randrange(max(1, steps)) for _ in range(count))
        self._shuffled = self._random.choice((0.0, 0.05, 0.3, 1.0))

    def event(self, step: int, names: Sequence[str]) -> int:
        if not self._steps or step < self._steps[0]:
            return 0
        self._steps.pop(0)
        return 1 + self._random.randrange(len(names))

    def order(self, position: int, count: int) -> int:
        if self._random.random() >= self._shuffled:
            return 0
        return self._random.randrange(count)


class Chooser:
    """Meets the choice points of one run: asks the policy, fires the events, keeps the record."""

    def __init__(self, policy: Policy) -> None:
        self.injections: dict[str, Injection] = {}
        self.points: list[Point] = []
        self.errors: list[BaseException] = []
        self.steps = 0
        self._policy = policy
        self._orders = 0
        self._events: list[tuple[int, str]] = []
        self._deviations: list[tuple[int, int]] = []

    @property
    def plan(self) -> Plan:
        """The deviations executed so far."""
        return Plan(tuple(self._events), tuple(self._deviations))

    def order(self, count: int) -> int:
        """Answer one order choice point."""
        position, self._orders = self._orders, self._orders + 1
        chosen = self._policy.order(position, count)
        self.points.append(Point(position, (), count, chosen))
        if chosen:
            self._deviations.append((position, chosen))
        return chosen

    def step(self) -> None:
        """Note that a task is about to take a step; fire whatever is to be fired before it."""
        # Offered again after each one fired: two events in one instant are a pair of their own, in
        # both orders.
        while self.injections:
            names = tuple(name for name, each in self.injections.items() if each.ready())
            if not names:
                break
            chosen = self._policy.event(self.steps, names)
            self.points.append(Point(self.steps, names, 0, chosen))
            if not chosen:
                break
            name = names[chosen - 1]
            self._events.append((self.steps, name))
            try:
                self.injections.pop(name).fire()
            # Neither scheduler would let it reach the caller of the run.
            except Exception as error:  # noqa: BLE001
                self.errors.append(error)
        self.steps += 1


@dataclass(frozen=True, slots=True)
class Run:
    """One executed schedule."""

    token: str
    error: BaseException | None
    points: list[Point]
    steps: int

    @property
    def kind(self) -> str:
        """A name for the failure, equal for failures that look like one bug; empty for a pass."""
        if self.error is None:
            return ""
        promises = getattr(self.error, "promises", None)
        return ",".join(promises) if promises else type(self.error).__name__


Runner = Callable[[Policy], Run]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a search goes: deviations per run, and runs altogether.

    Args:
        events: Fire at most so many events in one systematically found schedule.
        reorderings: Deviate at most so often from creation order in one of them.
        systematic: At most so many runs breadth first.
        random: So many seeded random runs after that.
        random_events: Fire at most so many events in one of those.
        within: Fire a further event of a systematic schedule at most so many choice points after
            the one before; at any later one if `None`.
    """

    events: int = 1
    reorderings: int = 0
    systematic: int = 2_000
    random: int = 0
    random_events: int = 3
    within: int | None = None


@dataclass(slots=True)
class Report:
    """What a search did and found. Addable, so that many searches make one line."""

    schedules: int = 0
    injected: int = 0
    reordered: int = 0
    complete: bool = True
    failures: list[Run] = field(default_factory=list)

    def __add__(self, other: Report) -> Report:
        return Report(
            self.schedules + other.schedules,
            self.injected + other.injected,
            self.reordered + other.reordered,
            self.complete and other.complete,
            self.failures + other.failures,
        )


class _Sample:
    """A uniform sample of bounded size from a stream of unknown length (reservoir sampling)."""

    def __init__(self, size: int, rng: random.Random) -> None:
        self.kept: list[tuple[Plan, int]] = []
        self.dropped = False
        self._size, self._random, self._seen = size, rng, 0

    def offer(self, items: Iterable[tuple[Plan, int]]) -> None:
        for item in items:
            self._seen += 1
            if len(self.kept) < self._size:
                self.kept.append(item)
                continue
            self.dropped = True
            at = self._random.randrange(self._seen)
            if at < self._size:
                self.kept[at] = item


def _children(run: Run, plan: Plan, start: int, bounds: Bounds) -> Iterator[tuple[Plan, int]]:
    for index in range(start, len(run.points)):
        point = run.points[index]
        near = not plan.events or bounds.within is None or index < start + bounds.within
        if near and point.events and len(plan.events) < bounds.events:
            for name in point.events:
                yield Plan((*plan.events, (point.position, name)), plan.orders), index + 1
        if point.orders and len(plan.orders) < bounds.reorderings:
            for chosen in range(1, point.orders):
                yield Plan(plan.events, (*plan.orders, (point.position, chosen))), index + 1


def explore(
    run: Runner,
    bounds: Bounds,
    *,
    seed: int = 0,
    enough: Callable[[Report], bool] = lambda report: False,
) -> Report:
    """Search the schedules of one scenario.

    Args:
        run: Executes the scenario once under a policy (see `trio_search` and `asyncio_search`).
        bounds: How far to go.
        seed: Decides the samples and the random runs; the same seed searches the same schedules.
        enough: Asked after every run; a true answer ends the search.

    Returns:
        The report. A search that found nothing has tried everything within the bounds if it is
        `complete`.
    """
    report = Report()
    seen: set[str] = set()
    rng = random.Random(seed)
    steps = 1

    def execute(policy: Policy) -> Run:
        done = run(policy)
        if done.token not in seen:
            seen.add(done.token)
            plan = Plan.parse(done.token)
            report.schedules += 1
            report.injected += len(plan.events)
            report.reordered += len(plan.orders)
            if done.error is not None:
                report.failures.append(done)
        return done

    level: list[tuple[Plan, int]] = [(Plan(), 0)]
    left = bounds.systematic
    while level:
        left -= len(level)
        following = _Sample(max(0, left), rng)
        for plan, start in level:
            done = execute(Planned(plan))
            steps = max(steps, done.steps)
            following.offer(_children(done, plan, start, bounds))
            if enough(report):
                report.complete = False
                return report
        report.complete = report.complete and not following.dropped
        level = following.kept
    for number in range(bounds.random):
        execute(Randomised(rng.randrange(2**32) + number, events=bounds.random_events, steps=steps))
        if enough(report):
            break
    return report


def reduce(run: Runner, failing: Run) -> Run:
    """Drop the deviations of a failing run that it fails without, one after another.

    Returns:
        A run that fails in the same way with no deviation that could be left out alone.
    """
    index = 0
    while index < len(plan := Plan.parse(failing.token)):
        shorter = run(Planned(plan.without(index)))
        if shorter.kind == failing.kind and len(Plan.parse(shorter.token)) < len(plan):
            failing = shorter
        else:
            index += 1
    return failing
