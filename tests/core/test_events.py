"""The event log: gapless numbers, a bounded history, the same cost whatever it holds."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse import Input, Limits
from midcourse._core.events import EventLog

from .sessions import boundary, finish, ignore, new_session, opened, steer, submit


def log(limit: int = 10, clock: Callable[[], float] = lambda: 0.5) -> EventLog:
    return EventLog("s", limit, clock, ignore)


@pytest.mark.promise("event.fields", "event.sequence", "library.deterministic")
def test_every_event_has_version_sequence_session_time_and_type_beside_its_data() -> None:
    session = new_session(name="demo")
    opened(session, "g")
    steer(session, "a")
    events = list(session.log.after(0))
    assert [event.sequence for event in events] == [1, 2, 3, 4]
    assert [event.time for event in events] == [1.0, 2.0, 3.0, 4.0]
    assert {(event.version, event.session_id) for event in events} == {(1, "demo")}
    assert events[0].to_json() == {
        "version": 1,
        "sequence": 1,
        "session_id": "demo",
        "time": 1.0,
        "type": "generation.started",
        "generation_id": "g",
        "initial_input_id": "g-initial",
    }


@pytest.mark.promise("event.fields", "library.values")
def test_an_event_is_read_only_and_its_json_a_fresh_copy() -> None:
    session = new_session()
    state = opened(session, "g")
    steer(session, "a")
    boundary(state)
    event = session.log.get(session.log.last)
    data: Any = event.data
    with pytest.raises(TypeError):
        data["request"] = 2
    wire = event.to_json()
    assert wire["input_ids"] == ["a"]
    wire["input_ids"].append("b")
    assert event.to_json()["input_ids"] == ["a"]
    assert json.loads(json.dumps(event.to_json())) == event.to_json()


@pytest.mark.promise("library.values")
def test_an_event_can_be_copied_and_pickled() -> None:
    session = new_session()
    boundary(opened(session, "g", initial_written=False))
    for event in session.log.after(0):
        for again in (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
            assert again == event
            assert again.to_json() == event.to_json()


@pytest.mark.promise("event.history", "limits.event_history", "event.sequence")
def test_the_history_keeps_the_last_events_and_the_numbers_go_on() -> None:
    kept = log(limit=3)
    assert (kept.first, kept.last, list(kept.after(0))) == (1, 0, [])
    for number in range(1, 4):
        kept.append("x", {"n": number})
    assert (kept.first, kept.last) == (1, 3)
    kept.append("x", {"n": 4})
    assert (kept.first, kept.last) == (2, 4)
    assert [(event.sequence, event.data["n"]) for event in kept.after(0)] == [
        (2, 2),
        (3, 3),
        (4, 4),
    ]


@pytest.mark.promise("limits.event_history", "event.history")
def test_a_runtime_keeps_as_many_events_as_its_limits_say() -> None:
    session = new_session(Limits(event_history=2))
    opened(session, "g")
    steer(session, "a")
    assert (session.log.first, session.log.last) == (3, 4)


@pytest.mark.promise("event.catch_up")
@given(st.integers(1, 8), st.integers(0, 20), st.integers(-3, 25))
def test_a_reader_catches_up_from_any_number_as_far_as_the_history_reaches(
    limit: int, published: int, after: int
) -> None:
    kept = log(limit)
    for number in range(1, published + 1):
        kept.append("x", {"n": number})
    wanted = [n for n in range(1, published + 1) if n > after and n > published - limit]
    assert [event.sequence for event in kept.after(after)] == wanted
    assert [kept.get(number).data["n"] for number in wanted] == wanted
    assert [kept.get(number).sequence for number in wanted] == wanted


@pytest.mark.promise("event.sequence")
def test_a_clock_that_fails_leaves_no_hole_in_the_sequence() -> None:
    broken = True

    def clock() -> float:
        if broken:
            raise OSError("no clock")
        return 0.0

    kept = log(clock=clock)
    with pytest.raises(OSError, match="no clock"):
        kept.append("x", {})
    broken = False
    kept.append("y", {})
    assert [(event.sequence, event.type) for event in kept.after(0)] == [(1, "y")]


@pytest.mark.promise("event.no_host_code", "event.after_state")
def test_each_event_is_told_once_after_it_can_be_read() -> None:
    told: list[tuple[str, int]] = []

    def notify(type: str, data: Mapping[str, Any]) -> None:
        assert kept.get(kept.last).data == data
        told.append((type, data["n"]))

    kept = EventLog("s", 10, lambda: 0.0, notify)
    kept.append("x", {"n": 1})
    kept.append("y", {"n": 2})
    assert told == [("x", 1), ("y", 2)]


def calls_of(function: Callable[[], object]) -> int:
    """How many functions, Python's and C's, a call of `function` calls."""
    count = 0

    def profile(frame: FrameType, what: str, argument: object) -> None:
        nonlocal count
        count += what in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.promise("event.never_slows")
def test_publishing_does_the_same_work_whatever_the_history_holds() -> None:
    kept = log(limit=10_000)
    first = calls_of(lambda: kept.append("x", {}))
    for _ in range(20_000):
        kept.append("x", {})
    assert calls_of(lambda: kept.append("x", {})) == first


@pytest.mark.promise("event.history", "event.sequence", "F40")
def test_a_session_that_goes_on_for_long_keeps_a_bounded_history() -> None:
    session = new_session(Limits(event_history=50))
    for number in range(500):
        state = opened(session, f"g{number}")
        boundary(state)
        finish(state)
    assert session.log.last - session.log.first + 1 == 50
    assert list(session.records()) == []


@pytest.mark.promise("event.sequence", "word.session")
def test_the_numbers_of_two_sessions_are_their_own() -> None:
    one, other = new_session(name="one"), new_session(name="other")
    submit(one, Input("user", "x", id="a"))
    submit(other, Input("user", "x", id="a"))
    assert [event.sequence for event in other.log.after(0)] == [1, 2]
