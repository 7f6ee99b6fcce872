"""One generation as state: its boundary queue, its writes, its end.

Every method is one synchronous step. `end` is the one function that closes a generation,
whatever ended it: it decides the outcome, closes admission, settles what waits, and publishes the
terminal event as soon as no write is running.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import final

from .errors import InternalError
from .events import EventLog
from .record import Record
from .tables import (
    ENDINGS,
    PHASE_STEPS,
    VERDICTS,
    Cause,
    HeldReason,
    Outcome,
    Phase,
    Stage,
    Step,
    UnknownReason,
    WriteEnd,
)
from .values import Json

__all__ = ["GenerationState"]


@final
class GenerationState:
    """The facts of one generation, and the only code that changes them.

    Attributes:
        id: unique.
        initial: the input that began it, written first.
        attachment_kinds: the kinds of attachments that its context takes.
        queue: the boundary queue, in order of acceptance; a taken input keeps its place in it.
        phase: see `tables.Phase`; admission is open in OPEN only.
        cause: what ended it, once that is decided.
        error_type: the name of the error's type, for a failed one.
        text: the text that was last proposed to finish with.
        requests: how many requests were begun.
        proposable: whether a request is open that nobody has proposed to finish with.
    """

    __slots__ = (
        "_delivered",
        "_log",
        "_on_over",
        "_taken",
        "_undelivered",
        "_unknown",
        "_writing",
        "_written",
        "attachment_kinds",
        "cause",
        "error_type",
        "id",
        "initial",
        "max_requests",
        "phase",
        "proposable",
        "queue",
        "requests",
        "text",
    )

    def __init__(
        self,
        generation_id: str,
        initial: Record,
        *,
        attachment_kinds: Collection[str],
        max_requests: int | None,
        initial_written: bool,
        log: EventLog,
        on_over: Callable[[], None],
    ) -> None:
        self.id: str = generation_id
        self.initial: Record = initial
        self.queue: list[Record] = [] if initial_written else [initial]
        self.attachment_kinds: Collection[str] = attachment_kinds
        self.max_requests: int | None = max_requests
        self.phase: Phase = Phase.OPEN
        self.cause: Cause | None = None
        self.error_type: str = ""
        self.text: str | None = None
        self.requests: int = 0
        self.proposable: bool = initial_written
        self._log = log
        self._on_over = on_over
        self._writing: Record | None = None
        self._taken: list[Record] | None = None
        self._written: list[str] = []  # at the boundary that is under way
        self._delivered: list[str] = []
        self._undelivered: list[str] = []
        self._unknown: list[str] = []

    # ------------------------------------------------------------------------ reading

    @property
    def admitting(self) -> bool:
        """Whether an input may still be accepted for this generation."""
        return self.phase is Phase.OPEN

    @property
    def decided(self) -> bool:
        """Whether it is decided how the generation ends: nothing more is begun."""
        return self.phase is Phase.ENDING or self.phase is Phase.OVER

    @property
    def outcome(self) -> Outcome | None:
        return ENDINGS[self.cause].outcome if self.cause and self.phase is Phase.OVER else None

    @property
    def reason(self) -> str | None:
        """Why it did not finish; `None` if it did, or still runs."""
        outcome = self.outcome
        if self.cause is None or outcome is None or outcome is Outcome.FINISHED:
            return None
        return ENDINGS[self.cause].held.value

    @property
    def pending(self) -> int:
        """How many accepted inputs wait or are taken; the initial one was no submission."""
        queue = self.queue
        return len(queue) - (1 if queue and queue[0] is self.initial else 0)

    @property
    def steered(self) -> bool:
        """Whether an input waits that arrived after the generation was opened."""
        return any(r.stage is Stage.WAITING for r in self.queue if r is not self.initial)

    @property
    def spent(self) -> bool:
        return self.max_requests is not None and self.requests >= self.max_requests

    # ----------------------------------------------------------------------- boundary

    def begin_boundary(self) -> None:
        """Begin to drain: the request before is over."""
        self._written = []
        self.proposable = False

    def next_write(self) -> Record | None:
        """The input that is to be written next, `None` when the drain is done."""
        return self.queue[0] if self.queue and not self.decided else None

    def begin(self, record: Record) -> dict[str, Json]:
        """Begin the write of the first input in the queue: its message."""
        message = record.message()
        record.step(Step.BEGIN)
        del self.queue[0]
        self._writing = record
        return message

    def settle(
        self, record: Record, end: WriteEnd, confirmed: bool | None, detail: str = ""
    ) -> None:
        """Settle the write that was begun, and with it an end that waited for it."""
        verdict = VERDICTS[end, confirmed]
        self._writing = None
        self._settle(record, verdict.step, verdict.reason, detail if verdict.reason else "")
        self._conclude()

    def begin_request(self) -> None:
        """The boundary is done and a request follows."""
        self.requests += 1
        self.proposable = True
        data = {
            "generation_id": self.id,
            "request": self.requests,
            "input_ids": tuple(self._written),
        }
        self._log.append("request.started", data)

    @property
    def request_inputs(self) -> tuple[str, ...]:
        """The ids of the inputs written at the last boundary."""
        return tuple(self._written)

    # --------------------------------------------------------------- two-step boundary

    def take(self) -> list[Record]:
        """Mark what waits as taken. One batch is out at a time."""
        self._written = []
        self._taken = list(self.queue)  # the list itself stands for this batch and no other
        for record in self._taken:
            record.step(Step.TAKE)
        return self._taken

    def sent(self, taken: list[Record]) -> bool:
        """The request that carries the batch went out. `False`: too late, it is settled."""
        if self._taken is not taken or self.decided:
            return False
        self._taken = None
        del self.queue[: len(taken)]
        for record in taken:
            self._settle(record, Step.APPLY)
        self.begin_request()
        return True

    def unsent(self, taken: list[Record]) -> bool:
        """The batch was provably not sent. `False`: too late, it is settled."""
        if self._taken is not taken or self.decided:
            return False
        self._taken = None
        for record in taken:
            record.step(Step.GIVE_BACK)
        return True

    @property
    def batch_out(self) -> bool:
        """Whether a taken batch is still out."""
        return self._taken is not None

    # -------------------------------------------------------------------------- finish

    def propose(self, text: str) -> None:
        """Keep the proposed text; it stays readable whatever becomes of the finish."""
        self.text = text
        self.proposable = False

    def goes_on(self) -> bool:
        """Whether accepted inputs wait and a request is left for them: then they keep it open.

        The check of the contract's section 6, step 2. Where it says no, `end` follows in the
        same step, so that a racing submission is either before the check (and keeps the
        generation open) or after the end (and is refused).
        """
        if not self.queue or self.spent:
            return False
        ids = tuple(record.id for record in self.queue)
        self._log.append("generation.continued", {"generation_id": self.id, "input_ids": ids})
        return True

    # ----------------------------------------------------------------------------- end

    def end(self, cause: Cause, error_type: str = "") -> None:
        """Close admission, hold what waits, and publish the terminal event if no write runs.

        The first cause decides (I9, I15); a later one changes nothing.
        """
        phase = PHASE_STEPS.get((self.phase, cause))
        if phase is None:
            return
        self.phase = phase
        self.cause = cause
        self.error_type = error_type
        held = ENDINGS[cause].held
        # A taken input may be in a provider's hands; one that waits provably is not (I4, I5).
        waiting, self.queue, self._taken = self.queue, [], None
        for record in waiting:
            if record.stage is Stage.TAKEN:
                self._settle(record, Step.LOSE, UnknownReason.WRITE_INTERRUPTED)
            else:
                self._settle(record, Step.HOLD, held)
        self._conclude()

    def _conclude(self) -> None:
        # I8: the terminal event follows every settlement, so a running write is waited for.
        if self.phase is not Phase.ENDING or self._writing is not None:
            return
        if self.cause is None:
            raise InternalError(f"generation {self.id!r} ends without a cause")
        self.phase = Phase.OVER
        ending = ENDINGS[self.cause]
        data: dict[str, Json] = {"generation_id": self.id}
        if ending.outcome is Outcome.FINISHED:
            data["text"] = self.text
        elif ending.outcome is Outcome.FAILED:
            data["error_type"] = self.error_type
        else:
            data["reason"] = ending.held.value
        data["input_ids"] = tuple(self._delivered)
        data["accepted_input_ids"] = tuple(self._undelivered)
        data["unknown_input_ids"] = tuple(self._unknown)
        data["requests"] = self.requests
        self._on_over()  # state first: nobody sees the event while the generation is active
        self._log.append(f"generation.{ending.outcome}", data)

    def _settle(
        self,
        record: Record,
        step: Step,
        reason: HeldReason | UnknownReason | None = None,
        detail: str = "",
    ) -> None:
        ids = {
            Step.APPLY: self._delivered,
            Step.HOLD: self._undelivered,
            Step.LOSE: self._unknown,
        }
        ids[step].append(record.id)
        if step is Step.APPLY:
            self._written.append(record.id)
        record.settle(self._log, step, reason, detail)
