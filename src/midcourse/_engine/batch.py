"""The two-step boundary: inputs that a loop took, and has yet to say whether it sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, final

from midcourse._core.generation import GenerationState
from midcourse._core.record import Record
from midcourse._core.values import Input, Json

__all__ = ["Batch", "OnLoop"]

_T = TypeVar("_T")


class OnLoop(Protocol):
    """Makes a synchronous step on the runtime's loop, from any thread."""

    def __call__(self, step: Callable[[], _T], /) -> _T: ...


@final
class Batch:
    """What `Generation.take` took, in order of acceptance.

    Attributes:
        inputs: their content.
        messages: the messages that the context is to hold, as a boundary would write them.
    """

    __slots__ = ("_on_loop", "_state", "_taken", "inputs", "messages")

    def __init__(self, on_loop: OnLoop, state: GenerationState, taken: tuple[Record, ...]) -> None:
        self._on_loop = on_loop
        self._state = state
        self._taken = taken
        self.inputs: tuple[Input, ...] = tuple(r.content() or Input("") for r in taken)
        self.messages: tuple[dict[str, Json], ...] = tuple(r.message() for r in taken)

    def sent(self) -> bool:
        """The request that carries the batch went out: every input is applied.

        It counts as one request of the generation. Synchronous, from any thread.

        Returns:
            `False` where nothing changed: the batch was given back or sent before, or the
            generation has ended, and with it the batch (`unknown`).
        """
        return self._on_loop(lambda: self._state.sent(self._taken))

    def unsent(self) -> bool:
        """The batch provably went nowhere: every input is queued again, in its old place.

        Returns:
            `False` where nothing changed, as for `sent`.
        """
        return self._on_loop(lambda: self._state.unsent(self._taken))
