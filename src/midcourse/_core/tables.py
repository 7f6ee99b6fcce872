"""All that is known of how inputs and generations change, as tables.

Nothing else in the library decides a transition: a pair that is not in its table is refused and
changes nothing. The diagrams in the docs are drawn from here.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Final, NamedTuple

__all__ = [
    "ACCEPTED_EVENTS",
    "DISPOSITION",
    "ENDINGS",
    "INPUT_STEPS",
    "PHASE_STEPS",
    "SETTLED_EVENTS",
    "VERDICTS",
    "Cause",
    "Delivery",
    "Disposition",
    "Ending",
    "HeldReason",
    "Kind",
    "Mode",
    "Outcome",
    "Phase",
    "Stage",
    "Step",
    "UnknownReason",
    "Verdict",
    "WriteEnd",
]


@unique
class Kind(StrEnum):
    """What an input is."""

    USER = "user"
    STEER = "steer"
    SERVICE = "service"
    STOP = "stop"


@unique
class Mode(StrEnum):
    """Whether a runtime honours anchors."""

    REQUEST_BOUNDARY = "request_boundary"
    UNAVAILABLE = "unavailable"


@unique
class Delivery(StrEnum):
    """How an input reaches the context."""

    NEW_TURN = "new_turn"
    REQUEST_BOUNDARY = "request_boundary"


@unique
class Disposition(StrEnum):
    """What is proven of an accepted input."""

    QUEUED = "queued"
    APPLIED = "applied"
    HELD = "held"
    UNKNOWN = "unknown"


@unique
class HeldReason(StrEnum):
    """Why a write was never begun, or proven to have changed nothing."""

    STOPPED = "stopped"
    CANCELLED = "cancelled"
    FAILED = "failed"
    CALL_BUDGET_EXHAUSTED = "call_budget_exhausted"
    GENERATION_ENDED = "generation_ended"
    CONTEXT_REFUSED = "context_refused"
    RUNTIME_CLOSED = "runtime_closed"


@unique
class UnknownReason(StrEnum):
    """Why it cannot be established whether a write was completed."""

    WRITE_INTERRUPTED = "write_interrupted"
    WRITE_FAILED = "write_failed"


# ---------------------------------------------------------------------------------- inputs


@unique
class Stage(StrEnum):
    """Where an accepted input is; finer than its disposition."""

    WAITING = "waiting"
    WRITING = "writing"
    TAKEN = "taken"
    APPLIED = "applied"
    HELD = "held"
    UNKNOWN = "unknown"


@unique
class Step(StrEnum):
    """What may be done with an accepted input."""

    BEGIN = "begin"  # its write is begun
    TAKE = "take"  # a two-step boundary took it
    GIVE_BACK = "give_back"  # ... and did not send it
    APPLY = "apply"
    HOLD = "hold"
    LOSE = "lose"


DISPOSITION: Final[dict[Stage, Disposition]] = {
    Stage.WAITING: Disposition.QUEUED,
    Stage.WRITING: Disposition.QUEUED,
    Stage.TAKEN: Disposition.QUEUED,
    Stage.APPLIED: Disposition.APPLIED,
    Stage.HELD: Disposition.HELD,
    Stage.UNKNOWN: Disposition.UNKNOWN,
}

# No row leads out of a settled stage (I15), none from WAITING to APPLIED or UNKNOWN (I5), and
# none back from WRITING to WAITING (I2).
INPUT_STEPS: Final[dict[tuple[Stage, Step], Stage]] = {
    (Stage.WAITING, Step.BEGIN): Stage.WRITING,
    (Stage.WAITING, Step.TAKE): Stage.TAKEN,
    (Stage.WAITING, Step.HOLD): Stage.HELD,
    (Stage.WRITING, Step.APPLY): Stage.APPLIED,
    (Stage.WRITING, Step.HOLD): Stage.HELD,
    (Stage.WRITING, Step.LOSE): Stage.UNKNOWN,
    (Stage.TAKEN, Step.APPLY): Stage.APPLIED,
    (Stage.TAKEN, Step.GIVE_BACK): Stage.WAITING,
    (Stage.TAKEN, Step.LOSE): Stage.UNKNOWN,
}


# ---------------------------------------------------------------------------------- writes


@unique
class WriteEnd(StrEnum):
    """How a write came back."""

    RETURNED = "returned"  # unchallenged: not told to cancel, nothing raised
    TOLD = "told"  # it was told to cancel, whatever it then did
    UNCHANGED = "unchanged"  # it raised ContextUnchanged
    RAISED = "raised"  # it raised anything else


class Verdict(NamedTuple):
    """The step that follows from a write's end, and the reason that a receipt gives."""

    step: Step
    reason: HeldReason | UnknownReason | None


_APPLIED: Final = Verdict(Step.APPLY, None)
_REFUSED: Final = Verdict(Step.HOLD, HeldReason.CONTEXT_REFUSED)

# By the write's end and by what the context's `confirm` said (None: absent, undecided, failed).
VERDICTS: Final[dict[tuple[WriteEnd, bool | None], Verdict]] = {
    (WriteEnd.RETURNED, None): _APPLIED,
    (WriteEnd.UNCHANGED, None): _REFUSED,
    (WriteEnd.TOLD, True): _APPLIED,
    (WriteEnd.TOLD, False): _REFUSED,
    (WriteEnd.TOLD, None): Verdict(Step.LOSE, UnknownReason.WRITE_INTERRUPTED),
    (WriteEnd.RAISED, True): _APPLIED,
    (WriteEnd.RAISED, False): _REFUSED,
    (WriteEnd.RAISED, None): Verdict(Step.LOSE, UnknownReason.WRITE_FAILED),
}


# ----------------------------------------------------------------------------- generations


@unique
class Phase(StrEnum):
    """Where a generation is. Its admission is open in OPEN and nowhere else."""

    OPEN = "open"
    LEAVING = "leaving"  # left after a proposal to finish; the last checkpoint is to come
    ENDING = "ending"  # how it ends is decided; one write is still running
    OVER = "over"  # the terminal event is published


@unique
class Outcome(StrEnum):
    """How a generation ended: the three terminal events."""

    FINISHED = "finished"
    FAILED = "failed"
    DETACHED = "detached"


@unique
class Cause(StrEnum):
    """What ends a generation, or begins to."""

    FINISH = "finish"
    FINISH_SPENT = "finish_spent"  # finished with inputs pending and no request left for them
    LEAVE = "leave"
    FAIL = "fail"
    CANCEL = "cancel"
    STOP = "stop"
    BUDGET = "budget"
    CLOSE = "close"


class Ending(NamedTuple):
    """What a cause makes of the generation, and of the inputs that still wait."""

    outcome: Outcome | None
    held: HeldReason


ENDINGS: Final[dict[Cause, Ending]] = {
    Cause.FINISH: Ending(Outcome.FINISHED, HeldReason.GENERATION_ENDED),
    Cause.FINISH_SPENT: Ending(Outcome.FINISHED, HeldReason.CALL_BUDGET_EXHAUSTED),
    Cause.LEAVE: Ending(None, HeldReason.GENERATION_ENDED),
    Cause.FAIL: Ending(Outcome.FAILED, HeldReason.FAILED),
    Cause.CANCEL: Ending(Outcome.DETACHED, HeldReason.CANCELLED),
    Cause.STOP: Ending(Outcome.DETACHED, HeldReason.STOPPED),
    Cause.BUDGET: Ending(Outcome.DETACHED, HeldReason.CALL_BUDGET_EXHAUSTED),
    Cause.CLOSE: Ending(Outcome.DETACHED, HeldReason.RUNTIME_CLOSED),
}

# A pair without a row is no error here: the first cause decides, a later one changes nothing.
PHASE_STEPS: Final[dict[tuple[Phase, Cause], Phase]] = {
    (Phase.OPEN, Cause.FINISH): Phase.ENDING,
    (Phase.OPEN, Cause.FINISH_SPENT): Phase.ENDING,
    (Phase.OPEN, Cause.LEAVE): Phase.LEAVING,
    (Phase.OPEN, Cause.FAIL): Phase.ENDING,
    (Phase.OPEN, Cause.CANCEL): Phase.ENDING,
    (Phase.OPEN, Cause.STOP): Phase.ENDING,
    (Phase.OPEN, Cause.BUDGET): Phase.ENDING,
    (Phase.OPEN, Cause.CLOSE): Phase.ENDING,
    (Phase.LEAVING, Cause.FINISH): Phase.ENDING,
    (Phase.LEAVING, Cause.FAIL): Phase.ENDING,
    (Phase.LEAVING, Cause.CANCEL): Phase.ENDING,
    (Phase.LEAVING, Cause.STOP): Phase.ENDING,
    (Phase.LEAVING, Cause.CLOSE): Phase.ENDING,
}


# ---------------------------------------------------------------------------------- events

# By whether the input is anchored.
ACCEPTED_EVENTS: Final[dict[bool, tuple[str, ...]]] = {
    True: ("input.accepted", "steering.accepted", "input.queued"),
    False: ("input.accepted", "input.queued"),
}

SETTLED_EVENTS: Final[dict[tuple[Stage, bool], tuple[str, ...]]] = {
    (Stage.APPLIED, True): ("input.delivered", "steering.applied"),
    (Stage.APPLIED, False): ("input.delivered",),
    (Stage.HELD, True): ("steering.held",),
    (Stage.HELD, False): ("input.held",),
    (Stage.UNKNOWN, True): ("steering.unknown",),
    (Stage.UNKNOWN, False): ("input.unknown",),
}
