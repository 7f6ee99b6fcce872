"""Each checker rejects the smallest session that breaks its promise, and no other checker does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from .checkers import CHECKERS, PromiseBroken, check
from .evidence import (
    Cancel,
    Confirmation,
    Event,
    Evidence,
    Message,
    ModelRequest,
    Moment,
    Observation,
    Save,
    Stop,
    Submission,
    Write,
)

pytestmark = pytest.mark.promise("search.checkers")

Line = dict[str, Any]


def line(type: str, **data: Any) -> Line:
    return {"type": type, **data}


STARTED = line("generation.started", generation_id="g", initial_input_id="p")


def accepted(name: str, anchor: str | None = "g") -> Line:
    found = line("input.accepted", input_id=name, delivery="request_boundary")
    return found | ({"target_generation_id": anchor} if anchor else {})


def applied(name: str) -> list[Line]:
    data = {"input_id": name, "target_generation_id": "g", "delivery": "request_boundary"}
    return [line("input.delivered", **data), line("steering.applied", **data)]


def settled(name: str, disposition: str, reason: str) -> Line:
    return line(f"steering.{disposition}", input_id=name, target_generation_id="g", reason=reason)


def request(number: int, *names: str) -> Line:
    return line("request.started", generation_id="g", request=number, input_ids=list(names))


def ended(
    how: str = "finished",
    *,
    applied: Iterable[str] = (),
    held: Iterable[str] = (),
    unknown: Iterable[str] = (),
    requests: int = 0,
) -> Line:
    return line(
        f"generation.{how}",
        generation_id="g",
        input_ids=list(applied),
        accepted_input_ids=list(held),
        unknown_input_ids=list(unknown),
        requests=requests,
    )


def message(name: str, anchor: str | None = "g") -> Message:
    return {"role": "user", "metadata": {"input_id": name, "target_generation_id": anchor}}


def at(order: int, sequence: int = 0, *, time: float = 0.0, tick: int = 0) -> Moment:
    return Moment(order, sequence, tick, time)


def write(name: str, how: Any = "returned", *, order: int = 0, **more: Any) -> Write:
    given: dict[str, Any] = {"generation_id": "g", "ended": at(order + 1)} | more
    return Write(name, began=at(order), how=how, **given)


def receipt(name: str, disposition: str, reason: str | None = None) -> dict[str, Any]:
    found = {"accepted": True, "inputId": name, "generationId": "g", "disposition": disposition}
    return found | ({"reason": reason} if reason else {})


def case(
    *lines: Line, messages: Iterable[Message] = (), seen: Observation | None = None
) -> Evidence:
    events: list[Event] = [
        {"version": 1, "sequence": number, **each} for number, each in enumerate(lines, 1)
    ]
    seen = seen or Observation()
    seen.host_written.add("p")
    return Evidence(events, list(messages), seen)


def clean() -> Evidence:
    seen = Observation(
        submissions=[
            Submission("s", at(0, 2), "g", outcome="returned", ended=at(1, 5, tick=2),
                       receipt=receipt("s", "queued")),
            Submission("s", at(2, 5), "g", outcome="returned", ended=at(3, 5),
                       receipt=receipt("s", "queued")),
            Submission("t", at(4, 9), "g", outcome="refused", code="admission_closed",
                       ended=at(5, 9)),
        ],
        writes=[write("s", order=3)],
        requests=[ModelRequest("g", at(0)), ModelRequest("g", at(4), ("s",))],
        tool_calls=[("g", "call")],
        readings=[receipt("s", "queued"), receipt("s", "applied")],
        final={"s": receipt("s", "applied"), "t": None},
        closed=True,
    )  # fmt: skip
    return case(
        STARTED,
        request(1),
        accepted("s"),
        line("steering.accepted", input_id="s", target_generation_id="g"),
        line("input.queued", input_id="s", target_generation_id="g"),
        *applied("s"),
        request(2, "s"),
        ended(applied=["s"], requests=2),
        messages=[message("s")],
        seen=seen,
    )


def submission(
    outcome: Any, *, ended: Moment, began: Moment | None = None, **more: Any
) -> Submission:
    return Submission("s", began or at(0, 1), "g", outcome=outcome, ended=ended, **more)


BROKEN: dict[str, tuple[str, Evidence]] = {
    "accepted and never settled": ("I1", case(STARTED, accepted("s"), ended())),
    "settled twice": (
        "I1",
        case(
            STARTED, accepted("s"), settled("s", "held", "failed"), settled("s", "held", "failed"),
            ended("failed", held=["s"]),
        ),
    ),
    "written twice": (
        "I2",
        case(
            STARTED, accepted("s"), settled("s", "unknown", "write_failed"),
            ended("failed", unknown=["s"]),
            seen=Observation(writes=[write("s", "raised"), write("s", "raised", order=2)]),
        ),
    ),
    "applied and not in the context": (
        "I3",
        case(STARTED, accepted("s"), *applied("s"), request(1, "s"),
             ended(applied=["s"], requests=1)),
    ),
    "applied, in the context twice": (
        "I3",
        case(STARTED, accepted("s"), *applied("s"), request(1, "s"),
             ended(applied=["s"], requests=1), messages=[message("s"), message("s")]),
    ),
    "applied, but written while another was active": (
        "I3",
        case(STARTED, accepted("s"), *applied("s"), request(1, "s"),
             ended(applied=["s"], requests=1), messages=[message("s")],
             seen=Observation(writes=[write("s", generation_id="h")])),
    ),
    "held and in the context": (
        "I4",
        case(STARTED, accepted("s"), settled("s", "held", "stopped"), ended("detached", held=["s"]),
             messages=[message("s")]),
    ),
    "unknown and never begun": (
        "I5",
        case(STARTED, accepted("s"), settled("s", "unknown", "write_failed"),
             ended("failed", unknown=["s"])),
    ),
    "unknown although it returned": (
        "I5",
        case(STARTED, accepted("s"), settled("s", "unknown", "write_failed"),
             ended("failed", unknown=["s"]), seen=Observation(writes=[write("s")])),
    ),
    "written in another generation": (
        "I6",
        case(STARTED, accepted("s"), settled("s", "unknown", "write_failed"),
             ended("failed", unknown=["s"]),
             seen=Observation(writes=[write("s", "raised", generation_id="h")])),
    ),
    "marked for another generation": (
        "I6",
        case(STARTED, accepted("s"), *applied("s"), request(1, "s"),
             ended(applied=["s"], requests=1), messages=[message("s", "h")]),
    ),
    "the later one first": (
        "I7",
        case(STARTED, accepted("s"), accepted("t"), *applied("t"), *applied("s"),
             request(1, "t", "s"), ended(applied=["s", "t"], requests=1),
             messages=[message("t"), message("s")]),
    ),
    "accepted after admission was found closed": (
        "I8",
        case(STARTED, accepted("t"), settled("t", "held", "stopped"), ended("detached", held=["t"]),
             seen=Observation(submissions=[
                 submission("refused", ended=at(1, 1), code="admission_closed")])),
    ),
    "no terminal event": ("I9", case(STARTED)),
    "two terminal events": ("I9", case(STARTED, ended(), ended("failed"))),
    "accepted twice": (
        "I10",
        case(STARTED, accepted("s"), accepted("s"), settled("s", "held", "stopped"),
             ended("detached", held=["s"])),
    ),
    "an exact retry was refused": (
        "I10",
        case(STARTED, accepted("s"), settled("s", "held", "stopped"), ended("detached", held=["s"]),
             seen=Observation(submissions=[
                 submission("returned", ended=at(1, 2), receipt=receipt("s", "queued")),
                 submission("refused", began=at(2, 4), ended=at(3, 4), code="runtime_closed")])),
    ),
    "changed content got the receipt": (
        "I10",
        case(STARTED, accepted("s"), settled("s", "held", "stopped"), ended("detached", held=["s"]),
             seen=Observation(submissions=[
                 submission("returned", ended=at(1, 2), receipt=receipt("s", "queued")),
                 submission("returned", began=at(2, 2), ended=at(3, 2), content="other",
                            receipt=receipt("s", "queued"))])),
    ),
    "an accepted identity is gone": (
        "I11",
        case(STARTED, accepted("s"), settled("s", "held", "stopped"), ended("detached", held=["s"]),
             seen=Observation(final={"s": None})),
    ),
    "one identity too many": (
        "I11",
        case(STARTED, accepted("s"), settled("s", "held", "stopped"), ended("detached", held=["s"]),
             seen=Observation(identities=0)),
    ),
    "cancelled, and admitted": (
        "I12",
        case(STARTED, accepted("s"), settled("s", "held", "stopped"), ended("detached", held=["s"]),
             seen=Observation(submissions=[submission("cancelled", ended=at(1, 2))])),
    ),
    "a submission waited for the loop": (
        "I13",
        case(seen=Observation(submissions=[
            submission("refused", ended=at(1, 1, time=1.0), code="admission_closed")])),
    ),
    "a submission took too many steps": (
        "I13",
        case(seen=Observation(submissions=[
            submission("refused", ended=at(1, 1, tick=99), code="admission_closed")])),
    ),
    "a submission never returned": (
        "I13", case(seen=Observation(submissions=[Submission("s", at(0), "g")])),
    ),
    "a later submission overtook a waiting one": (
        "I13",
        case(STARTED, accepted("t"), accepted("s"), settled("s", "held", "stopped"),
             settled("t", "held", "stopped"), ended("detached", held=["s", "t"]),
             seen=Observation(submissions=[
                 submission("returned", began=at(0, 1), ended=at(3, 3, tick=5),
                            receipt=receipt("s", "queued")),
                 Submission("t", at(1, 1, tick=4), "g", outcome="returned",
                            ended=at(2, 2, tick=5), receipt=receipt("t", "queued"))])),
    ),
    "a tool call ran again": (
        "I14", case(STARTED, ended(), seen=Observation(tool_calls=[("g", "c"), ("g", "c")])),
    ),
    "unknown, and later held": (
        "I15",
        case(STARTED, accepted("s"), settled("s", "held", "stopped"), ended("detached", held=["s"]),
             seen=Observation(readings=[receipt("s", "unknown", "write_failed")])),
    ),
    "settled in the log only": (
        "I15",
        case(STARTED, accepted("s"), settled("s", "held", "stopped"), ended("detached", held=["s"]),
             seen=Observation(final={"s": receipt("s", "queued")})),
    ),
    "applied after the last request": (
        "I16",
        case(STARTED, request(1), accepted("s"), *applied("s"), ended(applied=["s"], requests=1),
             messages=[message("s")]),
    ),
    "no model request carried it": (
        "I16",
        case(STARTED, accepted("s"), *applied("s"), request(1, "s"),
             ended(applied=["s"], requests=1), messages=[message("s")],
             seen=Observation(requests=[ModelRequest("g", at(0))])),
    ),
    "a task is left": ("I17", case(seen=Observation(left_behind=["drain"]))),
    "closed with an input queued": (
        "S2",
        case(accepted("s", None) | {"delivery": "new_turn"},
             seen=Observation(closed=True, final={"s": receipt("s", "queued")})),
    ),
    "an interrupted write called applied": (
        "S3",
        case(STARTED, accepted("s"), *applied("s"), request(1, "s"),
             ended("detached", applied=["s"], requests=1), messages=[message("s")],
             seen=Observation(writes=[
                 write("s", "cancelled", challenged=True, wanted_at_end=True, ended=at(1, 5))])),
    ),
    "a begun write called held": (
        "S3",
        case(STARTED, accepted("s"), settled("s", "held", "failed"), ended("failed", held=["s"]),
             seen=Observation(writes=[write("s", "raised")])),
    ),
    "a confirmed write called unknown": (
        "S3",
        case(STARTED, accepted("s"), settled("s", "unknown", "write_failed"),
             ended("failed", unknown=["s"]),
             seen=Observation(writes=[write("s", "raised")],
                              confirmations=[Confirmation("s", answer=True)])),
    ),
    "refused, and recorded": (
        "S4",
        case(STARTED, accepted("s"), settled("s", "held", "stopped"), ended("detached", held=["s"]),
             seen=Observation(submissions=[
                 submission("refused", ended=at(1, 1), code="queue_full")])),
    ),
    "a receipt for nothing": (
        "S4",
        case(STARTED, ended(), seen=Observation(submissions=[
            submission("returned", ended=at(1, 1), receipt=receipt("s", "queued"))])),
    ),
    "no active generation, while one is": (
        "S4",
        case(STARTED, ended(), seen=Observation(submissions=[
            submission("refused", ended=at(1, 1), code="no_active_generation")])),
    ),
    "begun after cancellation": (
        "S5",
        case(STARTED, accepted("s"), *applied("s"), request(1, "s"),
             ended("detached", applied=["s"], requests=1), messages=[message("s")],
             seen=Observation(writes=[
                 write("s", wanted=True, wanted_at_end=True, ended=at(1, 5))])),
    ),
    "two writes at once": (
        "S5",
        case(STARTED, accepted("s"), accepted("t"), *applied("s"), *applied("t"),
             request(1, "s", "t"), ended(applied=["s", "t"], requests=1),
             messages=[message("s"), message("t")],
             seen=Observation(writes=[write("s", ended=at(5)), write("t", order=2)])),
    ),
    "a request begun although cancellation was wanted": (
        "S5",
        case(STARTED, accepted("s"), *applied("s"), request(1, "s"),
             ended("detached", applied=["s"], requests=1), messages=[message("s")],
             seen=Observation(writes=[write("s", wanted_at_end=True)])),
    ),
    "torn before its grace was over": (
        "S5",
        case(STARTED, accepted("s"), settled("s", "unknown", "write_interrupted"),
             ended("detached", unknown=["s"]),
             seen=Observation(writes=[
                 write("s", "cancelled", challenged=True, torn=True, wanted_at_end=True)])),
    ),
    "finished after a failed write": (
        "S5",
        case(STARTED, accepted("s"), settled("s", "unknown", "write_failed"), ended(unknown=["s"]),
             seen=Observation(writes=[write("s", "raised")])),
    ),
    "written after stop": (
        "S6",
        case(STARTED, accepted("s"), *applied("s"), request(1, "s"),
             ended("detached", applied=["s"], requests=1), messages=[message("s")],
             seen=Observation(writes=[write("s", order=1, wanted_at_end=True, ended=at(2, 5))],
                              stops=[Stop("g", at(0, 6))])),
    ),
    "stopped and still active": (
        "S6", case(STARTED, ended("detached"), seen=Observation(stops=[Stop("g", at(0, 1))])),
    ),
    "finished after the host was cancelled": (
        "S6", case(STARTED, ended(), seen=Observation(cancels=[Cancel("g", at(1, 1))])),
    ),
    "finished although cancellation was wanted": (
        "S6", case(STARTED, ended(), seen=Observation(saves=[Save("g", at(1, 1), True)])),
    ),
    "an event of no contract": ("S7", case(STARTED, line("generation.paused"), ended())),
    "a number is missing": ("S7", case(STARTED, ended() | {"sequence": 3})),
    "a list that disagrees with the lines": ("S7", case(STARTED, ended(held=["s"]))),
    "a reason outside the enum": (
        "S7",
        case(STARTED, accepted("s"), settled("s", "held", "tired"), ended("detached", held=["s"])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_the_smallest_broken_session_is_rejected_by_its_own_checker_alone(what: str) -> None:
    promise, evidence = BROKEN[what]
    rejecting = [name for name, checker in CHECKERS.items() if list(checker(evidence))]
    assert rejecting == [promise]


def test_every_checker_has_a_session_that_it_rejects() -> None:
    assert {promise for promise, _ in BROKEN.values()} == set(CHECKERS)


def test_a_clean_session_passes_every_checker() -> None:
    check(clean())
    check(case())


def test_a_broken_session_is_reported_with_promise_and_lines() -> None:
    with pytest.raises(PromiseBroken, match="I1: 's' is not settled") as caught:
        check(BROKEN["accepted and never settled"][1])
    assert caught.value.promises == ["I1"]
    assert "3 generation.finished" in str(caught.value)
