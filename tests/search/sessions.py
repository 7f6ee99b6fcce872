"""Scenarios of whole sessions: serving, several runtimes, loops that are not the runtime's own.

And of hosts that do not keep to themselves: other tasks that make steps, crowds of tools that
crash, readers of events that are cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.abc

from midcourse import (
    Event,
    GenerationActive,
    GenerationBusy,
    GenerationOver,
    GenerationUnfinished,
    Input,
    Misuse,
    RuntimeClosed,
)

from .contexts import ScriptedContext, pause
from .evidence import Stop, Submission
from .schedule import Injection
from .stage import CANCEL_ANY, CANCEL_HOST, PROMPT, HostFailed, Role, Stage, _current


class Serve(Stage):
    """User inputs, ordinary steers and observations under `serve`, and a stop."""

    disturbances: tuple[str, ...] = (
        "steer",
        "service",
        "second",
        "stop",
        "stop-input",
        *CANCEL_HOST,
    )

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("first", kind="user", cued=False)
        self.add_submitter("second", kind="user")
        self.add_submitter("steer", kind="steer", anchor=lambda: None)
        self.add_submitter("service", kind="service", source="a sensor")
        self.add("stop-input", self.stop_by_input, cued=True)
        self.add("ender", self.end_a_minute_later, background=True)
        self.serving = self.served = False

    async def host(self) -> None:
        self.opened.set()
        self.serving = True
        try:
            await self.runtime.serve(self.turn, context=self.context, checkpoint=self.save)
        finally:
            self.serving = False
        if self.runtime.generation is not None and self.stepping().name == "host":
            self.note("serve returned with a generation active")

    async def turn(self, generation: Any) -> None:
        self.served = True
        await self.by_requests(generation, ("tool",))

    async def submit(self, given: Input, anchor: str | None, **options: Any) -> Submission:
        return await super().submit(given, anchor, steering=False)

    async def stop_by_input(self) -> None:
        receipt = await self.runtime.submit(Input("stop"))
        self.seen.stops.append(Stop(receipt["generationId"], self.moment()))

    async def end_a_minute_later(self) -> None:
        await anyio.sleep(60)
        self.stop()

    def events(self) -> Mapping[str, Injection]:
        # Between two generations, too; but `serve` must have begun.
        return {
            **super().events(),
            "stop": Injection(self.stop, lambda: self.serving and self.served),
        }

    def expect(self) -> None:
        log = self.evidence().log
        stopped = min((stop.at.sequence for stop in self.seen.stops), default=len(log.events))
        for turn in log.turns.values():
            if turn.started >= stopped:
                self.note(f"{turn.id!r} was begun after a stop, by the serve that it ended")


class ServeCloses(Serve):
    """The runtime is closed while it serves: `serve` returns, everything is settled."""

    disturbances: tuple[str, ...] = ("steer", "second", "closer", "stop", *CANCEL_HOST)
    expected: tuple[type[BaseException], ...] = (RuntimeClosed,)

    def cast(self) -> None:
        super().cast()
        self.add("closer", self.close, cued=True)


class ServeBesideOpen(Serve):
    """Somebody opens a generation of their own while the inbox is served."""

    disturbances: tuple[str, ...] = ("steer", "second", "guest", "stop", *CANCEL_HOST)
    expected: tuple[type[BaseException], ...] = (GenerationActive,)

    def cast(self) -> None:
        super().cast()
        self.add("guest", self.open_one, cued=True)

    async def open_one(self) -> None:
        prompt = Input("user", "the guest's", id="guest's")
        await self.block(prompt, lambda generation: self.by_requests(generation, ("answer",)))

    def look_for_the_left(self) -> None:
        if not self.serving:
            super().look_for_the_left()

    def expect(self) -> None:
        """The guest's generation may begin whenever there is none."""


class TwoRuntimes(Stage):
    """Two sessions run at once; an anchor of the other one is refused (F31)."""

    disturbances: tuple[str, ...] = ("here", "stray", "stop", *CANCEL_HOST)

    def cast(self) -> None:
        self.other = self.new_runtime("other")
        self.other_context = ScriptedContext(self)
        self.add("host", self.host)
        self.add("neighbour", self.neighbour)
        self.add_submitter("here")
        self.add_submitter("stray", anchor=lambda: "other-1")

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("tool",)))

    async def neighbour(self) -> None:
        self._open_blocks += 1
        async with self.other.open_generation(
            Input("user", "next door", id="next door"), context=MemoryLike(self.other_context)
        ) as generation:
            async for request in generation.requests():
                await pause(3)
                request.finish("done")
        self._open_blocks -= 1
        await self.other.aclose()
        if generation.outcome != "finished":
            self.note(f"the neighbour is {generation.outcome}")
        if self.other.receipts():
            self.note("the neighbour accepted what was not for it")

    def expect(self) -> None:
        for each in self.seen.submissions:
            if each.input_id == "stray" and each.outcome == "returned":
                self.note("an anchor of another session was accepted")


class TwoStep(Stage):
    """A framework takes, then says sent or unsent, while others finish and stop."""

    disturbances: tuple[str, ...] = ("early", "late", "unsent", "stop", *CANCEL_ANY)

    def cast(self) -> None:
        self.unsent = False
        self.add("host", self.host)
        self.add_submitter("early")
        self.add_submitter("late")

    async def host(self) -> None:
        await self.block(PROMPT, self.loop)

    async def loop(self, generation: Any) -> None:
        for number in range(8):  # more than the events can spoil
            batch = generation.take()
            self.seen.taken.update(each.id for each in batch.inputs)
            await pause(2)
            if self.unsent:
                self.unsent = False
                self.seen.taken.difference_update(each.id for each in batch.inputs)
                batch.unsent()
                continue
            if batch.sent():
                self.context.messages.extend(batch.messages)
                await self.model(generation, 1)
            if number and await generation.finish("the answer"):
                break

    def events(self) -> Mapping[str, Injection]:
        def unsent() -> None:
            self.unsent = True

        return {**super().events(), "unsent": Injection(unsent)}


class MemoryLike:
    """The neighbour's context: nothing of it is part of the observation."""

    def __init__(self, context: ScriptedContext) -> None:
        self._messages = context.messages

    async def add_message(self, message: dict[str, Any]) -> None:
        await pause(1)
        self._messages.append(message)


class ServeGoesOn(Stage):
    """A turn fails and leaves `serve`; the inbox stays as it is, and is served again."""

    disturbances: tuple[str, ...] = ("second", "stop", *CANCEL_HOST)
    expected: tuple[type[BaseException], ...] = (HostFailed,)

    def cast(self) -> None:
        self.turns = 0
        self.add("host", self.host)
        self.add_submitter("first", kind="user", cued=False)
        self.add_submitter("again", kind="user", cued=False)
        self.add_submitter("second", kind="user")
        self.add("ender", self.end_a_minute_later, background=True)

    async def submit(self, given: Input, anchor: str | None, **options: Any) -> Submission:
        return await super().submit(given, anchor, steering=False)

    async def host(self) -> None:
        self.opened.set()
        try:
            await self.runtime.serve(self.turn, context=self.context)
        except HostFailed:
            served = {event.data.get("initial_input_id") for event in self.runtime.events()}
            wanted = {each["inputId"] for each in self.runtime.receipts()} - served
            waiting = {each["inputId"] for each in self.runtime.pending()}
            if waiting != wanted and not self.seen.stops:
                self.note(f"the inbox was {waiting} after a turn failed, not {wanted}")
            await self.runtime.serve(self.turn, context=self.context)

    async def turn(self, generation: Any) -> None:
        self.turns += 1
        if self.turns == 1:
            await generation.boundary()
            raise HostFailed
        await self.by_requests(generation, ("answer",))

    async def end_a_minute_later(self) -> None:
        await anyio.sleep(60)
        self.stop()


class Meddler(Stage):
    """Another task makes steps of the generation while its host does: misuse, and harmless."""

    disturbances: tuple[str, ...] = ("meddler", "steer", "stop", *CANCEL_ANY)
    expected: tuple[type[BaseException], ...] = (Misuse, GenerationOver)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("steady", cued=False)
        self.add_submitter("steer")
        self.add("meddler", self.meddle, cued=True)

    async def host(self) -> None:
        await self.block(PROMPT, self.by_calls)

    async def meddle(self) -> None:
        if not self.blocks:
            return
        generation = self.blocks[0].generation
        for step in (generation.checkpoint, generation.boundary):
            try:
                await step()
            except (GenerationBusy, GenerationOver):
                pass


class StepsElsewhere(Stage):
    """The steps are made in another task than the block's, which may leave before they end."""

    disturbances: tuple[str, ...] = ("steer", "leave", "stop", *CANCEL_ANY)
    expected: tuple[type[BaseException], ...] = (Misuse, GenerationOver, GenerationUnfinished)

    def cast(self) -> None:
        self.generation: Any = None
        self.add("host", self.host)
        self.add("driver", self.drive)
        self.add("leave", self.leave, cued=True)
        self.add_submitter("steady", cued=False)
        self.add_submitter("steer")

    async def host(self) -> None:
        await self.block(PROMPT, self.body)

    async def main(self) -> None:
        self.left = anyio.Event()
        await super().main()

    async def body(self, generation: Any) -> None:
        self.generation = generation
        await self.left.wait()

    async def drive(self) -> None:
        try:
            await self.opened.wait()
            if self.generation is not None:
                await self.by_calls(self.generation)
        finally:
            self.left.set()

    async def leave(self) -> None:
        if self.generation is not None:
            self.left.set()

    def stepping(self) -> Role:
        return self.roles["driver"]

    def enders(self) -> list[Role]:
        return [self.roles["host"], self.roles["driver"]]


class CrashingTools(Stage):
    """Tools run in a group of their own, and one crashes while the host makes a step."""

    hears_natively = False  # AnyIO's group drops one that comes while it raises its errors

    disturbances: tuple[str, ...] = ("crash", "steer", "stop", *CANCEL_HOST)
    expected: tuple[type[BaseException], ...] = (ExceptionGroup, GenerationUnfinished)

    def cast(self) -> None:
        self.crash: anyio.Event | None = None
        self.add("host", self.host)
        self.add_submitter("steady", cued=False)
        self.add_submitter("steer")

    async def host(self) -> None:
        self.crash = anyio.Event()
        await self.block(PROMPT, self.loop)

    async def loop(self, generation: Any) -> None:
        host = self.roles["host"]
        async with anyio.create_task_group() as group:
            host.scopes.append(group.cancel_scope)
            group.start_soon(self.crashing)
            try:
                await self.by_requests(generation)
            finally:
                host.scopes.remove(group.cancel_scope)
            group.cancel_scope.cancel()

    async def crashing(self) -> None:
        assert self.crash is not None
        await self.crash.wait()
        raise HostFailed

    def events(self) -> Mapping[str, Injection]:
        def crash() -> None:
            assert self.crash is not None
            self.crash.set()

        ready = lambda: self.crash is not None and not self.roles["host"].done  # noqa: E731
        return {**super().events(), "crash": Injection(crash, ready)}


class NativelyCrashingTools(CrashingTools):
    """The same, on asyncio in its own kind of group, which cancels the host natively."""

    counts_cancellations = False  # asyncio.TaskGroup leaves one, if it crashes while it is left

    async def loop(self, generation: Any) -> None:
        if self.probe.backend != "asyncio":
            await super().loop(generation)
            return
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.crashing())
            await self.by_requests(generation)
            task.cancel()


class Reader(Stage):
    """A reader of events is cancelled at any step, and goes on reading: nothing is lost."""

    disturbances: tuple[str, ...] = ("steer", "stop", "inner-reader", "native-host", "cancel-host")

    def cast(self) -> None:
        self.numbers: list[int] = []
        self.add("host", self.host)
        self.add("reader", self.read_on)
        self.add_submitter("steady", cued=False)
        self.add_submitter("steer")

    async def host(self) -> None:
        await self.block(PROMPT, self.by_calls)

    async def read_on(self) -> None:
        _current.get().spoken.set()
        scopes = self.roles["reader"].scopes
        subscription = self.runtime.subscribe(after=0)
        while True:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                try:
                    async for event in subscription:
                        assert isinstance(event, Event)
                        self.numbers.append(event.sequence)
                    return
                finally:
                    scopes.remove(scope)

    def expect(self) -> None:
        wanted = [event.sequence for event in self.runtime.events()]
        if self.numbers != wanted:
            self.note(f"the reader saw {self.numbers} of {wanted}")


class OpensTwice(Stage):
    """Two hosts open a generation at once: one is refused, whoever it is."""

    disturbances: tuple[str, ...] = ("steer", "stop", *CANCEL_ANY)
    expected: tuple[type[BaseException], ...] = (GenerationActive,)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add("other", self.other)
        self.add_submitter("steer")

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("answer",)))

    async def other(self) -> None:
        prompt = Input("user", "mine", id="mine")
        await self.block(prompt, lambda generation: self.by_requests(generation, ("answer",)))


class ClosesFromWithin(Stage):
    """A write, a checkpoint or the loop itself closes the runtime, and nobody waits for ever."""

    disturbances: tuple[str, ...] = ("in-write", "in-save", "in-loop", "steer", *CANCEL_HOST)
    expected: tuple[type[BaseException], ...] = (RuntimeClosed,)

    def cast(self) -> None:
        self.where = ""
        self.add("host", self.host)
        self.add_submitter("steady", cued=False)
        self.add_submitter("steer")
        self.context.on_write = self.from_write

    async def host(self) -> None:
        await self.block(PROMPT, self.by_calls)

    async def from_write(self, name: str) -> None:
        if self.where == "write":
            await self.close()

    async def save(self, generation: Any) -> None:
        if self.where == "save":
            await self.close()
        await super().save(generation)

    async def model(self, generation: Any, pauses: int = 2) -> None:
        await super().model(generation, pauses)
        if self.where == "loop":
            await self.close()
            self.note("the loop went on after it had closed the runtime")

    def events(self) -> Mapping[str, Injection]:
        def close_in(where: str) -> Injection:
            return Injection(lambda: setattr(self, "where", where))

        return {**super().events(), **{f"in-{w}": close_in(w) for w in ("write", "save", "loop")}}

    def expect(self) -> None:
        if self.probe.now() > 0:
            self.note(f"closing from within waited for itself, {self.probe.now()} s")
