"""The values that a host gives and gets: inputs, receipts, limits.

They are dumb: nothing is checked when one is made. An input is checked, and copied, when it is
submitted (`offer.prepare`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, Literal, TypeAlias, TypedDict, final
from uuid import uuid4

from .errors import InvalidInput

__all__ = ["ContextUnchanged", "Input", "Json", "Limits", "Receipt", "fresh_copy", "new_id"]

Json: TypeAlias = Any
"""A JSON value: `None`, a bool, a finite number, a string, a list or string-keyed dict of such."""


def new_id() -> str:
    """A fresh random id of 32 hexadecimal characters."""
    return uuid4().hex


def fresh_copy(value: Json) -> Json:
    """A copy of a JSON value that shares nothing with it."""
    return json.loads(json.dumps(value))


class ContextUnchanged(Exception):
    """For a context to raise from `add_message`: nothing was written, and nothing will be.

    It is a promise. The input is then `held` (`context_refused`) and not `unknown`.
    """


@final
@dataclass(frozen=True, slots=True)
class Input:
    """One identified thing that a host submits.

    The same `Input` may be submitted again after a lost reply: the id makes it the same one.

    Args:
        kind: `"user"`, `"steer"`, `"service"` or `"stop"`.
        text: at most `Limits.text_chars` characters; empty only beside attachments (or for
            `"stop"`).
        id: the identity, 1 to `Limits.id_chars` characters, unique for the life of the context;
            a fresh random one if left out.
        source: `"user"`, except for `"service"`, which names where the observation comes from
            (1 to `Limits.id_chars` characters, and not `"user"`).
        target_generation_id: the anchor: the one generation that a `"steer"` may affect.
        attachments: JSON values, kept as a tuple, at most `Limits.attachments` of them, together
            at most `Limits.attachment_bytes` bytes of JSON. They are walked when the input is
            submitted, which takes its time for many small values.
    """

    kind: str
    text: str = ""
    id: str = field(default_factory=new_id, kw_only=True)
    source: str = field(default="user", kw_only=True)
    target_generation_id: str | None = field(default=None, kw_only=True)
    attachments: Sequence[Json] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.attachments, list):
            object.__setattr__(self, "attachments", tuple(self.attachments))

    def to_json(self) -> dict[str, Json]:
        """The input as a plain JSON mapping, a fresh copy; `from_json` is its inverse."""
        return {
            "kind": self.kind,
            "text": self.text,
            "id": self.id,
            "source": self.source,
            "target_generation_id": self.target_generation_id,
            "attachments": [fresh_copy(attachment) for attachment in self.attachments],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> Input:
        """Make an input of a mapping from a wire.

        Only the shape is looked at here; the content is checked when the input is submitted.

        Raises:
            InvalidInput: `value` is no mapping, has no `kind`, or has a key that no input has
                (a misspelt key must not drop what a person said).
        """
        if not isinstance(value, Mapping):
            raise InvalidInput(f"an input is a mapping, not {type(value).__name__}")
        names = {f.name for f in fields(cls)}
        input_id = value.get("id") if isinstance(value.get("id"), str) else None
        if strange := sorted(str(key) for key in value if key not in names):
            raise InvalidInput(f"an input has no {', '.join(strange)}", input_id=input_id)
        if "kind" not in value:
            raise InvalidInput("an input needs a kind", input_id=input_id)
        return cls(**value)


class _Accepted(TypedDict):
    accepted: Literal[True]
    inputId: str
    generationId: str | None
    disposition: Literal["queued", "applied", "held", "unknown"]


class Receipt(_Accepted, total=False):
    """What is proven of an accepted input, a plain JSON mapping, a fresh copy each time.

    `accepted` is `True`, `inputId` the id, `disposition` one of `"queued"`, `"applied"`, `"held"`
    and `"unknown"`. `generationId` is the generation that the input belongs to, `None` while it
    waits in the inbox. `reason` (and `detail`, where an error is behind it: its text, at most
    1,000 characters) are there once it is held or unknown.
    """

    reason: str
    detail: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one runtime; the defaults are the contract's.

    Args:
        identities: inputs accepted in the life of the runtime; none is ever evicted.
        pending: inputs that may wait in the boundary queue, and as many in the inbox; also the
            most that one boundary writes.
        text_chars: characters of a text.
        id_chars: characters of an id, and of the name of a source.
        attachments: attachments of one input.
        attachment_bytes: bytes of canonical JSON of all attachments of one input together.
        write_grace: seconds that a running write or checkpoint gets to return once cancellation
            is wanted, before it is told to cancel.
        confirm_timeout: seconds that a context's `confirm` gets.
        event_history: events that are kept for catching up.

    Raises:
        ValueError: a bound that is no whole number (the times: no finite number), or too low:
            the times and `attachments` may be 0, the others are at least 1.
    """

    identities: int = 2000
    pending: int = 128
    text_chars: int = 16_000
    id_chars: int = 128
    attachments: int = 16
    attachment_bytes: int = 8_000_000
    write_grace: float = 5.0
    confirm_timeout: float = 5.0
    event_history: int = 10_000

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            seconds = name in ("write_grace", "confirm_timeout")
            least = 0 if seconds or name == "attachments" else 1
            if not (seconds or type(value) is int) or not least <= value < inf:
                whole = "" if seconds else "; it is a whole number"
                raise ValueError(f"Limits.{name} is at least {least}, not {value!r}{whole}")
