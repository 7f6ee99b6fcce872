"""The benchmarks run; how long anything takes is theirs to say, and no test's."""

import anyio
import pytest

from benchmarks import boundary, generation
from benchmarks.backends import BACKENDS, Backend
from benchmarks.figures import FIGURES, Figure
from benchmarks.pairs import ratio


@pytest.mark.promise("benchmarks.run")
def test_a_ratio_is_the_median_of_interleaved_pairs_after_the_warm_up() -> None:
    turns: list[str] = []

    async def floor() -> float:
        turns.append("floor")
        return 2.0

    async def ours() -> float:
        turns.append("ours")
        # The first ten pairs are not counted, and one slow pair does not move a median.
        return 1000.0 if turns.count("ours") <= 10 else 600.0 if len(turns) > 208 else 3.0

    async def measure() -> float:
        return await ratio(floor, ours, pairs=99)

    assert anyio.run(measure) == 1.5
    pairs = [set(turns[at : at + 2]) for at in range(0, len(turns), 2)]
    assert pairs == [{"floor", "ours"}] * 109
    assert turns[0] == turns[3]  # who goes first changes


@pytest.mark.promise("benchmarks.run")
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.key)
def test_each_figure_has_a_floor_and_a_goal_on_every_backend_that_it_is_measured_on(
    figure: Figure,
) -> None:
    assert figure.floor
    assert figure.measures.keys() == figure.goals.keys()


@pytest.mark.promise("benchmarks.run")
@pytest.mark.parametrize("on", BACKENDS, ids=lambda on: on.name)
def test_a_figure_is_measured_to_its_end_on_both_backends(on: Backend) -> None:
    for measure in (boundary.empty_boundary, generation.opened_and_finished):
        assert on.run(measure) > 0
