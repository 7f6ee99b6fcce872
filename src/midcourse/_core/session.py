"""One live runtime as state: identities, admission, the inbox, the active generation.

Admission is two synchronous calls, `place` and `accept`, with the hand-off to the drainer between
them and no await anywhere: `place` reads and refuses, `accept` records. What is refused in
between (the drainer is not parked yet) has changed nothing and is decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import final

from .errors import (
    AdmissionClosed,
    GenerationActive,
    GenerationMismatch,
    IdentitiesExhausted,
    IdentityConflict,
    InvalidInput,
    NoActiveGeneration,
    QueueFull,
    RuntimeClosed,
    SteeringRefused,
    SteeringUnavailable,
)
from .events import EventLog
from .generation import GenerationState
from .offer import Offer
from .record import Record
from .tables import (
    ACCEPTED_EVENTS,
    Cause,
    Delivery,
    HeldReason,
    Kind,
    Mode,
    Step,
)
from .values import Json, Limits, Receipt

__all__ = ["Session"]


@final
class Session:
    """The state of one runtime, and the only code that changes it.

    Attributes:
        active: the generation between its opening and its terminal event.
        inbox: accepted ordinary inputs that will each begin a generation, in order.
        serving: the attachment kinds of the context that `serve` was given; `None` while
            nobody serves.
        closed: whether the runtime is closed.
    """

    __slots__ = ("_identities", "_limits", "active", "closed", "inbox", "log", "mode", "serving")

    def __init__(
        self,
        session_id: str,
        *,
        mode: Mode,
        limits: Limits,
        clock: Callable[[], float],
        notify: Callable[[str, Mapping[str, Json]], None],
    ) -> None:
        self.mode: Mode = mode
        self.log: EventLog = EventLog(session_id, limits.event_history, clock, notify)
        self.active: GenerationState | None = None
        self.inbox: list[Record] = []
        self.serving: Collection[str] | None = None
        self.closed: bool = False
        self._limits = limits
        self._identities: dict[str, Record] = {}

    # ------------------------------------------------------------------------ reading

    def record(self, input_id: str) -> Record | None:
        return self._identities.get(input_id)

    def records(self) -> tuple[Record, ...]:
        """Every accepted input, in order of acceptance, also for a reader on another thread."""
        return tuple(self._identities.values())

    # ---------------------------------------------------------------------- admission

    def place(self, offer: Offer) -> Record | GenerationState | None:
        """Steps 2 to 8 of admission, in the contract's order; the first was `prepare`.

        Returns:
            The record that exists already, or where the input would go: the active generation,
            or `None` for the inbox.

        Raises:
            SteeringRefused: with its code; nothing has changed.
        """
        given, active = offer.input, self.active
        known = self._identities.get(given.id)
        if known is not None:  # 2
            if known.digest == offer.digest:
                return known
            raise self._refusal(IdentityConflict, offer, "this id was accepted for another input")
        if active is not None and active.initial.id == given.id:
            raise self._refusal(IdentityConflict, offer, "this id began the active generation")
        if self.closed:  # 3
            raise self._refusal(RuntimeClosed, offer, "the runtime is closed")
        goes_to: GenerationState | None = None
        if offer.anchored:
            if self.mode is Mode.UNAVAILABLE:  # 4
                raise self._refusal(SteeringUnavailable, offer, "this mode honours no anchors")
            if active is None or not offer.anchor:  # 5
                why = "no generation is active" if active is None else "an anchor is needed"
                raise self._refusal(NoActiveGeneration, offer, why)
            if active.id != offer.anchor:
                raise self._refusal(GenerationMismatch, offer, f"{active.id!r} is active instead")
            if not active.admitting:
                raise self._refusal(AdmissionClosed, offer, "the generation is ending")
            goes_to = active
        elif given.kind != Kind.USER and active is not None and active.admitting:
            goes_to = active
        kinds = self.serving if goes_to is None else goes_to.attachment_kinds
        if kinds is not None and (strange := strange_kinds(offer.input.attachments, kinds)):  # 6
            raise self._refusal(InvalidInput, offer, f"the context takes no {strange}")
        if len(self._identities) >= self._limits.identities:  # 7
            why = f"{self._limits.identities} identities are accepted: open a new runtime"
            raise self._refusal(IdentitiesExhausted, offer, why)
        pending = len(self.inbox) if goes_to is None else goes_to.pending
        if pending >= self._limits.pending:  # 8
            raise self._refusal(QueueFull, offer, f"{pending} inputs wait already")
        return goes_to

    def accept(self, offer: Offer, goes_to: GenerationState | None) -> Record:
        """Step 9: record the identity and queue the input, in the same step as `place`."""
        if goes_to is None:
            record = Record(offer, Delivery.NEW_TURN, None)
            self.inbox.append(record)
        else:
            record = Record(offer, Delivery.REQUEST_BOUNDARY, goes_to.id)
            goes_to.queue.append(record)
        self._identities[record.id] = record
        data = record.facts()
        for type in ACCEPTED_EVENTS[record.anchored]:
            self.log.append(type, data)
        return record

    def _refusal(self, error: type[SteeringRefused], offer: Offer, why: str) -> SteeringRefused:
        return error(
            why,
            input_id=offer.input.id,
            generation_id=offer.anchor,
            active_generation_id=None if self.active is None else self.active.id,
        )

    # --------------------------------------------------------------------- generations

    def open(
        self,
        offer: Offer,
        generation_id: str,
        *,
        attachment_kinds: Collection[str],
        max_requests: int | None,
        initial_written: bool,
    ) -> GenerationState:
        """Open a generation with the initial input that a host passed: it takes no identity.

        Raises:
            GenerationActive: another one is active.
            RuntimeClosed: the runtime is closed.
            IdentityConflict: the id was accepted before.
            InvalidInput: it carries an attachment that the context does not take.
        """
        self._may_open(offer)
        if offer.input.id in self._identities:
            raise self._refusal(IdentityConflict, offer, "this id was accepted for another input")
        if not initial_written and (
            strange := strange_kinds(offer.input.attachments, attachment_kinds)
        ):
            raise self._refusal(InvalidInput, offer, f"the context takes no {strange}")
        record = Record(offer, Delivery.NEW_TURN, generation_id)
        return self._open(record, generation_id, attachment_kinds, max_requests, initial_written)

    def open_next(
        self, generation_id: str, *, attachment_kinds: Collection[str], max_requests: int | None
    ) -> GenerationState | None:
        """Open a generation with the first input of the inbox; `None` if there is none to open.

        One accepted while nobody served may carry what the context does not take: it is held,
        because it cannot be refused any more.
        """
        self._may_open(None)
        while self.inbox:
            record = self.inbox.pop(0)
            if record.input is not None and strange_kinds(
                record.input.attachments, attachment_kinds
            ):
                record.settle(self.log, Step.HOLD, HeldReason.CONTEXT_REFUSED)
                continue
            record.generation_id = generation_id
            return self._open(record, generation_id, attachment_kinds, max_requests, False)
        return None

    def _may_open(self, offer: Offer | None) -> None:
        if self.closed:
            raise RuntimeClosed(
                "the runtime is closed", input_id=None if offer is None else offer.input.id
            )
        if self.active is not None:
            raise GenerationActive(f"generation {self.active.id!r} is still active")

    def _open(
        self,
        record: Record,
        generation_id: str,
        attachment_kinds: Collection[str],
        max_requests: int | None,
        initial_written: bool,
    ) -> GenerationState:
        state = self.active = GenerationState(
            generation_id,
            record,
            attachment_kinds=attachment_kinds,
            max_requests=max_requests,
            initial_written=initial_written,
            log=self.log,
            on_over=self._over,
        )
        return state

    def started(self, state: GenerationState) -> None:
        """Make the opening visible; its admission is open already."""
        data = {"generation_id": state.id, "initial_input_id": state.initial.id}
        self.log.append("generation.started", data)

    def _over(self) -> None:
        self.active = None

    # ------------------------------------------------------------------------ stop, close

    def stop(self) -> None:
        """Stop what runs: the active generation, and everything that waits for another one."""
        if self.active is None and self.serving is None:
            return
        self._end_all(Cause.STOP, HeldReason.STOPPED)

    def close(self) -> None:
        """Close for good: everything is settled, as soon as no write is running."""
        if self.closed:
            return
        self.closed = True
        self._end_all(Cause.CLOSE, HeldReason.RUNTIME_CLOSED)

    def _end_all(self, cause: Cause, held: HeldReason) -> None:
        if self.active is not None:
            self.active.end(cause)
        waiting, self.inbox = self.inbox, []
        for record in waiting:
            record.settle(self.log, Step.HOLD, held)

    def stop_receipt(self, offer: Offer) -> Receipt:
        """What a submitted stop gets: it was obeyed, it is written nowhere, begins nothing.

        Raises:
            RuntimeClosed: the runtime is closed; there is nothing to stop.
        """
        if self.closed:
            raise self._refusal(RuntimeClosed, offer, "the runtime is closed")
        return {
            "accepted": True,
            "inputId": offer.input.id,
            "generationId": None if self.active is None else self.active.id,
            "disposition": "held",
            "reason": HeldReason.STOPPED.value,
        }


def strange_kinds(attachments: Collection[Json], kinds: Collection[str]) -> str:
    """The first kind of attachment that is not among `kinds`, in words; empty if there is none.

    The kind of an attachment is its `"type"`, as in the parts of a message.
    """
    for attachment in attachments:
        kind = attachment.get("type") if isinstance(attachment, dict) else None
        if not isinstance(kind, str) or kind not in kinds:
            return f"attachment of kind {kind!r}"
    return ""
