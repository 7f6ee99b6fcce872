"""One runtime and the loops and threads around it.

A step of the core is made by one thread at a time: while a generation is open or somebody serves,
by the thread of that loop, where other threads bring their calls; else by whoever calls, under a
mutex. So the loop itself never takes a lock on its way.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import RLock, get_ident
from typing import Any, Final, TypeVar, cast, final

import anyio

from ._core.errors import Misuse, RuntimeClosed
from ._engine.backend import Token, enable_ki_protection, primitives

__all__ = ["AGAIN", "Loops", "Waiter"]

_T = TypeVar("_T")

AGAIN: Final[Any] = object()


@final
class Loops:
    """The loop that a runtime is bound to, and the calls that other threads bring to it."""

    __slots__ = ("_calls", "_mutex", "_thread", "_token", "_uses")

    def __init__(self) -> None:
        self._mutex = RLock()
        self._thread: int | None = None
        self._token: Token | None = None
        self._uses = 0
        self._calls: dict[Future[Any], Callable[[], Any]] = {}

    @enable_ki_protection
    def bind(self) -> None:
        """Bind to the calling loop, once more.

        Raises:
            Misuse: the runtime is bound to the loop of another thread.
        """
        with self._mutex:
            if self._thread not in (None, get_ident()):
                raise Misuse("the runtime is in use on the loop of another thread")
            if not self._uses:
                self._token = primitives().lowlevel.current_trio_token()
                self._thread = get_ident()
            self._uses += 1

    @enable_ki_protection
    def unbind(self) -> None:
        """Undo one `bind`; with the last, the calls that were still on their way are made."""
        with self._mutex:
            self._uses -= 1
            token = cast("Token", self._token)  # bound, or there was nothing to undo
            if self._uses:
                return
            self._thread = self._token = None
            for call in list(self._calls):
                self._make(call, token)

    def here(self) -> bool:
        """Whether the calling thread is the one of the loop that the runtime is bound to."""
        return self._thread == get_ident()

    def check(self) -> None:
        """Refuse a caller on the loop of another thread than the runtime's.

        Raises:
            Misuse: the runtime is bound to the loop of another thread.
        """
        if self._thread not in (None, get_ident()):
            raise Misuse("the runtime is in use on the loop of another thread: use from_thread")

    @enable_ki_protection  # every step of the core that a host asks for passes here
    def step(self, step: Callable[[], _T]) -> _T:
        """Make one step of the core, from any thread, and return what it returns.

        On the loop's own thread, or while there is no loop, at once. A step that the loop makes
        for another thread may return `AGAIN`: it is made again when the loop has gone round.

        Raises:
            RuntimeClosed: the loop was closed without closing the runtime.
        """
        if self.here():  # only this thread can unbind: no lock on the loop's own way
            return step()
        with self._mutex:
            if self._token is None:
                return step()
            call: Future[_T] = Future()
            self._calls[call] = step
            self._send(call, self._token)
        return call.result()

    def _send(self, call: Future[Any], token: Token) -> None:
        try:
            token.run_sync_soon(self._make, call, token)
        except RuntimeError as error:  # trio.RunFinishedError is one
            self._calls.pop(call, None)
            call.set_exception(RuntimeClosed(f"the loop of the runtime is gone: {error}"))

    @enable_ki_protection
    def _make(self, call: Future[Any], token: Token) -> None:
        """Make the step of one call, on its loop; does nothing if it was made already.

        `unbind` makes what is left, so a call never outlives the binding that it was sent to.
        """
        with self._mutex:
            step = self._calls.get(call)
            if step is None:
                return
            try:
                made = step()
            except BaseException as error:  # noqa: BLE001  # raised in the thread that called
                del self._calls[call]
                call.set_exception(error)
                return
            if made is AGAIN:
                self._send(call, token)
            else:
                del self._calls[call]
                call.set_result(made)


@final
class Waiter:
    """One task that waits on its own loop, and can be woken from any thread."""

    __slots__ = ("_event", "_thread", "_token")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._thread = get_ident()
        self._token = primitives().lowlevel.current_trio_token()

    async def wait(self) -> None:
        await self._event.wait()

    def wake(self) -> None:
        # A reader must not make a step of the core fail.
        try:
            if get_ident() == self._thread:
                self._event.set()
            else:
                self._token.run_sync_soon(self._event.set)
        except RuntimeError:  # that loop is gone, and with it the task that waited
            pass
