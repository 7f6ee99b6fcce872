"""Turns without a person: what is submitted at which request, and after the end.

The default script is what the bare command plays where nobody can type. Every line of it is
submitted to the runtime for real, at the moment that it names; what becomes of it is up to the
runtime.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

STOP = "/stop"
"""As the text of a scripted line: stop the turn instead of submitting anything."""

_LINE = re.compile(r"^\s*(\d{1,6}|answer)\s*:\s*(.*\S)\s*$", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cue:
    """One scripted line.

    Attributes:
        request: At which request it is submitted, while that request is being worked on; None
            for the moment when the planner has its answer and has not given it yet.
        text: What to submit, or `/stop`.
    """

    request: int | None
    text: str

    @classmethod
    def parse(cls, line: str) -> Cue:
        """Read `2:skip tests` or `answer:look for TODO`.

        Raises:
            ValueError: It is neither; the message says what is expected.
        """
        match = _LINE.match(line)
        if match is None or match.group(1).strip("0") == "":
            raise ValueError(
                f"{line!r} is not REQUEST:TEXT, where REQUEST is 1, 2, ... or the word answer"
            )
        when, text = match.groups()
        return cls(None if when.lower() == "answer" else int(when), text)

    def when(self) -> str:
        """Return when it is due, in words."""
        return "the answer" if self.request is None else f"request {self.request}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the demo, with what is submitted during and after it.

    Attributes:
        prompt: The text of the initial input.
        cues: Submitted during it, in order.
        late: Submitted after its end, meant for it.
        shows: What it shows, for the person who watches.
    """

    prompt: str
    cues: tuple[Cue, ...] = ()
    late: tuple[str, ...] = ()
    shows: str = ""


def default_script(prompt: str) -> tuple[Turn, ...]:
    """Return the script that shows each thing that can become of a steer, on real work."""
    return (
        Turn(
            prompt,
            cues=(
                Cue(2, "skip tests"),
                Cue(3, "look for import"),
                Cue(3, "make it sound cheerful"),
                Cue(None, "look for error"),
            ),
            late=("skip docs",),
            shows="Nobody can type here, so a script does. It submits steers at requests 2 and 3"
            " of a first turn, each queued and then applied at the next boundary; one that comes"
            " with the answer and keeps the turn going; and one after the end, refused.",
        ),
        Turn(
            "Survey this folder again, stop after 12 files",
            cues=(Cue(2, "only python"), Cue(2, STOP)),
            shows="A second turn is stopped while a steer waits: it is held, with the reason,"
            " and no later turn will begin with it.",
        ),
    )
