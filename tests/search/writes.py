"""Scenarios of writing: contexts and checkpoints that are slow, fail, hang or do not listen.

While they do, the host is cancelled in every way, or stopped; some calls come from within them.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.abc
from anyio.lowlevel import checkpoint

from midcourse import (
    ContextUnchanged,
    GenerationOver,
    Input,
)

from .contexts import Behaviour, ForeignCancellation, WriteFailed
from .schedule import Injection
from .stage import CANCEL_HOST, PROMPT, SaveFailed, Stage


class CancelDuringWrite(Stage):
    """The host is cancelled while a write takes several steps (F19, F20)."""

    disturbances: tuple[str, ...] = ("steer", "stop", "fail-write", *CANCEL_HOST)
    behaviour = Behaviour(pauses=2)
    expected: tuple[type[BaseException], ...] = (WriteFailed,)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("steady", cued=False)
        self.add_submitter("steer")

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("tool",)))


class SlowWrite(CancelDuringWrite):
    """A write takes longer than its grace, once it is told to hurry."""

    behaviour = Behaviour(seconds=7)


class HalfWrite(CancelDuringWrite):
    """A write is made in two steps, and may be torn between them (F39)."""

    behaviour = Behaviour(pauses=0, seconds=7, then="half")


class SwallowingWrite(CancelDuringWrite):
    """A write takes being told to cancel for a reason to return, with its message written."""

    disturbances: tuple[str, ...] = ("steer", *CANCEL_HOST)

    def cast(self) -> None:
        super().cast()
        self.context.by_id["steady"] = Behaviour(then="swallow")
        self.add("watchdog", self.stop_a_minute_later, background=True)

    async def stop_a_minute_later(self) -> None:
        await anyio.sleep(60)
        self.stop()


class EmptySwallowingWrite(SwallowingWrite):
    """The same, but nothing is written, and the context says so when it is asked."""

    answer: str | None = "truth"

    def cast(self) -> None:
        super().cast()
        self.context.by_id["steady"] = Behaviour(then="swallow_empty")


class DeafWrite(CancelDuringWrite):
    """A write ignores that it is told to cancel, and is waited for."""

    def cast(self) -> None:
        super().cast()
        self.context.by_id["steady"] = Behaviour(then="deaf")


class UnchangedContext(CancelDuringWrite):
    """The context states that it took nothing."""

    expected: tuple[type[BaseException], ...] = (WriteFailed, ContextUnchanged)

    def cast(self) -> None:
        super().cast()
        self.context.by_id["steady"] = Behaviour(then="unchanged")


class ConfirmedWrite(CancelDuringWrite):
    """A write hangs; the context knows what it holds, and the message came before the hanging."""

    answer: str | None = "truth"
    behaviour = Behaviour(seconds=7)


class UndecidedContext(ConfirmedWrite):
    """The context is asked and does not know."""

    answer = None


class HangingConfirm(ConfirmedWrite):
    """The context is asked and does not answer."""

    answer = "hang"


class LateConfirm(ConfirmedWrite):
    """The context says yes only after it was told that it is too late."""

    answer: str | None = "late"


class FailingConfirm(ConfirmedWrite):
    """The context is asked and fails."""

    answer = "raise"


class CancelBetweenWrites(Stage):
    """A batch of three is written while the host is cancelled or stopped (F19, F21)."""

    disturbances: tuple[str, ...] = ("stop", "fail-write", *CANCEL_HOST)
    expected: tuple[type[BaseException], ...] = (WriteFailed,)

    def cast(self) -> None:
        self.add("host", self.host)
        for name in ("one", "two", "three"):
            self.add_submitter(name, cued=False)

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("tool",)))


class InnerScope(Stage):
    """The host stands in a scope of its own around each step, and goes on when it is cancelled."""

    disturbances: tuple[str, ...] = ("steer", "stop", *CANCEL_HOST)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("steady", cued=False)
        self.add_submitter("steer")

    expected: tuple[type[BaseException], ...] = (GenerationOver,)

    async def host(self) -> None:
        await self.block(PROMPT, self.loop)

    async def loop(self, generation: Any) -> None:
        while True:
            with self.inner_scope():
                if not await generation.boundary():
                    break
            await self.model(generation, 1)
            finished = False
            with self.inner_scope():
                finished = await generation.finish("the answer")
            if finished:
                break

    @contextmanager
    def inner_scope(self) -> Iterator[None]:
        scopes = self.roles["host"].scopes
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            try:
                yield
            finally:
                scopes.remove(scope)


class FailingWrite(Stage):
    """A write fails: before its message is there or after it; the rest is held (F13, F15, F39)."""

    disturbances: tuple[str, ...] = ("steer", "stop", *CANCEL_HOST)
    expected: tuple[type[BaseException], ...] = (WriteFailed,)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("broken", cued=False)
        self.add_submitter("steer", cued=False)
        self.context.by_id["broken"] = Behaviour(then="raise_late")

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("tool",)))


class SwallowedFailure(FailingWrite):
    """The host swallows the failure of a write; the generation has failed all the same."""

    async def host(self) -> None:
        await self.block(PROMPT, self.loop)

    async def loop(self, generation: Any) -> None:
        try:
            await self.by_calls(generation)
        except WriteFailed:
            await checkpoint()
            try:
                await generation.boundary()
            except GenerationOver:
                return
            self.note("boundary() went on after a failed write")


class ForeignCancelledWrite(FailingWrite):
    """A write raises a cancellation that was nobody's wish: it failed, like any other."""

    expected: tuple[type[BaseException], ...] = (ForeignCancellation, WriteFailed)

    def cast(self) -> None:
        super().cast()
        self.context.by_id["broken"] = Behaviour(then="raise", error=ForeignCancellation)


class ExitingWrite(FailingWrite):
    """A write raises what is no `Exception`: it travels on, whatever else is under way."""

    expected: tuple[type[BaseException], ...] = (SystemExit, WriteFailed)

    def cast(self) -> None:
        super().cast()
        self.context.by_id["broken"] = Behaviour(then="raise_late", error=SystemExit)


class FailingCheckpoint(Stage):
    """The last checkpoint fails: a failed generation, whose text stays readable."""

    disturbances: tuple[str, ...] = ("steer", "stop", *CANCEL_HOST)
    save_then = "raise"
    expected: tuple[type[BaseException], ...] = (SaveFailed,)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("steer")

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("answer",)))

    def expect(self) -> None:
        for block in self.blocks:
            if block.generation.outcome == "finished":
                self.note("finished although nothing was saved")
            if self.saves and block.generation.text != "answer 1":
                self.note(f"the proposed text reads {block.generation.text!r}")


class HangingCheckpoint(Stage):
    """A checkpoint hangs; submitting stays prompt, and stop ends it in bounded time (F04, F33)."""

    disturbances: tuple[str, ...] = ("steer", "stop", *CANCEL_HOST)
    save_then = "hang"

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("steer")
        self.add("watchdog", self.stop_a_minute_later, background=True)

    async def host(self) -> None:
        await self.block(PROMPT, self.by_calls)

    async def stop_a_minute_later(self) -> None:
        await anyio.sleep(60)
        self.stop()

    def expect(self) -> None:
        if self.probe.now() > 60 + 2 * self.limits.write_grace:
            self.note(f"the run took until {self.probe.now()}")


class FromWithin(Stage):
    """A write and a checkpoint submit; a write, a checkpoint and a tool may stop."""

    disturbances: tuple[str, ...] = ("stop-in-write", "stop-in-save", "steer", *CANCEL_HOST)

    def cast(self) -> None:
        self.stop_in = ""
        self.add("host", self.host)
        self.add_submitter("steer")
        self.context.on_write = self.from_write

    async def host(self) -> None:
        await self.block(PROMPT, self.by_calls)

    async def from_write(self, name: str) -> None:
        if self.stop_in == "write":
            self.stop()
        await self.from_inside(f"in write of {name}")

    async def save(self, generation: Any) -> None:
        if self.stop_in == "save":
            self.stop()
        await self.from_inside(f"in save {self.saves}")
        await super().save(generation)

    async def from_inside(self, name: str) -> None:
        if len(self.seen.submissions) < 3:
            anchor = self.active_id()
            await self.submit(Input("steer", "from within", id=name), anchor, settle=False)

    def events(self) -> Mapping[str, Injection]:
        def stop_in(where: str) -> Injection:
            return Injection(lambda: setattr(self, "stop_in", where))

        return {
            **super().events(),
            "stop-in-write": stop_in("write"),
            "stop-in-save": stop_in("save"),
        }


class Interrupted(CancelDuringWrite):
    """Ctrl-C on Trio, where the host is the main task: the running write is not torn."""

    disturbances: tuple[str, ...] = ("steer", "stop", "ctrl-c", "cancel-host", "native-host")

    def cast(self) -> None:
        super().cast()
        self.interrupted = False

    async def main(self) -> None:
        # Trio gives it to the main task, or at the end of the run; neither is an end here.
        try:
            await super().main()
            while self.interrupted:
                await checkpoint()
        except* KeyboardInterrupt:
            await self.close()
            self._read_finally()

    async def perform(self, group: anyio.abc.TaskGroup) -> None:
        for role in self.roles.values():
            if role.name != "host":
                group.start_soon(self._play, role)
        await self._play(self.roles["host"])

    def events(self) -> Mapping[str, Injection]:
        found = dict(super().events())
        # A process in the background may have been started with the signal ignored.
        heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self.probe.backend == "trio" and heard:
            found["ctrl-c"] = Injection(self.interrupt, self.host_is_on)
        return found

    def host_is_on(self) -> bool:
        host = self.roles["host"]
        return bool(host.scopes) and not host.done

    def interrupt(self) -> None:
        self.interrupted = True
        signal.raise_signal(signal.SIGINT)
