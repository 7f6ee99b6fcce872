"""A search over all scenarios on both backends, spread over processes; and its one line of figures.

The budget decides only how far the search goes, never what a schedule does: every finding is a
token that replays alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context

from . import asyncio_search, trio_search
from .scenarios import SCENARIOS
from .schedule import Bounds, Make, Plan, Planned, Policy, Report, Run, explore, reduce

BACKENDS = {"trio": trio_search.run_one, "asyncio": asyncio_search.run_one}
BY_NAME: dict[str, Make] = {scenario.__name__: scenario for scenario in SCENARIOS}
SECONDS_PER_RUN = 0.006  # about; it only divides a budget between systematic and random runs


@dataclass(frozen=True, slots=True)
class Errand:
    """One scenario to be searched on one backend."""

    scenario: str
    backend: str
    bounds: Bounds
    seed: int = 0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One failing schedule, reduced."""

    scenario: str
    backend: str
    token: str
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.scenario} on {self.backend}, token {self.token!r}: {self.what}"


@dataclass(slots=True)
class Tally:
    """The figures of one backend."""

    backend: str
    scenarios: int = 0
    report: Report = field(default_factory=Report)
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        report = self.report
        return (
            f"search on {self.backend}: {self.scenarios} scenarios, "
            f"{report.schedules} distinct schedules, {report.injected} events and faults injected, "
            f"{report.reordered} reorderings, {len(self.findings)} violations"
        )


def replay(scenario: str, backend: str, token: str) -> Run:
    """Run one schedule again from its token."""
    return BACKENDS[backend](BY_NAME[scenario], Planned(Plan.parse(token)))


def search_one(errand: Errand) -> tuple[Errand, Report, list[Finding]]:
    """Search one scenario; of the failures of each kind, one is reduced and reported."""

    def run(policy: Policy) -> Run:
        return BACKENDS[errand.backend](BY_NAME[errand.scenario], policy)

    end = None if errand.seconds is None else time.monotonic() + errand.seconds
    report = explore(
        run,
        errand.bounds,
        seed=errand.seed,
        enough=lambda report: end is not None and time.monotonic() > end,
    )
    shortest: dict[str, Run] = {}
    for failure in sorted(report.failures, key=lambda each: len(Plan.parse(each.token))):
        shortest.setdefault(failure.kind, failure)
    found = []
    for kind, failure in shortest.items():
        small = reduce(run, failure)
        what = str(small.error) or repr(small.error)
        found.append(Finding(errand.scenario, errand.backend, small.token, kind, what))
    # Errors and their tracebacks do not travel between processes.
    report.failures.clear()
    return errand, report, found


def errands(
    bounds: Bounds,
    *,
    scenarios: Iterable[str] = BY_NAME,
    backends: Iterable[str] = BACKENDS,
    seed: int = 0,
    seconds: float | None = None,
) -> list[Errand]:
    """One errand for each scenario on each backend.

    Args:
        seconds: The time of each; the bounds are then only a bound.
    """
    return [
        Errand(scenario, backend, bounds, seed, seconds)
        for scenario in scenarios
        for backend in backends
    ]


def search(errands: Iterable[Errand], *, jobs: int = 1) -> dict[str, Tally]:
    """Do all errands, in `jobs` processes; the figures by backend."""
    tallies: dict[str, Tally] = {}
    for errand, report, found in _done(list(errands), jobs):
        tally = tallies.setdefault(errand.backend, Tally(errand.backend))
        tally.scenarios += 1
        tally.report += report
        tally.findings += found
    return tallies


def _done(errands: list[Errand], jobs: int) -> Iterator[tuple[Errand, Report, list[Finding]]]:
    if jobs == 1:
        yield from map(search_one, errands)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(search_one, errand) for errand in errands]):
            yield future.result()
