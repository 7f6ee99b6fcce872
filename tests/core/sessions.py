"""The core as a host would drive it, in one thread and without a loop.

`submit` does what the runtime does, with nothing between its two steps: between them stands the
hand-off to the drainer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count
from typing import Any

from midcourse import Input, Limits
from midcourse._core.generation import GenerationState
from midcourse._core.offer import Offer, prepare
from midcourse._core.record import Record
from midcourse._core.session import Session
from midcourse._core.tables import Cause, Mode, WriteEnd

LIMITS = Limits()


def ignore(type: str, data: Mapping[str, Any]) -> None:
    """Nobody listens."""


def new_session(
    limits: Limits = LIMITS, *, mode: Mode = Mode.REQUEST_BOUNDARY, name: str = "s"
) -> Session:
    """A session whose clock says 1, 2, 3, ..."""
    ticks = count(1)
    return Session(name, mode=mode, limits=limits, clock=lambda: float(next(ticks)), notify=ignore)


def offer(
    given: Input, anchor: str | None = None, *, anchored: bool = False, limits: Limits = LIMITS
) -> Offer:
    return prepare(given, anchor, anchored=anchored, limits=limits)


def submit(
    session: Session,
    given: Input,
    anchor: str | None = None,
    *,
    anchored: bool = False,
    limits: Limits = LIMITS,
) -> Record:
    prepared = offer(given, anchor, anchored=anchored, limits=limits)
    place = session.place(prepared)
    return place if isinstance(place, Record) else session.accept(prepared, place)


def steer(session: Session, name: str, text: str = "go left") -> Record:
    """Submit a steer anchored to the active generation."""
    assert session.active is not None
    return submit(session, Input("steer", text, id=name), session.active.id)


def opened(
    session: Session,
    name: str = "g",
    *,
    initial: Input | None = None,
    attachment_kinds: Collection[str] = (),
    max_requests: int | None = None,
    initial_written: bool = True,
) -> GenerationState:
    """Open a generation, by default with an initial input that the host wrote itself."""
    state = session.open(
        offer(Input("user", "begin", id=f"{name}-initial") if initial is None else initial),
        name,
        attachment_kinds=attachment_kinds,
        max_requests=max_requests,
        initial_written=initial_written,
    )
    session.started(state)
    return state


def write(state: GenerationState, record: Record, end: WriteEnd = WriteEnd.RETURNED) -> None:
    """Write one input, and have the write come back with `end` and no answer from confirm."""
    state.begin(record)
    state.settle(record, end, None)


def boundary(state: GenerationState) -> tuple[str, ...]:
    """A whole boundary and the request after it: the ids that it wrote."""
    state.begin_boundary()
    while (record := state.next_write()) is not None:
        write(state, record)
    state.begin_request()
    return state.request_inputs


def finish(state: GenerationState, text: str = "done") -> bool:
    """The step of a finish that decides: whether the generation finished."""
    state.propose(text)
    if state.goes_on():
        return False
    state.end(Cause.FINISH_SPENT if state.queue else Cause.FINISH)
    return True


def lines(session: Session, after: int = 0) -> list[dict[str, Any]]:
    """The events as a reader sees them, without what is the same in each."""
    common = ("version", "sequence", "session_id", "time")
    return [
        {key: value for key, value in event.to_json().items() if key not in common}
        for event in session.log.after(after)
    ]


def types(session: Session, after: int = 0) -> list[str]:
    return [event.type for event in session.log.after(after)]


def facts(session: Session) -> tuple[object, ...]:
    """Everything that a refused step must leave as it is."""
    active = session.active
    return (
        session.log.last,
        session.closed,
        [(record.receipt(), record.stage, record.content()) for record in session.records()],
        [record.id for record in session.inbox],
        None if active is None else state_facts(active),
    )


def state_facts(state: GenerationState) -> tuple[object, ...]:
    return (
        state.id,
        state.phase,
        state.cause,
        state.outcome,
        state.reason,
        state.text,
        state.requests,
        state.proposable,
        state.pending,
        state.steered,
        state.batch_out,
        [(record.id, record.stage) for record in state.queue],
        state.request_inputs,
    )
