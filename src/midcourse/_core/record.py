"""One accepted input: what it is, where it stands, and the receipt that says so."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from .errors import InternalError
from .events import EventLog
from .offer import Offer
from .tables import (
    DISPOSITION,
    INPUT_STEPS,
    SETTLED_EVENTS,
    Delivery,
    Disposition,
    HeldReason,
    Stage,
    Step,
    UnknownReason,
)
from .values import Input, Json, Receipt, fresh_copy

__all__ = ["Record"]


@final
class Record:
    """An accepted input, or the initial input that a host passed to a generation.

    Stage, reason and detail are one attribute, so that a reader on another thread sees all three
    of one moment.
    """

    __slots__ = (
        "_state",
        "anchor",
        "anchored",
        "delivery",
        "digest",
        "generation_id",
        "id",
        "input",
    )

    def __init__(self, offer: Offer, delivery: Delivery, generation_id: str | None) -> None:
        self.id: str = offer.input.id
        self.anchor: str | None = offer.anchor
        self.anchored: bool = offer.anchored
        self.digest: bytes = offer.digest
        self.delivery: Delivery = delivery
        self.generation_id: str | None = generation_id
        self.input: Input | None = offer.input
        self._state: tuple[Stage, HeldReason | UnknownReason | None, str] = (
            Stage.WAITING,
            None,
            "",
        )

    @property
    def stage(self) -> Stage:
        return self._state[0]

    @property
    def settled(self) -> bool:
        return DISPOSITION[self._state[0]] is not Disposition.QUEUED

    def step(
        self, step: Step, reason: HeldReason | UnknownReason | None = None, detail: str = ""
    ) -> Stage:
        """Make one step of `tables.INPUT_STEPS`.

        Raises:
            InternalError: the table has no such row; nothing has changed.
        """
        stage = INPUT_STEPS.get((self._state[0], step))
        if stage is None:
            raise InternalError(f"input {self.id!r} cannot {step} while {self._state[0]}")
        self._state = (stage, reason, detail)
        if stage is Stage.APPLIED:
            self.input = None  # the context holds it now; the digest is enough for a retry
        return stage

    def settle(
        self,
        log: EventLog,
        step: Step,
        reason: HeldReason | UnknownReason | None = None,
        detail: str = "",
    ) -> Stage:
        """Make a step to a settled stage, then publish it."""
        stage = self.step(step, reason, detail)
        data = self.facts()
        if reason is not None:
            data["reason"] = reason.value
        for type in SETTLED_EVENTS[stage, self.anchored]:
            log.append(type, data)
        return stage

    def receipt(self) -> Receipt:
        stage, reason, detail = self._state
        receipt: Receipt = {
            "accepted": True,
            "inputId": self.id,
            "generationId": self.generation_id,
            "disposition": DISPOSITION[stage].value,
        }
        if reason is not None:
            receipt["reason"] = reason.value
        if detail:
            receipt["detail"] = detail
        return receipt

    def content(self) -> Input | None:
        """The content as long as it is kept, anchor included: the same input if submitted again."""
        kept = self.input
        if kept is not None and (kept.attachments or kept.target_generation_id != self.anchor):
            copy = tuple(fresh_copy(list(kept.attachments)))
            kept = replace(kept, target_generation_id=self.anchor, attachments=copy)
        return kept

    def message(self) -> dict[str, Json]:
        """The message that the context is given."""
        kept = self.input
        if kept is None:
            raise InternalError(f"the content of input {self.id!r} is gone before its write")
        content: Json = kept.text
        if kept.attachments:
            text = [{"type": "text", "text": kept.text}] if kept.text else []
            content = [*text, *fresh_copy(list(kept.attachments))]
        return {
            "role": "user",
            "content": content,
            "metadata": {
                "input_id": self.id,
                "target_generation_id": self.anchor,
                "source": kept.source,
                "delivery": self.delivery.value,
            },
        }

    def facts(self) -> dict[str, Json]:
        """What every event about this input carries."""
        facts: dict[str, Json] = {"input_id": self.id, "delivery": self.delivery.value}
        if self.anchored:
            facts["target_generation_id"] = self.anchor
        return facts
