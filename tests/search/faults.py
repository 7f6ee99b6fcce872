"""Faults planted in the library, to show that the search and the checkers find them.

A fault replaces a few words in the source of one or more functions and compiles them again in
their module's own namespace, so it breaks exactly one thing and says what in the library's own
words. If the words are not there any more the fault is stale, and says so: a planted fault that
changes nothing would be found by nobody.

Each names the scenario and the backend that find it. The replay token is found anew by the search,
because a token counts steps and the library may take fewer; `python -m tests.search --faults`
prints them all.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .campaign import BACKENDS, BY_NAME, replay
from .schedule import Bounds, Policy, Run, explore, reduce

BOUNDS = Bounds(events=2, reorderings=1, systematic=600, random=400)


class StaleFault(Exception):
    """The words that a fault replaces are not in the library any more."""


@dataclass(frozen=True, slots=True)
class Words:
    """Some words in the source of one function, and what stands there instead.

    Args:
        where: `module:Class.function` below `midcourse`.
    """

    where: str
    old: str
    new: str

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """The function with the other words, for as long as the block runs."""
        module_name, _, path = self.where.partition(":")
        module = import_module(f"midcourse.{module_name}")
        owner: Any = module
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        original = vars(owner)[name]
        setattr(owner, name, self._compiled(original))
        try:
            yield
        finally:
            setattr(owner, name, original)

    def _compiled(self, original: Any) -> Any:
        function: Any = original.fget if isinstance(original, property) else original
        # A function that was compiled here already knows its words, inspect does not.
        source = getattr(function, "planted", None) or textwrap.dedent(inspect.getsource(function))
        count = source.count(self.old)
        if count != 1:
            raise StaleFault(f"{self.where} has {self.old!r} {count} times, not once")
        flags = __future__.annotations.compiler_flag
        planted = source.replace(self.old, self.new)
        code = compile(planted, f"<{self.where}>", "exec", flags)
        found: dict[str, Any] = {}
        # In the namespace of the function's own module: the fault is part of the library.
        exec(code, function.__globals__, found)
        made = found[function.__name__]
        inner: Any = made.fget if isinstance(made, property) else made
        inner.planted = planted
        return made


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, and what stands there instead; `None` where there was no such row.

    Args:
        where: `module:TABLE` below `midcourse`.
        key: Gives the key, of the names in the module.
        value: Gives the value.
    """

    where: str
    key: Callable[[Any], Any]
    value: Callable[[Any], Any]

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """The table with the other row, for as long as the block runs."""
        module_name, _, name = self.where.partition(":")
        module = import_module(f"midcourse.{module_name}")
        table, key = getattr(module, name), self.key(module)
        before = table.get(key)
        table[key] = self.value(module)
        try:
            yield
        finally:
            if before is None:
                del table[key]
            else:
                table[key] = before


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to get it wrong.

    Args:
        what: The fault, in words.
        scenario: The scenario that finds it.
        changes: What is replaced.
        backend: The backend that finds it.
        promise: One of the promises that it is seen to break.
    """

    what: str
    scenario: str
    changes: tuple[Words | Row, ...]
    promise: str
    backend: str = "trio"

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The library with the fault, for as long as the block runs."""
        with ExitStack() as stack:
            for change in self.changes:
                stack.enter_context(change.replaced())
            yield

    def find(self) -> Run | None:
        """Search for the fault, which has to be planted; a run that shows it, reduced."""

        def run(policy: Policy) -> Run:
            return BACKENDS[self.backend](BY_NAME[self.scenario], policy)

        def shows(failure: Run) -> bool:
            return self.promise in failure.kind.split(",")

        report = explore(
            run, BOUNDS, enough=lambda report: bool(report.failures) and shows(report.failures[-1])
        )
        showing = [failure for failure in report.failures if shows(failure)]
        return reduce(run, showing[0]) if showing else None

    def replay(self, token: str) -> Run:
        """Run the scenario again from a token, with or without the fault."""
        return replay(self.scenario, self.backend, token)


GENERATION = "_engine.generation:Generation"
STATE = "_core.generation:GenerationState"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "closing after publishing",
        "WatchersSubmit",
        (
            Words(f"{STATE}._conclude", "self._on_over()", "pass"),
            Words(f"{STATE}.admitting", "is Phase.OPEN", "in (Phase.OPEN, Phase.OVER)"),
            Words(f"{GENERATION}._close", "self._receiver.close()", "pass"),
            Words(
                "_engine.block:GenerationBlock._unwind",
                "await self._manager.__aexit__(None, None, None)",
                "for _ in range(8):\n"
                "            await self._k.lowlevel.cancel_shielded_checkpoint()\n"
                "        self._nursery.cancel_scope.cancel()\n"
                "        await self._manager.__aexit__(None, None, None)\n"
                "        generation._state._on_over()",
            ),
        ),
        "I8",
    ),
    Fault(
        "an await between the check and the closing",
        "SubmitRacesFinish",
        (
            Words(
                f"{GENERATION}._save_and_finish",
                "self._end(Cause.FINISH_SPENT",
                "await self._k.lowlevel.checkpoint(); self._end(Cause.FINISH_SPENT",
            ),
        ),
        "S6",
    ),
    Fault(
        "recording after the hand-off",
        "SubmitRacesFinish",
        (
            Words(
                "_runtime:LiveRuntime._submit",
                "return await generation._submit(lambda: loops.step(lambda: self._admit(offer)))",
                "place = self._session.place(offer)\n"
                "    await generation._submit(lambda: generation._hand_off(offer) or None)\n"
                "    await anyio_checkpoint()\n"
                "    return self._session.accept(offer, place).receipt()",
            ),
        ),
        "Stuck",
    ),
    Fault(
        "an await after the hand-off",
        "SubmitRacesStop",
        (
            Words(
                f"{GENERATION}._submit",
                "is None:\n            await self._k.lowlevel.checkpoint()\n        return decided",
                "is None:\n            await self._k.lowlevel.checkpoint()\n"
                "        await self._k.lowlevel.checkpoint()\n        return decided",
            ),
        ),
        "I12",
    ),
    Fault(
        "an unshielded write",
        "CancelDuringWrite",
        (Words("_engine.host_call:HostCall.__init__", "shield=True", "shield=False"),),
        "S5",
    ),
    Fault(
        "an interrupted write called applied",
        "HalfWrite",
        (
            Row(
                "_core.tables:VERDICTS",
                lambda m: (m.WriteEnd.TOLD, None),
                lambda m: m.Verdict(m.Step.APPLY, None),
            ),
        ),
        "S3",
    ),
    Fault(
        "a swallowed cancellation called applied",
        "SwallowingWrite",
        (Words(f"{GENERATION}._write", "error is None and not call.told", "error is None"),),
        "S3",
    ),
    Fault(
        "the checkpoint awaited after the check",
        "SubmitRacesCheckpoint",
        (
            Words(
                f"{GENERATION}._save_and_finish",
                "if self._save is not None:",
                "if False:",
            ),
            Words(
                f"{GENERATION}._save_and_finish",
                "self._end(Cause.FINISH_SPENT",
                "async with HostCalls(self._k, self._end_by) as calls:\n"
                "            await self._call_host(calls, self._write_checkpoint, self._save)\n"
                "        self._end(Cause.FINISH_SPENT",
            ),
        ),
        "S6",
    ),
    Fault(
        "a checkpoint that is not protected",
        "SubmitRacesCheckpoint",
        (
            Words(
                f"{GENERATION}._save_and_finish",
                "await self._call_host(calls, self._write_checkpoint, self._save)",
                "await self._save(self)",
            ),
        ),
        "S6",
    ),
    Fault(
        "no look at cancellation before a write begins",
        "CancelBetweenWrites",
        (Words(f"{GENERATION}._write", "if self._wanted():", "if False:"),),
        "S5",
    ),
    Fault(
        "one child for a whole batch, which cannot see a native cancellation",
        "CancelBetweenWrites",
        (
            Words(
                f"{GENERATION}._write_pending",
                "await self._call_host(calls, self._write, record)",
                "async def all(call, record):\n"
                "                    while record is not None:\n"
                "                        await self._write(call, record)\n"
                "                        record = state.next_write()\n"
                "                await self._call_host(calls, all, record)",
            ),
            Words(f"{GENERATION}._wanted", " or bool(self._cancellations)", ""),
        ),
        "S5",
        "asyncio",
    ),
    Fault(
        "a drainer that stops and leaves its channel open",
        "Crowd",
        (
            Words(
                f"{GENERATION}._drain",
                "self._steered.set()",
                "self._steered.set()\n            return",
            ),
            Words(f"{GENERATION}._drain", "if self._state.admitting:", "if False:"),
        ),
        "I13",
    ),
    Fault(
        "a grace that never ends",
        "HangingCheckpoint",
        (Words("_engine.host_call:HostCall.hurry", "min(", "max("),),
        "Stuck",
    ),
    Fault(
        "a torn grace: told to cancel at once",
        "SlowWrite",
        (Words("_engine.host_call:HostCall.hurry", "+ grace", "+ 0 * grace"),),
        "S5",
    ),
    Fault(
        "identity compared without its anchor",
        "NextGeneration",
        (Words("_runtime:prepare", 'f"to {anchor}"', '""'),),
        "I10",
    ),
    Fault(
        "the terminal event before the last settlement",
        "CancelDuringWrite",
        (
            Words(
                f"{STATE}._conclude",
                "self.phase is not Phase.ENDING or self._writing is not None",
                "self.phase is not Phase.ENDING",
            ),
        ),
        "I8",
    ),
    Fault(
        "unknown overwritten with held",
        "FailingWrite",
        (
            Row(
                "_core.tables:INPUT_STEPS",
                lambda m: (m.Stage.UNKNOWN, m.Step.HOLD),
                lambda m: m.Stage.HELD,
            ),
            Words(
                f"{STATE}.settle",
                "self._conclude()",
                "if verdict.step is Step.LOSE:\n"
                "        record.settle(self._log, Step.HOLD, HeldReason.FAILED)\n"
                "    self._conclude()",
            ),
        ),
        "I15",
    ),
    Fault(
        "an ordinary steer consumed twice",
        "Serve",
        (
            Words(
                "_core.session:Session.accept",
                "goes_to.queue.append(record)",
                "goes_to.queue.append(record)\n"
                "        if not record.anchored:\n"
                "            self.inbox.append(Record(offer, Delivery.NEW_TURN, None))",
            ),
        ),
        "I2",
    ),
    Fault(
        "a taken batch lost at the end of its generation",
        "TwoStep",
        (
            Words(
                f"{STATE}.end",
                "self._settle(record, Step.LOSE, UnknownReason.WRITE_INTERRUPTED)",
                "pass",
            ),
        ),
        "I1",
    ),
    Fault(
        "the latest steer first",
        "CancelBetweenWrites",
        (
            Words(
                f"{STATE}.next_write",
                "self.queue[0]",
                "(self.queue.insert(0, self.queue.pop()) or self.queue[0])",
            ),
        ),
        "I7",
    ),
    Fault(
        "a stop that only cancels the body",
        "SubmitRacesStop",
        (
            Words(
                "_runtime:LiveRuntime._stop",
                "self._end(self._session.stop)",
                "self._end(lambda: None)",
            ),
        ),
        "S6",
    ),
    Fault(
        "a settlement that wakes nobody",
        "FailingWrite",
        (
            Words(
                "_runtime:LiveRuntime._notify",
                "if self._settling and type in _SETTLES:",
                'if self._settling and type in _SETTLES and type != "steering.unknown":',
            ),
        ),
        "Stuck",
    ),
    Fault(
        "a shield raised over a drainer on its way into a cancellation",
        "SubmitRacesFinish",
        (
            Words(
                "_engine.block:GenerationBlock._unwind",
                "await self._manager.__aexit__(None, None, None)",
                "self._nursery.cancel_scope.shield = True\n"
                "        await self._manager.__aexit__(None, None, None)",
            ),
        ),
        "scenario",
    ),
)
