"""Whatever a host, a context and any number of submitters do, in any order, the promises hold.

A random sequence of everything that can be done with a session, against a context that keeps
what a write in its place would have kept.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from midcourse import Input, InternalError, Limits, SteeringRefused
from midcourse._core.generation import GenerationState
from midcourse._core.record import Record
from midcourse._core.tables import VERDICTS, Cause, Stage, Step, WriteEnd

from .sessions import facts, finish, lines, new_session, opened, submit

LIMITS = Limits(identities=12, pending=3, event_history=100_000)
TERMINAL = ("generation.finished", "generation.failed", "generation.detached")
SETTLED = ("input.delivered", "input.held", "input.unknown", "steering.held", "steering.unknown")

names = st.sampled_from([f"i{number}" for number in range(20)])
texts = st.sampled_from(["left", "left", "left", "right"])


class Host(RuleBasedStateMachine):
    """One session and everything around it."""

    def __init__(self) -> None:
        super().__init__()
        self.session = new_session(LIMITS)
        self.opened = 0
        self.writing: Record | None = None
        self.taken: list[Record] | None = None
        self.batched: set[str] = set()
        self.begun: Counter[str] = Counter()
        self.context: list[tuple[str, str]] = []  # what it holds: generation and input
        self.accepted: dict[str, list[str]] = {}  # by generation, in order of acceptance
        self.receipts: dict[str, dict[str, Any]] = {}  # of settled inputs
        self.read = 0  # the events that were read, and what they told:
        self.settled: Counter[str] = Counter()
        self.over: Counter[str] = Counter()

    @property
    def state(self) -> GenerationState:
        assert self.session.active is not None
        return self.session.active

    @property
    def active(self) -> bool:
        return self.session.active is not None

    # ------------------------------------------------------------------------ submitters

    @rule(
        name=names,
        text=texts,
        kind=st.sampled_from(["steer", "steer", "service", "user"]),
        anchor=st.sampled_from([None, "active", "active", "g1", "nowhere"]),
    )
    def submit(self, name: str, text: str, kind: str, anchor: str | None) -> None:
        session = self.session
        if anchor == "active":
            anchor = session.active.id if session.active else None
        if kind != "steer":
            anchor = None
        given = Input(kind, text, id=name, source="ci" if kind == "service" else "user")
        before, known = facts(session), session.record(name)
        open_for = session.active.id if session.active and session.active.admitting else None
        try:
            record = submit(session, given, anchor, limits=LIMITS)
        except SteeringRefused:
            assert facts(session) == before
            return
        if known is not None:  # I10
            assert record is known
            assert facts(session) == before
            return
        if record.generation_id is not None:  # I8
            assert record.generation_id == open_for
            self.accepted[record.generation_id].append(name)

    # ------------------------------------------------------------------------------ the host

    @precondition(lambda self: not self.active and not self.session.closed)
    @rule(written=st.booleans(), budget=st.sampled_from([None, 1, 2]))
    def open(self, written: bool, budget: int | None) -> None:
        self.opened += 1
        name = f"g{self.opened}"
        if self.session.inbox:
            state = self.session.open_next(name, attachment_kinds=(), max_requests=budget)
            assert state is not None
            self.session.started(state)
        else:
            state = opened(self.session, name, initial_written=written, max_requests=budget)
        self.accepted[name] = [record.id for record in state.queue]

    @precondition(lambda self: self.active and self.writing is None and not self.state.batch_out)
    @rule()
    def begin(self) -> None:
        record = self.state.next_write()
        if record is not None:
            self.state.begin(record)
            self.begun[record.id] += 1
            self.writing = record

    @precondition(lambda self: self.writing is not None)
    @rule(verdict=st.sampled_from(sorted(VERDICTS, key=str)), wrote=st.booleans())
    def settle(self, verdict: tuple[WriteEnd, bool | None], wrote: bool) -> None:
        record, self.writing = self.writing, None
        assert record is not None
        end, confirmed = verdict
        undecided = end in (WriteEnd.TOLD, WriteEnd.RAISED) and confirmed is None
        if end is WriteEnd.RETURNED or confirmed or (undecided and wrote):
            self.context.append((self.state.id, record.id))
        self.state.settle(record, end, confirmed)

    @precondition(lambda self: self.active and self.writing is None and self.state.admitting)
    @rule()
    def request(self) -> None:
        if not self.state.queue and not self.state.spent:
            self.state.begin_request()

    @precondition(lambda self: self.active and self.writing is None and self.state.admitting)
    @rule()
    def finish(self) -> None:
        finish(self.state)

    @precondition(lambda self: self.active)
    @rule(cause=st.sampled_from([Cause.LEAVE, Cause.FAIL, Cause.CANCEL, Cause.BUDGET]))
    def end(self, cause: Cause) -> None:
        self.state.end(cause)

    @precondition(lambda self: self.active and self.writing is None and self.state.admitting)
    @rule()
    def take(self) -> None:
        if not self.state.batch_out:
            self.taken = self.state.take()
            self.batched |= {record.id for record in self.taken}

    @precondition(lambda self: self.active and self.taken is not None)
    @rule(sent=st.booleans())
    def give_back_or_send(self, sent: bool) -> None:
        taken, self.taken = self.taken, None
        assert taken is not None
        state = self.state
        if sent and state.sent(taken):
            self.context.extend((state.id, record.id) for record in taken)
        elif not sent:
            state.unsent(taken)

    @rule()
    def stop(self) -> None:
        self.session.stop()

    @precondition(lambda self: self.opened > 2)
    @rule()
    def close(self) -> None:
        self.session.close()

    @rule(name=names, step=st.sampled_from(Step))
    def step_of_a_settled_input(self, name: str, step: Step) -> None:
        record = self.session.record(name)
        if record is not None and record.settled:
            before = facts(self.session)
            with pytest.raises(InternalError):
                record.step(step)
            assert facts(self.session) == before

    # --------------------------------------------------------------------------- the promises

    @invariant()
    def every_input_of_a_generation_is_settled_once_before_its_end(self) -> None:  # I1, I8, I9
        for line in lines(self.session, self.read):
            if line["type"] in SETTLED:
                self.settled[line["input_id"]] += 1
                assert self.settled[line["input_id"]] == 1
            elif line["type"] in TERMINAL:
                self.over[line["generation_id"]] += 1
                listed = [*line["input_ids"], *line["accepted_input_ids"]]
                listed += line["unknown_input_ids"]
                assert sorted(listed) == sorted(self.accepted[line["generation_id"]])
                assert all(self.settled[name] for name in listed)
        self.read = self.session.log.last
        active = [] if self.session.active is None else [self.session.active.id]
        assert self.over == {name: 1 for name in self.accepted if name not in active}

    @invariant()
    def a_write_is_begun_at_most_once(self) -> None:  # I2
        assert all(count == 1 for count in self.begun.values())

    @invariant()
    def the_context_holds_what_the_receipts_say(self) -> None:  # I3, I4, I5, I6
        copies = Counter(name for _, name in self.context)
        places = {name: place for place, name in self.context}
        for record in self.session.records():
            if record.stage is Stage.APPLIED:
                assert copies[record.id] == 1
                assert places[record.id] == record.generation_id
            elif record.stage is Stage.HELD:
                assert copies[record.id] == 0
            elif record.stage is Stage.UNKNOWN:
                assert self.begun[record.id] or record.id in self.batched
            if record.anchored:
                assert places.get(record.id, record.anchor) == record.anchor

    @invariant()
    def the_order_in_the_context_is_the_order_of_acceptance(self) -> None:  # I7
        for place, names in self.accepted.items():
            written = [name for where, name in self.context if where == place]
            assert written == [name for name in names if name in written]

    @invariant()
    def identities_are_bounded_and_none_is_lost(self) -> None:  # I11
        records = list(self.session.records())
        assert len(records) <= LIMITS.identities
        assert all(self.session.record(record.id) is record for record in records)

    @invariant()
    def a_settled_receipt_never_changes(self) -> None:  # I15
        for record in self.session.records():
            if record.settled:
                receipt = dict(record.receipt())
                assert self.receipts.setdefault(record.id, receipt) == receipt
            else:
                assert record.id not in self.receipts

    @invariant()
    def nobody_has_more_room_than_there_is(self) -> None:
        assert len(self.session.inbox) <= LIMITS.pending
        if self.session.active is not None:
            assert self.session.active.pending <= LIMITS.pending

    @invariant()
    def after_the_end_nothing_waits(self) -> None:
        if self.session.closed and self.writing is None:
            assert all(record.settled for record in self.session.records())
            assert self.session.active is None


@pytest.mark.promise("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I15",
                     "admission.refused_nothing", "house.tables")  # fmt: skip
def test_the_promises_hold_after_any_sequence_of_steps() -> None:
    run_state_machine_as_test(Host, settings=settings(max_examples=100, stateful_step_count=60))
