"""What was measured, for people and for programs: ratios only, nothing of the machine."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from statistics import median

from .figures import FIGURES

__all__ = ["Ratios", "save", "table"]

Ratios = dict[str, dict[str, tuple[float, ...]]]
"""The measured ratios, by figure and backend."""

HEAD = ("what", "floor", "trio", "asyncio", "goal")


def save(ratios: Ratios, path: Path) -> None:
    """Write the ratios and the versions that they were measured with."""
    figures = {
        figure.key: {
            "what": figure.what,
            "floor": figure.floor,
            "ratios": {
                backend: {
                    "median": round(median(values), 3),
                    "least": round(min(values), 3),
                    "most": round(max(values), 3),
                    "values": len(values),
                    "goal": figure.goals[backend],
                }
                for backend, values in ratios[figure.key].items()
            },
        }
        for figure in FIGURES
        if figure.key in ratios
    }
    facts = {
        "python": platform.python_version(),
        "trio": version("trio"),
        "anyio": version("anyio"),
        "figures": figures,
    }
    path.write_text(json.dumps(facts, indent=2) + "\n")


def table(ratios: Ratios) -> str:
    """One line for each figure; `!` marks a ratio above its goal."""
    rows = [HEAD]
    for figure in FIGURES:
        if figure.key not in ratios:
            continue
        measured = {
            backend: _cell(values, figure.goals[backend])
            for backend, values in ratios[figure.key].items()
        }
        both = measured.get("both", "")
        goals = dict.fromkeys(f"{goal:g}" for goal in figure.goals.values())
        rows.append(
            (
                figure.what,
                figure.floor,
                measured.get("trio", both),
                measured.get("asyncio", "same" if both else ""),
                " / ".join(goals),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _cell(values: tuple[float, ...], goal: float) -> str:
    middle = median(values)
    mark = "!" if middle > goal else ""
    return f"{middle:.2f}{mark} ({min(values):.2f}-{max(values):.2f})"
