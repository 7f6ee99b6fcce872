"""Draw the reference page from the tables of the core: `python docs/draw_tables.py`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from midcourse._core import tables as t
from midcourse._core.errors import REFUSALS, RefusalCode

PAGE = Path(__file__).with_name("tables.md")


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(f"`{cell}`" if cell else "" for cell in row) + " |" for row in rows]
    return [*lines, ""]


def diagram(edges: Iterable[tuple[object, object, object]]) -> list[str]:
    lines = [f"    {start} --> {end}: {label}" for start, end, label in edges]
    return ["```mermaid", "stateDiagram-v2", *lines, "```", ""]


def page() -> str:
    lines = [
        "# States and transitions",
        "",
        "Drawn from `midcourse/_core/tables.py` by `docs/draw_tables.py`; do not edit.",
        "",
        "## An input",
        "",
        *diagram((start, end, step) for (start, step), end in t.INPUT_STEPS.items()),
        "What a receipt says of each stage:",
        "",
        *table(("stage", "disposition"), t.DISPOSITION.items()),
        "## The end of a write",
        "",
        "By how the write came back and what `confirm` said of it (empty: absent, undecided or",
        "failed; not asked after a return or an unchanged context).",
        "",
        *table(
            ("write", "confirm", "step", "reason"),
            (
                (end, "" if said is None else str(said), verdict.step, verdict.reason)
                for (end, said), verdict in t.VERDICTS.items()
            ),
        ),
        "## A generation",
        "",
        "Admission is open in `open` only. In `ending` one write is still running.",
        "",
        *diagram(
            [
                *((start, end, cause) for (start, cause), end in t.PHASE_STEPS.items()),
                (t.Phase.ENDING, t.Phase.OVER, "no write runs"),
            ]
        ),
        "What each cause makes of the generation and of the inputs that still wait:",
        "",
        *table(
            ("cause", "outcome", "held reason"),
            ((cause, ending.outcome, ending.held) for cause, ending in t.ENDINGS.items()),
        ),
        "## Refusals",
        "",
        *table(("code", "exception"), ((code, REFUSALS[code].__name__) for code in RefusalCode)),
        "## Reasons",
        "",
        "Of a held input: " + ", ".join(f"`{reason}`" for reason in t.HeldReason) + ".",
        "Of an unknown one: " + ", ".join(f"`{reason}`" for reason in t.UnknownReason) + ".",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
