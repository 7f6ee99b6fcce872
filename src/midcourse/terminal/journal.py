"""What happened, in order: the runtime's events, the host's tool calls and the refusals.

A `Journal` turns them into rows, one line each, as they come: the rows that a person sees while the
agent works are the rows of the timeline at the end. Nothing in a row is guessed; each comes from an
event, from a refusal that was raised, or from a tool call that was timed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from midcourse.terminal.wording import counted, listed, shortened

Kind = Literal["note", "turn", "request", "tool", "steer", "end"]

_LABELS = 6

REFUSED = {
    "no_active_generation": "no turn is running, and it is not kept for another one",
    "generation_mismatch": "it was meant for a turn that is over, and another one is running",
    "admission_closed": "the turn is ending and takes no more",
    "runtime_closed": "the session is over",
    "queue_full": "as many steers as allowed are waiting already",
    "identities_exhausted": "this session has taken as many steers as it can",
}
"""Why a steer was refused, in words, by code; a code that is not here speaks for itself."""

UNSETTLED = {
    "stopped": "the turn was stopped before it was written",
    "cancelled": "the turn was cancelled before it was written",
    "failed": "the turn failed before it was written",
    "call_budget_exhausted": "no request was left that could have carried it",
    "generation_ended": "the turn ended before it was written",
    "context_refused": "the context did not take it",
    "runtime_closed": "the session was closed before it was written",
    "write_interrupted": "it was being written when the turn was interrupted",
    "write_failed": "writing it failed, and nobody can tell how far it got",
}
"""What a reason of a held or unknown steer means, in words."""


class EventLike(Protocol):
    """The part of `midcourse.Event` that a journal reads."""

    @property
    def time(self) -> float: ...
    @property
    def type(self) -> str: ...
    @property
    def data(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """A steer that was refused: nothing was recorded for it, so only the host knows of it."""

    label: str
    text: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the timeline.

    Attributes:
        time: Seconds since the epoch.
        kind: What it is about.
        text: The line, of printable characters only.
        style: A rich style for it, or "".
        request: The number of the request that begins with this row.
        opens: Steers that wait from here on.
        closes: Steers that are settled here, with the disposition.
        refused: Steers that were refused here.
    """

    time: float
    kind: Kind
    text: str
    style: str = ""
    request: int | None = None
    opens: tuple[str, ...] = ()
    closes: tuple[tuple[str, str], ...] = ()
    refused: tuple[str, ...] = ()


STYLES = {
    "queued": "yellow",
    "applied": "green",
    "held": "magenta",
    "unknown": "bold red",
    "refused": "red",
}


@dataclass(slots=True)
class Told:
    """One steer, and the last that is known of it.

    Attributes:
        label: Its input id.
        text: What the person said.
        disposition: Of the receipt, or `refused`.
        why: Where it was applied, or why it was not.
    """

    label: str
    text: str
    disposition: str
    why: str = ""


@dataclass(slots=True)
class Journal:
    """Collects what happens and tells it in rows.

    Args:
        show: Called with each row as it comes, on whichever thread adds it.
        clock: For what has no time of its own: seconds since the epoch.

    Every method may be called from any thread.
    """

    show: Callable[[Row], None]
    clock: Callable[[], float]
    rows: list[Row] = field(default_factory=list)
    told: dict[str, Told] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    """The texts of initial inputs, by input id; the host fills it before it opens a turn."""
    _turns: dict[str, int] = field(default_factory=dict)
    _applied: list[str] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def say(self, label: str, text: str) -> None:
        """Remember what a person said, before it is submitted: events carry no text."""
        with self._lock:
            self.told.setdefault(label, Told(label, text, ""))

    def forget(self, label: str) -> None:
        """Forget what was never submitted."""
        with self._lock:
            self.told.pop(label, None)

    def note(self, text: str, style: str = "dim") -> None:
        """Add a remark of the host's own."""
        self._row(self.clock(), "note", text, style)

    def tool(self, text: str, result: str, seconds: float) -> None:
        """Add a tool call that has just ended, with its time where it took any to speak of."""
        took = f" ({seconds:.1f} s)" if seconds >= 0.1 else ""
        self._row(self.clock(), "tool", f"{text}: {result}{took}", "")

    def refused(self, refusal: Refusal) -> None:
        """Add a refusal."""
        why = REFUSED.get(refusal.code, refusal.detail)
        shown = shortened(f"{refusal.code} ({why})", 300)
        with self._lock:
            self.told[refusal.label] = Told(refusal.label, refusal.text, "refused", shown)
            text = f"{refusal.label} refused, {shown}: {_quoted(refusal.text)}"
            self._row(self.clock(), "steer", text, STYLES["refused"], refused=(refusal.label,))

    def event(self, event: EventLike) -> None:
        """Add an event of the runtime."""
        with self._lock:
            self._take(event.time, event.type, event.data)

    # ------------------------------------------------------------------------------- the telling

    def _row(self, time: float, kind: Kind, text: str, style: str = "", **more: Any) -> None:
        with self._lock:
            row = Row(time, kind, text, style, **more)
            self.rows.append(row)
            self.show(row)

    def _take(self, time: float, type: str, data: Mapping[str, Any]) -> None:
        match type:
            case "generation.started":
                turn = self._turns[data["generation_id"]] = len(self._turns) + 1
                prompt = self.prompts.get(data["initial_input_id"], "")
                self._row(time, "turn", f"turn {turn} begins: {_quoted(prompt)}", "bold")
            case "steering.accepted":
                label = data["input_id"]
                told = self.told.setdefault(label, Told(label, "", ""))
                told.disposition = "queued"
                text = f"{label} queued: {_quoted(told.text)}"
                self._row(time, "steer", text, STYLES["queued"], opens=(label,))
            case "steering.applied":
                # Told with the request that carries it, which is the next event.
                self._applied.append(data["input_id"])
                self.told[data["input_id"]].disposition = "applied"
            case "request.started":
                self._request(time, data["request"], data["input_ids"])
            case "steering.held" | "steering.unknown":
                self._not_applied(time, type.partition(".")[2], data)
            case "generation.continued":
                labels = listed(list(data["input_ids"]), _LABELS)
                text = f"the answer is kept back: {labels} came in time, so the turn goes on"
                self._row(time, "end", text, "cyan")
            case "generation.finished" | "generation.failed" | "generation.detached":
                self._end(time, type.partition(".")[2], data)
            case _:
                # input.accepted, input.queued and input.delivered tell nothing that the rows
                # above do not; the host submits no ordinary inputs.
                pass

    def _request(self, time: float, number: int, written: tuple[str, ...]) -> None:
        applied, self._applied = self._applied, []
        for label in applied:
            self.told[label].why = f"at request {number}"
        if applied:
            shown = f"{listed(applied, _LABELS)} applied"
        else:
            shown = "the prompt is written" if written else "nothing waits"
        closes = tuple((label, "applied") for label in applied)
        style = STYLES["applied"] if applied else ""
        text = f"boundary, then request {number}: {shown}"
        self._row(time, "request", text, style, request=number, closes=closes)

    def _not_applied(self, time: float, disposition: str, data: Mapping[str, Any]) -> None:
        label, reason = data["input_id"], data["reason"]
        told = self.told.setdefault(label, Told(label, "", ""))
        told.disposition = disposition
        told.why = f"{reason} ({UNSETTLED.get(reason, reason)})"
        text = f"{label} {disposition}, {told.why}: {_quoted(told.text)}"
        self._row(time, "steer", text, STYLES[disposition], closes=((label, disposition),))

    def _end(self, time: float, outcome: str, data: Mapping[str, Any]) -> None:
        applied, self._applied = self._applied, []
        turn = self._turns.get(data["generation_id"], 0)
        more = ""
        if outcome == "detached":
            more = f" ({data['reason']})"
        elif outcome == "failed":
            more = f" ({data['error_type']})"
        text = f"turn {turn} {outcome}{more} after {counted(data['requests'], 'request')}"
        style = {"finished": "bold green", "failed": "bold red"}.get(outcome, "bold magenta")
        # A steer that was written and that no request carried any more: applied all the same.
        closes = tuple((label, "applied") for label in applied)
        for label in applied:
            self.told[label].why = "written, and no request followed"
        self._row(time, "end", text, style, closes=closes)


def _quoted(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    shown = shortened(lines[0], 100)
    more = f" and {counted(len(lines) - 1, 'more line', 'more lines')}" if len(lines) > 1 else ""
    return f'"{shown}"{more}'
