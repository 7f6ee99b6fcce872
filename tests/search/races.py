"""Scenarios of admission: who submits when, while a generation finishes, stops, ends otherwise.

What races what is not written down: the roles come on their cue, and when that is, who is
cancelled, who stops and which call fails is the search's to choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import anyio.abc

from midcourse import (
    Event,
    GenerationBusy,
    GenerationOver,
    GenerationUnfinished,
    Input,
    Limits,
    RuntimeClosed,
)

from .contexts import Behaviour, pause
from .schedule import Injection
from .stage import CANCEL_ANY, CANCEL_HOST, PROMPT, HostFailed, SaveFailed, Stage


class SubmitRacesFinish(Stage):
    """Steers come while the last answer is given and saved (F01, F03, F05, F07)."""

    disturbances: tuple[str, ...] = ("early", "late", "stop", *CANCEL_ANY)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("early")
        self.add_submitter("late")

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("answer",)))


class SubmitRacesFinishByCalls(SubmitRacesFinish):
    """The same with a loop over `boundary()` and `finish()`, and tools in between."""

    async def host(self) -> None:
        await self.block(PROMPT, self.by_calls)


class SubmitRacesCheckpoint(Stage):
    """Steers come while the host saves, in the middle of a generation and at its end."""

    disturbances: tuple[str, ...] = ("early", "late", "stop", "fail-save", *CANCEL_ANY)
    save_pauses = 3

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("early")
        self.add_submitter("late")

    async def host(self) -> None:
        await self.block(PROMPT, self.loop)

    async def loop(self, generation: Any) -> None:
        while await generation.boundary():
            await self.model(generation, 1)
            if generation.request_count == 1:
                await generation.checkpoint()
            elif await generation.finish("the answer"):
                break

    expected: tuple[type[BaseException], ...] = (SaveFailed,)


class SubmitRacesStop(Stage):
    """Somebody stops the moment a steer is accepted, while others submit (F22, F23, F25)."""

    disturbances: tuple[str, ...] = ("late", "stop", *CANCEL_ANY)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("first", cued=False)
        self.add_submitter("late")
        self.add("stopper", self.stop_on_acceptance, background=True)

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("tool", "tool")))

    async def stop_on_acceptance(self) -> None:
        with self.runtime.subscribe(after=0) as events:
            async for event in events:
                if isinstance(event, Event) and event.type == "input.accepted":
                    self.stop()
                    return

    def expect(self) -> None:
        for receipt in self.seen.final.values():
            if receipt is not None and receipt["disposition"] == "queued":
                self.note(f"{receipt} after stop")


class WatchersSubmit(Stage):
    """Who sees `generation.started` or a terminal event submits at once (F02, F08, F10)."""

    disturbances: tuple[str, ...] = ("stop", *CANCEL_HOST)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add("first", lambda: self.submit_on("generation.started", "first"), background=True)
        self.add("last", lambda: self.submit_on("generation.finished", "last"), background=True)

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("answer",)))

    async def submit_on(self, kind: str, name: str) -> None:
        with self.runtime.subscribe(after=0) as events:
            async for event in events:
                if isinstance(event, Event) and event.type.rpartition(".")[0] == "generation":
                    over = event.type != "generation.started"
                    if event.type == kind or (over and kind != "generation.started"):
                        anchor = str(event.data["generation_id"])
                        await self.submit(Input("steer", "at once", id=name), anchor)
                        return

    def expect(self) -> None:
        for each in self.seen.submissions:
            if each.input_id == "last" and each.outcome == "returned":
                self.note("a steer was accepted after the terminal event was seen")
            if each.input_id == "first" and each.outcome == "refused" and not self.fired:
                self.note(f"the first steer was refused: {each.code}")


class SpentBudget(Stage):
    """The call budget is spent with steers pending: at a boundary, and at the finish (F06)."""

    may_finish_with_held = True

    disturbances: tuple[str, ...] = ("early", "late", "stop", *CANCEL_ANY)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("early")
        self.add_submitter("late")

    async def host(self) -> None:
        await self.block(PROMPT, self.by_calls, max_requests=2)

    def expect(self) -> None:
        log = self.evidence().log
        for turn in log.turns.values():
            if len(turn.requests) > 2:
                self.note("a request beyond the budget was begun")
            for index, event in enumerate(log.events):
                spent = len(turn.requests) == 2 and index > turn.requests[-1]
                if spent and event["type"] == "generation.continued":
                    self.note("a generation went on that had no request left")


class BudgetBeforeTheAnswer(SpentBudget):
    """The loop asks for a request beyond the budget: detached, quietly."""

    async def host(self) -> None:
        block = await self.block(
            PROMPT,
            lambda generation: self.by_requests(generation, ("tool", "tool")),
            max_requests=2,
        )
        reason = block.generation.reason
        if reason not in ("call_budget_exhausted", "stopped", "cancelled"):
            self.note(f"the reason is {reason!r}")


class InitialWritten(SubmitRacesFinishByCalls):
    """The host has written the initial input itself, and asks for a boundary only later."""

    async def host(self) -> None:
        await self.block(PROMPT, self.loop, initial_written=True)

    async def loop(self, generation: Any) -> None:
        await self.model(generation)
        while not await generation.finish("the answer"):
            if not await generation.boundary():
                break
            await self.model(generation)


class LeavesTheLoop(Stage):
    """The host leaves the loop after its proposal, without asking for another step."""

    may_finish_with_held = True

    disturbances: tuple[str, ...] = ("early", "late", "stop", "fail-save", *CANCEL_ANY)
    expected: tuple[type[BaseException], ...] = (SaveFailed,)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("early")
        self.add_submitter("late")

    async def host(self) -> None:
        await self.block(PROMPT, self.loop)

    async def loop(self, generation: Any) -> None:
        async for request in generation.requests():
            await self.model(generation)
            request.finish("the answer")
            await pause(2)
            break

    def expect(self) -> None:
        if self.saves > 1:
            self.note(f"it was saved {self.saves} times")


class LeavesUnfinished(Stage):
    """The host leaves the block without a proposal, or with an error of its own."""

    disturbances: tuple[str, ...] = ("steer", "crash", "stop", *CANCEL_HOST)
    expected: tuple[type[BaseException], ...] = (GenerationUnfinished, HostFailed)

    def cast(self) -> None:
        self.crash = self.wanted_at_exit = False
        self.add("host", self.host)
        self.add_submitter("steady", cued=False)
        self.add_submitter("steer")

    async def host(self) -> None:
        await self.block(PROMPT, self.loop)

    async def loop(self, generation: Any) -> None:
        await generation.boundary()
        await self.model(generation)
        if self.crash:
            raise HostFailed
        await self.tool(generation, "call")
        self.wanted_at_exit = self.wanted()

    def expect(self) -> None:
        for block in self.blocks:
            if self.wanted_at_exit and block.generation.outcome == "failed":
                self.note("it failed unfinished, although cancellation was wanted")

    def events(self) -> Mapping[str, Injection]:
        def crash() -> None:
            self.crash = True

        return {**super().events(), "crash": Injection(crash)}


class Crowd(Stage):
    """Many submit at once; one of them is cancelled while it waits (F29, F35)."""

    disturbances: tuple[str, ...] = (
        "stop",
        "cancel-two",
        "native-two",
        "cancel-host",
        "native-host",
        "six",
    )

    def cast(self) -> None:
        self.add("host", self.host)
        for name in ("one", "two", "three", "four", "five"):
            self.add_submitter(name, cued=False)
        self.add_submitter("six")

    async def host(self) -> None:
        await self.block(PROMPT, self.by_calls)


class FullQueue(Crowd):
    """There is room for two: the others are refused, none waits."""

    limits = Limits(pending=2, identities=4)

    def expect(self) -> None:
        codes = {each.code for each in self.seen.submissions if each.outcome == "refused"}
        if not codes <= {
            "queue_full", "identities_exhausted", "admission_closed", "no_active_generation",
            "generation_mismatch",
        }:  # fmt: skip
            self.note(f"refused with {codes}")


class Flood(Stage):
    """Steers come faster than they are written: the request is not postponed for ever."""

    disturbances: tuple[str, ...] = ("stop", *CANCEL_HOST)
    limits = Limits(pending=3)

    def cast(self) -> None:
        self.add("host", self.host)
        for name in ("one", "two", "three"):
            self.add(name, lambda name=name: self.submit_on_and_on(name))  # type: ignore[misc]

    async def host(self) -> None:
        await self.block(PROMPT, self.by_calls)

    async def submit_on_and_on(self, name: str) -> None:
        await self.opened.wait()
        for number in range(6):
            given = Input("steer", "more", id=f"{name} {number}")
            done = await self.submit(given, self.active_id(), settle=False)
            if done.outcome == "refused" and done.code != "queue_full":
                return

    def expect(self) -> None:
        log = self.evidence().log
        for turn in log.turns.values():
            for index in turn.requests:
                written = set(log.events[index]["input_ids"]) - {PROMPT.id}
                if len(written) > self.limits.pending:
                    self.note(f"one boundary wrote {len(written)} inputs")


class SameIdTwice(Stage):
    """One id from two tasks at once, and a third with other content (F16, F17)."""

    disturbances: tuple[str, ...] = ("again", "other", "stop", *CANCEL_ANY)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("first", id="same", text="the same", cued=False)
        self.add_submitter("second", id="same", text="the same", cued=False)
        self.add_submitter("again", id="same", text="the same")
        self.add_submitter("other", id="same", text="another")

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("tool",)))


class CloseRaces(Stage):
    """The runtime is closed while a steer is submitted and another written."""

    expected: tuple[type[BaseException], ...] = (RuntimeClosed,)

    disturbances: tuple[str, ...] = ("closer", "late", "stop", *CANCEL_HOST, "cancel-closer")
    behaviour = Behaviour(pauses=2)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("steady", cued=False)
        self.add_submitter("late")
        self.add("closer", self.close, cued=True)

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("tool",)))

    async def close(self) -> None:
        await super().close()
        if self.runtime.pending():
            self.note(f"pending after aclose: {self.runtime.pending()}")
        if self.runtime.capability["mode"] != "unavailable":
            self.note("a closed runtime says that it can steer")


class WaitSteered(Stage):
    """A cooperative tool returns early when something waits, and when the generation ends."""

    disturbances: tuple[str, ...] = ("steer", "service", "onlooker", "stop", *CANCEL_ANY)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("steer")
        self.add_submitter("service", kind="steer")
        self.add("watchdog", self.steer_a_minute_later, background=True)
        self.add("onlooker", self.look_on, cued=True)

    async def host(self) -> None:
        await self.block(PROMPT, self.loop)

    async def loop(self, generation: Any) -> None:
        async for request in generation.requests():
            await self.model(generation, 1)
            if request.number == 1:
                await generation.wait_steered()
            else:
                request.finish("the answer")

    async def look_on(self) -> None:
        if self.blocks:
            await self.blocks[0].generation.wait_steered()

    async def steer_a_minute_later(self) -> None:
        await anyio.sleep(60)
        active = self.runtime.generation
        if active is not None:
            await self.submit(Input("steer", "at last", id="at last"), str(active["id"]))


class BlockedTool(Stage):
    """A tool hangs; submitting is prompt, and a stop holds what waits (F04, F33)."""

    disturbances: tuple[str, ...] = ("steer", "stop", *CANCEL_ANY)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("steady", cued=False)
        self.add_submitter("steer")
        self.add("watchdog", self.stop_a_minute_later, background=True)

    async def host(self) -> None:
        await self.block(PROMPT, self.loop)

    async def loop(self, generation: Any) -> None:
        await generation.boundary()
        await anyio.sleep_forever()

    async def stop_a_minute_later(self) -> None:
        await anyio.sleep(60)
        self.stop()


class NextGeneration(Stage):
    """A generation follows another; stale anchors and a stale loop get nothing (F09, F11, F24)."""

    disturbances: tuple[str, ...] = ("stale", "moved", "fresh", "loop", "stop", *CANCEL_HOST)

    def cast(self) -> None:
        self.add("host", self.host)
        self.add_submitter("first", text="the same", anchor=lambda: "session-1", cued=False)
        self.add_submitter("moved", id="first", text="the same", anchor=lambda: "session-2")
        self.add_submitter("stale", anchor=lambda: "session-1")
        self.add_submitter("fresh", anchor=lambda: "session-2")
        self.add("loop", self.stale_loop, cued=True)

    async def host(self) -> None:
        await self.block(PROMPT, lambda generation: self.by_requests(generation, ("answer",)))
        again = Input("user", "again", id="prompt 2")
        await self.block(again, lambda generation: self.by_requests(generation, ("tool", "answer")))

    async def stale_loop(self) -> None:
        if not self.blocks:
            return
        stale = self.blocks[0].generation
        if stale.outcome is None:
            return
        try:
            went_on = await stale.boundary()
        except (GenerationOver, GenerationBusy):
            return
        if went_on:
            self.note("a boundary of an ended generation went on")
