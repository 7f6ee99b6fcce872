"""Contexts that misbehave on cue. Each does so at one message, and is a plain list before it.

`at` is the number of the message, from 1; an initial input that the runtime writes is the first.
A context without `answer` has no `confirm`.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, final

import anyio
from anyio.lowlevel import checkpoint

from midcourse import ContextUnchanged

__all__ = [
    "ABSENT",
    "LATE",
    "Answer",
    "FailingContext",
    "GatedContext",
    "HalfContext",
    "HangingContext",
    "ListContext",
    "Message",
    "StubbornContext",
    "UnchangedContext",
    "WriteFailed",
    "YieldingContext",
]

Message = dict[str, Any]


class _Word(Enum):
    ABSENT = "absent"
    LATE = "late"


ABSENT: Literal[_Word.ABSENT] = _Word.ABSENT
"""There is no `confirm`."""
LATE: Literal[_Word.LATE] = _Word.LATE
"""`confirm` never answers."""

Answer = bool | None | Exception | _Word


class WriteFailed(Exception):
    """What a failing context raises."""


class ListContext:
    """A list, with a script for `confirm`.

    Attributes:
        messages: What the context holds.
        begun: The ids of the inputs whose write was begun, in order.
        asked: The ids that `confirm` was asked for.
    """

    def __init__(self, *, at: int = 1, answer: Answer = ABSENT) -> None:
        self.messages: list[Message] = []
        self.begun: list[str | None] = []
        self.asked: list[str] = []
        self._at = at
        self._answer = answer
        if answer is not ABSENT:
            self.confirm = self._confirm

    @property
    def ids(self) -> list[str | None]:
        """The ids of the inputs that the context holds, in order."""
        return [id_of(message) for message in self.messages if "metadata" in message]

    async def add_message(self, message: Message, /) -> None:
        # What the host adds itself (an answer, a tool result) is no input.
        if "metadata" not in message:
            self.messages.append(message)
            return
        self.begun.append(id_of(message))
        if len(self.begun) == self._at:
            await self.misbehave(message)
        else:
            self.messages.append(message)

    async def misbehave(self, message: Message) -> None:
        """What happens instead of the write on cue."""
        self.messages.append(message)

    async def _confirm(self, input_id: str, /) -> bool | None:
        self.asked.append(input_id)
        if isinstance(self._answer, Exception):
            raise self._answer
        if isinstance(self._answer, _Word):
            await anyio.sleep_forever()
        assert self._answer is None or isinstance(self._answer, bool)
        return self._answer


@final
class YieldingContext(ListContext):
    """Lets everybody else run before and after each append."""

    async def add_message(self, message: Message, /) -> None:
        await checkpoint()
        await super().add_message(message)
        await checkpoint()


@final
class FailingContext(ListContext):
    """Raises `error` before it has appended."""

    error: BaseException = WriteFailed("disk full")

    async def misbehave(self, message: Message) -> None:
        raise self.error


@final
class HalfContext(ListContext):
    """Appends, and then raises: the write is there, and nobody can know."""

    error: BaseException = WriteFailed("disk full")

    async def misbehave(self, message: Message) -> None:
        self.messages.append(message)
        raise self.error


@final
class UnchangedContext(ListContext):
    """States that nothing was written."""

    async def misbehave(self, message: Message) -> None:
        raise ContextUnchanged("the conversation is read-only")


@final
class HangingContext(ListContext):
    """Never returns, but can be cancelled.

    Attributes:
        hanging: Set when it hangs.
    """

    def __init__(self, *, at: int = 1, answer: Answer = ABSENT) -> None:
        super().__init__(at=at, answer=answer)
        self.hanging = anyio.Event()

    async def misbehave(self, message: Message) -> None:
        self.hanging.set()
        await anyio.sleep_forever()


@final
class GatedContext(ListContext):
    """Appends when its gate is opened; can be cancelled before.

    Attributes:
        waiting: Set when it waits.
        gate: For the test to set.
    """

    def __init__(self, *, at: int = 1, answer: Answer = ABSENT) -> None:
        super().__init__(at=at, answer=answer)
        self.waiting = anyio.Event()
        self.gate = anyio.Event()

    async def misbehave(self, message: Message) -> None:
        self.waiting.set()
        await self.gate.wait()
        self.messages.append(message)


@final
class StubbornContext(ListContext):
    """Swallows cancellation: it appends when its gate is opened, whatever it is told.

    Attributes:
        waiting: Set when it waits.
        gate: For the test to set.
    """

    def __init__(self, *, at: int = 1, answer: Answer = ABSENT) -> None:
        super().__init__(at=at, answer=answer)
        self.waiting = anyio.Event()
        self.gate = anyio.Event()

    async def misbehave(self, message: Message) -> None:
        self.waiting.set()
        with anyio.CancelScope(shield=True):
            await self.gate.wait()
        self.messages.append(message)


def id_of(message: Message) -> str | None:
    """The input that a message is."""
    found: str | None = message["metadata"]["input_id"]
    return found
