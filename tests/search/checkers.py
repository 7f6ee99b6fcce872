"""One checker for each promise: pure functions from the evidence of a session to what broke.

I1 to I17 are the invariants of the contract; S2 to S7 are promises of its sections that no
invariant states. Each looks at its own promise only, so that a broken session names the promise
that broke; `check` runs them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .evidence import TERMINALS, Evidence, Submission, Turn

# A submission needs its own checkpoint, the hand-off, and the passes in which a drainer that has
# just received parks again; so much for it, and so much for each submitter before it.
SUBMIT_TICKS = 6
TICKS_PER_WAITER = 4
# Within its own checkpoints a submission has no place among those that wait yet.
ORDER_TICKS = 3

CODES = frozenset({
    "invalid_input", "identity_conflict", "runtime_closed", "unavailable", "no_active_generation",
    "generation_mismatch", "admission_closed", "identities_exhausted", "queue_full",
})  # fmt: skip
REASONS = {
    "held": frozenset({
        "stopped", "cancelled", "failed", "call_budget_exhausted", "generation_ended",
        "context_refused", "runtime_closed",
    }),
    "unknown": frozenset({"write_interrupted", "write_failed"}),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, and the lines that show it."""

    promise: str
    what: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join((f"{self.promise}: {self.what}", *self.lines))


class PromiseBroken(AssertionError):
    """A session broke promises.

    Attributes:
        violations: All of them.
        promises: The ids of the broken promises, sorted, each once.
    """

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__("\n".join(map(str, violations)))
        self.violations = violations
        self.promises = sorted({violation.promise for violation in violations})


EVENTS = frozenset({
    "input.accepted", "input.queued", "steering.accepted", "generation.started", "request.started",
    "input.delivered", "steering.applied", "steering.held", "steering.unknown", "input.held",
    "input.unknown", "generation.continued", *TERMINALS,
})  # fmt: skip

Checker = Callable[[Evidence], Iterator[Violation]]


def i1(case: Evidence) -> Iterator[Violation]:
    """Every input accepted for a generation is settled before its terminal event, exactly once."""
    log = case.log
    for turn in log.turns.values():
        if not turn.terminals:
            continue
        end = turn.terminals[0]
        for name in log.of(turn):
            settled = log.settled.get(name, [])
            lines = (*(log.line(s.index) for s in settled), log.line(end))
            least = 0 if name == turn.initial and name in case.seen.host_written else 1
            if not least <= sum(s.index < end for s in settled):
                yield Violation("I1", f"{name!r} is not settled before the terminal event", lines)
            elif len(settled) > 1:
                yield Violation("I1", f"{name!r} is settled {len(settled)} times", lines)


def i2(case: Evidence) -> Iterator[Violation]:
    """The write is begun at most once per input."""
    for name, count in Counter(write.input_id for write in case.seen.writes).items():
        if count > 1:
            yield Violation("I2", f"the write of {name!r} was begun {count} times")


def i3(case: Evidence) -> Iterator[Violation]:
    """Applied: the context holds the input exactly once, written in its own generation."""
    log = case.log
    copies = Counter(name for name, _ in case.held_by_context())
    for name in log.ids():
        if log.disposition(name) != "applied":
            continue
        line = log.line(log.settled[name][0].index)
        if copies[name] != 1:
            what = f"{name!r} is applied, the context has it {copies[name]} times"
            yield Violation("I3", what, (line,))
        for write in case.seen.writes:
            if write.input_id == name and write.generation_id != log.assigned[name]:
                where = f"in {write.generation_id!r}, not in {log.assigned[name]!r}"
                yield Violation("I3", f"{name!r} is applied, but was written {where}", (line,))


def i4(case: Evidence) -> Iterator[Violation]:
    """Held: the context does not hold it."""
    held_by_context = {name for name, _ in case.held_by_context()}
    for name in case.log.ids():
        if case.log.disposition(name) == "held" and name in held_by_context:
            line = case.log.line(case.log.settled[name][0].index)
            yield Violation("I4", f"{name!r} is held, and the context holds it", (line,))


def i5(case: Evidence) -> Iterator[Violation]:
    """Unknown: the write was begun (or the batch taken) and did not return unchallenged."""
    for name in case.log.ids():
        if case.log.disposition(name) != "unknown" or name in case.seen.taken:
            continue
        line = case.log.line(case.log.settled[name][0].index)
        writes = [write for write in case.seen.writes if write.input_id == name]
        if not writes:
            yield Violation("I5", f"{name!r} is unknown, its write was never begun", (line,))
        elif all(write.how == "returned" and not write.challenged for write in writes):
            yield Violation("I5", f"{name!r} is unknown, its write returned unchallenged", (line,))


def i6(case: Evidence) -> Iterator[Violation]:
    """An anchored input never reaches the context in another generation."""
    log = case.log
    for write in case.seen.writes:
        anchor = log.anchors.get(write.input_id)
        # An applied one is I3's to report.
        applied = log.disposition(write.input_id) == "applied"
        if anchor is not None and write.generation_id != anchor and not applied:
            where = f"while {write.generation_id!r} was active"
            yield Violation("I6", f"{write.input_id!r} for {anchor!r} was written {where}")
    for name, target in case.held_by_context():
        anchor = log.anchors.get(name)
        if anchor is not None and target != anchor:
            yield Violation("I6", f"the message of {name!r} for {anchor!r} is marked {target!r}")


def i7(case: Evidence) -> Iterator[Violation]:
    """Within one generation the order in the context is the order of acceptance."""
    log = case.log
    found = [name for name, _ in case.held_by_context()]
    for turn in log.turns.values():
        accepted = log.of(turn)
        context = list(dict.fromkeys(name for name in found if name in accepted))
        wanted = [name for name in accepted if name in context]
        if context != wanted:
            lines = tuple(log.line(log.accepted[name]) for name in wanted if name in log.accepted)
            what = f"the context of {turn.id!r} has {context}, accepted was {wanted}"
            yield Violation("I7", what, lines)


def i8(case: Evidence) -> Iterator[Violation]:
    """Nothing is accepted after admission closed; the terminal event follows every settlement."""
    log = case.log
    for turn in log.turns.values():
        for name in log.of(turn):
            at = log.accepted.get(name)
            for end in turn.terminals[:1]:
                lines = (log.line(end),)
                if at is not None and at > end and name != turn.initial:
                    what = f"{name!r} was accepted after the terminal event of {turn.id!r}"
                    yield Violation("I8", what, (*lines, log.line(at)))
                for settlement in log.settled.get(name, []):
                    if settlement.index > end:
                        what = f"{name!r} was settled after the terminal event of {turn.id!r}"
                        yield Violation("I8", what, (*lines, log.line(settlement.index)))
    for refused in case.seen.submissions:
        if refused.code != "admission_closed" or refused.ended is None:
            continue
        for name, anchor in log.anchors.items():
            if anchor == refused.anchor and log.accepted[name] >= refused.ended.sequence:
                what = f"{name!r} was accepted after {refused.input_id!r} found admission closed"
                yield Violation("I8", what, (log.line(log.accepted[name]),))


def i9(case: Evidence) -> Iterator[Violation]:
    """Exactly one terminal event per generation, on every path."""
    log = case.log
    for turn in log.turns.values():
        if len(turn.terminals) != 1:
            lines = tuple(log.line(index) for index in (turn.started, *turn.terminals))
            yield Violation("I9", f"{turn.id!r} has {len(turn.terminals)} terminal events", lines)
    for index in log.stray_terminals:
        yield Violation("I9", "a terminal event without a generation", (log.line(index),))


def i10(case: Evidence) -> Iterator[Violation]:
    """The same id again returns the same receipt; other content or anchor changes nothing."""
    log = case.log
    for name, indices in log.acceptances.items():
        if len(indices) > 1:
            lines = tuple(map(log.line, indices))
            yield Violation("I10", f"{name!r} was accepted {len(indices)} times", lines)
    by_id: dict[str, list[Submission]] = {}
    for submission in case.seen.submissions:
        by_id.setdefault(submission.input_id, []).append(submission)
    for name, tries in by_id.items():
        returned = sorted(
            (each for each in tries if each.ended and each.outcome == "returned"),
            key=lambda each: each.ended.order if each.ended else 0,
        )
        if not returned:
            continue
        first = returned[0]
        assert first.receipt is not None
        assert first.ended is not None
        for again in tries:
            same = (again.content, again.anchor) == (first.content, first.anchor)
            if again.outcome == "returned":
                receipt = again.receipt or {}
                if receipt.get("inputId") != name:
                    yield Violation("I10", f"{name!r} got the receipt of another: {receipt}")
                elif not same:
                    yield Violation("I10", f"{name!r} with other content or anchor was accepted")
            elif again.began > first.ended and again.outcome == "refused":
                if same:
                    what = f"{name!r} again was refused ({again.code}) after it was accepted"
                    yield Violation("I10", what)
                elif again.code not in ("identity_conflict", "invalid_input"):
                    what = f"{name!r} with other content was refused as {again.code}"
                    yield Violation("I10", what)


def i11(case: Evidence) -> Iterator[Violation]:
    """At most so many identities, none evicted."""
    accepted = case.log.accepted
    if len(accepted) > case.seen.identities:
        what = f"{len(accepted)} identities were accepted, the bound is {case.seen.identities}"
        yield Violation("I11", what)
    for name in accepted:
        if case.seen.final.get(name, {}) is None:
            yield Violation("I11", f"{name!r} was accepted and is not known any more")


def i12(case: Evidence) -> Iterator[Violation]:
    """A submission that raised cancellation was not admitted."""
    for name, index in case.log.accepted.items():
        outcomes = {s.outcome for s in case.seen.submissions if s.input_id == name}
        if outcomes == {"cancelled"}:
            what = f"{name!r} was admitted, and its submission raised cancellation"
            yield Violation("I12", what, (case.log.line(index),))


def i13(case: Evidence) -> Iterator[Violation]:
    """A submission returns in steps bounded by the submitters before it, whatever else runs."""
    for each in case.seen.submissions:
        if each.ended is None:
            yield Violation("I13", f"the submission of {each.input_id!r} never returned")
            continue
        # Those that came while it stood at its own checkpoint may be before it: the order of
        # submissions is that of their hand-offs.
        before = sum(
            other is not each
            and other.began.tick <= each.began.tick + 1
            and (other.ended is None or other.ended > each.began)
            for other in case.seen.submissions
        )
        bound = SUBMIT_TICKS + TICKS_PER_WAITER * before
        ticks = each.ended.tick - each.began.tick
        if each.ended.time > each.began.time:
            waited = each.ended.time - each.began.time
            yield Violation("I13", f"the submission of {each.input_id!r} waited {waited} s")
        elif ticks > bound:
            what = f"{each.input_id!r} behind {before} took {ticks} passes, not {bound}"
            yield Violation("I13", what)
    yield from _overtaken(case)


def _overtaken(case: Evidence) -> Iterator[Violation]:
    accepted = case.log.accepted
    waited = [each for each in case.seen.submissions if each.outcome == "returned"]
    for first in waited:
        for second in waited:
            later = first.began.tick + ORDER_TICKS <= second.began.tick
            waiting = first.ended is not None and second.began < first.ended
            one, two = accepted.get(first.input_id, -1), accepted.get(second.input_id, -1)
            if later and waiting and one > two >= 0:
                what = f"{second.input_id!r} overtook {first.input_id!r}, which waited already"
                yield Violation("I13", what, (case.log.line(two), case.log.line(one)))


def i14(case: Evidence) -> Iterator[Violation]:
    """Each tool call runs once, and the initial input reaches the context once."""
    for (turn, call), count in Counter(case.seen.tool_calls).items():
        if count > 1:
            yield Violation("I14", f"tool call {call!r} of {turn!r} ran {count} times")
    copies = Counter(name for name, _ in case.held_by_context())
    for each in case.log.turns.values():
        name = each.initial or ""
        if copies[name] > 1 and case.log.disposition(name) != "applied":
            yield Violation("I14", f"the initial input {name!r} is in the context {copies[name]}x")


def i15(case: Evidence) -> Iterator[Violation]:
    """A settled disposition never changes: in no receipt, and not between receipt and log."""
    log = case.log
    told: dict[str, tuple[str, str | None]] = {}
    for name, settled in log.settled.items():
        told[name] = (settled[0].disposition, settled[0].reason)
        for later in settled[1:]:
            if later.disposition != settled[0].disposition:
                lines = (log.line(settled[0].index), log.line(later.index))
                yield Violation("I15", f"the disposition of {name!r} changed in the log", lines)
    for receipt in case.seen.readings:
        if receipt["disposition"] == "queued":
            continue
        name = receipt["inputId"]
        says = (receipt["disposition"], receipt.get("reason"))
        before = told.setdefault(name, says)
        if before != says:
            yield Violation("I15", f"{name!r} was {before}, and a receipt says {says}")
    for name, final in case.seen.final.items():
        if final is not None and final["disposition"] == "queued" and name in log.settled:
            line = log.line(log.settled[name][0].index)
            yield Violation("I15", f"{name!r} reads queued after it was settled", (line,))


def i16(case: Evidence) -> Iterator[Violation]:
    """An input applied in a generation that finishes is followed by a model request."""
    log = case.log
    for turn in log.turns.values():
        if not _finished(case, turn):
            continue
        for name in log.of(turn):
            if log.disposition(name) != "applied":
                continue
            at = log.settled[name][0].index
            lines = (log.line(at), log.line(turn.terminals[0]))
            if not any(index > at for index in turn.requests):
                yield Violation("I16", f"no request follows {name!r}", lines)
            made = [each for each in case.seen.requests if each.generation_id == turn.id]
            if made and not any(name in each.input_ids for each in made):
                yield Violation("I16", f"no model request carried {name!r}", lines)


def i17(case: Evidence) -> Iterator[Violation]:
    """No task of a generation outlives its block."""
    for task in case.seen.left_behind:
        yield Violation("I17", f"{task} is alive after the block")


def s2(case: Evidence) -> Iterator[Violation]:
    """Closing the runtime settles everything."""
    for name, receipt in case.seen.final.items():
        queued = receipt is not None and receipt["disposition"] == "queued"
        if case.seen.closed and queued and name not in case.log.settled:
            yield Violation("S2", f"{name!r} is queued after the runtime was closed")


def s3(case: Evidence) -> Iterator[Violation]:
    """Applied and held are proven by the write, or by what the context confirmed."""
    confirmed = {each.input_id: each.answer for each in case.seen.confirmations}
    for write in case.seen.writes:
        name = write.input_id
        disposition, answer = case.log.disposition(name), confirmed.get(name)
        unchallenged = write.how == "returned" and not write.challenged
        if disposition == "applied" and not unchallenged and answer is not True:
            yield Violation("S3", f"{name!r} is applied: {write.how}, confirmed {answer}")
        elif disposition == "held" and write.how != "unchanged" and answer is not False:
            yield Violation("S3", f"{name!r} is held: {write.how}, confirmed {answer}")
        elif disposition == "unknown" and answer is not None:
            yield Violation("S3", f"{name!r} is unknown, the context said {answer}")


def s4(case: Evidence) -> Iterator[Violation]:
    """Accepted means recorded, refused means that nothing was; refusals carry a right code."""
    log = case.log
    for name, index in log.accepted.items():
        outcomes = {s.outcome for s in case.seen.submissions if s.input_id == name}
        if outcomes and "returned" not in outcomes and outcomes != {"cancelled"}:
            what = f"{name!r} was accepted, its submitters saw {sorted(outcomes)}"
            yield Violation("S4", what, (log.line(index),))
    for each in case.seen.submissions:
        if each.outcome == "failed":
            yield Violation("S4", f"the submission of {each.input_id!r} raised {each.code}")
        elif each.outcome == "refused" and each.code not in CODES:
            yield Violation("S4", f"{each.input_id!r} was refused with {each.code!r}")
        elif each.outcome == "returned" and each.ended is not None:
            at = log.accepted.get(each.input_id)
            obeyed = (each.receipt or {}).get("reason") == "stopped"
            if (at is None and not obeyed) or (at is not None and at >= each.ended.sequence):
                yield Violation("S4", f"{each.input_id!r} got a receipt and was not recorded")
        turn = log.turns.get(each.anchor or "")
        if each.code in ("no_active_generation", "generation_mismatch") and turn and each.ended:
            ends = turn.terminals[0] if turn.terminals else len(log.events)
            if turn.started < each.began.sequence and each.ended.sequence <= ends:
                what = f"{each.input_id!r} was refused as {each.code} while {turn.id!r} was active"
                yield Violation("S4", what, (log.line(turn.started),))


def s5(case: Evidence) -> Iterator[Violation]:
    """Writes go one at a time, none is begun once cancellation is wanted, reasons are true."""
    last = None
    for write in case.seen.writes:
        if write.wanted:
            yield Violation("S5", f"{write.input_id!r} was begun after cancellation was wanted")
        if last is not None and (last.ended is None or last.ended > write.began):
            yield Violation("S5", f"{write.input_id!r} was begun while {last.input_id!r} ran")
        last = write
        settled = case.log.settled.get(write.input_id)
        if settled and settled[0].disposition == "unknown":
            wanted = "write_interrupted" if write.challenged else "write_failed"
            if settled[0].reason != wanted:
                what = f"{write.input_id!r} is {settled[0].reason}, the write: {write.how}"
                yield Violation("S5", what, (case.log.line(settled[0].index),))
        if write.torn:
            yield Violation(
                "S5", f"{write.input_id!r} was told to cancel before its grace was over"
            )
        if write.ended is None:
            yield Violation("S5", f"the write of {write.input_id!r} never came back")
        yield from _ending_of(case, write.generation_id, write.how, write.wanted_at_end)
        turn = case.log.turns.get(write.generation_id or "")
        if turn is not None and write.wanted_at_end and write.ended is not None:
            late = [index for index in turn.requests if index >= write.ended.sequence]
            if late:
                what = f"a request was begun after {write.input_id!r}, when cancellation was wanted"
                yield Violation("S5", what, tuple(map(case.log.line, late)))


def s6(case: Evidence) -> Iterator[Violation]:
    """Stop acts at once, and wins: over writes, admission, a finish; as cancellation does."""
    log = case.log
    yield from _saves(case)
    yield from _cancels(case)
    for stop in case.seen.stops:
        turn = log.turns.get(stop.generation_id or "")
        if turn is None:
            continue
        for write in case.seen.writes:
            if write.generation_id == turn.id and write.began > stop.at:
                yield Violation("S6", f"{write.input_id!r} was begun after stop")
        for name in log.of(turn):
            at = log.accepted.get(name, -1)
            if at >= stop.at.sequence and name != turn.initial:
                yield Violation("S6", f"{name!r} was accepted after stop", (log.line(at),))
        unsettled = [
            write
            for write in case.seen.writes
            if write.generation_id == turn.id
            and write.began < stop.at
            and not any(s.index < stop.at.sequence for s in log.settled.get(write.input_id, []))
        ]
        if not unsettled and not any(end < stop.at.sequence for end in turn.terminals):
            what = f"{turn.id!r} was not ended by the time that stop returned"
            yield Violation("S6", what, tuple(map(log.line, turn.terminals)))


def _cancels(case: Evidence) -> Iterator[Violation]:
    log = case.log
    for cancel in case.seen.cancels:
        turn = log.turns.get(cancel.generation_id)
        # Who takes and sends tells what happened, wanted or not.
        if turn is None or any(log.assigned.get(name) == turn.id for name in case.seen.taken):
            continue
        for index in (*turn.requests, *turn.terminals):
            kind = log.events[index]["type"]
            right = kind in ("generation.detached", "generation.failed")
            if index >= cancel.at.sequence and not right:
                yield Violation("S6", f"{kind} after cancellation was wanted", (log.line(index),))


def _saves(case: Evidence) -> Iterator[Violation]:
    for save in case.seen.saves:
        turn = case.log.turns.get(save.generation_id)
        if turn is None or not turn.terminals or not save.wanted_at_end:
            continue
        if turn.terminals[0] >= save.ended.sequence:
            kind = case.log.events[turn.terminals[0]]["type"]
            if kind != "generation.detached":
                what = "cancellation was wanted when a checkpoint ended, it is not detached"
                yield Violation("S6", what, (case.log.line(turn.terminals[0]),))


def s7(case: Evidence) -> Iterator[Violation]:
    """The log is gapless, in the contract's words, and its lists tell what its lines tell."""
    log = case.log
    active: str | None = None
    for index, event in enumerate(log.events):
        line = (log.line(index),)
        if event["sequence"] != index + 1 or event["version"] != 1:
            yield Violation("S7", f"event {index + 1} has the wrong number", line)
        kind, name = event["type"], event.get("input_id", "")
        if kind not in EVENTS:
            yield Violation("S7", "an event that is not in the contract", line)
        if kind == "generation.started":
            if active is not None:
                yield Violation("S7", f"{active!r} was still active", line)
            active = event["generation_id"]
        elif kind in TERMINALS:
            active = None
        elif kind in ("request.started", "generation.continued"):
            if event["generation_id"] != active:
                yield Violation("S7", f"{event['generation_id']!r} was not active", line)
        elif kind in ("steering.applied", "steering.accepted"):
            before = log.events[index - 1] if index else {"type": "nothing"}
            pair = "input.delivered" if kind == "steering.applied" else "input.accepted"
            if before["type"] != pair or before.get("input_id") != name:
                yield Violation("S7", f"it does not follow {pair} of {name!r}", line)
        reasons = REASONS.get(kind.rpartition(".")[2])
        if reasons and event.get("reason") not in reasons:
            yield Violation("S7", f"reason {event.get('reason')!r}", line)
        if reasons and (event.get("target_generation_id") is None) == kind.startswith("steering"):
            yield Violation("S7", "the kind of event and the anchor disagree", line)
    for turn in log.turns.values():
        yield from _lists_of(case, turn)


def _lists_of(case: Evidence, turn: Turn) -> Iterator[Violation]:
    log = case.log
    wanted: dict[str, set[str]] = {"applied": set(), "held": set(), "unknown": set()}
    for name in log.of(turn):
        if log.settled.get(name):
            wanted[log.disposition(name)].add(name)
    keys = {"input_ids": "applied", "accepted_input_ids": "held", "unknown_input_ids": "unknown"}
    numbers = [log.events[index]["request"] for index in turn.requests]
    if numbers != list(range(1, len(numbers) + 1)):
        lines = tuple(map(log.line, turn.requests))
        yield Violation("S7", f"the requests of {turn.id!r} are numbered {numbers}", lines)
    carried = [name for index in turn.requests for name in log.events[index]["input_ids"]]
    if len(carried) != len(set(carried)) or not wanted["applied"] >= set(carried):
        yield Violation("S7", f"the requests of {turn.id!r} carried {carried}")
    for end in turn.terminals:
        event = log.events[end]
        for key, disposition in keys.items():
            told = set(event[key]) - case.seen.host_written
            if told != wanted[disposition] - case.seen.host_written:
                what = f"{key} is {sorted(told)}, {disposition} were {sorted(wanted[disposition])}"
                yield Violation("S7", what, (log.line(end),))
        if event["requests"] != len(numbers):
            yield Violation("S7", f"{len(numbers)} requests were begun", (log.line(end),))


def _ending_of(
    case: Evidence, generation_id: str | None, how: str, wanted: bool
) -> Iterator[Violation]:
    turn = case.log.turns.get(generation_id or "")
    if turn is None or not turn.terminals:
        return
    kind = case.log.events[turn.terminals[0]]["type"]
    broke = how in ("raised", "unchanged")
    right = "generation.detached" if wanted else "generation.failed" if broke else kind
    if kind != right:
        what = f"after a write that {how}, {'' if wanted else 'un'}cancelled, it is not {right}"
        yield Violation("S5", what, (case.log.line(turn.terminals[0]),))


def _finished(case: Evidence, turn: Turn) -> bool:
    return bool(turn.terminals) and (
        case.log.events[turn.terminals[0]]["type"] == "generation.finished"
    )


CHECKERS: dict[str, Checker] = {
    "I1": i1, "I2": i2, "I3": i3, "I4": i4, "I5": i5, "I6": i6, "I7": i7, "I8": i8, "I9": i9,
    "I10": i10, "I11": i11, "I12": i12, "I13": i13, "I14": i14, "I15": i15, "I16": i16,
    "I17": i17, "S2": s2, "S3": s3, "S4": s4, "S5": s5, "S6": s6, "S7": s7,
}  # fmt: skip


def check(case: Evidence) -> None:
    """Run every checker.

    Raises:
        PromiseBroken: With every violation that was found.
    """
    found = [violation for checker in CHECKERS.values() for violation in checker(case)]
    if found:
        raise PromiseBroken(found)
