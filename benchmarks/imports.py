"""The time that importing the library takes, against the two that it stands on."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

__all__ = ["import_time"]

PAIRS = 15


def _import(modules: str) -> float:
    """Seconds of the processor, in a fresh interpreter, its own start not included."""
    code = (
        "from time import process_time; begin = process_time(); "
        f"import {modules}; print(process_time() - begin)"
    )
    # Compiled once and kept, as for everybody who has installed it.
    environ = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, capture_output=True, env=environ).stdout)


def import_time() -> float:
    """Importing midcourse, which imports trio and anyio."""
    _import("midcourse")  # everything is compiled and in the page cache
    ratios: list[float] = []
    for number in range(PAIRS):
        if number % 2:
            above, below = _import("midcourse"), _import("trio, anyio")
        else:
            below, above = _import("trio, anyio"), _import("midcourse")
        ratios.append(above / below)
    return median(ratios)
