"""The host: one runtime, the planner's loop, and three tasks beside it.

The loop is the one of the documentation: each step of `generation.requests()` is a boundary, where
what a person said meanwhile enters the context. Beside it, one task turns the runtime's events into
rows, one watches for signals, and where there is a terminal one reads lines in a thread.
"""

from __future__ import annotations

import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, field

import anyio
from anyio import to_thread
from prompt_toolkit.patch_stdout import patch_stdout

from midcourse import Event, Gap, Generation, Input, LiveRuntime, MemoryContext, SteeringRefused
from midcourse.terminal.journal import Journal, Refusal
from midcourse.terminal.knowledge import Budget
from midcourse.terminal.planner import Decision, ToolCall, plan
from midcourse.terminal.prompt import LinePrompt
from midcourse.terminal.running import brought, run_tool
from midcourse.terminal.script import STOP, Cue, Turn
from midcourse.terminal.timeline import Screen
from midcourse.terminal.tools import Result, Workspace
from midcourse.terminal.wording import counted, printable, shortened

FINISHED, FAILED, STOPPED = 0, 1, 130
"""Exit codes."""

_PROGRESS_EVERY = 1.0
_NEWS = 8
_INTERRUPTED = "interrupted: the turn is stopped; once more leaves"
_HELP = "Type to steer. /stop ends the turn, /pending shows what waits, /quit or Ctrl-D leaves."


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asked for.

    Attributes:
        folder: An existing folder.
        turns: At least one.
        budget: Of each turn.
        pace: Seconds that each tool call takes at least, so that a person has time to type.
        linger: Seconds that the line stays open after the end, counted from the last keystroke.
        live: Whether a person types.
    """

    folder: str
    turns: tuple[Turn, ...]
    budget: Budget
    pace: float
    linger: float
    live: bool


@dataclass(slots=True)
class Host:
    """One run of the demo.

    Args:
        settings: What to do.
        screen: Where to tell of it.
    """

    settings: Settings
    screen: Screen
    journal: Journal = field(init=False)
    runtime: LiveRuntime = field(init=False)
    events: list[Event] = field(init=False, default_factory=list)
    """Every event, in order."""
    exit_code: int = field(init=False, default=STOPPED)
    _workspace: Workspace = field(init=False)
    _context: MemoryContext = field(init=False)
    _steers: int = field(init=False, default=0)
    _turns: int = field(init=False, default=0)
    _anchor: str | None = field(init=False, default=None)
    """The id of the running turn, or of the last one: what a line that is typed is meant for."""
    _running: bool = field(init=False, default=False)
    _interrupts: int = field(init=False, default=0)
    _leaving: bool = field(init=False, default=False)
    _status: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.journal = Journal(show=self.screen.row, clock=time.time)
        self.runtime = LiveRuntime()
        self._workspace = Workspace(self.settings.folder)
        budget = self.settings.budget
        self._context = MemoryContext(
            [
                {
                    "role": "system",
                    "content": "You survey a folder with the tools list, read and search.",
                    "metadata": {
                        "budget": {
                            "requests": budget.requests,
                            "files": budget.files,
                            "listed": budget.listed,
                        }
                    },
                }
            ]
        )

    async def run(self) -> None:
        """Run every turn, and what goes on beside them; then close the runtime."""
        with patch_stdout(raw=True) if self.settings.live else nullcontext():
            async with anyio.create_task_group() as tasks:
                async with self.runtime:
                    tasks.start_soon(self._report)
                    tasks.start_soon(self._watch_signals, tasks.cancel_scope)
                    if self.settings.live:
                        await self._with_a_person()
                    else:
                        await self._turns_in_order()
                self._catch_up()
                tasks.cancel_scope.cancel()

    async def _with_a_person(self) -> None:
        left = anyio.Event()
        prompt = LinePrompt(
            on_line=self._typed, on_interrupt=self._interrupted, status=self._status_line
        )

        async def read_lines() -> None:
            try:
                await to_thread.run_sync(prompt.run)
            finally:
                self._leave()
                left.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_lines)
            try:
                self.screen.say(_HELP, "dim")
                await self._turns_in_order()
                await self._linger(prompt, left)
            finally:
                # The thread cannot be cancelled; it is asked, on every way out.
                prompt.close()

    async def _linger(self, prompt: LinePrompt, left: anyio.Event) -> None:
        if self._leaving or self.settings.linger <= 0:
            return
        seconds = f"{self.settings.linger:g} s"
        self.journal.note(
            "No turn is running: a line typed now is refused. /quit leaves, and so does"
            f" {seconds} without a keystroke."
        )
        ended = time.monotonic()
        while not left.is_set():
            rest = max(ended, prompt.last_touched) + self.settings.linger - time.monotonic()
            if rest <= 0:
                return
            with anyio.move_on_after(rest):
                await left.wait()

    # --------------------------------------------------------------------------------- the turns

    async def _turns_in_order(self) -> None:
        for number, turn in enumerate(self.settings.turns):
            if self._leaving or self._interrupts:
                return
            if turn.shows:
                self.screen.say(turn.shows, "dim")
            outcome = await self._turn(turn)
            # A script that stops its second turn on purpose has done what it was asked for.
            if number == 0 or self._interrupts:
                self.exit_code = outcome
            for text in turn.late:
                await self._submit(text)

    async def _turn(self, turn: Turn) -> int:
        self._turns += 1
        prompt = Input("user", turn.prompt, id=f"turn-{self._turns}")
        self.journal.prompts[prompt.id] = turn.prompt
        due = list(turn.cues)
        generation: Generation | None = None
        try:
            async with self.runtime.open_generation(
                prompt, context=self._context, max_requests=self.settings.budget.requests
            ) as generation:
                self._anchor, self._running = generation.id, True
                await self._loop(generation, due)
        except Exception as error:  # noqa: BLE001  # the one place that makes it an outcome
            self.journal.note(printable(f"{type(error).__name__}: {error}"), "bold red")
        finally:
            self._running = False
            self._status = ""
            self._catch_up()
        for cue in due:
            text = shortened(cue.text, 80)
            self.journal.note(f"never admitted, the turn ended before {cue.when()} took it: {text}")
        if generation is None or generation.outcome == "failed":
            return FAILED
        if generation.outcome == "finished":
            self.screen.say(f"\n{generation.text}\n")
            return FINISHED
        return FAILED if generation.reason == "call_budget_exhausted" else STOPPED

    async def _loop(self, generation: Generation, due: list[Cue]) -> None:
        async for request in generation.requests():
            await self._cue(due, request.number)
            # The messages only grow, and only here and at the boundary: a copy of the list will do.
            decision = await to_thread.run_sync(plan, list(self._context.messages))
            self._tell(decision)
            await self._context.add_message(decision.message())
            if decision.answer is not None:
                await self._cue(due, None)
                request.finish(decision.answer)
                continue
            for call in decision.calls:
                result = await self._call(call, decision.text, generation)
                await self._context.add_message(
                    {
                        "role": "tool",
                        "tool_call_id": call.id,
                        "name": call.name,
                        "content": result,
                    }
                )

    async def _cue(self, due: list[Cue], request: int | None) -> None:
        for cue in [cue for cue in due if cue.request == request]:
            if cue.text == STOP:
                due.remove(cue)
                self.journal.note("the script stops the turn")
                self.runtime.stop()
            else:
                await self._submit(cue.text)
                due.remove(cue)

    def _tell(self, decision: Decision) -> None:
        self._catch_up()
        for news in decision.news[:_NEWS]:
            self.journal.note(f"  the planner notes: {shortened(news, 120)}", "")
        if len(decision.news) > _NEWS:
            self.journal.note(f"  and {len(decision.news) - _NEWS:,} more", "")

    async def _call(self, call: ToolCall, text: str, generation: Generation) -> Result:
        self._status = text
        next_word = time.monotonic() + _PROGRESS_EVERY

        def progress(done: int) -> None:
            nonlocal next_word
            self._status = f"{text}: {done:,} so far"
            if not self.settings.live and time.monotonic() >= next_word:
                next_word = time.monotonic() + _PROGRESS_EVERY
                self.screen.say(shortened(self._status, 200), "dim", indent=4)

        ran = await run_tool(
            self._workspace.run(call.name, call.arguments),
            wait_steered=generation.wait_steered,
            progress=progress,
        )
        self._status = f"{text}: done"
        self._catch_up()
        early = ", returned early: a steer waits" if ran.early else ""
        result = brought(call.name, ran.result) + early
        self.journal.tool(shortened(text, 100), result, ran.seconds)
        # Not cut short by a steer: the pace is there so that a person can see one wait.
        await anyio.sleep(max(0.0, self.settings.pace - ran.seconds))
        return ran.result

    # ------------------------------------------------------------------------------------ beside

    async def _report(self) -> None:
        """Turn each event into a row as it comes."""
        with self.runtime.subscribe(after=0) as subscription:
            async for item in subscription:
                last = item.last if isinstance(item, Gap) else item.sequence
                # Whoever is first tells it: the loop, before a row of its own, or this task.
                if not self.events or self.events[-1].sequence < last:
                    self._catch_up()

    def _catch_up(self) -> None:
        after = self.events[-1].sequence if self.events else 0
        for event in self.runtime.events(after):
            self.events.append(event)
            self.journal.event(event)

    async def _watch_signals(self, scope: anyio.CancelScope) -> None:
        if sys.platform == "win32":  # pragma: no cover
            return
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                leaves = number == signal.SIGTERM or self._interrupts or not self._running
                if self._running:
                    self._interrupts += 1
                    self.exit_code = STOPPED
                    self.runtime.stop()
                if leaves:
                    scope.cancel()
                    return
                self.journal.note(_INTERRUPTED)

    async def _submit(self, text: str) -> None:
        """Submit a scripted line to the running turn, or to the last one."""
        steer = self._new_steer(text)
        try:
            await self.runtime.submit_steering(steer, self._anchor)
        except SteeringRefused as refusal:
            self._refused(steer, refusal)
        except anyio.get_cancelled_exc_class():
            # Cancelled while it waited, so it was not admitted: there is no receipt to show.
            self.journal.forget(steer.id)
            raise
        self._catch_up()

    def _new_steer(self, text: str) -> Input:
        self._steers += 1
        steer = Input("steer", text, id=f"s{self._steers}")
        self.journal.say(steer.id, text)
        return steer

    def _refused(self, steer: Input, refusal: SteeringRefused) -> None:
        self.journal.refused(Refusal(steer.id, steer.text, refusal.code, str(refusal)))

    # ------------------------------------------------------- the person; in the prompt's thread

    def _typed(self, line: str) -> bool:
        text = line.strip()
        match text:
            case "":
                pass
            case "/quit":
                return self._leave()
            case "/stop":
                if self._running:
                    self._interrupts += 1
                    self.runtime.from_thread.stop()
                else:
                    self.journal.note("no turn is running")
            case "/pending":
                self._show_pending()
            case _ if text.startswith("/") and " " not in text:
                self.journal.note(f"{shortened(text, 60)} is no command. {_HELP}")
            case _:
                self._submit_from_thread(text)
        return True

    def _submit_from_thread(self, text: str) -> None:
        steer = self._new_steer(text)
        try:
            self.runtime.from_thread.submit_steering(steer, self._anchor)
        except SteeringRefused as refusal:
            self._refused(steer, refusal)
        else:
            if text.lower() in {"stop", "quit", "exit"}:
                self.journal.note(f"that is a steer now; /{text.lower()} is the command")

    def _show_pending(self) -> None:
        pending = self.runtime.from_thread.pending()
        if not pending:
            self.journal.note("nothing waits")
        for receipt in pending:
            waiting = self.runtime.from_thread.input(receipt["inputId"])
            text = shortened(waiting.text, 200) if waiting is not None else ""
            self.journal.note(f'{receipt["inputId"]} {receipt["disposition"]}: "{text}"', "")

    def _interrupted(self) -> bool:
        """Ctrl-C: the first stops the turn, the second leaves."""
        if not self._running or self._interrupts:
            return self._leave()
        self._interrupts += 1
        self.journal.note(_INTERRUPTED)
        self.runtime.from_thread.stop()
        return True

    def _leave(self) -> bool:
        self._leaving = True
        if self._running:
            self._interrupts += 1
            self.runtime.from_thread.stop()
        return False

    def _status_line(self) -> str:
        if not self._running:
            return " no turn is running | /quit"
        request = next((row.request for row in reversed(self.journal.rows) if row.request), 0)
        waiting = len(self.runtime.from_thread.pending())
        of = f"request {request} of {self.settings.budget.requests}"
        status = shortened(self._status or "begins", 80)
        return f" {of} | {counted(waiting, 'steer')} waiting | {status}"
