"""One generation: every row of the tables about its end, the boundary, the finish, batches."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from midcourse import AdmissionClosed, GenerationActive, Input, InternalError, RuntimeClosed
from midcourse._core import tables
from midcourse._core.generation import GenerationState
from midcourse._core.session import Session
from midcourse._core.tables import Cause, HeldReason, Phase, Stage, Step, WriteEnd

from .sessions import (
    boundary,
    facts,
    finish,
    lines,
    new_session,
    offer,
    opened,
    state_facts,
    steer,
    submit,
    types,
    write,
)

# What each cause makes of a generation in each phase. What is not here changes nothing.
PHASES = {
    ("open", "finish"): "ending",
    ("open", "finish_spent"): "ending",
    ("open", "leave"): "leaving",
    ("open", "fail"): "ending",
    ("open", "cancel"): "ending",
    ("open", "stop"): "ending",
    ("open", "budget"): "ending",
    ("open", "close"): "ending",
    ("leaving", "finish"): "ending",
    ("leaving", "fail"): "ending",
    ("leaving", "cancel"): "ending",
    ("leaving", "stop"): "ending",
    ("leaving", "close"): "ending",
}
# What each cause makes of the outcome, of its reason, and of the inputs that wait.
ENDINGS: dict[str, tuple[str | None, str | None, str]] = {
    "finish": ("finished", None, "generation_ended"),
    "finish_spent": ("finished", None, "call_budget_exhausted"),
    "leave": (None, None, "generation_ended"),
    "fail": ("failed", "failed", "failed"),
    "cancel": ("detached", "cancelled", "cancelled"),
    "stop": ("detached", "stopped", "stopped"),
    "budget": ("detached", "call_budget_exhausted", "call_budget_exhausted"),
    "close": ("detached", "runtime_closed", "runtime_closed"),
}
TERMINAL = {"generation.finished", "generation.failed", "generation.detached"}


def in_phase(phase: str, session: Session | None = None) -> GenerationState:
    """A generation in this phase, whose initial input is being written unless it is over."""
    state = opened(session or new_session(), "g", initial_written=phase == "over")
    if phase != "over":
        state.begin(state.initial)
    causes = {"open": [], "leaving": ["leave"], "ending": ["fail"], "over": ["fail"]}
    for cause in causes[phase]:
        state.end(Cause(cause), "OSError")
    assert state.phase.value == phase
    return state


# ---------------------------------------------------------------------------------- the end


@pytest.mark.promise("house.tables", "I8", "I9", "end.synchronous")
@pytest.mark.parametrize(("phase", "cause"), PHASES)
def test_each_cause_moves_a_generation_as_the_table_says(phase: str, cause: str) -> None:
    state = in_phase(phase)
    state.end(Cause(cause), "ValueError")
    assert (state.phase.value, state.cause) == (PHASES[phase, cause], Cause(cause))
    assert state.error_type == "ValueError"
    assert not state.admitting
    assert state.outcome is None
    assert state.reason is None


@pytest.mark.promise("house.tables", "I9", "I15", "stop.wins", "F24", "F20")
@pytest.mark.parametrize(
    ("phase", "cause"),
    [
        (phase.value, cause.value)
        for phase, cause in product(Phase, Cause)
        if (phase.value, cause.value) not in PHASES
    ],
)
def test_the_first_cause_decides_and_a_later_one_changes_nothing(phase: str, cause: str) -> None:
    session = new_session()
    state = in_phase(phase, session)
    before = (state_facts(state), state.error_type, session.log.last)
    state.end(Cause(cause), "ValueError")
    assert (state_facts(state), state.error_type, session.log.last) == before


@pytest.mark.promise("house.tables", "I1", "I8", "held.stopped", "held.cancelled", "held.failed",
                     "held.call_budget_exhausted", "held.generation_ended", "held.runtime_closed",
                     "event.steering.held", "event.input.held", "F04", "F06", "F14", "F21",
                     "end.synchronous", "finish.budget_spent")  # fmt: skip
@pytest.mark.parametrize("cause", ENDINGS)
def test_each_cause_gives_its_outcome_its_reason_and_holds_what_waits(cause: str) -> None:
    session = new_session()
    state = opened(session, "g")
    anchored, ordinary = steer(session, "a"), submit(session, Input("steer", "x", id="b"))
    before = session.log.last
    state.end(Cause(cause), "ValueError")
    outcome, reason, held = ENDINGS[cause]
    assert (state.outcome, state.reason) == (outcome, reason)
    for record in (anchored, ordinary):
        receipt = record.receipt()
        assert receipt == {
            "accepted": True,
            "inputId": record.id,
            "generationId": "g",
            "disposition": "held",
            "reason": held,
        }
    told = lines(session, before)
    assert [line["type"] for line in told[:2]] == ["steering.held", "input.held"]
    assert [line["reason"] for line in told[:2]] == [held, held]
    if outcome is None:
        assert (len(told), session.active) == (2, state)
    else:
        assert [line["type"] for line in told[2:]] == [f"generation.{outcome}"]
        assert told[2]["accepted_input_ids"] == ["a", "b"]
        assert session.active is None


@pytest.mark.promise("event.generation.finished", "event.generation.failed",
                     "event.generation.detached", "word.generation", "I9")  # fmt: skip
@pytest.mark.parametrize(
    ("cause", "own"),
    [
        ("finish", {"type": "generation.finished", "text": "done"}),
        ("finish_spent", {"type": "generation.finished", "text": "done"}),
        ("fail", {"type": "generation.failed", "error_type": "ValueError"}),
        ("cancel", {"type": "generation.detached", "reason": "cancelled"}),
        ("stop", {"type": "generation.detached", "reason": "stopped"}),
        ("budget", {"type": "generation.detached", "reason": "call_budget_exhausted"}),
        ("close", {"type": "generation.detached", "reason": "runtime_closed"}),
    ],
)
def test_the_terminal_event_carries_three_lists_and_its_own_facts(
    cause: str, own: dict[str, Any]
) -> None:
    session = new_session()
    state = opened(session, "g", initial_written=False)
    for name in ("a", "b", "c", "d"):
        steer(session, name)
    for end in (WriteEnd.RETURNED, WriteEnd.RETURNED, WriteEnd.RAISED, WriteEnd.UNCHANGED):
        write(state, state.queue[0], end)
    state.begin_request()
    state.propose("done")
    state.end(Cause(cause), "ValueError")
    assert lines(session)[-1] == own | {
        "generation_id": "g",
        "input_ids": ["g-initial", "a"],
        "accepted_input_ids": ["c", "d"],
        "unknown_input_ids": ["b"],
        "requests": 1,
    }


@pytest.mark.promise("I1", "I8", "end.synchronous", "stop.nothing_after", "protect.stop")
@pytest.mark.parametrize("cause", [Cause.FAIL, Cause.CANCEL, Cause.STOP, Cause.CLOSE])
def test_the_terminal_event_waits_for_the_write_that_runs_and_for_nothing_else(
    cause: Cause,
) -> None:
    session = new_session()
    state = opened(session, "g")
    writing, waiting = steer(session, "a"), steer(session, "b")
    state.begin(writing)
    before = session.log.last
    state.end(cause)
    assert types(session, before) == ["steering.held"]
    assert (waiting.stage, writing.stage) == (Stage.HELD, Stage.WRITING)
    assert (state.decided, state.outcome, session.active) == (True, None, state)
    assert state.next_write() is None
    state.settle(writing, WriteEnd.RETURNED, None)
    assert types(session, before + 1)[:-1] == ["input.delivered", "steering.applied"]
    assert lines(session)[-1]["input_ids"] == ["a"]
    assert lines(session)[-1]["accepted_input_ids"] == ["b"]
    assert session.active is None


@pytest.mark.promise("I8", "F02", "admission.closes", "event.after_state")
@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.LEAVE])
def test_admission_is_closed_and_the_generation_over_when_its_terminal_event_is_seen(
    cause: Cause,
) -> None:
    seen: list[tuple[str, object, bool]] = []

    def notify(type: str, data: Any) -> None:
        seen.append((type, session.active, state.admitting if type in TERMINAL else True))

    session = new_session()
    session.log._notify = notify
    state = opened(session, "g")
    state.end(cause)
    assert [entry for entry in seen if entry[0] in TERMINAL] == [(seen[-1][0], None, False)]


@pytest.mark.promise("admission.opens", "F08", "event.generation.started")
def test_admission_is_open_before_the_opening_is_seen() -> None:
    session = new_session()
    state = session.open(
        offer(Input("user", "begin", id="begin")),
        "g",
        attachment_kinds=(),
        max_requests=None,
        initial_written=True,
    )
    assert session.log.last == 0
    assert steer(session, "a").generation_id == "g"
    session.started(state)
    assert lines(session)[-1] == {
        "type": "generation.started",
        "generation_id": "g",
        "initial_input_id": "begin",
    }


@pytest.mark.promise("I1", "word.generation")
@pytest.mark.parametrize("cause", [Cause.STOP, Cause.FAIL, Cause.CANCEL, Cause.CLOSE])
def test_an_initial_input_that_was_not_written_is_held_like_any_other(cause: Cause) -> None:
    session = new_session()
    state = opened(session, "g", initial_written=False)
    state.end(cause)
    assert types(session)[1] == "input.held"
    assert lines(session)[-1]["accepted_input_ids"] == ["g-initial"]


@pytest.mark.promise("house.internal_error")
def test_a_generation_that_ends_without_a_cause_is_an_error_of_the_library() -> None:
    state = opened(new_session(), "g", initial_written=False)
    state.begin(state.initial)
    state.phase = Phase.ENDING
    with pytest.raises(InternalError, match="generation 'g' ends without a cause"):
        state.settle(state.initial, WriteEnd.RETURNED, None)


@pytest.mark.promise("house.tables")
def test_the_tables_have_no_row_that_is_not_tested() -> None:
    assert len(tables.PHASE_STEPS) == len(PHASES)
    assert {cause.value: (end.outcome, end.held) for cause, end in tables.ENDINGS.items()} == {
        cause: (outcome, held) for cause, (outcome, _, held) in ENDINGS.items()
    }
    assert {phase.value for phase in Phase} == {"open", "leaving", "ending", "over"}
    assert {cause.value for cause in Cause} == set(ENDINGS)


# ----------------------------------------------------------------------------- the boundary


@pytest.mark.promise("boundary.initial_first", "boundary.order", "event.request.started", "I7",
                     "word.boundary_queue", "word.write", "I14")  # fmt: skip
def test_a_boundary_writes_the_initial_input_first_and_then_in_order_of_acceptance() -> None:
    session = new_session()
    state = opened(session, "g", initial_written=False)
    for name in ("a", "b"):
        steer(session, name)
    before = session.log.last
    assert boundary(state) == ("g-initial", "a", "b")
    assert lines(session)[-1] == {
        "type": "request.started",
        "generation_id": "g",
        "request": 1,
        "input_ids": ["g-initial", "a", "b"],
    }
    assert types(session, before) == [
        "input.delivered",
        "input.delivered",
        "steering.applied",
        "input.delivered",
        "steering.applied",
        "request.started",
    ]
    assert boundary(state) == ()
    assert (state.requests, lines(session)[-1]["request"]) == (2, 2)


@pytest.mark.promise("boundary.initial_written", "event.generation.started")
def test_an_initial_input_that_the_host_wrote_is_not_written_again_and_told_nowhere() -> None:
    session = new_session()
    state = opened(session, "g", initial_written=True)
    assert boundary(state) == ()
    assert finish(state)
    assert lines(session)[-1]["input_ids"] == []


@pytest.mark.promise("boundary.joins")
def test_an_input_that_is_accepted_while_the_drain_runs_joins_it() -> None:
    session = new_session()
    state = opened(session, "g")
    steer(session, "a")
    state.begin_boundary()
    record = state.next_write()
    assert record is not None
    state.begin(record)
    steer(session, "b")
    state.settle(record, WriteEnd.RETURNED, None)
    late = state.next_write()
    assert late is not None
    assert late.id == "b"


@pytest.mark.promise("admission.8", "I2")
def test_an_input_that_is_being_written_waits_no_more() -> None:
    session = new_session()
    state = opened(session, "g", initial_written=False)
    assert (state.pending, state.steered) == (0, False)
    record = steer(session, "a")
    assert (state.pending, state.steered) == (1, True)
    write(state, state.initial)
    state.begin(record)
    assert (state.pending, state.steered, state.queue) == (0, False, [])
    with pytest.raises(InternalError, match="cannot begin while writing"):
        state.begin(record)


@pytest.mark.promise("boundary.answer", "end.budget")
@pytest.mark.parametrize(("budget", "spent"), [(None, False), (1, True), (2, False)])
def test_a_call_budget_is_spent_when_so_many_requests_were_begun(
    budget: int | None, spent: bool
) -> None:
    state = opened(new_session(), "g", max_requests=budget)
    assert not state.spent
    boundary(state)
    assert state.spent == spent
    boundary(state)
    assert state.spent == (budget is not None)


# ------------------------------------------------------------------------------- the finish


@pytest.mark.promise("finish.continues", "finish.continues_same", "event.generation.continued",
                     "F03", "F05", "finish.text")  # fmt: skip
def test_inputs_that_wait_keep_the_generation_open_while_a_request_is_left() -> None:
    session = new_session()
    state = opened(session, "g", max_requests=2, initial_written=False)
    boundary(state)
    steer(session, "a")
    submit(session, Input("steer", "x", id="b"))
    before = session.log.last
    assert finish(state, "first answer") is False
    assert lines(session, before) == [
        {"type": "generation.continued", "generation_id": "g", "input_ids": ["a", "b"]}
    ]
    assert (state.admitting, state.id, state.text) == (True, "g", "first answer")
    assert boundary(state) == ("a", "b")
    assert finish(state, "second answer") is True
    assert types(session).count("generation.started") == 1
    assert lines(session)[-1]["text"] == "second answer"
    assert lines(session)[-1]["input_ids"] == ["g-initial", "a", "b"]


@pytest.mark.promise("finish.budget_spent", "held.call_budget_exhausted", "F06", "F07", "I16")
def test_a_finish_with_the_budget_spent_holds_what_waits() -> None:
    session = new_session()
    state = opened(session, "g", max_requests=1)
    boundary(state)
    record = steer(session, "a")
    assert finish(state)
    assert (state.outcome, state.reason) == ("finished", None)
    assert record.receipt().get("reason") == "call_budget_exhausted"
    assert types(session)[-2:] == ["steering.held", "generation.finished"]


@pytest.mark.promise("finish.closes", "finish.race", "F01")
def test_a_finish_with_nothing_waiting_closes_admission_and_ends_in_one_step() -> None:
    session = new_session()
    state = opened(session, "g")
    assert state.goes_on() is False
    assert session.log.last == 1
    assert finish(state)
    assert types(session)[1:] == ["generation.finished"]
    with pytest.raises(Exception, match="no generation is active"):
        submit(session, Input("steer", "x"), "g")


@pytest.mark.promise("end.leaving", "held.generation_ended", "refusal.admission_closed")
def test_leaving_after_a_proposal_closes_admission_first_and_finishes_later() -> None:
    session = new_session()
    state = opened(session, "g")
    record = steer(session, "a")
    state.propose("done")
    state.end(Cause.LEAVE)
    assert record.receipt().get("reason") == "generation_ended"
    assert (state.decided, state.outcome) == (False, None)
    with pytest.raises(AdmissionClosed):
        steer(session, "b")
    assert state.goes_on() is False
    state.end(Cause.FINISH)
    assert lines(session)[-1] | {"requests": 0} == {
        "type": "generation.finished",
        "generation_id": "g",
        "text": "done",
        "input_ids": [],
        "accepted_input_ids": ["a"],
        "unknown_input_ids": [],
        "requests": 0,
    }


@pytest.mark.promise("library.second_finish")
def test_each_request_can_be_proposed_to_finish_with_once() -> None:
    state = opened(new_session(), "g", initial_written=False)
    assert not state.proposable
    boundary(state)
    assert state.proposable
    state.propose("done")
    assert not state.proposable
    boundary(state)
    assert state.proposable
    state.begin_boundary()
    assert not state.proposable
    assert opened(new_session(), "h", initial_written=True).proposable


@pytest.mark.promise("finish.text")
@pytest.mark.parametrize("cause", [Cause.FAIL, Cause.CANCEL, Cause.STOP, Cause.CLOSE])
def test_the_proposed_text_stays_readable_whatever_becomes_of_the_finish(cause: Cause) -> None:
    state = opened(new_session(), "g")
    assert state.text is None
    state.propose("done")
    state.end(cause)
    assert state.text == "done"


# ---------------------------------------------------------------------------- stop and close


@pytest.mark.promise("stop.synchronous", "stop.wins", "ordinary.stop_inbox", "held.stopped", "F23",
                     "F25", "event.input.held")  # fmt: skip
def test_a_stop_ends_the_generation_and_holds_everything_the_inbox_included() -> None:
    session = new_session()
    opened(session, "g")
    steer(session, "a")
    submit(session, Input("user", "x", id="b"))
    before = session.log.last
    session.stop()
    assert [(line["type"], line.get("reason")) for line in lines(session, before)] == [
        ("steering.held", "stopped"),
        ("generation.detached", "stopped"),
        ("input.held", "stopped"),
    ]
    assert lines(session)[-1] == {
        "type": "input.held",
        "input_id": "b",
        "delivery": "new_turn",
        "reason": "stopped",
    }
    assert (session.active, session.inbox) == (None, [])


@pytest.mark.promise("stop.idle")
def test_a_stop_of_an_idle_session_does_nothing_and_of_a_serving_one_holds_the_inbox() -> None:
    session = new_session()
    record = submit(session, Input("user", "x", id="a"))
    before = facts(session)
    session.stop()
    assert facts(session) == before
    session.serving = ()
    session.stop()
    assert record.receipt().get("reason") == "stopped"


@pytest.mark.promise("settled.closing", "held.runtime_closed", "capability.unavailable_closed")
def test_closing_settles_everything_once() -> None:
    session = new_session()
    opened(session, "g")
    steer(session, "a")
    submit(session, Input("user", "x", id="b"))
    session.close()
    assert all(record.settled for record in session.records())
    assert {record.receipt().get("reason") for record in session.records()} == {"runtime_closed"}
    assert lines(session)[-2]["reason"] == "runtime_closed"
    before = facts(session)
    session.close()
    session.stop()
    assert facts(session) == before


@pytest.mark.promise("serve.stop", "stop.nothing_after")
def test_inputs_that_are_accepted_after_a_stop_wait_for_the_next_serve() -> None:
    session = new_session()
    opened(session, "g")
    session.stop()
    record = submit(session, Input("user", "x", id="a"))
    assert session.inbox == [record]
    state = session.open_next("h", attachment_kinds=(), max_requests=None)
    assert state is not None
    assert state.initial is record


# --------------------------------------------------------------------------- one at a time


@pytest.mark.promise("block.one_active")
def test_one_generation_is_active_at_a_time() -> None:
    session = new_session()
    opened(session, "g")
    submit(session, Input("user", "x", id="a"))
    before = facts(session)
    with pytest.raises(GenerationActive, match="generation 'g' is still active"):
        opened(session, "h")
    with pytest.raises(GenerationActive):
        session.open_next("h", attachment_kinds=(), max_requests=None)
    assert facts(session) == before


@pytest.mark.promise("refusal.runtime_closed", "admission.3")
def test_a_closed_runtime_opens_no_generation() -> None:
    session = new_session()
    assert session.closed is False
    session.close()
    with pytest.raises(RuntimeClosed, match=r"^the runtime is closed$") as caught:
        opened(session, "g")
    assert caught.value.input_id == "g-initial"
    with pytest.raises(RuntimeClosed) as caught:
        session.open_next("g", attachment_kinds=(), max_requests=None)
    assert caught.value.input_id is None


@pytest.mark.promise("ordinary.user", "serve.order", "word.inbox")
def test_the_inputs_of_the_inbox_begin_a_generation_each_in_order() -> None:
    session = new_session()
    records = [submit(session, Input("user", "x", id=name)) for name in "abc"]
    for record, name in zip(records, ("g", "h", "i"), strict=True):
        state = session.open_next(name, attachment_kinds=(), max_requests=1)
        assert state is not None
        assert (state.initial, state.max_requests) == (record, 1)
        assert record.receipt()["generationId"] == name
        assert boundary(state) == (record.id,)
        assert record.receipt()["disposition"] == "applied"
        assert finish(state)
    assert session.open_next("j", attachment_kinds=(), max_requests=None) is None


# ------------------------------------------------------------------------ two-step boundary


@pytest.mark.promise("two_step.take", "two_step.sent", "two_step.queued", "event.request.started")
def test_a_batch_that_was_sent_is_applied_and_counts_as_a_request() -> None:
    session = new_session()
    state = opened(session, "g", initial_written=False)
    record = steer(session, "a")
    before = session.log.last
    taken = state.take()
    assert ([each.id for each in taken], state.batch_out) == (["g-initial", "a"], True)
    assert (record.receipt()["disposition"], state.pending, state.steered) == ("queued", 1, False)
    steer(session, "late")
    assert state.sent(taken) is True
    assert types(session, before + 3) == [
        "input.delivered",
        "input.delivered",
        "steering.applied",
        "request.started",
    ]
    assert lines(session)[-1]["input_ids"] == ["g-initial", "a"]
    assert (state.requests, state.proposable, state.batch_out) == (1, True, False)
    assert [each.id for each in state.queue] == ["late"]


@pytest.mark.promise("two_step.unsent", "I7")
def test_a_batch_that_was_not_sent_is_queued_again_in_its_old_place() -> None:
    session = new_session()
    state = opened(session, "g")
    for name in ("a", "b"):
        steer(session, name)
    taken = state.take()
    steer(session, "c")
    before = session.log.last
    assert state.unsent(taken) is True
    assert (session.log.last, state.requests, state.batch_out) == (before, 0, False)
    assert [(each.id, each.stage) for each in state.queue] == [
        ("a", Stage.WAITING),
        ("b", Stage.WAITING),
        ("c", Stage.WAITING),
    ]
    assert boundary(state) == ("a", "b", "c")


@pytest.mark.promise("two_step.ended", "unknown.write_interrupted", "I5", "event.steering.unknown")
@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.LEAVE])
def test_a_batch_that_is_out_at_the_end_is_unknown_and_what_waits_is_held(cause: Cause) -> None:
    session = new_session()
    state = opened(session, "g")
    out = steer(session, "a")
    taken = state.take()
    waiting = steer(session, "b")
    state.end(cause)
    assert (out.receipt()["disposition"], out.receipt().get("reason")) == (
        "unknown",
        "write_interrupted",
    )
    assert waiting.receipt()["disposition"] == "held"
    told = lines(session)[-1]
    assert (told["unknown_input_ids"], told["accepted_input_ids"]) == (["a"], ["b"])
    before = facts(session)
    assert (state.sent(taken), state.unsent(taken)) == (False, False)
    assert facts(session) == before


@pytest.mark.promise("two_step.exactly_one")
@pytest.mark.parametrize("first", ["sent", "unsent"])
@pytest.mark.parametrize("waiting", [0, 2])
def test_a_batch_is_settled_once_and_never_stands_for_another_one(first: str, waiting: int) -> None:
    session = new_session()
    state = opened(session, "g")
    for number in range(waiting):
        steer(session, str(number))
    old = state.take()
    assert getattr(state, first)(old) is True
    before = facts(session)
    assert (state.sent(old), state.unsent(old)) == (False, False)
    assert facts(session) == before
    new = state.take()
    before = facts(session)
    assert (state.sent(old), state.unsent(old)) == (False, False)
    assert facts(session) == before
    assert state.sent(new) is True


@pytest.mark.promise("two_step.queued", "finish.continues")
def test_a_taken_input_keeps_the_generation_open_at_the_finish() -> None:
    session = new_session()
    state = opened(session, "g")
    steer(session, "a")
    taken = state.take()
    assert finish(state) is False
    assert lines(session)[-1]["input_ids"] == ["a"]
    assert state.sent(taken) is True


@pytest.mark.promise("two_step.queued", "admission.8")
def test_a_taken_input_still_takes_its_room() -> None:
    session = new_session()
    state = opened(session, "g")
    for number in range(128):
        steer(session, str(number))
    taken = state.take()
    with pytest.raises(Exception, match="128 inputs wait already"):
        steer(session, "late")
    assert state.sent(taken)
    steer(session, "late")


@pytest.mark.promise("held.context_refused", "content.never_offered", "disposition.never_replayed",
                     "F15")  # fmt: skip
@pytest.mark.parametrize("end", [WriteEnd.UNCHANGED, WriteEnd.RAISED, WriteEnd.TOLD])
def test_what_was_held_or_unknown_is_never_offered_to_a_boundary_again(end: WriteEnd) -> None:
    session = new_session()
    state = opened(session, "g")
    record = steer(session, "a")
    write(state, record, end)
    assert boundary(state) == ()
    assert finish(state)
    later = opened(session, "h")
    assert boundary(later) == ()
    with pytest.raises(InternalError):
        record.step(Step.BEGIN)
    with pytest.raises(InternalError):
        record.settle(session.log, Step.HOLD, HeldReason.STOPPED)
