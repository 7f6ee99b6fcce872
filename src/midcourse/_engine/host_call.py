"""A call of host code that nothing tears: a write, a `confirm`, a checkpoint.

It runs in a child task of its own, under a shield. A shield in the host's own task would not do:
a native `Task.cancel()`, `asyncio.timeout`, a crashing `asyncio.TaskGroup` and Ctrl-C pierce it.
The host's task waits beside the child, because it is the only one that sees a native
cancellation; told of one, it asks the child for nothing but to be quick.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVarTuple, Unpack, final

import outcome

from .backend import Cancellations, Primitives, enable_ki_protection

if TYPE_CHECKING:
    import trio

__all__ = ["HostCall", "calling", "is_cancellation", "is_grave", "only"]

calling: ContextVar[HostCall | None] = ContextVar("midcourse_calling", default=None)
"""The call that the current task runs in, or was started from."""

_Args = TypeVarTuple("_Args")


@final
class HostCall:
    """One child task that calls host code, and what came of it.

    Attributes:
        told: whether the last guarded call was told to cancel, whatever it then did.
        error: what is to be raised in the host's task, `None` if nothing is.
    """

    __slots__ = ("_k", "_scope", "error", "told")

    def __init__(self, k: type[Primitives]) -> None:
        self._k = k
        self._scope = k.CancelScope(shield=True)
        self.told = False
        self.error: BaseException | None = None

    def hurry(self, grace: float) -> None:
        """Give the running call `grace` seconds to return; calling it again gives no more."""
        deadline = self._k.current_time() + grace
        self._scope.deadline = min(self._scope.deadline, deadline)

    @enable_ki_protection
    async def run(
        self,
        body: Callable[[Unpack[_Args]], Awaitable[None]],
        *args: *_Args,
        interrupted: Callable[[BaseException], None],
    ) -> None:
        """Run `body` in a child task and wait for its end, whatever happens to the caller.

        Args:
            body: what the child does; it puts what is to be raised here into `error`.
            args: what `body` is called with.
            interrupted: told at once what arrived at the caller while it waited.

        Raises:
            BaseException: what arrived at the caller while it waited, once the child is done;
                else `error`.
        """
        k, arrived = self._k, None
        done = k.Event()
        try:
            async with k.open_nursery() as nursery:
                nursery.start_soon(self._child, body, args, done)
                try:
                    await done.wait()
                except BaseException as exc:  # noqa: BLE001  # raised again below
                    # The nursery is left normally and waits for the child, without hearing of
                    # the same cancellation again. The child awaits only under its own shield, so
                    # this one changes nothing for it.
                    nursery.cancel_scope.shield = True
                    arrived = exc
                    interrupted(exc)
        except BaseException as exc:  # noqa: BLE001  # raised again below
            late = only(exc)
            interrupted(late)
            if arrived is None or isinstance(late, KeyboardInterrupt):
                arrived = late
        error = self.error
        # An error that is no Exception (SystemExit) is not hidden behind a cancellation.
        if error is not None and (arrived is None or is_grave(k, error)):
            arrived = error
        if arrived is not None:
            try:
                raise arrived
            finally:
                del arrived, error, self.error  # no cycle through the traceback

    @enable_ki_protection
    async def _child(
        self,
        body: Callable[[Unpack[_Args]], Awaitable[None]],
        args: tuple[*_Args],
        done: trio.Event,
    ) -> None:
        calling.set(self)  # in the child's own copy of the host's context variables
        try:
            await body(*args)
        finally:
            done.set()

    async def guard(
        self, call: Callable[[Unpack[_Args]], Awaitable[object]], *args: *_Args
    ) -> object:
        """Call host code under the shield, in the child task; fills `told` and `error`.

        Returns:
            What the call returned, `None` if it did not.
        """
        scope = self._scope
        # Who cancels this task past our scope (a loop that is shut down) tells it, too.
        natively = Cancellations(self._k.lowlevel.current_task())
        result: outcome.Maybe[object] | None = None
        try:
            with scope:
                result = await outcome.acapture(call, *args)
                self.told = scope.cancel_called or bool(natively)
                # Raised again inside its own scope: a Cancelled must not leave it.
                return result.unwrap()
        except BaseException as exc:  # noqa: BLE001  # raised in the host's task
            self.error = exc
        finally:
            del result  # no cycle through the traceback
        return None


def is_cancellation(k: type[Primitives], exc: BaseException) -> bool:
    """Whether `exc` is nothing but somebody's wish that the task ends."""
    kinds = (k.Cancelled, KeyboardInterrupt, GeneratorExit)
    if isinstance(exc, BaseExceptionGroup):
        return exc.split(kinds)[1] is None
    return isinstance(exc, kinds)


def is_grave(k: type[Primitives], exc: BaseException) -> bool:
    """Whether `exc` has to travel on, whatever else is under way."""
    return not isinstance(exc, (Exception, k.Cancelled))


def only(exc: BaseException) -> BaseException:
    """The one exception in groups of one: a nursery wraps what arrived while it waited."""
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc
