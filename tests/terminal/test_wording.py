"""Foreign text is harmless on a terminal and in a file, and readable."""

from __future__ import annotations

import pytest

from midcourse.terminal.wording import (
    counted,
    listed,
    printable,
    shortened,
    shortened_path,
    size_of,
)

pytestmark = pytest.mark.promise("terminal.truth")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größer 日本語 עברית", "größer 日本語 עברית"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("bad\udcffname", "bad\\xffname"),
        ("lone \ud800", "lone \\ud800"),
        ("over\u202eride", "over\\u202eride"),
        ("no character \uffff", "no character \\uffff"),
        ("join\u200der", "join\u200der"),
        ("[bold]not markup[/]", "[bold]not markup[/]"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown
    printable(text).encode("utf-8")


def test_long_text_is_cut_and_says_so() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghijk", 10) == "abcdefg..."
    assert shortened_path("src/deep/down/file.py", 12) == "...n/file.py"


def test_numbers_read_as_people_write_them() -> None:
    assert [counted(1, "file"), counted(1000, "file")] == ["1 file", "1,000 files"]
    assert [size_of(n) for n in (0, 999, 1000, 4_096, 999_600, 5 * 10**9, 10**13)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "4.1 kB",
        "1.0 MB",
        "5.0 GB",
        "10000 GB",
    ]
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
