"""Contexts whose writes do as they are told: slow, failing, half, deaf, or lying low.

They tell a witness of every write that is begun, so that what they did can be held against what
the receipts say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import anyio
from anyio.lowlevel import checkpoint

from midcourse import ContextUnchanged


class WriteFailed(Exception):
    """What a scripted write raises."""


class ForeignCancellation(asyncio.CancelledError):
    """What a context raises that has waited for somebody else's cancelled future."""


class Witness(Protocol):
    """Whoever wants to know what a context did."""

    def writing(self, input_id: str) -> AbstractContextManager[None]:
        """Entered for as long as the write of an input runs."""

    def confirmed(self, input_id: str, answer: bool | None) -> None:
        """Told what a context answered when it was asked about an input."""


async def pause(steps: int) -> None:
    """Take so many steps."""
    for _ in range(steps):
        await checkpoint()


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a scripted write behaves.

    Args:
        pauses: Steps before the message is there, and again so many after it.
        seconds: Virtual seconds that it takes besides.
        error: What it raises, if it raises.
        then: What it does: `return`; `raise` before or `raise_late` after the message is there;
            state that nothing changed (`unchanged`); never return (`hang`); put half a message,
            and the whole one after a pause (`half`); never return, but take cancellation for a
            reason to return, with (`swallow`) or without (`swallow_empty`) the message; not to
            hear of cancellation for 20 s (`deaf`).
    """

    pauses: int = 1
    seconds: float = 0.0
    error: type[BaseException] = WriteFailed
    then: Literal[
        "return", "raise", "raise_late", "unchanged", "hang", "half", "swallow", "swallow_empty",
        "deaf",
    ] = "return"  # fmt: skip


class ScriptedContext:
    """A context whose writes behave as told, input by input."""

    attachment_kinds: Sequence[str] = ()

    def __init__(self, witness: Witness, behaviour: Behaviour | None = None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.default = behaviour or Behaviour()
        self.by_id: dict[str, Behaviour] = {}
        self.fail_next = False
        self.on_write: Callable[[str], Awaitable[object]] | None = None
        self._witness = witness

    async def add_message(self, message: dict[str, Any]) -> None:
        name = message.get("metadata", {}).get("input_id")
        if name is None:
            self.messages.append(message)
            return
        with self._witness.writing(name):
            await self._add(name, message, self.by_id.get(name, self.default))

    async def _add(self, name: str, message: dict[str, Any], behaviour: Behaviour) -> None:
        then = behaviour.then
        await pause(behaviour.pauses)
        if self.on_write is not None:
            await self.on_write(name)
        if self.fail_next:
            self.fail_next = False
            raise WriteFailed(name)
        if then == "raise":
            raise behaviour.error(name)
        if then == "unchanged":
            raise ContextUnchanged(name)
        if behaviour.seconds:
            await anyio.sleep(behaviour.seconds)
        if then == "hang":
            await anyio.sleep_forever()
        if then in ("swallow", "swallow_empty"):
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                if then == "swallow":
                    self.messages.append(message)
                return
        if then == "deaf":
            with anyio.CancelScope(shield=True):
                await anyio.sleep(20)
        if then == "half":
            half = {"role": "user", "content": "", "half": name}
            self.messages.append(half)
            await pause(1)
            self.messages.remove(half)
        self.messages.append(message)
        if then == "raise_late":
            raise behaviour.error(name)
        await pause(behaviour.pauses)

    def holds(self, input_id: str) -> bool:
        return any(m.get("metadata", {}).get("input_id") == input_id for m in self.messages)


class ConfirmingContext(ScriptedContext):
    """A scripted context that knows, or not, what it holds.

    Args:
        answer: `truth`; `None`; `raise`; `hang`; or `late`: yes, when nobody waits any more.
    """

    def __init__(
        self, witness: Witness, behaviour: Behaviour | None = None, *, answer: str | None = "truth"
    ) -> None:
        super().__init__(witness, behaviour)
        self._answer = answer

    async def confirm(self, input_id: str) -> bool | None:
        await pause(1)
        if self._answer == "raise":
            raise WriteFailed(input_id)
        if self._answer == "hang":
            await anyio.sleep_forever()
        if self._answer == "late":
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                return True
        answer = self.holds(input_id) if self._answer == "truth" else None
        self._witness.confirmed(input_id, answer)
        return answer
