"""The two-step boundary: inputs that a loop took, and has yet to say whether it sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from midcourse._core.record import Record
from midcourse._core.values import Input, Json

if TYPE_CHECKING:
    from .generation import Generation

__all__ = ["Batch"]


@final
class Batch:
    """What `Generation.take` took, in order of acceptance.

    The host puts `messages` into its context and its request; `sent` is its word that the
    request went out, and that is what `applied` rests on then.

    Attributes:
        inputs: their content.
        messages: the messages that the context is to hold, as a boundary would write them.
    """

    __slots__ = ("_generation", "_taken", "inputs", "messages")

    def __init__(self, generation: Generation, taken: list[Record]) -> None:
        self._generation = generation
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
        return self._generation._sent(self._taken)

    def unsent(self) -> bool:
        """The batch provably went nowhere: every input is queued again, in its old place.

        Synchronous, from any thread.

        Returns:
            `False` where nothing changed, as for `sent`.
        """
        return self._generation._unsent(self._taken)
