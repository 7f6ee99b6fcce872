"""One accepted input: every row of the tables about it, its receipt, content and message."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from midcourse import Input, InternalError
from midcourse._core import tables
from midcourse._core.record import Record
from midcourse._core.tables import (
    Delivery,
    Disposition,
    HeldReason,
    Kind,
    Mode,
    Outcome,
    Stage,
    Step,
    UnknownReason,
    WriteEnd,
)

from .sessions import boundary, facts, lines, new_session, offer, opened, steer, submit, write

STEER = Input("steer", "go left", id="a")

# The steps that lead to each stage, and where each further step leads from there. What is not
# here is refused.
WAYS = {
    "waiting": [],
    "writing": ["begin"],
    "taken": ["take"],
    "applied": ["begin", "apply"],
    "held": ["hold"],
    "unknown": ["begin", "lose"],
}
ALLOWED = {
    ("waiting", "begin"): "writing",
    ("waiting", "take"): "taken",
    ("waiting", "hold"): "held",
    ("writing", "apply"): "applied",
    ("writing", "hold"): "held",
    ("writing", "lose"): "unknown",
    ("taken", "apply"): "applied",
    ("taken", "give_back"): "waiting",
    ("taken", "lose"): "unknown",
}
DISPOSITIONS = {
    "waiting": "queued",
    "writing": "queued",
    "taken": "queued",
    "applied": "applied",
    "held": "held",
    "unknown": "unknown",
}


def record_in(stage: str) -> Record:
    record = Record(offer(STEER, "g"), Delivery.REQUEST_BOUNDARY, "g")
    for step in WAYS[stage]:
        record.step(Step(step))
    assert record.stage.value == stage
    return record


@pytest.mark.promise("house.tables", "I2", "I5", "I15", "two_step.take", "two_step.sent",
                     "two_step.unsent", "two_step.ended", "word.disposition")  # fmt: skip
@pytest.mark.parametrize(("stage", "step"), sorted(ALLOWED))
def test_an_input_makes_each_step_of_the_table(stage: str, step: str) -> None:
    record = record_in(stage)
    led_to = record.step(Step(step))
    assert led_to.value == record.stage.value == ALLOWED[stage, step]


@pytest.mark.promise("house.tables", "house.internal_error", "I2", "I5", "I15",
                     "disposition.unknown_sticky")  # fmt: skip
@pytest.mark.parametrize(
    ("stage", "step"),
    [
        (stage.value, step.value)
        for stage, step in product(Stage, Step)
        if (stage.value, step.value) not in ALLOWED
    ],
)
def test_any_other_step_of_an_input_is_refused_and_changes_nothing(stage: str, step: str) -> None:
    record = record_in(stage)
    before = (record.receipt(), record.content(), record.settled)
    with pytest.raises(InternalError, match=f"input 'a' cannot {step} while {stage}"):
        record.step(Step(step), HeldReason.STOPPED, "an error")
    assert (record.stage.value, record.receipt(), record.content(), record.settled) == (
        stage,
        *before,
    )


@pytest.mark.promise("word.disposition", "two_step.queued", "disposition.queued",
                     "disposition.applied", "disposition.held", "disposition.unknown")  # fmt: skip
@pytest.mark.parametrize("stage", WAYS)
def test_each_stage_has_its_disposition(stage: str) -> None:
    record = record_in(stage)
    assert record.receipt()["disposition"] == DISPOSITIONS[stage]
    assert record.settled == (DISPOSITIONS[stage] != "queued")


# ---------------------------------------------------------------------------------- writes

# What the write did, what confirm said, and what the receipt then says.
VERDICTS = {
    ("returned", None): ("applied", None),
    ("unchanged", None): ("held", "context_refused"),
    ("told", True): ("applied", None),
    ("told", False): ("held", "context_refused"),
    ("told", None): ("unknown", "write_interrupted"),
    ("raised", True): ("applied", None),
    ("raised", False): ("held", "context_refused"),
    ("raised", None): ("unknown", "write_failed"),
}


@pytest.mark.promise("write.returned", "write.told_confirmed", "write.told_denied",
                     "write.told_undecided", "write.unchanged", "write.raised",
                     "unknown.write_interrupted", "unknown.write_failed", "held.context_refused",
                     "receipt.reason", "receipt.detail", "receipt.keys", "F13", "F39")  # fmt: skip
@pytest.mark.parametrize(("end", "confirmed"), VERDICTS)
def test_each_end_of_a_write_has_its_disposition_and_reason(
    end: str, confirmed: bool | None
) -> None:
    session = new_session()
    state = opened(session, "g")
    record = steer(session, "a")
    state.begin(record)
    assert record.receipt()["disposition"] == "queued"
    state.settle(record, WriteEnd(end), confirmed, "OSError: disk full")
    disposition, reason = VERDICTS[end, confirmed]
    wanted: dict[str, Any] = {
        "accepted": True,
        "inputId": "a",
        "generationId": "g",
        "disposition": disposition,
    }
    if reason is not None:
        wanted |= {"reason": reason, "detail": "OSError: disk full"}
    assert record.receipt() == wanted
    told = lines(session)[-1]
    assert told["type"] == f"steering.{disposition}"
    assert told.get("reason") == reason


@pytest.mark.promise("house.tables")
@pytest.mark.parametrize(
    ("end", "confirmed"),
    [
        (end, confirmed)
        for end, confirmed in product(WriteEnd, (True, False, None))
        if (end.value, confirmed) not in VERDICTS
    ],
)
def test_a_write_that_needs_no_answer_takes_none(end: WriteEnd, confirmed: bool | None) -> None:
    session = new_session()
    state = opened(session, "g")
    record = steer(session, "a")
    state.begin(record)
    before = facts(session)
    with pytest.raises(KeyError):
        state.settle(record, end, confirmed)
    assert facts(session) == before


# ---------------------------------------------------------------------------------- events

SETTLED = {
    (True, "apply", None): ["input.delivered", "steering.applied"],
    (False, "apply", None): ["input.delivered"],
    (True, "hold", "stopped"): ["steering.held"],
    (False, "hold", "stopped"): ["input.held"],
    (True, "lose", "write_failed"): ["steering.unknown"],
    (False, "lose", "write_failed"): ["input.unknown"],
}


@pytest.mark.promise("event.input.delivered", "event.steering.applied", "event.steering.held",
                     "event.steering.unknown", "event.input.held", "event.input.unknown",
                     "event.after_state", "F21")  # fmt: skip
@pytest.mark.parametrize(("anchored", "step", "reason"), SETTLED)
def test_each_settlement_is_told_with_its_identities_and_its_reason(
    anchored: bool, step: str, reason: str | None
) -> None:
    session = new_session()
    opened(session, "g")
    record = steer(session, "a") if anchored else submit(session, STEER)
    before = session.log.last
    if step != "hold":
        record.step(Step.BEGIN)
    reasons: dict[str | None, Any] = {each.value: each for each in (*HeldReason, *UnknownReason)}
    record.settle(session.log, Step(step), reasons.get(reason))
    data: dict[str, Any] = {"input_id": "a", "delivery": "request_boundary"}
    if anchored:
        data["target_generation_id"] = "g"
    if reason is not None:
        data["reason"] = reason
    assert lines(session, before) == [
        {"type": type} | data for type in SETTLED[anchored, step, reason]
    ]


# -------------------------------------------------------------------------- closed sets

HELD = (
    "stopped", "cancelled", "failed", "call_budget_exhausted", "generation_ended",
    "context_refused", "runtime_closed",
)  # fmt: skip


@pytest.mark.promise("held.closed_enum", "unknown.closed_enum", "word.disposition",
                     "word.ordinary_input", "house.tables")  # fmt: skip
@pytest.mark.parametrize(
    ("enum", "words"),
    [
        (Kind, "user steer service stop"),
        (Mode, "request_boundary unavailable"),
        (Delivery, "new_turn request_boundary"),
        (Disposition, "queued applied held unknown"),
        (HeldReason, " ".join(HELD)),
        (UnknownReason, "write_interrupted write_failed"),
        (Outcome, "finished failed detached"),
        (Stage, "waiting writing taken applied held unknown"),
        (Step, "begin take give_back apply hold lose"),
        (WriteEnd, "returned told unchanged raised"),
    ],
)
def test_the_closed_sets_have_the_words_of_the_contract(enum: Any, words: str) -> None:
    assert [each.value for each in enum] == words.split()


@pytest.mark.promise("house.tables")
def test_the_tables_have_no_row_that_is_not_tested() -> None:
    assert len(tables.INPUT_STEPS) == len(ALLOWED)
    assert len(tables.VERDICTS) == len(VERDICTS)
    assert len(tables.DISPOSITION) == len(DISPOSITIONS)
    assert len(tables.SETTLED_EVENTS) == len(SETTLED)
    assert len(tables.ACCEPTED_EVENTS) == 2


# ------------------------------------------------------------------------------- receipts


@pytest.mark.promise("receipt.fresh_copy", "reading.no_side_effects")
def test_a_receipt_is_a_fresh_copy_each_time() -> None:
    record = record_in("held")
    receipt = record.receipt()
    receipt["disposition"] = "applied"
    receipt["detail"] = "changed"
    assert record.receipt()["disposition"] == "held"
    assert "detail" not in record.receipt()
    assert record.receipt() is not record.receipt()


@pytest.mark.promise("receipt.keys", "receipt.detail")
def test_a_receipt_has_a_detail_only_where_an_error_is_behind_it() -> None:
    session = new_session()
    state = opened(session, "g")
    record = steer(session, "a")
    assert set(record.receipt()) == {"accepted", "inputId", "generationId", "disposition"}
    write(state, record, WriteEnd.TOLD)
    assert record.receipt().get("reason") == "write_interrupted"
    assert "detail" not in record.receipt()


# --------------------------------------------------------------------------------- content


@pytest.mark.promise("content.kept", "content.dropped", "reading.input", "F26")
@pytest.mark.parametrize("stage", WAYS)
def test_the_content_is_kept_until_the_input_is_applied(stage: str) -> None:
    record = record_in(stage)
    if stage == "applied":
        assert record.content() is None
        with pytest.raises(InternalError, match="the content of input 'a' is gone"):
            record.message()
    else:
        kept = record.content()
        assert kept is not None
        assert (kept.text, kept.id, kept.target_generation_id) == ("go left", "a", "g")


@pytest.mark.promise("content.kept", "admission.2.copied", "reading.no_side_effects")
def test_what_a_reader_does_to_the_content_changes_nothing() -> None:
    given = Input("steer", "", id="a", attachments=[{"type": "image", "tags": []}])
    record = Record(offer(given), Delivery.REQUEST_BOUNDARY, "g")
    kept = record.content()
    assert kept is not None
    kept.attachments[0]["tags"].append("changed")
    record.message()["content"][0]["tags"].append("changed")
    again = record.content()
    assert again is not None
    assert list(again.attachments) == [{"type": "image", "tags": []}]
    assert record.message()["content"] == [{"type": "image", "tags": []}]


@pytest.mark.promise("content.kept", "admission.2")
def test_content_that_is_read_and_submitted_again_is_the_same_input() -> None:
    session = new_session()
    opened(session, "g", attachment_kinds=["image"])
    image = {"type": "image", "size": [1, 2.5, None]}
    record = submit(session, Input("steer", "look", id="a", attachments=[image]), "g")
    kept = record.content()
    assert kept is not None
    assert submit(session, kept) is record


# -------------------------------------------------------------------------------- messages


@pytest.mark.promise("message.shape", "message.text", "message.delivery", "F28")
@pytest.mark.parametrize(
    ("given", "anchor", "source"),
    [
        (STEER, "g", "user"),
        (STEER, None, "user"),
        (Input("service", "go left", id="a", source="ci"), None, "ci"),
    ],
)
def test_the_message_of_an_input_at_a_boundary(
    given: Input, anchor: str | None, source: str
) -> None:
    session = new_session()
    state = opened(session, "g")
    record = submit(session, given, anchor)
    assert state.begin(record) == {
        "role": "user",
        "content": "go left",
        "metadata": {
            "input_id": "a",
            "target_generation_id": anchor,
            "source": source,
            "delivery": "request_boundary",
        },
    }


@pytest.mark.promise("message.shape", "message.delivery")
def test_the_message_of_an_initial_input_is_a_new_turn() -> None:
    state = opened(new_session(), "g", initial_written=False)
    assert state.begin(state.initial) == {
        "role": "user",
        "content": "begin",
        "metadata": {
            "input_id": "g-initial",
            "target_generation_id": None,
            "source": "user",
            "delivery": "new_turn",
        },
    }


@pytest.mark.promise("message.parts", "F34")
@pytest.mark.parametrize(
    ("text", "first"), [("look", [{"type": "text", "text": "look"}]), ("", [])]
)
def test_the_content_with_attachments_is_the_text_if_any_and_then_each_as_it_was_given(
    text: str, first: list[dict[str, str]]
) -> None:
    attachments = [{"type": "image", "z": 1, "a": 2}, {"type": "file", "name": "x"}]
    given = Input("steer", text, id="a", attachments=attachments)
    record = Record(offer(given), Delivery.REQUEST_BOUNDARY, "g")
    assert record.message()["content"] == [*first, *attachments]


@pytest.mark.promise("I6", "message.shape")
def test_an_applied_input_was_written_with_its_own_anchor() -> None:
    session = new_session()
    state = opened(session, "g")
    record = steer(session, "a")
    message = record.message()
    assert boundary(state) == ("a",)
    assert message["metadata"]["target_generation_id"] == record.receipt()["generationId"] == "g"
