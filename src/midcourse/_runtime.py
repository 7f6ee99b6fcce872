"""`LiveRuntime`: what a host imports.

It is the anyio side of the library: it joins the core (`Session`), the engine (`Generation`) and
the loops and threads around them (`Loops`), and decides nothing itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType, TracebackType
from typing import Literal, TypeVar, cast, final

from anyio.lowlevel import checkpoint as anyio_checkpoint

from ._core.errors import InvalidInput, Misuse, RuntimeClosed
from ._core.events import Event
from ._core.generation import GenerationState
from ._core.offer import Offer, prepare
from ._core.record import Record
from ._core.session import Session
from ._core.tables import Kind, Mode
from ._core.values import Input, Json, Limits, Receipt
from ._core.values import new_id as random_id
from ._engine.backend import disable_ki_protection, enable_ki_protection
from ._engine.block import GenerationBlock
from ._engine.generation import Checkpoint, Context, Generation
from ._loops import AGAIN, Loops, Waiter
from ._subscription import Subscription

__all__ = ["FromThread", "LiveRuntime"]

_T = TypeVar("_T")

_log = logging.getLogger("midcourse")

Turn = Callable[[Generation], Awaitable[object]]

GENERATION_ID_CHARS = 128

_SETTLES = frozenset(
    ("steering.applied", "steering.held", "steering.unknown",
     "input.delivered", "input.held", "input.unknown")
)  # fmt: skip


class _NothingWaits(Exception):
    """What waited for `serve` was held, or another generation was opened, in the meantime."""


@final
class _Host:
    """What one generation needs of its runtime (`midcourse._engine.generation.Host`)."""

    __slots__ = ("_open", "_runtime", "_state")

    def __init__(self, runtime: LiveRuntime, open: Callable[[], GenerationState]) -> None:
        self._runtime = runtime
        self._open = open

    def open(self) -> GenerationState:
        loops = self._runtime._loops
        loops.bind()
        try:
            self._state = self._open()
        except BaseException:
            loops.unbind()
            raise
        return self._state

    def bind(self, generation: Generation) -> None:
        self._runtime._generation = generation
        self._runtime._session.started(self._state)

    def unbind(self, generation: Generation) -> None:
        # Another generation may be open by now: only what is ours is undone.
        if self._runtime._generation is generation:
            self._runtime._generation = None
        self._runtime._loops.unbind()
        # Outside every step, because handlers are host code; ids and words, never content.
        _log.debug(
            "session %s: generation %s %s (%s) after %d requests",
            self._runtime.session_id,
            generation.id,
            generation.outcome,
            generation.reason,
            generation.request_count,
        )

    def on_loop(self, step: Callable[[], _T], /) -> _T:
        return self._runtime._loops.step(step)


@final
class LiveRuntime:
    """One session: a conversation that runs, and the way in for whoever corrects it.

    It may be made anywhere, before a loop runs, too. `async with` closes it at the end. A
    generation binds it to its loop; in between it may be used from another one.

    Args:
        session_id: names the session in its events; a fresh random id if left out.
        mode: `"unavailable"` where the host's way of running cannot honour anchors.
        limits: the bounds.
        new_id: makes the ids of generations: 1 to 128 characters, each one new.
        clock: seconds since the epoch, for the times of events; it must not raise.

    Attributes:
        session_id: as given or made.
        capability: `live.steering`, a live, read-only view: `version`, `mode`, `cancellable` and
            `submit`.
        from_thread: the calls for other threads.
    """

    __slots__ = (
        "__weakref__",
        "_capability",
        "_generation",
        "_limits",
        "_loops",
        "_new_id",
        "_session",
        "_settling",
        "_stopping",
        "_waiters",
        "capability",
        "from_thread",
        "session_id",
    )

    def __init__(
        self,
        *,
        session_id: str | None = None,
        mode: Literal["request_boundary", "unavailable"] = "request_boundary",
        limits: Limits | None = None,
        new_id: Callable[[], str] = random_id,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.session_id: str = random_id() if session_id is None else session_id
        self._limits = Limits() if limits is None else limits
        self._new_id = new_id
        self._session = Session(
            self.session_id,
            mode=Mode(mode),
            limits=self._limits,
            clock=clock,
            notify=self._notify,
        )
        self._generation: Generation | None = None
        self._loops = Loops()
        self._waiters: set[Waiter] = set()  # woken by every event
        self._settling: dict[str, set[Waiter]] = {}  # woken when their input is settled
        self._stopping = False  # `serve` is to return
        self._capability: dict[str, object] = {
            "version": 1,
            "mode": self._session.mode.value,
            "cancellable": False,
            "submit": self.submit_steering,
        }
        self.capability: Mapping[str, object] = MappingProxyType(self._capability)
        self.from_thread: FromThread = FromThread(self)

    async def __aenter__(self) -> LiveRuntime:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    # ------------------------------------------------------------------------- reading

    @property
    def closed(self) -> bool:
        """Whether the runtime was closed."""
        return self._session.closed

    @property
    def generation(self) -> Mapping[str, str] | None:
        """The active generation, `None` between generations.

        A read-only mapping with `"id"`, which anchors a steer, and `"initial_input_id"`.
        """
        active = self._session.active
        if active is None:
            return None
        return MappingProxyType({"id": active.id, "initial_input_id": active.initial.id})

    def receipt(self, input_id: str) -> Receipt | None:
        """The current receipt of an input, `None` if none of this id was accepted."""
        record = self._session.record(input_id)
        return None if record is None else record.receipt()

    def receipts(self) -> list[Receipt]:
        """The current receipts of all accepted inputs, in order of acceptance."""
        return [record.receipt() for record in self._session.records()]

    def pending(self) -> list[Receipt]:
        """The receipts of those that are still queued, in order of acceptance."""
        return [record.receipt() for record in self._session.records() if not record.settled]

    def input(self, input_id: str) -> Input | None:
        """The content of a queued, held or unknown input, to be offered to a person again.

        `None` for an applied one, of which only a digest is kept, and for an unknown id. The
        runtime itself never submits anything again.
        """
        record = self._session.record(input_id)
        return None if record is None else record.content()

    async def settled(self, input_id: str) -> Receipt:
        """Wait until an accepted input is settled.

        A checkpoint; cancelling it changes nothing. Closing the runtime settles everything, so
        this never waits for ever.

        Raises:
            KeyError: no input of this id was accepted (the initial input that a host passes to
                `open_generation` was not: the events of its generation tell of it).
        """
        await anyio_checkpoint()
        record = self._session.record(input_id)
        if record is None:
            raise KeyError(input_id)
        waiters = self._settling.setdefault(input_id, set())
        try:
            await self._until(lambda: record.settled, waiters)
        finally:
            if not waiters and self._settling.get(input_id) is waiters:
                del self._settling[input_id]
        return record.receipt()

    # ----------------------------------------------------------------------- submitting

    async def submit(self, given: Input, /) -> Receipt:
        """Submit an input of any kind.

        An anchored steer goes to its generation or is refused. An ordinary steer or service
        input joins the active generation while its admission is open, else it waits in the inbox,
        as a user input always does. A stop is obeyed at once; its receipt is `held`, for it is
        written nowhere; a closed runtime refuses it like any other input.

        A checkpoint before admission, none after it: if this raises cancellation, nothing was
        accepted. It waits for the submitters before it, and for nothing else. The same input
        again gets the receipt that it has by now.

        Raises:
            SteeringRefused: with its code; nothing was recorded.
            Misuse: called on the loop of another thread than the runtime's.
        """
        return await self._submit(prepare(given, None, anchored=False, limits=self._limits))

    async def submit_steering(self, given: Input, generation_id: str | None = None, /) -> Receipt:
        """Submit a steer anchored to a generation, in the call or in the input.

        As `submit`, but it reaches this generation or none: it never waits in the inbox.

        Raises:
            SteeringRefused: with its code; nothing was recorded.
            Misuse: called on the loop of another thread than the runtime's.
        """
        return await self._submit(prepare(given, generation_id, anchored=True, limits=self._limits))

    async def _submit(self, offer: Offer) -> Receipt:
        loops = self._loops
        loops.check()
        if self._generation is None:
            await anyio_checkpoint()
            loops.check()
        # Which loop has the runtime is asked again after every wait: here, or in the step.
        generation = self._generation if loops.here() else None
        if generation is None:
            return loops.step(lambda: self._admit_or_again(offer))
        return await generation._submit(lambda: loops.step(lambda: self._admit(offer)))

    def _admit(self, offer: Offer) -> Receipt | None:
        """Decide, hand off, record: one synchronous step, the whole of admission.

        `None` if the drainer is not parked yet; then nothing has happened (I12).
        """
        session = self._session
        if offer.input.kind == Kind.STOP:
            receipt = session.stop_receipt(offer)
            self._stop()
            return receipt
        place = session.place(offer)
        if isinstance(place, Record):
            return place.receipt()
        if place is not None:
            generation = self._generation
            if generation is None or not generation._hand_off(offer):
                return None
        return session.accept(offer, place).receipt()

    def _admit_or_again(self, offer: Offer) -> Receipt:
        """`_admit` as a step that the loop makes for another thread."""
        crowded = self._generation is not None and self._generation._crowded
        receipt = None if crowded else self._admit(offer)  # others came before
        return cast("Receipt", AGAIN) if receipt is None else receipt

    # ------------------------------------------------------------------- stopping, closing

    def stop(self) -> None:
        """Stop the active generation, hold everything that waits, make `serve` return.

        Synchronous, and legal in any task, callback of the loop, write, checkpoint or thread; on
        an idle or a closed runtime it does nothing. After it nothing is delivered. The body of
        the generation is cancelled, and its block ends quietly. A write that is running gets its
        grace.

        A handler of `signal.signal` is none of these places: it may interrupt the library, or the
        event loop, in the middle of anything. Receive signals as the loop does it
        (`trio.open_signal_receiver`, `loop.add_signal_handler`) and call this there.
        """
        self._loops.step(self._stop)

    def _stop(self) -> None:
        self._stopping = True
        self._end(self._session.stop)

    async def aclose(self) -> None:
        """Close the runtime for good, and wait until every input is settled.

        Everything is refused and held at once, even if the wait is cancelled. A checkpoint.
        Called by a write or a checkpoint of the generation, it does not wait for that.
        """
        self._loops.step(self._close)
        await anyio_checkpoint()
        if self._generation is None or not self._generation._calling:
            await self._until(lambda: self._session.active is None, self._waiters)

    def _close(self) -> None:
        self._capability["mode"] = Mode.UNAVAILABLE.value
        self._end(self._session.close)

    def _end(self, end: Callable[[], None]) -> None:
        active = self._session.active
        end()
        if active is not None and self._generation is not None:
            self._generation._ended()
        self._wake(self._waiters)

    # ----------------------------------------------------------------------- generations

    def open_generation(
        self,
        initial: Input,
        /,
        *,
        context: Context,
        checkpoint: Checkpoint | None = None,
        max_requests: int | None = None,
        initial_written: bool = False,
    ) -> GenerationBlock:
        """Open a generation: `async with runtime.open_generation(...) as generation`.

        Args:
            initial: what begins it; it takes no identity, and is written first. Its id must not
                be one already accepted, and no other input may ever have it: `confirm` is asked
                by id, and the runtime does not remember those of past generations.
            context: where the conversation is kept: `async add_message(message)`, optionally
                `async confirm(input_id) -> bool | None` and `attachment_kinds`.
            checkpoint: the host's durable save, called as `await checkpoint(generation)`.
            max_requests: the call budget, at least 1; `None` for no bound.
            initial_written: whether the host has written `initial` itself.

        Raises:
            InvalidInput: `initial` is malformed, anchored or a stop.
            ValueError: `max_requests` is less than 1.

        Entering the block raises `GenerationActive`, `RuntimeClosed`, `IdentityConflict`, or
        `InvalidInput` for an attachment that the context does not take.
        """
        offer = prepare(initial, None, anchored=False, limits=self._limits)
        if offer.anchored or offer.input.kind == Kind.STOP:
            raise InvalidInput(
                "an anchored steer or a stop begins no generation", input_id=offer.input.id
            )
        kinds = _attachment_kinds(context)
        _check_budget(max_requests)

        def open() -> GenerationState:
            return self._session.open(
                offer,
                self._fresh_id(),
                attachment_kinds=kinds,
                max_requests=max_requests,
                initial_written=initial_written,
            )

        return GenerationBlock(_Host(self, open), context, checkpoint, self._limits)

    @enable_ki_protection
    async def serve(
        self,
        turn: Turn,
        /,
        *,
        context: Context,
        checkpoint: Checkpoint | None = None,
        max_requests: int | None = None,
    ) -> None:
        """Run a generation for each input of the inbox, one after another, until stopped.

        Args:
            turn: the host's loop over `generation.requests()`, called as `turn(generation)`.
            context: as for `open_generation`.
            checkpoint: as for `open_generation`.
            max_requests: the call budget of each generation.

        Returns when `stop` is called or the runtime is closed. A checkpoint. Cancelling it
        detaches the generation that runs; what waits in the inbox stays there, and waits for the
        next `serve`. So it does when an exception of `turn` leaves this.

        Raises:
            RuntimeClosed: the runtime is closed already.
            Misuse: somebody serves already, or the runtime is in use on another thread's loop.
            Exception: what `turn` raised.
        """
        session, kinds = self._session, _attachment_kinds(context)
        _check_budget(max_requests)
        if session.closed:
            raise RuntimeClosed("the runtime is closed")
        if session.serving is not None:
            raise Misuse("this runtime is served already")

        def open_next() -> GenerationState:
            state = None
            if session.active is None and not session.closed and not self._stopping:
                state = session.open_next(
                    self._fresh_id(), attachment_kinds=kinds, max_requests=max_requests
                )
            if state is None:
                raise _NothingWaits
            return state

        def ready() -> bool:
            waits = bool(session.inbox) and session.active is None
            return waits or self._stopping or session.closed

        self._loops.bind()
        session.serving, self._stopping = kinds, False
        try:
            await anyio_checkpoint()
            while True:
                await self._until(ready, self._waiters)
                if self._stopping or session.closed:
                    return
                block = GenerationBlock(_Host(self, open_next), context, checkpoint, self._limits)
                try:
                    async with block as generation:
                        await _interruptible(turn, generation)
                except _NothingWaits:
                    continue
        finally:
            session.serving = None
            self._loops.unbind()

    def _fresh_id(self) -> str:
        fresh = self._new_id()
        if not isinstance(fresh, str) or not 1 <= len(fresh) <= GENERATION_ID_CHARS:
            raise ValueError(f"new_id has to make ids, not {fresh!r}")
        return fresh

    # --------------------------------------------------------------------------- events

    def events(self, after: int = 0) -> list[Event]:
        """The kept events with greater sequence numbers than `after`, in order."""
        return self._loops.step(lambda: list(self._session.log.after(after)))

    def subscribe(self, *, after: int | None = None, buffer: int = 1000) -> Subscription:
        """Read the events as they come, in a task of one's own.

        Args:
            after: begin behind this sequence number, as far as the history reaches; 0 for its
                start, `None` for what comes from now on; at least 0.
            buffer: how many events the reader may be behind before it sees a `Gap`; the
                history bounds it, too.
        """
        if buffer < 1:
            raise ValueError(f"a buffer holds at least 1 event, not {buffer!r}")
        if after is not None and after < 0:
            raise ValueError(f"events are numbered from 1: after is at least 0, not {after!r}")
        log, session = self._session.log, self._session
        return Subscription(
            log,
            after=log.last if after is None else after,
            buffer=buffer,
            over=lambda: session.closed and session.active is None,
            until=lambda ready: self._until(ready, self._waiters),
            step=self._loops.step,
            wake=lambda: self._wake(self._waiters),
        )

    def _notify(self, type: str, data: Mapping[str, Json]) -> None:
        """Wake who waits for an event. It calls no host code and never waits."""
        if self._waiters:
            self._wake(self._waiters)
        if self._settling and type in _SETTLES:
            self._wake(self._settling.get(data["input_id"], ()))

    def _wake(self, waiters: Collection[Waiter]) -> None:
        for waiter in tuple(waiters):  # another thread may leave it meanwhile
            waiter.wake()

    async def _until(self, ready: Callable[[], bool], waiters: set[Waiter]) -> None:
        """Wait until `ready()`; not a checkpoint if it is so already."""
        while not self._loops.step(ready):
            waiter = Waiter()  # of the calling task's loop, whichever the step is made on

            def register(waiter: Waiter = waiter) -> bool:
                # Looked at once more, in the step that registers: no wake-up is lost in between.
                if ready():
                    return False
                waiters.add(waiter)
                return True

            if not self._loops.step(register):
                return
            try:
                await waiter.wait()
            finally:
                waiters.discard(waiter)


@final
class FromThread:
    """The calls of a runtime for other threads than its loop's: `runtime.from_thread`.

    Each gives what its namesake gives, with the same refusals. They wait for the loop to make the
    step and for nothing else; when the runtime closes meanwhile, they are refused
    (`runtime_closed`). A thread that gave up waiting submits the same input again.
    `generation`, `events` and `stop` of the runtime itself may be called on any thread.
    """

    __slots__ = ("_runtime",)

    def __init__(self, runtime: LiveRuntime) -> None:
        self._runtime = runtime

    def submit(self, given: Input, /) -> Receipt:
        """As `LiveRuntime.submit`."""
        runtime = self._runtime
        return self._submit(prepare(given, None, anchored=False, limits=runtime._limits))

    def submit_steering(self, given: Input, generation_id: str | None = None, /) -> Receipt:
        """As `LiveRuntime.submit_steering`."""
        runtime = self._runtime
        return self._submit(prepare(given, generation_id, anchored=True, limits=runtime._limits))

    def _submit(self, offer: Offer) -> Receipt:
        return self._step(lambda: self._runtime._admit_or_again(offer))

    def stop(self) -> None:
        """As `LiveRuntime.stop`."""
        self._runtime.stop()

    def receipt(self, input_id: str) -> Receipt | None:
        """As `LiveRuntime.receipt`."""
        return self._step(lambda: self._runtime.receipt(input_id))

    def receipts(self) -> list[Receipt]:
        """As `LiveRuntime.receipts`."""
        return self._step(self._runtime.receipts)

    def pending(self) -> list[Receipt]:
        """As `LiveRuntime.pending`."""
        return self._step(self._runtime.pending)

    def input(self, input_id: str) -> Input | None:
        """As `LiveRuntime.input`."""
        return self._step(lambda: self._runtime.input(input_id))

    def _step(self, step: Callable[[], _T]) -> _T:
        if self._runtime._loops.here():
            raise Misuse("from_thread is for other threads than the loop's own")
        return self._runtime._loops.step(step)


@disable_ki_protection
async def _interruptible(turn: Turn, generation: Generation) -> None:
    """The host's part of `serve`, where Ctrl-C may land as in any code of its own."""
    await turn(generation)


def _attachment_kinds(context: Context) -> frozenset[str]:
    # Taken once, as a set: what the host changes later changes nothing.
    kinds: Collection[str] | None = getattr(context, "attachment_kinds", None)
    return frozenset((kinds,) if isinstance(kinds, str) else kinds or ())


def _check_budget(max_requests: int | None) -> None:
    if max_requests is not None and (type(max_requests) is not int or max_requests < 1):
        raise ValueError(f"max_requests is a whole number, at least 1, not {max_requests!r}")
