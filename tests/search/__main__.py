"""The long search, `python -m tests.search --seconds N --jobs 2`, or one token again."""

from __future__ import annotations

import argparse
import sys

from .campaign import BACKENDS, BY_NAME, SECONDS_PER_RUN, Tally, errands, replay, search
from .faults import FAULTS, StaleFault
from .schedule import Bounds


def show_faults() -> int:
    """Print for each planted fault the scenario and the token that find it."""
    missing = 0
    for fault in FAULTS:
        try:
            with fault.planted():
                found = fault.find()
        except StaleFault as stale:
            result = f"stale: {stale}"
        else:
            result = "not found" if found is None else f"token {found.token!r} breaks {found.kind}"
        missing += "token" not in result
        print(f"{fault.what}: {fault.scenario} on {fault.backend}, {result}", flush=True)
    return 1 if missing else 0


def main(argv: list[str] | None = None) -> int:
    """Search for so long, print one line for each backend and one for each violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.search", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for the whole search")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--scenario", choices=BY_NAME, action="append")
    parser.add_argument(
        "--complete",
        type=int,
        metavar="N",
        help="every schedule with at most N events, however long",
    )
    parser.add_argument("--within", type=int, metavar="N", help="--complete: events so close")
    parser.add_argument("--faults", action="store_true", help="find the planted faults instead")
    parser.add_argument("--replay", metavar="TOKEN", help="with one scenario and one backend")
    given = parser.parse_args(argv)
    scenarios, backends = given.scenario or list(BY_NAME), given.backend or list(BACKENDS)
    if given.faults:
        return show_faults()
    if given.replay is not None:
        if len(scenarios) != 1 or len(backends) != 1:
            parser.error("--replay wants one --scenario and one --backend")
        run = replay(scenarios[0], backends[0], given.replay)
        print(f"token {run.token!r}, {run.steps} steps: {run.error or 'no violation'}")
        if run.token != given.replay:
            print(f"token {given.replay!r} does not fit this code any more")
            return 2
        return 1 if run.error else 0
    if given.complete is not None:
        whole = Bounds(events=given.complete, systematic=10**9, within=given.within)
        return report(
            search(errands(whole, scenarios=scenarios, backends=backends), jobs=given.jobs)
        )
    share = given.seconds * given.jobs / (len(scenarios) * len(backends))
    runs = max(50, int(share / SECONDS_PER_RUN))
    bounds = Bounds(events=2, reorderings=1, systematic=runs // 2, random=10 * runs)
    return report(
        search(
            errands(bounds, scenarios=scenarios, backends=backends, seed=given.seed, seconds=share),
            jobs=given.jobs,
        )
    )


def report(tallies: dict[str, Tally]) -> int:
    """Print one line for each backend and one for each violation."""
    for tally in tallies.values():
        print(tally)
    findings = [finding for tally in tallies.values() for finding in tally.findings]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
