"""The journal tells each steer as the runtime's events have it; the timeline draws it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from midcourse.terminal.journal import REFUSED, Journal, Refusal, Row
from midcourse.terminal.timeline import (
    Keep,
    Screen,
    as_lines,
    picture,
    receipts_table,
    timeline_table,
)

pytestmark = pytest.mark.promise("terminal.journal")


@dataclass
class Happened:
    """An event of a fake runtime."""

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    time: float = 0.0


def journal_of(*happened: Happened | Refusal, said: Mapping[str, str] | None = None) -> Journal:
    journal = Journal(show=lambda row: None, clock=lambda: 0.0)
    journal.prompts["p"] = "Survey"
    for label, text in (said or {}).items():
        journal.say(label, text)
    for one in happened:
        if isinstance(one, Refusal):
            journal.refused(one)
        else:
            journal.event(one)
    return journal


STARTED = Happened("generation.started", {"generation_id": "g", "initial_input_id": "p"})


def accepted(label: str) -> Happened:
    return Happened("steering.accepted", {"input_id": label})


def applied(*labels: str, number: int) -> list[Happened]:
    written = [Happened("steering.applied", {"input_id": label}) for label in labels]
    request = {"generation_id": "g", "request": number, "input_ids": labels}
    return [*written, Happened("request.started", request)]


def ended(outcome: str, **data: Any) -> Happened:
    return Happened(f"generation.{outcome}", {"generation_id": "g", "requests": 3, **data})


def texts(journal: Journal) -> list[str]:
    return [row.text for row in journal.rows]


def test_a_steer_is_told_queued_and_then_applied_with_its_request() -> None:
    journal = journal_of(
        STARTED, accepted("s1"), *applied("s1", number=2), said={"s1": "skip tests"}
    )
    assert texts(journal) == [
        'turn 1 begins: "Survey"',
        's1 queued: "skip tests"',
        "boundary, then request 2: s1 applied",
    ]
    assert (journal.told["s1"].disposition, journal.told["s1"].why) == ("applied", "at request 2")


def test_nothing_is_called_applied_before_its_event() -> None:
    journal = journal_of(STARTED, accepted("s1"), said={"s1": "skip tests"})
    assert journal.told["s1"].disposition == "queued"
    assert not any("applied" in text for text in texts(journal))


@pytest.mark.parametrize(
    ("disposition", "reason", "words"),
    [
        ("held", "stopped", "the turn was stopped before it was written"),
        ("held", "call_budget_exhausted", "no request was left that could have carried it"),
        ("unknown", "write_failed", "writing it failed, and nobody can tell how far it got"),
        ("held", "some_new_reason", "some_new_reason"),
    ],
)
def test_a_steer_that_was_not_applied_is_told_with_its_reason_and_its_text(
    disposition: str, reason: str, words: str
) -> None:
    settled = Happened(f"steering.{disposition}", {"input_id": "s1", "reason": reason})
    journal = journal_of(STARTED, accepted("s1"), settled, said={"s1": "skip tests"})
    assert texts(journal)[-1] == f's1 {disposition}, {reason} ({words}): "skip tests"'
    assert journal.told["s1"].disposition == disposition


def test_a_refusal_is_told_with_its_code_and_why() -> None:
    journal = journal_of(
        Refusal("s1", "skip docs", "no_active_generation", "ignored"),
        Refusal("s2", "x", "invalid_input", "the text is too long"),
    )
    assert texts(journal) == [
        f's1 refused, no_active_generation ({REFUSED["no_active_generation"]}): "skip docs"',
        's2 refused, invalid_input (the text is too long): "x"',
    ]


def test_a_written_steer_that_no_request_carried_is_applied_all_the_same() -> None:
    journal = journal_of(
        STARTED,
        accepted("s1"),
        Happened("steering.applied", {"input_id": "s1"}),
        ended("detached", reason="stopped"),
    )
    assert journal.told["s1"].disposition == "applied"
    assert texts(journal)[-1] == "turn 1 detached (stopped) after 3 requests"
    assert journal.rows[-1].closes == (("s1", "applied"),)


def test_every_end_of_a_turn_is_told() -> None:
    continued = Happened("generation.continued", {"generation_id": "g", "input_ids": ("s1",)})
    journal = journal_of(STARTED, continued, ended("finished"))
    assert texts(journal)[1:] == [
        "the answer is kept back: s1 came in time, so the turn goes on",
        "turn 1 finished after 3 requests",
    ]
    failed = journal_of(STARTED, ended("failed", error_type="ValueError"))
    assert texts(failed)[-1] == "turn 1 failed (ValueError) after 3 requests"


def test_a_text_of_many_lines_is_told_in_one() -> None:
    journal = journal_of(accepted("s1"), said={"s1": "one\x1b[2J\ntwo\nthree"})
    assert texts(journal) == ['s1 queued: "one\\x1b[2J" and 2 more lines']


def test_many_labels_are_counted_and_not_all_spelt_out() -> None:
    labels = [f"s{number}" for number in range(1, 129)]
    journal = journal_of(STARTED, *map(accepted, labels), *applied(*labels, number=2))
    assert texts(journal)[-1].endswith("s1, s2, s3, s4, s5, s6 and 122 more applied")


# ------------------------------------------------------------------------------ the screen


def printed(*renderables: Any, width: int = 80) -> str:
    out = StringIO()
    Screen(file=out, width=width).print(*renderables)
    return out.getvalue()


def session() -> Journal:
    return journal_of(
        STARTED,
        *applied(number=1),
        accepted("s1"),
        accepted("s2"),
        *applied("s1", number=2),
        Happened("steering.held", {"input_id": "s2", "reason": "stopped"}),
        ended("detached", reason="stopped"),
        Refusal("s3", "[bold]too late[/bold] 日本語", "no_active_generation", ""),
        said={"s1": "skip tests", "s2": "only src"},
    )


def lanes(table_text: str) -> list[str]:
    return [
        line[-7:].rstrip() for line in table_text.splitlines() if re.match(r"\s+\d\.\d\d", line)
    ]


def test_the_timeline_draws_a_lane_from_queued_to_settled() -> None:
    assert [lane.strip() for lane in lanes(printed(timeline_table(session().rows), width=120))] == [
        *("", "", "┌", "│┌", "└│", "└", "", "\N{MULTIPLICATION SIGN}"),
    ]


def test_more_steers_than_lanes_are_drawn_without_a_fault() -> None:
    labels = [f"s{number}" for number in range(40)]
    journal = journal_of(STARTED, *map(accepted, labels), *applied(*labels, number=2))
    assert "││││││││" in printed(timeline_table(journal.rows), width=120)


def test_a_small_character_set_gets_a_timeline_in_ascii() -> None:
    table = printed(timeline_table(session().rows, ascii_only=True), width=120)
    assert [lane.strip() for lane in lanes(table)] == [*("", "", "+", "|+", "+|", "+", "", "x")]


@pytest.mark.parametrize("width", [30, 60, 80, 140])
def test_tables_fit_the_width_and_lose_no_word(width: int) -> None:
    told = list(session().told.values())
    out = printed(receipts_table(told), width=width) + printed(
        timeline_table(session().rows), width=width
    )
    assert max(map(len, out.splitlines())) <= width
    letters = re.sub(r"[\s│┌└]", "", out)
    assert "[bold]toolate[/bold]" in letters or width == 30


def test_a_long_line_goes_on_further_right_in_a_terminal_and_is_whole_in_a_pipe() -> None:
    row = Row(0.0, "tool", "a long line of many words that does not fit into a narrow window")
    terminal, pipe = StringIO(), StringIO()
    Screen(file=terminal, width=40, force_terminal=True, no_color=True).row(row)
    Screen(file=pipe, width=40).row(row)
    assert [line[:7] for line in terminal.getvalue().splitlines()] == ["    a l", "      d"]
    assert pipe.getvalue() == f"    {row.text}\n"


# ------------------------------------------------------------------------------ keeping it


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_a_picture_is_complete_in_itself(suffix: str) -> None:
    journal = session()
    drawn = picture(suffix, "on <a> & b", list(journal.told.values()), journal.rows)
    assert "@font-face" not in drawn
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?http""", drawn)
    if suffix == ".svg":
        ElementTree.fromstring(drawn)
    assert "&lt;a&gt;" in drawn


def test_events_are_kept_one_json_object_a_line() -> None:
    events = [{"type": "x", "text": "größer\n"}, {"type": "y"}]
    assert [json.loads(line) for line in as_lines(events).splitlines()] == events


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x.png", "must end in"),
        ("x", "must end in"),
        ("no/such/folder/x.svg", "No such file"),
        ("folder.svg", "is a folder"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises((OSError, ValueError), match=reason):
        Keep(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["folder.svg"]


def test_what_stood_there_stays_until_the_new_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "kept.html"
    path.write_text("old")
    keep = Keep(str(path))
    assert path.read_text() == "old"
    keep.discard()
    assert path.read_text() == "old"
    keep = Keep(str(path))
    keep.write("new \udcff")
    keep.discard()
    assert path.read_text() == "new \\udcff"
    assert [one.name for one in tmp_path.iterdir()] == ["kept.html"]
    assert path.stat().st_mode & 0o400


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.svg").symlink_to(tmp_path / "real" / "x.svg")
    Keep(str(tmp_path / "link.svg")).write("drawn")
    assert (tmp_path / "real" / "x.svg").read_text() == "drawn"
    assert (tmp_path / "link.svg").is_symlink()
