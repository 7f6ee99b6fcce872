"""Breaks the core's tables in every small way, and expects the core's tests to notice each.

    python -m tests.support.table_mutants

Mutation tools change code and skip module-level tables. Here every row is deleted, every cell is
put in every other cell's place that it fits, and every missing row is added. Prints the mutants
that survive; the exit status says whether there are any.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from midcourse._core import tables

TESTS = Path(__file__).parent.parent / "core"
FILES = {
    "DISPOSITION": "test_inputs.py",
    "INPUT_STEPS": "test_inputs.py",
    "VERDICTS": "test_inputs.py",
    "SETTLED_EVENTS": "test_inputs.py",
    "ENDINGS": "test_generations.py",
    "PHASE_STEPS": "test_generations.py",
    "ACCEPTED_EVENTS": "test_admission.py",
}
TABLES: dict[str, dict[Any, Any]] = {
    name: getattr(tables, name)
    for name in tables.__all__
    if isinstance(getattr(tables, name), dict)
}


def mutants() -> Iterator[tuple[str, str, Any, Any]]:
    """Table, what is done to it, the key, and its new value (None: the row is deleted)."""
    for name, table in TABLES.items():
        for key, value in table.items():
            yield name, "without", key, None
            for other in others(table, value):
                yield name, "changed", key, other
        for key in missing(table):
            yield name, "with", key, next(iter(table.values()))


def others(table: dict[Any, Any], value: Any) -> Iterator[Any]:
    """Every other value that the table has, and the value with one part of another one."""
    seen = [value]
    for each in table.values():
        found = [each]
        if hasattr(value, "_replace"):
            found += [value._replace(**{part: getattr(each, part)}) for part in value._fields]
        elif isinstance(value, tuple):
            found.append(value[1:])
        for candidate in found:
            if candidate not in seen:
                seen.append(candidate)
                yield candidate


def missing(table: dict[Any, Any]) -> Iterator[Any]:
    keys = list(table)
    if isinstance(keys[0], tuple):
        parts = [
            type(part) if isinstance(part, Enum) else {key[place] for key in keys}
            for place, part in enumerate(keys[0])
        ]
        yield from (key for key in product(*parts) if key not in table)


def passes(name: str, change: Callable[[], object]) -> bool:
    """Whether the tests of a table pass, in a process of their own, after this change."""
    pid = os.fork()
    if not pid:
        change()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        # The plugins are here already, so their asserts stay as they are: nobody minds.
        late = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        args = [str(TESTS / FILES[name]), *late, "-x", "-q", "-p", "no:cacheprovider"]
        os._exit(int(pytest.main(args)))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == pytest.ExitCode.OK


def change(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        del table[key]
    else:
        table[key] = value


def main() -> int:
    count, survivors = 0, 0
    for name in TABLES:
        if not passes(name, lambda: None):
            print(f"{FILES[name]} fails without any mutant")
            return 1
    for name, what, key, value in mutants():
        count += 1
        if passes(name, partial(change, TABLES[name], key, value)):
            survivors += 1
            print(f"survived: {name} {what} {key!r}: {value!r}", flush=True)
    print(f"{count} mutants, {survivors} survived")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())
