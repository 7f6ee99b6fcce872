"""The requests of a generation as a plain iterator: nothing is held between its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from midcourse._core.errors import GenerationOver, Misuse

if TYPE_CHECKING:
    from .generation import Generation

__all__ = ["Request", "Requests"]


@final
class Request:
    """One model request that may be made now.

    Attributes:
        number: 1, 2, ... in its generation.
        input_ids: the inputs that the boundary before it wrote, in order.
    """

    __slots__ = ("_generation", "input_ids", "number")

    def __init__(self, generation: Generation, number: int, input_ids: tuple[str, ...]) -> None:
        self._generation = generation
        self.number: int = number
        self.input_ids: tuple[str, ...] = input_ids

    def finish(self, text: str) -> None:
        """Propose to finish with `text`; the next step of the iterator does it.

        Inputs that came in time keep the generation open: then the iterator goes on.

        Raises:
            Misuse: this is not the latest request, or it was proposed to finish with it before.
            GenerationOver: the generation has finished or failed.
        """
        if self._generation._over:
            raise GenerationOver(f"generation {self._generation.id!r} has ended")
        if self.number != self._generation.request_count:
            raise Misuse(f"request {self.number} is not the latest one any more")
        self._generation._propose(text)


@final
class Requests:
    """Made by `Generation.requests`. Each step is a request boundary, and may be the finish."""

    __slots__ = ("_generation",)

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def __aiter__(self) -> Requests:
        return self

    async def __anext__(self) -> Request:
        generation = self._generation
        try:
            over = generation._proposed is not None and await generation._finish_proposed()
            over = over or not await generation.boundary()
        except StopAsyncIteration as error:
            # A write's or a checkpoint's own: it must not pass for the end of this iterator.
            raise RuntimeError("a step of the generation raised StopAsyncIteration") from error
        if over:
            raise StopAsyncIteration
        return Request(generation, generation.request_count, generation._state.request_inputs)
