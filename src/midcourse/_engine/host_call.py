"""A call of host code that nothing tears: a write, a `confirm`, a checkpoint.

It runs in a child task of its own, under a shield. A shield in the host's own task would not do:
a native `Task.cancel()`, `asyncio.timeout`, a crashing `asyncio.TaskGroup` and Ctrl-C pierce it.
The host's task waits beside the child, because it is the only one that sees a native
cancellation; told of one, it asks the child for nothing but to be quick.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, TypeVarTuple, Unpack, final

import outcome

from .backend import Cancellations, Primitives, enable_ki_protection

if TYPE_CHECKING:
    import trio

__all__ = ["HostCall", "HostCalls", "calling", "is_cancellation", "is_grave", "only", "text_of"]

calling: ContextVar[HostCall | None] = ContextVar("midcourse_calling", default=None)
"""The call that the current task runs in, or was started from."""

_Args = TypeVarTuple("_Args")

TEXT_CHARS = 1000  # of an error: receipts are kept as long as the runtime


@final
class HostCalls:
    """A nursery for calls of host code, one after another, each in a child task of its own.

    Used as `async with`. The block is left when the last child is done, whatever happens to the
    caller meanwhile; then it raises what arrived at the caller, else what a call failed with.
    """

    __slots__ = ("_arrived", "_ended_by", "_k", "_manager", "_nursery", "error")

    def __init__(self, k: type[Primitives], ended_by: Callable[[BaseException], None]) -> None:
        self._k = k
        self._ended_by = ended_by  # told at once what arrives here or leaves a child
        self._arrived: BaseException | None = None
        self.error: BaseException | None = None

    async def __aenter__(self) -> HostCalls:
        self._manager = self._k.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The nursery is left normally: nothing of ours is to be wrapped in a group.
        try:
            await self._manager.__aexit__(None, None, None)
        except BaseException as late:  # noqa: BLE001  # raised again below
            self._arrive(only(late))
        # An error that is no Exception (SystemExit) is not hidden behind a cancellation.
        error, leaving = self.error, exc or self._arrived
        if error is not None and (leaving is None or is_grave(self._k, error)):
            leaving = error
        try:
            if leaving is not None and leaving is not exc:
                raise leaving
        finally:
            del error, leaving, exc, self.error, self._arrived  # no cycle through the traceback

    async def run(
        self,
        body: Callable[[HostCall, Unpack[_Args]], Awaitable[None]],
        *args: *_Args,
        call: HostCall,
    ) -> None:
        """Run `body` in a child task and wait for it, unless something arrives meanwhile.

        Then, or when `call` has an error, the block is to be left.
        """
        done = self._k.Event()
        self._nursery.start_soon(self._child, body, call, args, done)
        try:
            await done.wait()
        except BaseException as exc:  # noqa: BLE001  # raised by the block
            # The block waits for the child without hearing of the same cancellation again. The
            # child awaits only under its own shield, so this one changes nothing for it.
            self._nursery.cancel_scope.shield = True
            self._arrive(exc)

    def _arrive(self, exc: BaseException) -> None:
        if self._arrived is None or isinstance(exc, KeyboardInterrupt):
            self._arrived = exc
        self._ended_by(exc)

    @enable_ki_protection
    async def _child(
        self,
        body: Callable[[HostCall, Unpack[_Args]], Awaitable[None]],
        call: HostCall,
        args: tuple[*_Args],
        done: trio.Event,
    ) -> None:
        calling.set(call)  # in the child's own copy of the host's context variables
        try:
            await body(call, *args)
        except BaseException as exc:  # noqa: BLE001  # raised by the block
            # Nothing may leave the child: the nursery would cancel the calls beside it.
            call.error = exc
            self._ended_by(exc)
        finally:
            self.error, call.error = call.error, None  # no cycle through the traceback
            done.set()


@final
class HostCall:
    """One call of host code in its child task, and what came of it.

    Attributes:
        told: whether it was told to cancel, whatever it then did.
        error: what it raised, `None` if it did not.
    """

    __slots__ = ("_k", "_scope", "error", "told")

    def __init__(self, k: type[Primitives]) -> None:
        self._k = k
        self._scope = k.CancelScope(shield=True)
        self.told: bool = False
        self.error: BaseException | None = None

    def hurry(self, grace: float) -> None:
        """Give the running call `grace` seconds to return; calling it again gives no more."""
        deadline = self._k.current_time() + grace
        self._scope.deadline = min(self._scope.deadline, deadline)

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


def text_of(error: BaseException) -> str:
    """The error's type and text in one string that any wire takes, however odd the error is."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # of an error that cannot be shown, that is what is shown
        text = "an error that cannot be shown"
    return text.encode(errors="backslashreplace").decode()[:TEXT_CHARS]
