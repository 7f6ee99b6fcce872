"""Every promise has a test, and every test names the promises that it shows.

The sources are read, not the run: what is selected on the command line changes nothing.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from midcourse import Limits

pytestmark = pytest.mark.promise("house.catalogue")

TESTS = Path(__file__).parent
MARK = "pytest.mark.promise"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def catalogue() -> tuple[dict[str, str], dict[str, str]]:
    """The promises, and the reasons of those that nothing can show yet."""
    sections = tomllib.loads((TESTS / "promises.toml").read_text())
    later = sections.pop("later")
    promises: dict[str, str] = {}
    for section in sections.values():
        assert not promises.keys() & section.keys()
        promises |= section
    return promises, later


def marks(node: ast.expr) -> list[str]:
    """The ids in `pytest.mark.promise(...)`, or in a list of marks."""
    if isinstance(node, ast.List | ast.Tuple):
        return [name for each in node.elts for name in marks(each)]
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != MARK:
        return []
    values = [each.value for each in node.args if isinstance(each, ast.Constant)]
    assert len(values) == len(node.args), f"ids are plain strings: {ast.unparse(node)}"
    return [str(value) for value in values]


def marks_on_parameters(function: Function) -> list[str]:
    """The ids in `pytest.param(..., marks=pytest.mark.promise(...))`."""
    return [
        name
        for decorator in function.decorator_list
        for node in ast.walk(decorator)
        if isinstance(node, ast.keyword) and node.arg == "marks"
        for name in marks(node.value)
    ]


@cache
def shown() -> list[tuple[str, list[str]]]:
    """Every test function, and the ids that it names."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text())
        common = [
            name
            for node in module.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
            for name in marks(node.value)
        ]
        for test, decorators in functions_of(module):
            own = [name for node in decorators for name in marks(node)]
            where = f"{path.relative_to(TESTS)}::{test.name}"
            found.append((where, common + own + marks_on_parameters(test)))
    return found


def functions_of(module: ast.Module | ast.ClassDef) -> Iterator[tuple[Function, list[ast.expr]]]:
    """The test functions of a module, each with its own decorators and those of its class."""
    for node in module.body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield node, node.decorator_list
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for test, decorators in functions_of(node):
                yield test, decorators + node.decorator_list


def test_every_promise_has_a_test() -> None:
    promises, later = catalogue()
    named = {name for _, names in shown() for name in names}
    assert sorted(promises.keys() - named - later.keys()) == []


def test_every_test_names_a_promise() -> None:
    assert [where for where, names in shown() if not names] == []


def test_every_named_promise_is_in_the_catalogue() -> None:
    promises, _ = catalogue()
    assert [
        (where, name) for where, names in shown() for name in names if name not in promises
    ] == []


def test_what_is_left_for_later_is_a_promise_with_a_reason_and_without_a_test() -> None:
    promises, later = catalogue()
    named = {name for _, names in shown() for name in names}
    assert later.keys() <= promises.keys()
    assert later.keys().isdisjoint(named)
    assert all(later.values())


def test_every_promise_is_one_sentence() -> None:
    promises, _ = catalogue()
    assert [name for name, words in promises.items() if not words.endswith(".")] == []


def backquoted(text: str) -> list[str]:
    return re.findall(r"`([a-z_.]+)`", text)


def wanted() -> set[str]:
    """The ids that the contract's tables, numbered steps and closed sets give of themselves."""
    contract = (TESTS.parent / "docs" / "contract.md").read_text()
    parts = re.split(r"^## (\d+)\..*$", contract, flags=re.MULTILINE)
    section = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    first_cells = {
        number: [row.split("|")[1].strip() for row in re.findall(r"^\|.*$", text, re.MULTILINE)[2:]]
        for number, text in section.items()
    }
    ids = {f"word.{word.replace(' ', '_')}" for word in first_cells[1]}
    ids |= {f"disposition.{cell.strip('`')}" for cell in first_cells[3]}
    ids |= {f"event.{type}" for cell in first_cells[7] for type in backquoted(cell)}
    ids |= set(first_cells[10])
    ids |= {f"admission.{step}" for step in re.findall(r"^(\d)\. ", section[4], re.MULTILINE)}
    ids |= {f"refusal.{code}" for code in re.findall(r"-> `([a-z_]+)`", section[4])}
    reasons = re.search(r"Held reasons.*?: (.*?)\. Unknown reasons: (.*?)\.", section[6], re.DOTALL)
    assert reasons is not None
    ids |= {f"held.{reason}" for reason in backquoted(reasons[1])}
    ids |= {f"unknown.{reason}" for reason in backquoted(reasons[2])}
    ids |= {f"limits.{field.name}" for field in dataclasses.fields(Limits)}
    return ids | {f"F{number:02}" for number in range(1, 41)}


def test_the_catalogue_has_every_row_and_every_word_of_the_closed_sets_of_the_contract() -> None:
    promises, _ = catalogue()
    found = wanted()
    assert sorted(found - promises.keys()) == []
    # It was read: the tables and lists are as long as they look.
    count = Counter(name.partition(".")[0].rstrip("0123456789") for name in found)
    assert count == {
        "word": 13, "disposition": 4, "event": 15, "admission": 9, "I": 17, "refusal": 9,
        "held": 7, "unknown": 2, "limits": 9, "F": 40,
    }  # fmt: skip


def test_a_mark_is_read_wherever_it_may_stand() -> None:
    source = """
@pytest.mark.promise("a", "b")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.promise("c"))])
def test_one(): ...

@pytest.mark.promise("d")
class TestTwo:
    def test_three(self): ...
"""
    found: dict[str, Any] = {
        test.name: [name for node in decorators for name in marks(node)] + marks_on_parameters(test)
        for test, decorators in functions_of(ast.parse(source))
    }
    assert found == {"test_one": ["a", "b", "c"], "test_three": ["d"]}
