"""`python -m benchmarks`: measure every figure, print one table, write one JSON file.

Each figure is a ratio: what midcourse takes, divided by what the same thing takes with nothing but
the raw primitives of the same backend. pyperf runs the workers, several processes for each figure
and backend, several ratios in each; within a worker the two sides take turns (`pairs`). The
options are pyperf's own (`--fast`, `--rigorous`, `--processes`, `--values`), and these:

    --only KEY ...      some of the figures
    --json PATH         where the ratios go

Time is the processor time of the thread. Nothing here ever waits, so that is the time it takes;
and on a busy machine a long block would be interrupted more often than a short one.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pyperf  # type: ignore[import-untyped]

from .figures import FIGURES, Measure
from .report import Ratios, save, table


def _worker_options(command: list[str], args: argparse.Namespace) -> None:
    if args.only:
        command += ["--only", *args.only]


def _measured(runner: pyperf.Runner, name: str, measure: Measure) -> tuple[float, ...]:
    """The ratios that the workers measured; for others than this one's own, none."""

    def ratios(loops: int) -> float:
        # pyperf thinks in seconds: it is given a ratio for each loop.
        return sum(measure() for _ in range(loops))

    with redirect_stdout(StringIO()):  # it would speak of seconds, too
        bench = runner.bench_time_func(name, ratios)
    return () if bench is None else tuple(bench.get_values())


def main() -> None:
    runner = pyperf.Runner(
        processes=3,
        values=3,
        warmups=0,  # each ratio warms up for itself
        loops=1,
        program_args=("-m", "benchmarks"),
        add_cmdline_args=_worker_options,
    )
    keys = [figure.key for figure in FIGURES]
    runner.argparser.description = "Ratios of midcourse to what it stands on."
    runner.argparser.add_argument("--only", nargs="+", choices=keys, metavar="KEY")
    runner.argparser.add_argument("--json", type=Path, default=Path("benchmarks.json"))
    args = runner.parse_args()

    often = args.processes, args.values
    measured: Ratios = {}
    for figure in FIGURES:
        if args.only and figure.key not in args.only:
            continue
        for backend, measure in figure.measures.items():
            if not args.worker:
                print(f"{figure.what}, {backend} ...", file=sys.stderr)
            if not args.worker:
                args.processes, args.values = (1, 1) if figure.steady else often
            values = _measured(runner, f"{figure.key}-{backend}", measure)
            measured.setdefault(figure.key, {})[backend] = values
    if not args.worker:
        save(measured, args.json)
        print(table(measured))


if __name__ == "__main__":
    main()
