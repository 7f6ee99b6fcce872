"""The stage on which the scenarios play: a runtime, a scripted context, and roles around them.

A role is one task of the host's program (the agent loop, a submitter, a watcher); it stands in a
cancel scope of its own, and on asyncio in an `asyncio.timeout` of its own, so that the search can
cancel it in every way there is. The stage notes what each role saw, as an `Observation`, and makes
the usual disturbances: a role arrives, is cancelled, runs into its deadline; somebody stops; a
write or a checkpoint fails.

A role that waits for its cue gets it at the latest when the host is done, so that every run also
shows what happens to the late.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import anyio.abc
from anyio.lowlevel import checkpoint

from midcourse import ContextUnchanged, Input, Limits, LiveRuntime, SteeringRefused

from .checkers import PromiseBroken, Violation, check
from .contexts import (
    Behaviour,
    ConfirmingContext,
    ForeignCancellation,
    ScriptedContext,
    pause,
)
from .evidence import (
    Cancel,
    Confirmation,
    Evidence,
    ModelRequest,
    Moment,
    Observation,
    Save,
    Stop,
    Submission,
    Write,
)
from .schedule import Injection, Probe

PROMPT = Input("user", "the prompt", id="prompt")
# What fails a role; everything else that it may meet cancels it.
FAILURES = (Exception, SystemExit, ForeignCancellation)
CANCELLATIONS = ("cancel", "expire", "inner", "native", "timeout")
CANCEL_HOST = ("cancel-host", "expire-host", "inner-host", "native-host", "timeout-host")
CANCEL_ANY = ("cancel-*", "expire-*", "inner-*", "native-*", "timeout-*")


class SaveFailed(Exception):
    """What a scripted checkpoint raises."""


class HostFailed(Exception):
    """What a scripted host raises."""


@dataclass(slots=True)
class Role:
    """One task of the program, and the ways in which it can be reached."""

    name: str
    play: Callable[[], Awaitable[object]]
    cued: bool
    background: bool
    cue: anyio.Event = field(default_factory=anyio.Event)
    spoken: anyio.Event = field(default_factory=anyio.Event)
    scopes: list[anyio.CancelScope] = field(default_factory=list)
    task: asyncio.Task[Any] | None = None
    timeout: asyncio.Timeout | None = None
    done: bool = False
    natively: bool = False
    disturbed_at: float | None = None
    heard: bool = False
    error: BaseException | None = None


@dataclass(slots=True)
class Block:
    """One generation's block: what its body raised, and what left it."""

    generation: Any = None
    raised: BaseException | None = None
    left_with: BaseException | None = None


_current: ContextVar[Role] = ContextVar("role")


class Stage:
    """The base of all scenarios: runs the cast, keeps the observation, judges.

    A scenario adds its roles in `cast`, and what it expects beyond the promises in `expect`.
    """

    disturbances: tuple[str, ...] = ()
    expected: tuple[type[BaseException], ...] = ()
    limits = Limits()
    behaviour = Behaviour()
    answer: str | None = "silent"
    save_pauses = 1
    save_then: Literal["return", "raise", "hang"] = "return"
    # A loop that neither leaves early nor has a budget carries whatever it was given in time.
    may_finish_with_held = False
    # A native cancellation is seen where it ends, whatever else a role meets.
    hears_natively = True
    # On asyncio a task is left with no request to cancel that was not made to it.
    counts_cancellations = True

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.seen = Observation(identities=self.limits.identities)
        self.roles: dict[str, Role] = {}
        self.blocks: list[Block] = []
        self.problems: list[Violation] = []
        self.messages: list[dict[str, Any]] = []
        self.saves = 0
        self._open_blocks = 0
        self._fail_save = False
        self._closed_at = 0.0
        self._owners: dict[str, Role] = {}
        self.fired: list[str] = []
        self._order = itertools.count()
        self._visible = 0
        self._sent: dict[str, Input] = {}
        self.runtime = self.new_runtime("session")
        self.context = self.new_context()
        self.cast()

    # What a scenario fills in.

    def cast(self) -> None:
        """Add the roles."""
        raise NotImplementedError

    def expect(self) -> None:
        """Note in `problems` what is not as this scenario wants it."""

    # Building.

    def new_runtime(self, name: str) -> LiveRuntime:
        numbers = itertools.count(1)
        return LiveRuntime(
            session_id=name,
            limits=self.limits,
            new_id=lambda: f"{name}-{next(numbers)}",
            clock=lambda: 0.0,
        )

    def new_context(self) -> ScriptedContext:
        if self.answer == "silent":
            return ScriptedContext(self, self.behaviour)
        return ConfirmingContext(self, self.behaviour, answer=self.answer)

    def add(
        self,
        name: str,
        play: Callable[[], Awaitable[object]],
        *,
        cued: bool = False,
        background: bool = False,
    ) -> None:
        """Add a role; one in the background may be at it until the runtime is closed."""
        self.roles[name] = Role(name, play, cued, background)

    def add_submitter(
        self,
        name: str,
        *,
        cued: bool = True,
        kind: str = "steer",
        id: str | None = None,
        text: str | None = None,
        anchor: Callable[[], str | None] | None = None,
        source: str = "user",
    ) -> None:
        """A role that submits one input, then waits until it is settled."""
        given = Input(kind, text or f"text of {name}", id=id or name, source=source)

        async def play() -> None:
            if not cued:
                await self.opened.wait()
            where = anchor or (self.active_id if kind == "steer" else lambda: None)
            await self.submit(given, where())

        self.add(name, play, cued=cued)

    # Observing.

    def moment(self) -> Moment:
        self._visible += len(self.runtime.events(after=self._visible))
        return Moment(next(self._order), self._visible, self.probe.ticks(), self.probe.now())

    def active_id(self) -> str:
        """The active generation, else the last one: what a submitter that is late anchors to."""
        active = self.runtime.generation
        if active is not None:
            return str(active["id"])
        return str(self.blocks[-1].generation.id) if self.blocks else "none"

    def stepping(self) -> Role:
        """The role that makes the steps of the active generation: the one whose block it is."""
        active = self.runtime.generation
        return self._owners.get(str(active["id"]) if active else "", self.roles["host"])

    def enders(self) -> list[Role]:
        """The roles whose cancellation ends the active generation."""
        return [self.stepping()]

    def wanted(self) -> bool:
        """Whether cancellation is wanted of the role that makes the steps, by whatever means."""
        return self._cancelled(self.stepping())

    def _cancelled(self, role: Role) -> bool:
        if role.done:
            return False
        natively = role.natively or (role.task is not None and role.task.cancelling() > 0)
        return natively or any(
            scope.cancel_called or scope.deadline <= self.probe.now() for scope in role.scopes
        )

    def _wanted_for(self, generation_id: str | None) -> float | None:
        """Since when the end of a generation is wanted, from outside or by a stop."""
        since = [stop.at.time for stop in self.seen.stops if stop.generation_id == generation_id]
        for role in self.enders():
            if self._cancelled(role) and role.disturbed_at is not None:
                since.append(role.disturbed_at)
        if self.runtime.closed:
            since.append(self._closed_at)
        return min(since, default=None)

    def _overdue(self, generation_id: str | None) -> bool:
        """Whether a call that is still running has had all of its grace."""
        since = self._wanted_for(generation_id)
        return since is not None and self.probe.now() - since >= self.limits.write_grace

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        active = self.runtime.generation
        write = Write(
            name,
            str(active["id"]) if active is not None else None,
            self.moment(),
            wanted=self.wanted(),
        )
        self.seen.writes.append(write)
        how: Literal["returned", "unchanged", "raised", "cancelled"] = "returned"
        try:
            yield
        except ContextUnchanged:
            how = "unchanged"
            raise
        except FAILURES:
            how = "raised"
            raise
        except anyio.get_cancelled_exc_class():
            how = "cancelled"
            raise
        finally:
            write.how = how
            write.ended = self.moment()
            write.wanted_at_end = self._wanted_for(write.generation_id) is not None
            overdue = self._overdue(write.generation_id)
            write.challenged = how == "cancelled" or overdue
            write.torn = how == "cancelled" and not overdue

    def confirmed(self, input_id: str, answer: bool | None) -> None:
        self.seen.confirmations.append(Confirmation(input_id, answer))

    def note(self, what: str, promise: str = "scenario") -> None:
        self.problems.append(Violation(promise, what))

    # Acting.

    async def submit(
        self, given: Input, anchor: str | None, *, steering: bool = True, settle: bool = True
    ) -> Submission:
        """Submit, and note everything about it; then wait until it is settled, if so wanted."""
        content = repr((given.kind, given.text, given.source))
        submission = Submission(given.id, self.moment(), anchor, content)
        self.seen.submissions.append(submission)
        self._sent.setdefault(given.id, given)
        try:
            if steering:
                receipt = await self.runtime.submit_steering(given, anchor)
            else:
                receipt = await self.runtime.submit(given)
        except SteeringRefused as refusal:
            submission.outcome, submission.code = "refused", refusal.code
        except anyio.get_cancelled_exc_class():
            submission.outcome = "cancelled"
            raise
        except Exception as error:
            submission.outcome, submission.code = "failed", repr(error)
            raise
        else:
            submission.outcome, submission.receipt = "returned", receipt
            self.read(receipt)
        finally:
            submission.ended = self.moment()
            _current.get().spoken.set()
        if submission.outcome == "returned" and settle:
            self.read(await self.runtime.settled(given.id))
        return submission

    def read(self, receipt: Mapping[str, Any]) -> None:
        self.seen.readings.append(dict(receipt))

    def stop(self) -> None:
        active = self.runtime.generation
        self.runtime.stop()
        self.seen.stops.append(Stop(str(active["id"]) if active else None, self.moment()))

    async def close(self) -> None:
        if not self.runtime.closed:
            self._closed_at = self.probe.now()
        await self.runtime.aclose()

    async def save(self, generation: Any) -> None:
        """The host's checkpoint."""
        self.saves += 1
        try:
            await pause(self.save_pauses)
            if self._fail_save or self.save_then == "raise":
                raise SaveFailed
            if self.save_then == "hang":
                await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            if not self._overdue(generation.id):
                self.note("a checkpoint was told to cancel before its grace was over", "S6")
            raise
        finally:
            wanted = self._wanted_for(generation.id) is not None
            self.seen.saves.append(Save(generation.id, self.moment(), wanted))

    async def model(self, generation: Any, pauses: int = 2) -> None:
        """One model request."""
        ids = tuple(
            message["metadata"]["input_id"]
            for message in self.context.messages
            if "metadata" in message
        )
        self.seen.requests.append(ModelRequest(generation.id, self.moment(), ids))
        await pause(pauses)

    async def tool(self, generation: Any, call: str, pauses: int = 2) -> None:
        """One tool call."""
        self.seen.tool_calls.append((generation.id, call))
        await pause(pauses)

    async def block(
        self,
        initial: Input,
        body: Callable[[Any], Awaitable[object]],
        *,
        runtime: LiveRuntime | None = None,
        context: ScriptedContext | None = None,
        **options: Any,
    ) -> Block:
        """Open a generation, run `body` in its block, note what left it and what is left."""
        block = Block()
        runtime = runtime or self.runtime
        if options.get("initial_written"):
            self.seen.host_written.add(initial.id)
        self._open_blocks += 1
        try:
            async with runtime.open_generation(
                initial, context=context or self.context, checkpoint=self.save, **options
            ) as generation:
                block.generation = generation
                self.blocks.append(block)
                self._owners[generation.id] = _current.get()
                self.opened.set()
                try:
                    await body(generation)
                except BaseException as error:
                    block.raised = error
                    raise
        except BaseException as error:
            block.left_with = error
            raise
        finally:
            self._open_blocks -= 1
            self.look_for_the_left()
        return block

    def look_for_the_left(self) -> None:
        """Note what is left of the library when no block is open (I17)."""
        if not self._open_blocks:
            tasks = [task for task in self.probe.live_tasks() if task.startswith("midcourse")]
            self.seen.left_behind.extend(tasks)

    async def by_requests(
        self, generation: Any, script: Sequence[str] = ("tool", "answer")
    ) -> None:
        """An agent loop over `requests()`: the script says what the model replies, then answers."""
        async for request in generation.requests():
            await self.model(generation)
            number = request.number - 1
            if number < len(script) and script[number] == "tool":
                await self.tool(generation, f"call-{request.number}")
            else:
                request.finish(f"answer {request.number}")

    async def by_calls(self, generation: Any, script: Sequence[str] = ("tool", "answer")) -> None:
        """The same loop over `boundary()` and `finish()`."""
        replies = [*script]
        while await generation.boundary():
            await self.model(generation)
            if (replies.pop(0) if replies else "answer") == "tool":
                await self.tool(generation, f"call-{generation.request_count}")
            elif await generation.finish(f"answer {generation.request_count}"):
                break

    # The run.

    async def main(self) -> None:
        self.opened = anyio.Event()
        async with anyio.create_task_group() as group:
            await self.perform(group)
            self.opened.set()
            for role in self.roles.values():
                role.cue.set()
            for role in self.roles.values():
                await role.spoken.wait()
            await self.close()
        self.look_for_the_left()
        self.seen.closed = self.runtime.closed
        self._read_finally()

    async def perform(self, group: anyio.abc.TaskGroup) -> None:
        """Start all roles; return when the host is done."""
        for role in self.roles.values():
            group.start_soon(self._play, role)
        await self.roles["host"].spoken.wait()

    def _read_finally(self) -> None:
        for submission in self.seen.submissions:
            name = submission.input_id
            receipt = self.runtime.receipt(name)
            self.seen.final[name] = receipt
            if receipt is None:
                continue
            self.read(receipt)
            kept, sent = self.runtime.input(name), self._sent[name]
            if receipt["disposition"] != "applied" and (kept is None or kept.text != sent.text):
                self.note(f"{name!r} is {receipt['disposition']}, its content reads {kept!r}", "S2")
        if self.runtime.pending():
            self.note(f"pending after closing: {self.runtime.pending()}", "S2")

    async def _play(self, role: Role) -> None:
        _current.set(role)
        if role.background:
            role.spoken.set()
        try:
            async with AsyncExitStack() as stack:
                role.scopes.append(stack.enter_context(anyio.CancelScope()))
                if self.probe.backend == "asyncio":
                    role.task = asyncio.current_task()
                    role.timeout = await stack.enter_async_context(asyncio.timeout(None))
                try:
                    if role.cued:
                        await role.cue.wait()
                    try:
                        await role.play()
                    except FAILURES as error:  # judged by `check`
                        role.error = error
                    await checkpoint()  # a cancellation that came last is heard here
                except anyio.get_cancelled_exc_class():
                    role.heard = True
                    raise
        except asyncio.CancelledError:
            # A role is where a native cancellation is meant to end. Where a scope and a timeout
            # of asyncio fire at once, AnyIO lets the timeout's leave its scope.
            if not role.natively and not self._doubly_cancelled(role):
                self.note(f"a cancellation left {role.name} that nobody asked for", "block")
        except TimeoutError:
            pass
        except ExceptionGroup as error:  # what its scope has left of a group with cancellations
            role.error = error
        finally:
            asked = role.task is not None and role.task.cancelling() > role.natively
            if asked and self.counts_cancellations:
                self.note(f"{role.name} is left with requests to cancel", "block")
            role.done = True
            role.spoken.set()

    def _doubly_cancelled(self, role: Role) -> bool:
        return role.scopes[0].cancel_called and f"timeout-{role.name}" in self.fired

    # The disturbances.

    def events(self) -> Mapping[str, Injection]:
        found: dict[str, Injection] = {}
        for role in self.roles.values():
            if not role.background:  # the watchdogs of the scenarios are not to be stopped
                found |= self._role_events(role)
        found["stop"] = Injection(self.stop, lambda: self.runtime.generation is not None)
        found["fail-write"] = Injection(self._let_write_fail, lambda: not self.wanted())
        found["fail-save"] = Injection(self._let_save_fail)
        wanted = self.disturbances
        return {
            name: self._noted(name, each)
            for name, each in found.items()
            if any(
                name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in wanted
            )
        }

    def _noted(self, name: str, injection: Injection) -> Injection:
        def fire() -> None:
            kind, _, target = name.partition("-")
            role = self.roles.get(target)
            if kind in CANCELLATIONS and role is not None and role.disturbed_at is None:
                role.disturbed_at = self.probe.now()
            self.fired.append(name)
            active = self.runtime.generation
            injection.fire()
            # One by a timeout of asyncio or by an inner scope is not to be placed from here.
            whole = kind in ("cancel", "expire", "native")
            if whole and active is not None and role is not None and role is self.stepping():
                self.seen.cancels.append(Cancel(str(active["id"]), self.moment()))

        return Injection(fire, injection.ready)

    def _role_events(self, role: Role) -> dict[str, Injection]:
        def running() -> bool:
            return bool(role.scopes) and not role.done

        def cancel() -> None:
            role.scopes[-1].cancel()

        def cancel_outer() -> None:
            role.scopes[0].cancel()

        def expire() -> None:
            role.scopes[0].deadline = self.probe.now()

        def native() -> None:
            assert role.task is not None
            role.natively = True
            role.task.cancel()

        def time_out() -> None:
            assert role.timeout is not None
            role.timeout.reschedule(self.probe.now())

        found = {
            f"cancel-{role.name}": Injection(cancel_outer, running),
            f"expire-{role.name}": Injection(expire, running),
            f"inner-{role.name}": Injection(cancel, lambda: running() and len(role.scopes) > 1),
        }
        if role.cued:
            ready = lambda: not role.cue.is_set()  # noqa: E731
            found[role.name] = Injection(role.cue.set, ready)
        if self.probe.backend == "asyncio":
            found[f"native-{role.name}"] = Injection(native, lambda: running() and bool(role.task))
            found[f"timeout-{role.name}"] = Injection(
                time_out, lambda: running() and role.timeout is not None
            )
        return found

    def _let_write_fail(self) -> None:
        self.context.fail_next = True

    def _let_save_fail(self) -> None:
        self._fail_save = True

    # The judgement.

    def evidence(self) -> Evidence:
        events = [event.to_json() for event in self.runtime.events()]
        return Evidence(events, self.context.messages, self.seen)

    def _held_at_the_finish(self) -> Iterator[Violation]:
        log = self.evidence().log
        for turn in log.turns.values():
            for end in turn.terminals:
                event = log.events[end]
                held = event["accepted_input_ids"]
                finished = event["type"] == "generation.finished"
                if finished and held and not self.may_finish_with_held:
                    what = f"{turn.id!r} finished, and {held} were accepted and ignored"
                    yield Violation("S6", what, (log.line(end),))

    def check(self) -> None:
        """Judge the run.

        Raises:
            PromiseBroken: With everything that was found.
        """
        found: list[Violation] = []
        try:
            check(self.evidence())
        except PromiseBroken as broken:
            found += broken.violations
        for role in self.roles.values():
            if role.error is not None and not isinstance(role.error, self.expected):
                self.note(f"{role.name} met {role.error!r}")
            # What exits the program goes before a cancellation, and takes its place.
            replaced = isinstance(role.error, SystemExit) or not self.hears_natively
            if role.natively and not role.heard and not replaced:
                self.note(f"the native cancellation of {role.name} was removed", "block")
        found += self._held_at_the_finish()
        for block in self.blocks:
            raised, left = block.raised, block.left_with
            failed = isinstance(raised, (Exception, SystemExit))
            if failed and left is not raised:
                self.note(f"the body raised {raised!r}, {left!r} left the block", "block")
        self.expect()
        found += self.problems
        if found:
            raise PromiseBroken(found)
