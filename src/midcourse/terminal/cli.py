"""The entry point of `midcourse`: says what is missing where the extra is not installed."""

from __future__ import annotations

import sys

_EXTRA = ("click", "prompt_toolkit", "rich")


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from midcourse.terminal.command import midcourse
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        print(
            f'midcourse: the demo needs {missing}: pip install "midcourse[terminal]"',
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    midcourse(prog_name="midcourse")
