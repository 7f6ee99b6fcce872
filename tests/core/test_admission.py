"""Admission as transcripts: each step, their order, and that a refusal changes nothing."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from midcourse import (
    AdmissionClosed,
    GenerationMismatch,
    IdentitiesExhausted,
    IdentityConflict,
    Input,
    InvalidInput,
    Limits,
    NoActiveGeneration,
    QueueFull,
    RefusalCode,
    RuntimeClosed,
    SteeringRefused,
    SteeringUnavailable,
)
from midcourse._core.generation import GenerationState
from midcourse._core.offer import prepare
from midcourse._core.record import Record
from midcourse._core.session import Session
from midcourse._core.tables import Cause, Delivery, Mode, WriteEnd

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

STEER = Input("steer", "go left", id="a")
VIDEO = {"type": "video"}
IMAGE = {"type": "image"}


# ------------------------------------------------------------------------------- the order

# The steps of the contract, each with the one code that it refuses with.
STEPS = {
    "malformed": RefusalCode.INVALID_INPUT,
    "known id": RefusalCode.IDENTITY_CONFLICT,
    "closed": RefusalCode.RUNTIME_CLOSED,
    "mode": RefusalCode.UNAVAILABLE,
    "no anchor": RefusalCode.NO_ACTIVE_GENERATION,
    "no generation": RefusalCode.NO_ACTIVE_GENERATION,
    "another generation": RefusalCode.GENERATION_MISMATCH,
    "ending": RefusalCode.ADMISSION_CLOSED,
    "attachment": RefusalCode.INVALID_INPUT,
    "identities": RefusalCode.IDENTITIES_EXHAUSTED,
    "queue": RefusalCode.QUEUE_FULL,
}

SAID = {
    "malformed": "an input without attachments needs a text",
    "known id": "this id was accepted for another input",
    "closed": "the runtime is closed",
    "mode": "this mode honours no anchors",
    "no anchor": "an anchor is needed",
    "no generation": "no generation is active",
    "another generation": "'g' is active instead",
    "ending": "the generation is ending",
    "attachment": "the context takes no attachment of kind 'video'",
    "identities": "2 identities are accepted: open a new runtime",
    "queue": "1 inputs wait already",
}

# What cannot be so at once: an ending generation has no queue, a missing one cannot be another
# one, and no anchor is not another anchor.
IMPOSSIBLE = {
    frozenset(pair)
    for pair in (
        ("no generation", "no anchor"),
        ("no generation", "another generation"),
        ("no generation", "ending"),
        ("no generation", "queue"),
        ("no anchor", "another generation"),
        ("ending", "queue"),
        ("closed", "queue"),
    )
}


def refused_for(*violations: str) -> SteeringRefused:
    """Submit an anchored steer that violates these steps, and no other."""
    limits = Limits(
        identities=2 if "identities" in violations else 9,
        pending=1 if "queue" in violations else 9,
    )
    mode = Mode.UNAVAILABLE if "mode" in violations else Mode.REQUEST_BOUNDARY
    session = new_session(limits, mode=mode)
    if "no generation" not in violations:
        state = opened(session, "g", initial_written=False)
        # A write runs, so that the generation stays active when it is ended.
        state.begin(state.initial)
    for name in ("a" if "known id" in violations else "other", "filler"):
        kind = "user" if name != "filler" and "queue" in violations else "steer"
        if name == "filler" and not violations_need_filler(violations):
            continue
        submit(session, Input(kind, "before", id=name), limits=limits)
    if "ending" in violations:
        state.end(Cause.STOP)
    if "closed" in violations:
        session.close()

    given = Input(
        "steer",
        "" if "malformed" in violations and "attachment" not in violations else "go left",
        id="a",
        source="ci" if {"malformed", "attachment"} <= {*violations} else "user",
        attachments=[VIDEO] if "attachment" in violations else [],
    )
    anchor = "h" if "another generation" in violations else "g"
    before = facts(session)
    with pytest.raises(SteeringRefused) as caught:
        submit(
            session,
            given,
            None if "no anchor" in violations else anchor,
            anchored=True,
            limits=limits,
        )
    assert facts(session) == before
    return caught.value


def violations_need_filler(violations: tuple[str, ...]) -> bool:
    return "identities" in violations or "queue" in violations


@pytest.mark.promise("admission.order", "admission.refused_nothing")
@pytest.mark.parametrize("step", STEPS)
def test_each_step_refuses_with_its_own_code(step: str) -> None:
    refused = refused_for(step)
    assert (refused.code, str(refused)) == (STEPS[step], SAID[step])
    assert refused.input_id == "a"
    # What is malformed is refused before the session is asked.
    active = None if step in ("malformed", "no generation") else "g"
    assert refused.active_generation_id == active
    assert refused.generation_id == {"no anchor": None, "another generation": "h"}.get(step, "g")


@pytest.mark.promise("admission.order", "admission.refused_nothing", "admission.1", "admission.2",
                     "admission.3", "admission.4", "admission.5", "admission.6", "admission.7",
                     "admission.8")  # fmt: skip
@pytest.mark.parametrize(
    ("earlier", "later"),
    [pair for pair in combinations(STEPS, 2) if frozenset(pair) not in IMPOSSIBLE],
)
def test_what_violates_two_steps_is_refused_with_the_code_of_the_earlier(
    earlier: str, later: str
) -> None:
    refused = refused_for(earlier, later)
    assert refused.code is STEPS[earlier]
    if (earlier, later) != ("malformed", "attachment"):
        assert str(refused) == SAID[earlier]


# ---------------------------------------------------------------------- 2: the id is known


def active(session: Session) -> GenerationState:
    assert session.active is not None
    return session.active


SINCE = (
    "nothing",
    "applied",
    "held",
    "unknown by a failure",
    "unknown by a cancellation",
    "stopped",
    "runtime closed",
    "another generation",
    "ledger full",
    "queue full",
)


def settled_sessions() -> dict[str, Session]:
    """Sessions that accepted the steer `a` for `g`, and then all sorts of things happened."""
    found: dict[str, Session] = {}

    def session(what: str, limits: Limits | None = None) -> Session:
        made = found[what] = new_session(limits or Limits())
        opened(made, "g")
        submit(made, STEER, "g")
        return made

    session("nothing")
    boundary(active(session("applied")))
    for what, end in (
        ("held", WriteEnd.UNCHANGED),
        ("unknown by a failure", WriteEnd.RAISED),
        ("unknown by a cancellation", WriteEnd.TOLD),
    ):
        state = active(session(what))
        write(state, state.queue[0], end)
    session("stopped").stop()
    session("runtime closed").close()
    over = session("another generation")
    over.stop()
    opened(over, "h")
    session("ledger full", Limits(identities=1))
    session("queue full", Limits(pending=1))
    return found


@pytest.mark.promise("admission.2", "I10", "I15", "F16", "disposition.unknown_sticky")
@pytest.mark.parametrize("what", SINCE)
def test_the_same_input_again_gets_its_receipt_whatever_has_happened_since(what: str) -> None:
    session = settled_sessions()[what]
    record = session.record("a")
    assert record is not None
    before = facts(session)
    assert submit(session, STEER, "g") is record
    assert record.receipt() == submit(session, STEER, "g").receipt()
    assert facts(session) == before


@pytest.mark.promise("admission.2", "I10", "refusal.identity_conflict")
@pytest.mark.parametrize("what", SINCE)
def test_other_content_under_the_id_is_a_conflict_whatever_has_happened_since(what: str) -> None:
    session = settled_sessions()[what]
    before = facts(session)
    with pytest.raises(IdentityConflict, match="accepted for another input"):
        submit(session, Input("steer", "go right", id="a"), "g")
    with pytest.raises(IdentityConflict):
        submit(session, STEER, "h")
    assert facts(session) == before


@pytest.mark.promise("admission.7.initial", "refusal.identity_conflict")
def test_the_id_of_the_active_initial_input_cannot_be_submitted() -> None:
    session = new_session()
    state = opened(session, "g", initial=Input("user", "begin", id="begin"))
    before = facts(session)
    for again in (Input("user", "begin", id="begin"), Input("steer", "x", id="begin")):
        with pytest.raises(IdentityConflict, match="began the active generation"):
            submit(session, again)
    assert facts(session) == before
    assert state.initial.id == "begin"


# ----------------------------------------------------------- 3, 4: the runtime and its mode


@pytest.mark.promise("admission.3", "refusal.runtime_closed")
@pytest.mark.parametrize("given", [Input("user", "x"), Input("steer", "x"), STEER])
def test_a_closed_runtime_takes_no_new_input(given: Input) -> None:
    session = new_session()
    session.close()
    with pytest.raises(RuntimeClosed):
        submit(session, given)
    assert list(session.records()) == []


@pytest.mark.promise("admission.4", "refusal.unavailable", "capability.unavailable_declared")
def test_a_mode_without_anchors_refuses_anchored_steers_and_takes_ordinary_inputs() -> None:
    session = new_session(mode=Mode.UNAVAILABLE)
    state = opened(session, "g")
    before = facts(session)
    with pytest.raises(SteeringUnavailable):
        submit(session, STEER, "g")
    assert facts(session) == before
    assert submit(session, STEER).generation_id == "g"
    assert boundary(state) == ("a",)


# --------------------------------------------------------------------------- 5: the anchor


@pytest.mark.promise("admission.5.none", "refusal.no_active_generation", "F10", "F36")
def test_steering_an_idle_session_is_refused_and_opens_nothing() -> None:
    session = new_session()
    with pytest.raises(NoActiveGeneration, match="no generation is active") as caught:
        submit(session, STEER, "g")
    assert caught.value.to_json() == {
        "accepted": False,
        "code": "no_active_generation",
        "inputId": "a",
        "generationId": "g",
        "activeGenerationId": None,
        "message": str(caught.value),
    }
    assert (session.log.last, session.active, session.inbox) == (0, None, [])


@pytest.mark.promise("admission.5.none", "refusal.no_active_generation", "refusal.fields")
@pytest.mark.parametrize("anchor", [None, ""])
def test_an_anchored_steer_without_an_anchor_is_refused_while_a_generation_is_active(
    anchor: str | None,
) -> None:
    session = new_session()
    opened(session, "g")
    with pytest.raises(NoActiveGeneration, match="an anchor is needed") as caught:
        submit(session, STEER, anchor, anchored=True)
    assert (caught.value.generation_id, caught.value.active_generation_id) == (anchor, "g")


@pytest.mark.promise("admission.5.mismatch", "refusal.generation_mismatch", "F36", "F09")
def test_a_steer_for_a_finished_generation_is_refused_with_the_id_of_the_active_one() -> None:
    session = new_session()
    assert finish(opened(session, "g"))
    opened(session, "h")
    before = facts(session)
    with pytest.raises(GenerationMismatch, match="'h' is active instead") as caught:
        submit(session, STEER, "g")
    assert (caught.value.generation_id, caught.value.active_generation_id) == ("g", "h")
    assert facts(session) == before


@pytest.mark.promise("admission.5.closed", "refusal.admission_closed", "F22", "I8")
@pytest.mark.parametrize("cause", [Cause.LEAVE, Cause.STOP, Cause.FAIL, Cause.CANCEL])
def test_an_ending_generation_takes_no_steer(cause: Cause) -> None:
    session = new_session()
    state = opened(session, "g", initial_written=False)
    state.begin(state.initial)
    state.end(cause)
    before = facts(session)
    with pytest.raises(AdmissionClosed) as caught:
        submit(session, STEER, "g")
    assert caught.value.active_generation_id == "g"
    assert facts(session) == before


@pytest.mark.promise("admission.5.none", "F02", "admission.closes")
def test_a_steer_after_the_terminal_event_is_refused() -> None:
    session = new_session()
    finish(opened(session, "g"))
    with pytest.raises(NoActiveGeneration):
        submit(session, STEER, "g")


# ---------------------------------------------------------------------- 6: the attachments


@pytest.mark.promise("admission.6", "refusal.invalid_input", "F34")
@pytest.mark.parametrize(
    "strange", [VIDEO, {}, {"type": None}, {"type": ["image"]}, {"kind": "image"}, "image", 7, None]
)
def test_an_attachment_that_the_context_does_not_take_is_refused_and_not_dropped(
    strange: Any,
) -> None:
    session = new_session()
    opened(session, "g", attachment_kinds=["image", "file"])
    before = facts(session)
    with pytest.raises(InvalidInput, match="the context takes no attachment of kind"):
        submit(session, Input("steer", "look", id="a", attachments=[IMAGE, strange]), "g")
    assert facts(session) == before


@pytest.mark.promise("admission.6", "F34")
def test_attachments_that_the_context_takes_are_accepted_and_a_context_takes_none_by_default() -> (
    None
):
    session = new_session()
    opened(session, "g", attachment_kinds=["image", "file"])
    pictures = [IMAGE, {"type": "file"}]
    assert submit(session, Input("steer", "", id="a", attachments=pictures), "g").id == "a"
    other = new_session()
    opened(other, "g")
    with pytest.raises(InvalidInput):
        submit(other, Input("steer", "", id="a", attachments=[IMAGE]), "g")


@pytest.mark.promise("admission.6")
def test_while_somebody_serves_the_inbox_takes_what_the_served_context_takes() -> None:
    session = new_session()
    session.serving = ["image"]
    assert submit(session, Input("user", "", id="a", attachments=[IMAGE])).id == "a"
    before = facts(session)
    with pytest.raises(InvalidInput):
        submit(session, Input("user", "", id="b", attachments=[VIDEO]))
    assert facts(session) == before


@pytest.mark.promise("serve.attachments", "admission.1.whole", "held.context_refused")
def test_what_was_accepted_before_anybody_served_is_held_where_the_context_cannot_take_it() -> None:
    session = new_session()
    first = submit(session, Input("user", "", id="a", attachments=[VIDEO]))
    second = submit(session, Input("user", "", id="b", attachments=[IMAGE]))
    state = session.open_next("g", attachment_kinds=["image"], max_requests=None)
    assert state is not None
    assert state.initial is second
    assert submit(session, Input("steer", "", id="c", attachments=[IMAGE]), "g").id == "c"
    with pytest.raises(InvalidInput):
        submit(session, Input("steer", "", id="d", attachments=[VIDEO]), "g")
    assert first.receipt() == {
        "accepted": True,
        "inputId": "a",
        "generationId": None,
        "disposition": "held",
        "reason": "context_refused",
    }
    kept = first.content()
    assert kept is not None
    assert list(kept.attachments) == [VIDEO]


@pytest.mark.promise("admission.6", "admission.7.initial")
def test_an_initial_input_that_the_context_does_not_take_opens_nothing() -> None:
    session = new_session()
    picture = Input("user", "", id="begin", attachments=[IMAGE])
    with pytest.raises(InvalidInput, match="takes no attachment of kind 'image'"):
        opened(session, "g", initial=picture, initial_written=False)
    assert (session.active, session.log.last) == (None, 0)
    # What the host wrote itself is the host's business.
    assert opened(session, "g", initial=picture, initial_written=True).id == "g"


# ------------------------------------------------------------------- 7: identities, 8: room


@pytest.mark.promise("admission.7", "admission.7.never_evicted", "refusal.identities_exhausted",
                     "limits.identities", "I11")  # fmt: skip
def test_the_last_identity_is_accepted_and_the_next_is_refused_for_ever() -> None:
    limits = Limits(identities=3)
    session = new_session(limits)
    state = opened(session, "g")
    records = [steer(session, name) for name in "abc"]
    boundary(state)
    finish(state)
    opened(session, "h")
    before = facts(session)
    for late in (Input("steer", "x", id="d"), Input("user", "x", id="d")):
        with pytest.raises(IdentitiesExhausted, match=r"3 identities.*open a new runtime"):
            submit(session, late, limits=limits)
    assert facts(session) == before
    assert list(session.records()) == records
    assert submit(session, Input("steer", "go left", id="a"), "g") is records[0]


@pytest.mark.promise("admission.7", "limits.identities", "I11")
def test_2_000_identities_are_accepted_and_one_more_is_refused() -> None:
    session = new_session()
    state = opened(session, "g")
    for number in range(2000):
        steer(session, str(number))
        if number % 128 == 127:
            boundary(state)
    with pytest.raises(IdentitiesExhausted):
        steer(session, "2000")
    assert len(list(session.records())) == 2000


@pytest.mark.promise("admission.7.initial")
def test_an_initial_input_takes_no_identity_and_none_that_is_taken() -> None:
    limits = Limits(identities=1)
    session = new_session(limits)
    for name in ("g", "h", "i"):
        assert finish(opened(session, name))
    opened(session, "j")
    steer(session, "a")
    session.stop()
    before = facts(session)
    said = r"^this id was accepted for another input$"
    with pytest.raises(IdentityConflict, match=said) as caught:
        opened(session, "k", initial=Input("user", "begin", id="a"))
    assert caught.value.input_id == "a"
    assert facts(session) == before


@pytest.mark.promise("admission.8", "refusal.queue_full", "limits.pending")
def test_128_inputs_wait_in_the_boundary_queue_and_one_more_is_refused() -> None:
    session = new_session()
    state = opened(session, "g", initial_written=False)
    for number in range(128):
        steer(session, str(number))
    before = facts(session)
    with pytest.raises(QueueFull, match="128 inputs wait already"):
        steer(session, "late")
    with pytest.raises(QueueFull):
        submit(session, Input("steer", "x", id="late"))
    assert facts(session) == before
    # The inbox is another room.
    assert submit(session, Input("user", "x", id="next")).delivery is Delivery.NEW_TURN
    write(state, state.queue[0])  # the initial input: it takes none of their room
    with pytest.raises(QueueFull):
        steer(session, "late")
    write(state, state.queue[0])
    assert steer(session, "late").generation_id == "g"


@pytest.mark.promise("admission.8", "refusal.queue_full", "limits.pending", "word.inbox")
def test_128_inputs_wait_in_the_inbox_and_one_more_is_refused() -> None:
    session = new_session()
    for number in range(128):
        submit(session, Input("user", "x", id=str(number)))
    before = facts(session)
    with pytest.raises(QueueFull):
        submit(session, Input("user", "x", id="late"))
    assert facts(session) == before
    opened(session, "g")
    assert steer(session, "a").generation_id == "g"
    session.stop()
    assert submit(session, Input("user", "x", id="late")).generation_id is None


# ----------------------------------------------------------------------------- 9: accepted


@pytest.mark.promise("admission.9", "admission.9.no_inbox", "disposition.queued", "F38",
                     "event.input.accepted", "event.steering.accepted", "event.input.queued",
                     "word.receipt", "word.admission", "I6")  # fmt: skip
def test_an_anchored_steer_is_recorded_queued_and_told_in_one_step() -> None:
    session = new_session()
    state = opened(session, "g")
    record = submit(session, STEER, "g")
    assert session.record("a") is record
    assert (state.queue, session.inbox) == ([record], [])
    assert record.receipt() == {
        "accepted": True,
        "inputId": "a",
        "generationId": "g",
        "disposition": "queued",
    }
    data = {"input_id": "a", "target_generation_id": "g", "delivery": "request_boundary"}
    assert lines(session, after=1) == [
        {"type": "input.accepted"} | data,
        {"type": "steering.accepted"} | data,
        {"type": "input.queued"} | data,
    ]


@pytest.mark.promise("ordinary.steer_joins", "ordinary.service_joins", "event.input.accepted",
                     "event.input.queued")  # fmt: skip
@pytest.mark.parametrize(
    "given", [Input("steer", "x", id="a"), Input("service", "x", id="a", source="ci")]
)
def test_an_ordinary_steer_or_service_input_joins_the_generation_that_admits(given: Input) -> None:
    session = new_session()
    state = opened(session, "g")
    record = submit(session, given)
    assert (state.queue, session.inbox, record.anchored) == ([record], [], False)
    assert record.receipt()["generationId"] == "g"
    data = {"input_id": "a", "delivery": "request_boundary"}
    assert lines(session, after=1) == [
        {"type": "input.accepted"} | data,
        {"type": "input.queued"} | data,
    ]


@pytest.mark.promise("ordinary.waits", "word.inbox", "event.input.queued")
@pytest.mark.parametrize("when", ["idle", "ending"])
@pytest.mark.parametrize(
    "given",
    [
        Input("user", "x", id="a"),
        Input("steer", "x", id="a"),
        Input("service", "x", id="a", source="ci"),
    ],
)
def test_at_any_other_time_an_ordinary_input_waits_in_the_inbox(given: Input, when: str) -> None:
    session = new_session()
    if when == "ending":
        opened(session, "g").end(Cause.LEAVE)
    before = session.log.last
    record = submit(session, given)
    assert session.inbox == [record]
    assert record.receipt()["generationId"] is None
    data = {"input_id": "a", "delivery": "new_turn"}
    assert lines(session, before) == [
        {"type": "input.accepted"} | data,
        {"type": "input.queued"} | data,
    ]


@pytest.mark.promise("ordinary.user", "word.inbox")
def test_a_user_input_waits_in_the_inbox_even_while_a_generation_admits() -> None:
    session = new_session()
    state = opened(session, "g")
    record = submit(session, Input("user", "x", id="a"))
    assert (state.queue, session.inbox) == ([], [record])


@pytest.mark.promise("boundary.order", "I7", "F29", "F35")
def test_inputs_wait_in_the_order_of_their_acceptance_whatever_their_kind() -> None:
    session = new_session()
    state = opened(session, "g")
    steer(session, "first")
    submit(session, Input("service", "x", id="second", source="ci"))
    submit(session, Input("steer", "x", id="third"))
    steer(session, "fourth")
    assert boundary(state) == ("first", "second", "third", "fourth")


@pytest.mark.promise("admission.synchronous", "submit.hand_off")
def test_placing_an_input_changes_nothing_until_it_is_accepted() -> None:
    session = new_session()
    state = opened(session, "g")
    before = facts(session)
    prepared = offer(STEER, "g")
    assert session.place(prepared) is state
    assert facts(session) == before
    assert session.place(offer(Input("user", "x", id="b"))) is None
    assert facts(session) == before
    assert isinstance(session.accept(prepared, state), Record)
    assert facts(session) != before


@pytest.mark.promise("F31", "word.session", "I6")
def test_sessions_know_nothing_of_each_other() -> None:
    one, other = new_session(name="one"), new_session(name="other")
    opened(one, "g")
    opened(other, "h")
    before = facts(other)
    with pytest.raises(GenerationMismatch):
        submit(one, STEER, "h")
    assert facts(other) == before
    submit(one, STEER, "g")
    submit(other, STEER, "h")
    assert [record.generation_id for record in one.records()] == ["g"]
    assert [record.generation_id for record in other.records()] == ["h"]


@pytest.mark.promise("F31", "block.unmoved", "I6", "F11")
def test_no_input_is_moved_to_the_generation_that_follows() -> None:
    session = new_session()
    old = opened(session, "g")
    record = steer(session, "a")
    session.stop()
    new = opened(session, "h")
    before = state_facts(new)
    assert (old.next_write(), old.queue) == (None, [])
    assert (record.receipt()["generationId"], record.receipt()["disposition"]) == ("g", "held")
    assert state_facts(new) == before


@pytest.mark.promise("admission.1", "admission.order")
def test_a_malformed_input_is_refused_before_the_session_is_asked() -> None:
    with pytest.raises(InvalidInput):
        prepare(Input("steer", ""), None, anchored=True, limits=Limits())


@pytest.mark.promise("ordinary.stop", "admission.7.stop")
def test_a_stop_gets_a_receipt_that_says_held_and_takes_no_identity() -> None:
    session = new_session()
    receipt = session.stop_receipt(offer(Input("stop", id="a")))
    assert receipt == {
        "accepted": True,
        "inputId": "a",
        "generationId": None,
        "disposition": "held",
        "reason": "stopped",
    }
    opened(session, "g")
    assert session.stop_receipt(offer(Input("stop", id="a")))["generationId"] == "g"
    assert (list(session.records()), types(session)) == ([], ["generation.started"])


@pytest.mark.promise("admission.3", "refusal.runtime_closed", "ordinary.stop")
def test_a_stop_that_is_submitted_to_a_closed_runtime_is_refused() -> None:
    session = new_session()
    session.close()
    with pytest.raises(RuntimeClosed, match=r"^the runtime is closed$") as caught:
        session.stop_receipt(offer(Input("stop", id="a")))
    assert caught.value.input_id == "a"
