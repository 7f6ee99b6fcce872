"""What a session leaves to be judged: its events, its context, and what its callers saw.

A scenario fills an `Observation` while it runs; every entry carries the `Moment` at which it was
made, so that it can be placed in the event log and among the other entries. `Log` reads the events
once and answers the questions that the checkers ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Event = Mapping[str, Any]
Message = Mapping[str, Any]
Receipt = Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A point of a run.

    Args:
        order: Position among all observations of the run.
        sequence: The last event that was visible then.
        tick: The scheduler pass.
        time: The virtual time.
    """

    order: int
    sequence: int = 0
    tick: int = 0
    time: float = 0.0


@dataclass(slots=True)
class Submission:
    """One call of `submit` or `submit_steering`, as its caller saw it.

    Args:
        content: Everything that identity is over, in any canonical form.
    """

    input_id: str
    began: Moment
    anchor: str | None = None
    content: str = ""
    outcome: Literal["waiting", "returned", "refused", "cancelled", "failed"] = "waiting"
    ended: Moment | None = None
    code: str = ""
    receipt: Receipt | None = None


@dataclass(slots=True)
class Write:
    """One `add_message` for an input, as the context saw it.

    Args:
        generation_id: The generation that was active when it was begun.
        wanted: Whether cancellation of the host was wanted before it was begun.
        challenged: Whether it was told to cancel, or may have been: it outlasted the grace.
        torn: Whether it was told to cancel before its grace was over.
        wanted_at_end: Whether cancellation of the host was wanted when it came back.
    """

    input_id: str
    generation_id: str | None
    began: Moment
    wanted: bool = False
    how: Literal["running", "returned", "unchanged", "raised", "cancelled"] = "running"
    ended: Moment | None = None
    challenged: bool = False
    torn: bool = False
    wanted_at_end: bool = False


@dataclass(frozen=True, slots=True)
class Save:
    """One checkpoint of the host that came back, and whether cancellation was wanted by then."""

    generation_id: str
    ended: Moment
    wanted_at_end: bool


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the context answered when it was asked about an input."""

    input_id: str
    answer: bool | None


@dataclass(frozen=True, slots=True)
class Stop:
    """One `stop()`, noted right after it returned.

    Args:
        generation_id: The generation that was active when it was called.
    """

    generation_id: str | None
    at: Moment


@dataclass(frozen=True, slots=True)
class Cancel:
    """One cancellation of whoever makes the steps of a generation, noted right after it."""

    generation_id: str
    at: Moment


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model request that the host made, with the ids of the inputs in its messages."""

    generation_id: str
    at: Moment
    input_ids: tuple[str, ...] = ()


@dataclass(slots=True)
class Observation:
    """What the callers, the context and the model saw of one runtime.

    Args:
        readings: Every receipt that anybody got, in order, the final ones included.
        final: What `receipt(id)` said at the end, for every id that was ever submitted.
        taken: The ids that a two-step boundary took.
        host_written: The initial inputs that the host said it wrote itself.
        left_behind: Tasks of the runtime that were alive after its last block was left.
        closed: Whether the runtime was closed at the end.
        identities: The bound on accepted identities.
    """

    submissions: list[Submission] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    confirmations: list[Confirmation] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    cancels: list[Cancel] = field(default_factory=list)
    requests: list[ModelRequest] = field(default_factory=list)
    tool_calls: list[tuple[str, str]] = field(default_factory=list)
    readings: list[Receipt] = field(default_factory=list)
    final: dict[str, Receipt | None] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    host_written: set[str] = field(default_factory=set)
    left_behind: list[str] = field(default_factory=list)
    closed: bool = False
    identities: int = 2_000


@dataclass(frozen=True, slots=True)
class Settlement:
    """One event that settles an input."""

    index: int
    disposition: str
    reason: str | None


@dataclass(slots=True)
class Turn:
    """One generation as the log tells it."""

    id: str
    initial: str | None
    started: int
    terminals: list[int] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)


TERMINALS = ("generation.finished", "generation.failed", "generation.detached")
_SETTLING = {
    "steering.applied": "applied",
    "steering.held": "held",
    "steering.unknown": "unknown",
    "input.delivered": "applied",
    "input.held": "held",
    "input.unknown": "unknown",
}


class Log:
    """The events of one session, read once.

    Attributes:
        accepted: The index of each input's acceptance.
        anchors: The anchor of each accepted anchored input.
        assigned: The generation that each input belongs to, `None` while it waits in the inbox.
        settled: The settlements of each input, in order.
        turns: The generations by id, in order.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.accepted: dict[str, int] = {}
        self.acceptances: dict[str, list[int]] = {}
        self.anchors: dict[str, str] = {}
        self.assigned: dict[str, str | None] = {}
        self.settled: dict[str, list[Settlement]] = {}
        self.turns: dict[str, Turn] = {}
        self.stray_terminals: list[int] = []
        active: Turn | None = None
        for index, event in enumerate(events):
            kind: str = event["type"]
            name: str = event.get("input_id", "")
            anchor: str | None = event.get("target_generation_id")
            if kind == "input.accepted":
                self.acceptances.setdefault(name, []).append(index)
                self.accepted.setdefault(name, index)
                if anchor is not None:
                    self.anchors.setdefault(name, anchor)
                    self.assigned.setdefault(name, anchor)
                elif event.get("delivery") == "request_boundary":
                    self.assigned.setdefault(name, active.id if active else None)
                else:
                    self.assigned.setdefault(name, None)
            elif kind == "generation.started":
                active = Turn(event["generation_id"], event.get("initial_input_id"), index)
                self.turns[active.id] = active
                if active.initial is not None:
                    self.assigned[active.initial] = active.id
            elif kind in TERMINALS:
                turn = self.turns.get(event["generation_id"])
                if turn is None:
                    self.stray_terminals.append(index)
                else:
                    turn.terminals.append(index)
                active = None
            elif kind == "request.started":
                turn = self.turns.get(event["generation_id"])
                if turn is not None:
                    turn.requests.append(index)
            elif kind in _SETTLING and not (kind == "input.delivered" and anchor is not None):
                self.settled.setdefault(name, []).append(
                    Settlement(index, _SETTLING[kind], event.get("reason"))
                )

    def disposition(self, input_id: str) -> str:
        """The first settled disposition of an input, else `queued`."""
        settled = self.settled.get(input_id)
        return settled[0].disposition if settled else "queued"

    def ids(self) -> list[str]:
        """Every input that belongs to a generation or was accepted."""
        return list(self.assigned)

    def of(self, turn: Turn) -> list[str]:
        """The inputs that belong to a generation, the initial one first."""
        mine = [name for name, owner in self.assigned.items() if owner == turn.id]
        mine.sort(key=lambda name: -1 if name == turn.initial else self.accepted.get(name, -1))
        return mine

    def line(self, index: int) -> str:
        """One event, short, for a report."""
        event = self.events[index]
        rest = {
            key: value
            for key, value in event.items()
            if key not in ("version", "sequence", "session_id", "time", "type")
        }
        return f"{event.get('sequence', index + 1)} {event['type']} {rest}"


class Evidence:
    """All that the checkers judge by.

    Args:
        events: `Event.to_json()` of every event, from the first.
        messages: What the context holds in the end, in order.
        observation: What the callers saw.
    """

    def __init__(
        self,
        events: Sequence[Event] = (),
        messages: Sequence[Message] = (),
        observation: Observation | None = None,
    ) -> None:
        self.log = Log(events)
        self.messages = messages
        self.seen = observation if observation is not None else Observation()

    def held_by_context(self) -> list[tuple[str, str | None]]:
        """Each identified message of the context: the input's id and the anchor, in order."""
        return [
            (found["input_id"], found.get("target_generation_id"))
            for message in self.messages
            if (found := message.get("metadata")) and "input_id" in found
        ]
