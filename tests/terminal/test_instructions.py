"""What the planner's few instructions mean, and that nothing else is taken for one."""

from __future__ import annotations

import time

import pytest

from midcourse.terminal.instructions import (
    LookFor,
    NotUnderstood,
    Only,
    Skip,
    StopAfter,
    may_hold,
    names,
    understand,
)

pytestmark = pytest.mark.promise("terminal.agent")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("skip tests", [Skip("tests")]),
        ("Please skip the tests folder for now!", [Skip("tests")]),
        ("skip a, b and c", [Skip("a"), Skip("b"), Skip("c")]),
        ("ignore .py files", [Skip(".py")]),
        ("don't read node_modules", [Skip("node_modules")]),
        ("skip 'mine and yours'", [Skip("mine and yours")]),
        ("only src/app", [Only("src/app")]),
        ("just look at *.md", [Only("*.md")]),
        ("focus on the docs directory", [Only("docs")]),
        ("only 20 files", [StopAfter(20)]),
        ("stop after 40 files", [StopAfter(40)]),
        ("read at most 1,000 files", [StopAfter(1000)]),
        ("look for cache", [LookFor("cache")]),
        ("find the word password", [LookFor("password")]),
        ("look for 'foo and bar' or baz", [LookFor("foo and bar"), LookFor("baz")]),
        ("look for größer", [LookFor("größer")]),
        (
            "skip tests, and look for cache; stop after 4 files",
            [Skip("tests"), LookFor("cache"), StopAfter(4)],
        ),
        ("skip *.md\nlook for TODO", [Skip("*.md"), LookFor("TODO")]),
        ("skip tests but keep the docs", [Skip("tests"), NotUnderstood("keep the docs")]),
    ],
)
def test_an_instruction_is_understood(text: str, meant: list[object]) -> None:
    assert list(understand(text)) == meant


@pytest.mark.parametrize(
    "text",
    [
        "make it blue",
        "skip",
        "don't skip tests",
        "do not look for trouble",
        "stop",
        "stop after twelve files",
        "stop after 99999999999 files",
        "skippy the kangaroo",
        "what's up? it's fine",
        "\ue0005\ue001 skip",
        "räume bitte auf",
    ],
)
def test_anything_else_comes_back_word_for_word(text: str) -> None:
    assert understand(text) == (NotUnderstood(text),)


@pytest.mark.parametrize("text", ["", "  \n ", "...", ";;,"])
def test_a_text_without_a_word_asks_for_nothing(text: str) -> None:
    assert understand(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        " " * 16_000,
        "skip" + " " * 15_990 + "x",
        "skip a" + " ," * 7_000,
        "'" * 16_000,
        "please " * 2_200,
        "skip the " * 1_700,
        "skip x" + " files" * 2_600 + " y",
        "look for " + "the " * 3_900,
        "skip " + "a and " * 2_600,
    ],
)
def test_the_longest_text_is_understood_in_no_time(text: str) -> None:
    begun = time.process_time()
    understand(text)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    ("pattern", "path", "named"),
    [
        ("tests", "a/tests/x.py", True),
        ("tests", "a/test_x.py", True),
        ("tests", "a/contest.py", False),
        ("docs", "src/Docs/index.html", True),
        ("docs", "src/docs.py", False),
        ("setup.py", "a/setup.py", True),
        ("src/a", "src/a/b.py", True),
        ("./src/a/", "src/a/b.py", True),
        ("src/a", "src/ab.py", False),
        ("src/a", "old/src/a/b.py", False),
        ("*.py", "a/b.py", True),
        (".py", "a/b.py", True),
        ("a/*.py", "a/b.py", True),
        ("python", "a/b.pyi", True),
        ("Markdown", "README.md", True),
        ("py", "b.py", True),
        ("c", "a/b.c", True),
        ("golang", "x.go", True),
        (".github", ".github/workflows/x.yml", True),
        (".", "x", False),
    ],
)
def test_a_pattern_names_a_path_or_not(pattern: str, path: str, named: bool) -> None:
    assert names(pattern, path) is named


@pytest.mark.parametrize(
    ("pattern", "folder", "may"),
    [
        ("src/app", "", True),
        ("src/app", "src", True),
        ("src/app", "src/app/deep", True),
        ("src/app", "docs", False),
        ("src/app", "src/apple", False),
        ("app", "anywhere", True),
        ("src/*.py", "docs", True),
    ],
)
def test_only_folders_that_may_hold_it_are_listed(pattern: str, folder: str, may: bool) -> None:
    assert may_hold(pattern, folder) is may
