"""The block around a generation: a scope of its own around a nursery with the drainer.

Leaving it ends the generation first, in one synchronous step, and only then waits for its tasks.
The nursery is left without an exception, and what the body raised is given to the scope, so that
it leaves the block as the object that it was.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TypeVar, final

from midcourse._core.errors import GenerationUnfinished, Misuse
from midcourse._core.generation import GenerationState
from midcourse._core.tables import Cause
from midcourse._core.values import Limits

from .backend import enable_ki_protection, primitives
from .generation import Checkpoint, Context, Generation
from .host_call import only

__all__ = ["GenerationBlock", "Host"]

_T = TypeVar("_T")


class Host(Protocol):
    """What a generation needs of the runtime that opens it. All of it is synchronous."""

    def open(self) -> GenerationState:
        """Make the generation the active one, or refuse."""
        ...

    def bind(self, generation: Generation) -> None:
        """The generation takes inputs from now on; its opening becomes visible."""

    def unbind(self, generation: Generation) -> None:
        """Nothing of the generation is left."""

    def on_loop(self, step: Callable[[], _T], /) -> _T:
        """Make a step on the loop of the generation, from any thread."""
        ...


@final
class GenerationBlock:
    """Made by `LiveRuntime.open_generation`, used once as `async with ... as generation`.

    The block is entered and left in one task. What its body raises leaves it, the same object,
    without the cancellation of a stop, with every other one.
    """

    __slots__ = (
        "_checkpoint",
        "_context",
        "_generation",
        "_host",
        "_k",
        "_limits",
        "_manager",
        "_nursery",
        "_scope",
        "_task",
        "_used",
    )

    def __init__(
        self, host: Host, context: Context, checkpoint: Checkpoint | None, limits: Limits
    ) -> None:
        self._host = host
        self._context = context
        self._checkpoint = checkpoint
        self._limits = limits
        self._used = False

    @enable_ki_protection
    async def __aenter__(self) -> Generation:
        """Open the generation.

        A checkpoint; if it is cancelled, nothing was opened.

        Raises:
            GenerationActive: another generation of the runtime is active.
            SteeringRefused: the runtime is closed, or the initial input is not acceptable.
            Misuse: this block was entered before, or the runtime is in use on another thread.
        """
        if self._used:
            raise Misuse("the block of a generation is used once: open another one")
        self._used = True
        self._k = k = primitives()
        self._task = k.lowlevel.current_task()
        await k.lowlevel.checkpoint()
        state = self._host.open()
        # From here to the end no await: what is open has its drainer when it becomes visible.
        # The scope is our own and outside the nursery: stop cancels it, and it alone knows
        # whether what leaves the block is ours to swallow.
        self._scope = k.CancelScope()
        self._scope.__enter__()
        self._manager = k.open_nursery()
        self._nursery = await self._manager.__aenter__()  # of both backends: it does not wait
        self._generation = generation = Generation(
            k,
            state,
            context=self._context,
            checkpoint=self._checkpoint,
            limits=self._limits,
            on_loop=self._host.on_loop,
            cancel=self._scope.cancel,
        )
        self._nursery.start_soon(generation._drain)
        self._host.bind(generation)
        return generation

    @enable_ki_protection
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        generation, leaving = self._generation, exc
        try:
            if exc is None:
                await self._leave()
        except BaseException as failure:  # noqa: BLE001  # leaves the block below
            leaving = failure
        # I9: published before anything is awaited.
        if leaving is not None:
            generation._end_by(leaving)
        if self._k.lowlevel.current_task() is not self._task:
            # An async generator that is finalised late: scope and nursery are another task's,
            # and nobody but that task could leave them.
            self._part()
            return False
        arrived = await self._unwind()
        if arrived is not None:
            cancelled = self._k.Cancelled
            if (
                leaving is None
                or isinstance(leaving, cancelled)
                or not isinstance(arrived, cancelled)
            ):
                leaving = arrived  # of two cancellations the later one, as everywhere in asyncio
            elif not generation._expired():
                # What the body raised leaves. A scope asks for its cancellation again by itself;
                # a native one is asked for again here, as asyncio.TaskGroup does, so that the
                # next await of the host raises it.
                generation._block.ask_again()
        try:
            if self._scope.__exit__(
                type(leaving) if leaving is not None else None,
                leaving,
                leaving.__traceback__ if leaving is not None else None,
            ):
                return True
            if leaving is None or leaving is exc:
                return False
            raise leaving
        finally:
            del leaving, arrived, exc  # no cycle through the traceback

    async def _leave(self) -> None:
        """The body left normally: finish what was proposed, or say that nobody did."""
        generation = self._generation
        if generation._state.decided:
            return
        if generation._proposed is not None:
            # Admission closes first: nothing is accepted that no request could carry.
            generation._end(Cause.LEAVE)
            await generation._finish_proposed()
        elif generation._expired() or generation._block or generation._step_wanted():
            generation._end(Cause.CANCEL)
        else:
            raise GenerationUnfinished("the block was left without a proposal to finish")

    async def _unwind(self) -> BaseException | None:
        """Leave nothing of the generation behind (I17); what arrived meanwhile, if anything."""
        generation = self._generation
        arrived: BaseException | None = None
        while generation._steps:  # in another task; its write has no more than its grace
            generation._idle = self._k.Event()
            try:
                with self._k.CancelScope(shield=True):
                    await generation._idle.wait()
            except BaseException as exc:  # noqa: BLE001  # leaves the block
                arrived = exc
        # No shield here. Trio's nursery needs none, and one that is raised over a drainer inside
        # checkpoint_if_cancelled() breaks an assertion of Trio's; AnyIO's waits for it all the
        # same, and then raises what arrived.
        try:
            await self._manager.__aexit__(None, None, None)
        except BaseException as exc:  # noqa: BLE001  # leaves the block
            arrived = only(exc)
        finally:
            self._part()
        try:
            return arrived
        finally:
            del arrived  # no cycle through the traceback

    def _part(self) -> None:
        self._generation._sender.close()
        self._host.unbind(self._generation)
