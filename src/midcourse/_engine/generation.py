"""One running generation: the drainer, the boundary, the finish, the end.

The way of an input: the runtime decides (`Session.place`), hands it to the parked drainer
(`_hand_off`) and records it, in one synchronous step. `boundary` takes the checkpoint lock and
writes what waits, each write in a child task (`HostCall`) that settles it. `finish` saves under
the same lock, then decides in one step whether the generation goes on. Every end, whoever brings
it, goes through `_end`: state first, then the channel, then a running call is asked to hurry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from threading import get_ident
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, final

from midcourse._core.errors import GenerationBusy, GenerationOver, Misuse
from midcourse._core.generation import GenerationState
from midcourse._core.record import Record
from midcourse._core.tables import Cause, Outcome, Phase, WriteEnd
from midcourse._core.values import ContextUnchanged, Json, Limits

from .backend import Cancellations, Primitives, enable_ki_protection
from .batch import Batch
from .host_call import HostCall, HostCalls, calling, is_cancellation, is_grave, text_of
from .requests import Requests

if TYPE_CHECKING:
    import trio

__all__ = ["Checkpoint", "Context", "Generation"]

_T = TypeVar("_T")


class Context(Protocol):
    """What a host keeps its conversation in. `confirm` and `attachment_kinds` are optional."""

    async def add_message(self, message: dict[str, Json], /) -> object:
        """Append one message. It should be cancellable, and change all or nothing."""


class OnLoop(Protocol):
    """Makes a synchronous step on the loop of the generation, from any thread."""

    def __call__(self, step: Callable[[], _T], /) -> _T: ...


Checkpoint: TypeAlias = "Callable[[Generation], Awaitable[object]]"
"""The host's durable save."""


@final
class Generation:
    """One finite turn of an agent, and the only way in for what corrects it.

    Entering the block of `LiveRuntime.open_generation` makes it. A generation that was stopped,
    or whose call budget is spent, ends quietly; `outcome` and `reason` tell.
    """

    __slots__ = (
        "__weakref__",
        "_block",
        "_busy",
        "_call",
        "_cancel",
        "_cancellations",
        "_context",
        "_idle",
        "_k",
        "_left",
        "_limits",
        "_lock",
        "_on_loop",
        "_proposed",
        "_receiver",
        "_save",
        "_sender",
        "_state",
        "_steered",
        "_steps",
        "_thread",
        "_turn",
    )

    def __init__(
        self,
        k: type[Primitives],
        state: GenerationState,
        *,
        context: Context,
        checkpoint: Checkpoint | None,
        limits: Limits,
        on_loop: OnLoop,
        cancel: Callable[[], object],
    ) -> None:
        self._k = k
        self._state = state
        self._context = context
        self._save = checkpoint
        self._limits = limits
        self._on_loop = on_loop
        self._cancel = cancel  # the body
        self._sender, self._receiver = k.open_memory_channel(0)
        self._turn = k.Lock()  # submitters that found the drainer not parked, in order
        self._steered = k.Event()
        self._lock = k.Lock()  # the checkpoint lock
        self._thread = get_ident()
        self._steps = 0  # how many steps run or wait for the lock
        self._busy = False  # one of them is a boundary or a finish
        self._left = False  # an exception has left one
        self._idle: trio.Event | None = None  # somebody waits until no step runs
        self._block = self._cancellations = Cancellations(k.lowlevel.current_task())
        self._call: HostCall | None = None
        self._proposed: str | None = None

    # ------------------------------------------------------------------------ reading

    @property
    def id(self) -> str:
        """The id that anchors a steer to this generation."""
        return self._state.id

    @property
    def text(self) -> str | None:
        """The text last proposed to finish with, `None` before; whatever came of it."""
        return self._state.text

    @property
    def outcome(self) -> str | None:
        """`"finished"`, `"failed"` or `"detached"`; `None` until the terminal event."""
        outcome = self._state.outcome
        return None if outcome is None else outcome.value

    @property
    def reason(self) -> str | None:
        """Why it did not finish, a held reason of the contract; `None` if it did, or still runs."""
        return self._state.reason

    @property
    def request_count(self) -> int:
        """How many requests were begun."""
        return self._state.requests

    # ---------------------------------------------------------------------- the channel

    @enable_ki_protection
    async def _drain(self) -> None:
        """Receive and wake. The open end is the open admission.

        Every way out closes the end, and with it the generation, so that no submitter is ever
        parked for ever.
        """
        k = self._k
        try:
            while True:
                await self._receiver.receive()
                self._steered.set()
        except (k.ClosedResourceError, k.Cancelled):
            pass  # admission was closed, or this task does as it is told: it ends
        finally:
            if self._state.admitting:
                self._end(Cause.CANCEL)
                self._cancel()

    @property
    def _crowded(self) -> bool:
        """Whether submitters wait already."""
        return self._turn.locked()

    def _hand_off(self, offer: object) -> bool:
        """Give the parked drainer one input: the moment of admission.

        Returns:
            `False` if the drainer is not parked yet. Nothing has happened then: wait, and
            decide again.
        """
        try:
            self._sender.send_nowait(offer)
        except self._k.WouldBlock:
            return False
        return True

    @enable_ki_protection
    async def _submit(self, admit: Callable[[], _T | None]) -> _T:
        """Call `admit` until it decides; submitters that have to wait are served in order.

        A checkpoint. Every point where a submitter can be suspended lies before the hand-off
        that `admit` makes, and after it there is none (I12). The drainer parks again within a
        few steps of the scheduler, whatever the loop does (I13).
        """
        turn = self._turn
        await self._k.lowlevel.checkpoint()
        if turn.locked():
            await turn.acquire()
        else:
            turn.acquire_nowait()
        try:
            while (decided := admit()) is None:
                await self._k.lowlevel.checkpoint()
            return decided
        finally:
            turn.release()

    async def wait_steered(self) -> None:
        """Wait until an input waits for the next boundary, or the generation is ending.

        For a cooperative tool that can return early. Nothing is cancelled for it, and nothing
        is promised of what the next boundary will find. A checkpoint; cancelling it changes
        nothing.
        """
        self._check_thread()
        await self._k.lowlevel.checkpoint()
        while self._state.admitting and not self._state.steered:
            self._steered = self._k.Event() if self._steered.is_set() else self._steered
            await self._steered.wait()

    # ---------------------------------------------------------------------------- steps

    @enable_ki_protection
    async def boundary(self) -> bool:
        """Write what waits, in order of acceptance: the point just before a model request.

        A checkpoint. Whatever exception leaves it ends the generation: a cancellation detaches
        it, a failed write fails it. A running write is not torn by cancelling this; it gets
        `Limits.write_grace` seconds. At most `Limits.pending` inputs are written, those that are
        accepted meanwhile included.

        Returns:
            `True`: make the request. `False`: make none, the generation is over (stopped or
            closed, or its call budget is spent).

        Raises:
            GenerationBusy: another step of the generation is under way.
            GenerationOver: it has ended, by a finish or by what an earlier step raised.
            Exception: what the context's `add_message` raised.
        """
        self._check_next()
        return await self._alone(self._write_pending)

    @enable_ki_protection
    async def finish(self, text: str) -> bool:
        """Save, then finish with `text` unless inputs were accepted in time.

        A checkpoint, in both senses. Submissions go on being accepted while the host's
        checkpoint runs; whether the generation goes on is decided after it. Whatever exception
        leaves it ends the generation.

        Args:
            text: the final answer; it stays readable as `text`, whatever comes of it.

        Returns:
            `True`: finished. `False`: not; go on to the next boundary, which tells whether a
            request follows.

        Raises:
            TypeError: `text` is no string.
            Misuse: no request is open, or it was proposed to finish with it before.
            GenerationBusy: another step of the generation is under way.
            GenerationOver: it has ended, by a finish or by what an earlier step raised.
            Exception: what the checkpoint raised.
        """
        self._propose(text)
        return await self._finish_proposed()

    @enable_ki_protection
    async def checkpoint(self) -> None:
        """Save now, through the checkpoint that the generation was opened with.

        It takes the lock that boundaries and the finish take, so a save never sees half a
        batch. A checkpoint in both senses; what leaves it ends the generation, as for
        `boundary`.

        Raises:
            GenerationBusy: called by a write or a checkpoint, it would wait for itself.
            GenerationOver: it has ended, by a finish or by what an earlier step raised.
            Exception: what the host's checkpoint raised.
        """
        if self._calling:
            raise GenerationBusy("a write or checkpoint cannot wait for its own end")
        await self._step(self._save_only, None)

    def requests(self) -> Requests:
        """The requests of this generation; each step of the iterator is a request boundary."""
        return Requests(self)

    def take(self) -> Batch:
        """Take what waits, for a request that the host itself sends.

        For loops that the runtime does not own. Synchronous, and legal from any thread. Empty
        when nothing waits, or no request may follow: `outcome` tells which, and a host looks at it
        before it sends. Exactly one of `Batch.sent`,
        `Batch.unsent` or the end of the generation settles the batch.

        Raises:
            GenerationBusy: a boundary, a finish or another batch is under way.
        """
        return self._on_loop(self._take)

    def _take(self) -> Batch:
        state = self._state
        self._check_next()
        if self._busy:
            raise GenerationBusy("a boundary or a finish of this generation is under way")
        self._end_if_spent()
        return Batch(self, state.take() if state.admitting else [])

    def _sent(self, taken: list[Record]) -> bool:
        return self._on_loop(lambda: self._state.sent(taken))

    def _unsent(self, taken: list[Record]) -> bool:
        def unsent() -> bool:
            given_back = self._state.unsent(taken)
            self._steered.set()  # they wait again
            return given_back

        return self._on_loop(unsent)

    def _propose(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"the text to finish with is a str, not {type(text).__name__}")
        self._check_alone()
        state = self._state
        if state.decided:
            if not self._over:
                state.propose(text)  # it came too late, but the answer is kept
            return  # the next step tells how it ended
        if self._proposed is not None or not state.proposable:
            begun = "each request can be proposed to finish with once: make another one"
            raise Misuse(begun if state.requests else "no request was begun yet")
        state.propose(text)
        self._proposed = text

    @enable_ki_protection
    async def _finish_proposed(self) -> bool:
        return await self._alone(self._save_and_finish)

    async def _alone(self, step: Callable[[str | None], Awaitable[bool]]) -> bool:
        """Make a boundary or a finish: one at a time."""
        self._check_alone()
        self._busy = True
        proposed, self._proposed = self._proposed, None
        try:
            return await self._step(step, proposed)
        finally:
            self._busy = False

    def _check_thread(self) -> None:
        """Refuse a step from the loop of another thread: `Session` is this thread's by now."""
        if get_ident() != self._thread:
            raise Misuse("a generation is stepped on the loop that it was opened on")

    def _check_next(self) -> None:
        """Refuse to go on to the next request beside what has to be decided before it."""
        if self._proposed is not None:
            raise Misuse("a proposal to finish waits: take the next step of requests()")
        if self._state.batch_out:
            raise GenerationBusy("a taken batch is neither sent nor given back yet")

    def _check_alone(self) -> None:
        if self._busy or self._calling:  # the lock would be waited for by its holder
            raise GenerationBusy("a boundary or a finish of this generation is under way")

    async def _step(
        self, step: Callable[[str | None], Awaitable[bool]], proposed: str | None
    ) -> bool:
        """Make one step under the checkpoint lock; what leaves it is the end."""
        self._check_thread()
        k, state = self._k, self._state
        if self._over:
            await k.lowlevel.checkpoint()  # a cancellation goes before our complaint
            raise GenerationOver(f"generation {state.id!r} has ended")
        cancellations = Cancellations(k.lowlevel.current_task())
        self._steps += 1
        try:
            await k.lowlevel.checkpoint()
            try:
                self._lock.acquire_nowait()
            except k.WouldBlock:
                await self._lock.acquire()
            try:
                self._cancellations = cancellations
                return not state.decided and await step(proposed)
            finally:
                self._call = None
                self._lock.release()
        except BaseException as exc:
            self._left = True
            self._end_by(exc)
            raise
        finally:
            self._steps -= 1
            if self._idle is not None:
                self._idle.set()

    @property
    def _over(self) -> bool:
        """Whether it has ended by what its host did, so that a further step is misuse."""
        return self._left or self._state.outcome is Outcome.FINISHED

    @property
    def _calling(self) -> bool:
        """Whether the caller is the write or checkpoint that runs, or was started by it."""
        return self._call is not None and self._call is calling.get()

    # ----------------------------------------------------------------- steps, under the lock

    async def _write_pending(self, proposed: str | None) -> bool:
        state = self._state
        self._end_if_spent()
        state.begin_boundary()
        room = self._limits.pending
        if state.next_write() is not None:
            async with HostCalls(self._k, self._end_by) as calls:
                # Control comes back here between writes: only this task sees a native
                # cancellation. A write that did not return unchallenged ends the generation,
                # and then there is no next one.
                while room and (record := state.next_write()) is not None:
                    await self._call_host(calls, self._write, record)
                    room -= record is not state.initial
        if await self._is_over():
            return False
        state.begin_request()
        return True

    async def _write(self, call: HostCall, record: Record) -> None:
        """Write one input, in the child task, and settle it."""
        state = self._state
        # Synchronously before the write: nothing is begun once cancellation is wanted (I4).
        if self._wanted():
            self._end(Cause.CANCEL)
            return
        message = state.begin(record)
        end, confirmed, text = WriteEnd.RAISED, None, ""
        try:
            await call.guard(lambda: self._context.add_message(message))
            if call.error is None and not call.told:
                end = WriteEnd.RETURNED
                return
            self._end_after(call)
            text = "" if call.error is None else text_of(call.error)
            if not call.told and isinstance(call.error, ContextUnchanged):
                end = WriteEnd.UNCHANGED
            else:
                end = WriteEnd.TOLD if call.told else WriteEnd.RAISED
                confirmed = await self._confirm(call, record.id)
        finally:
            # I1: however this is left, the write that was begun is settled.
            state.settle(record, end, confirmed, text)

    async def _confirm(self, call: HostCall, input_id: str) -> bool | None:
        """What the context says of an input whose write did not return unchallenged."""

        async def ask() -> object:
            confirm = getattr(self._context, "confirm", None)
            return None if confirm is None else await confirm(input_id)

        question = HostCall(self._k)
        question.hurry(self._limits.confirm_timeout)
        answer = await question.guard(ask)
        if question.error is not None and is_grave(self._k, question.error):
            call.error = question.error
        # Only a plain answer in time is one; anything else proves nothing.
        return answer if isinstance(answer, bool) and not question.told else None

    async def _save_and_finish(self, proposed: str | None) -> bool:
        state = self._state
        if self._save is not None:
            async with HostCalls(self._k, self._end_by) as calls:
                await self._call_host(calls, self._write_checkpoint, self._save)
        # From here to the end no await: a racing submission is before the check or after it.
        if self._wanted():
            self._end(Cause.CANCEL)
        if state.decided:
            await self._k.lowlevel.checkpoint()  # raises the cancellation where it can be seen
        elif not state.goes_on():
            self._end(Cause.FINISH_SPENT if state.queue else Cause.FINISH)
            return True
        return False

    async def _save_only(self, proposed: str | None) -> bool:
        if self._save is not None:
            async with HostCalls(self._k, self._end_by) as calls:
                await self._call_host(calls, self._write_checkpoint, self._save)
        return not await self._is_over()

    async def _write_checkpoint(
        self, call: HostCall, save: Callable[[Generation], Awaitable[object]]
    ) -> None:
        if self._wanted():
            self._end(Cause.CANCEL)
            return
        await call.guard(save, self)
        if call.error is not None or call.told:
            self._end_after(call)

    async def _call_host(
        self, calls: HostCalls, body: Callable[[HostCall, _T], Awaitable[None]], arg: _T
    ) -> None:
        call = self._call = HostCall(self._k)
        await calls.run(body, arg, call=call)

    async def _is_over(self) -> bool:
        """Whether nothing may follow this step, looked at once more at its end."""
        if self._wanted():
            self._end(Cause.CANCEL)
            await self._k.lowlevel.checkpoint()  # raises the cancellation where it can be seen
        return self._state.decided

    # ------------------------------------------------------------------------------- end

    def _wanted(self) -> bool:
        """Whether cancellation is wanted: by the calling task, a scope around it, or the end.

        In the child of a step it sees what the step's own task would see: the child stands in
        the same scopes, and native cancellations are counted at the task.
        """
        return self._state.decided or self._expired() or bool(self._cancellations)

    def _step_wanted(self) -> bool:
        """Whether a step that runs in another task has been cancelled there natively."""
        return self._steps > 0 and bool(self._cancellations)

    def _expired(self) -> bool:
        # Both backends tell of a cancelled scope as of a deadline in the past; one that has
        # passed but was not noticed yet counts, too.
        deadline = self._k.current_effective_deadline()
        return deadline != inf and deadline <= self._k.current_time()

    def _ended(self) -> None:
        """The state was ended from outside (stop, close): do what follows, cancel the body."""
        self._close()
        self._cancel()

    def _end_if_spent(self) -> None:
        """Asking for a request beyond the call budget ends the generation."""
        if self._state.spent:
            self._end(Cause.BUDGET)

    def _end_after(self, call: HostCall) -> None:
        """End the generation for a write or checkpoint that did not return unchallenged."""
        self._end(Cause.CANCEL if call.told or self._wanted() else Cause.FAIL, call.error)

    def _end_by(self, exc: BaseException) -> None:
        self._end(Cause.CANCEL if is_cancellation(self._k, exc) else Cause.FAIL, exc)

    def _end(self, cause: Cause, error: BaseException | None = None) -> None:
        """End the generation, in one synchronous step; the first cause decides."""
        self._state.end(cause, "" if error is None else type(error).__name__)
        self._close()

    def _close(self) -> None:
        """What follows when admission is closed; doing it again changes nothing."""
        self._receiver.close()
        self._steered.set()
        if self._state.phase is not Phase.LEAVING and self._call is not None:
            self._call.hurry(self._limits.write_grace)
