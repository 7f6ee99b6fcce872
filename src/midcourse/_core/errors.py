"""Every error of the library, one tree, cut by what the handler does next.

    MidcourseError
      SteeringRefused            a submission was refused; nothing was recorded for it
        InvalidInput             you: the input is malformed           -> mend it
        IdentityConflict         you: the id stands for something else -> take a new id
        TooLate                  this generation (or runtime) is over  -> offer it as a new message
          NoActiveGeneration
          GenerationMismatch
          AdmissionClosed
          RuntimeClosed
        NoRoom                   there is no room                      -> wait, or a new runtime
          IdentitiesExhausted
          QueueFull
        SteeringUnavailable      this mode cannot                      -> do not offer steering
      Misuse (a RuntimeError)    you misused the API                   -> mend the program
        GenerationActive
        GenerationBusy
        GenerationOver
        GenerationUnfinished
      InternalError              our own invariant broke               -> please report it

Refusals carry their facts as fields; nobody has to parse a message.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import ClassVar, Final, final

__all__ = [
    "REFUSALS",
    "AdmissionClosed",
    "GenerationActive",
    "GenerationBusy",
    "GenerationMismatch",
    "GenerationOver",
    "GenerationUnfinished",
    "IdentitiesExhausted",
    "IdentityConflict",
    "InternalError",
    "InvalidInput",
    "MidcourseError",
    "Misuse",
    "NoActiveGeneration",
    "NoRoom",
    "QueueFull",
    "RefusalCode",
    "RuntimeClosed",
    "SteeringRefused",
    "SteeringUnavailable",
    "TooLate",
]


@unique
class RefusalCode(StrEnum):
    """Why a submission was refused: a closed set, the strings of the contract."""

    INVALID_INPUT = "invalid_input"
    IDENTITY_CONFLICT = "identity_conflict"
    RUNTIME_CLOSED = "runtime_closed"
    UNAVAILABLE = "unavailable"
    NO_ACTIVE_GENERATION = "no_active_generation"
    GENERATION_MISMATCH = "generation_mismatch"
    ADMISSION_CLOSED = "admission_closed"
    IDENTITIES_EXHAUSTED = "identities_exhausted"
    QUEUE_FULL = "queue_full"


class MidcourseError(Exception):
    """Base of everything that the library raises on its own account."""


class SteeringRefused(MidcourseError):
    """A submission was refused before admission; nothing was recorded and nothing will happen.

    Attributes:
        code: why, one of `RefusalCode` (each is a plain string, too).
        input_id: the id of the refused input, `None` where it had no usable one.
        generation_id: the anchor that the caller gave, `None` without one.
        active_generation_id: the generation that is active now, `None` between generations.
    """

    code: ClassVar[RefusalCode]

    def __init__(
        self,
        message: str,
        *,
        input_id: str | None = None,
        generation_id: str | None = None,
        active_generation_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.input_id = input_id
        self.generation_id = generation_id
        self.active_generation_id = active_generation_id

    def to_json(self) -> dict[str, object]:
        """The refusal for a wire, plain JSON values.

        The keys are `accepted` (`False`), `code`, `inputId`, `generationId` (the anchor),
        `activeGenerationId` and `message` (for people; programs go by the code).
        """
        return {
            "accepted": False,
            "code": self.code.value,
            "inputId": self.input_id,
            "generationId": self.generation_id,
            "activeGenerationId": self.active_generation_id,
            "message": str(self),
        }


@final
class InvalidInput(SteeringRefused):
    """The input is malformed, too large, or carries what the context does not take."""

    code = RefusalCode.INVALID_INPUT


@final
class IdentityConflict(SteeringRefused):
    """The id was accepted before with another content or another anchor."""

    code = RefusalCode.IDENTITY_CONFLICT


class TooLate(SteeringRefused):
    """There is no generation any more, or not yet, that this input could reach."""


@final
class NoActiveGeneration(TooLate):
    """No generation is active, or the anchored steer named none."""

    code = RefusalCode.NO_ACTIVE_GENERATION


@final
class GenerationMismatch(TooLate):
    """Another generation than the anchor is active: `active_generation_id`."""

    code = RefusalCode.GENERATION_MISMATCH


@final
class AdmissionClosed(TooLate):
    """The anchor is the active generation, but it is ending and takes nothing more."""

    code = RefusalCode.ADMISSION_CLOSED


@final
class RuntimeClosed(TooLate):
    """The runtime was closed."""

    code = RefusalCode.RUNTIME_CLOSED


class NoRoom(SteeringRefused):
    """A bound of `Limits` is reached."""


@final
class IdentitiesExhausted(NoRoom):
    """The runtime has accepted as many identities as it may: open a new runtime."""

    code = RefusalCode.IDENTITIES_EXHAUSTED


@final
class QueueFull(NoRoom):
    """Too many inputs wait; try again after the next request boundary."""

    code = RefusalCode.QUEUE_FULL


@final
class SteeringUnavailable(SteeringRefused):
    """The runtime was declared with a mode that cannot honour anchors."""

    code = RefusalCode.UNAVAILABLE


# One class a code, both ways; the reference in the docs is drawn from it.
REFUSALS: Final[dict[RefusalCode, type[SteeringRefused]]] = {
    cls.code: cls
    for cls in (
        InvalidInput,
        IdentityConflict,
        RuntimeClosed,
        SteeringUnavailable,
        NoActiveGeneration,
        GenerationMismatch,
        AdmissionClosed,
        IdentitiesExhausted,
        QueueFull,
    )
}


class Misuse(MidcourseError, RuntimeError):
    """The program called the library in a way that it does not allow."""


@final
class GenerationActive(Misuse):
    """One generation is active at a time, and one still is."""


@final
class GenerationBusy(Misuse):
    """A boundary, a finish or a taken batch of this generation is under way."""


@final
class GenerationOver(Misuse):
    """The generation has ended; it takes no further step."""


@final
class GenerationUnfinished(Misuse):
    """The block was left although nobody had proposed to finish; the generation is failed."""


@final
class InternalError(MidcourseError):
    """An invariant of the library itself broke. Please report it, with the events."""
