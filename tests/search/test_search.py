"""A bounded search over every scenario on both backends finds nothing; tokens replay exactly.

Plain functions: the search starts its own loops. The long search is `python -m tests.search`.
"""

from __future__ import annotations

import pytest

from .campaign import BACKENDS, BY_NAME, errands, replay, search
from .schedule import Bounds, Plan, Planned, Randomised

pytestmark = [pytest.mark.promise("search.schedules"), pytest.mark.search]

BOUNDS = Bounds(events=2, reorderings=1, systematic=100, random=50)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_schedule_within_the_bounds_breaks_a_promise(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = search(errands(BOUNDS, backends=[backend]), jobs=2)[backend]
    with capsys.disabled():
        print(f"\n{tally}")
    assert tally.scenarios == len(BY_NAME)
    assert not tally.findings, "\n".join(map(str, tally.findings))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scenario", ["Crowd", "CancelDuringWrite", "Serve"])
def test_a_random_run_replays_step_by_step_from_its_token(scenario: str, backend: str) -> None:
    first = BACKENDS[backend](BY_NAME[scenario], Randomised(7, events=3, steps=60))
    again = replay(scenario, backend, first.token)
    assert again.token == first.token
    assert again.steps == first.steps
    assert [point.events for point in again.points] == [point.events for point in first.points]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_default_schedule_of_every_scenario_is_right(backend: str) -> None:
    for name, make in BY_NAME.items():
        run = BACKENDS[backend](make, Planned(Plan()))
        assert run.error is None, f"{name}: {run.error}"
