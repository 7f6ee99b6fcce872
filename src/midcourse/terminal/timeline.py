"""Rows on a screen: each as it comes, the table of receipts, the timeline, the picture."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from midcourse.terminal.journal import STYLES, Row, Told
from midcourse.terminal.wording import printable, shortened

PICTURES = (".svg", ".html")
FORMATS = (*PICTURES, ".jsonl")

_LANES = 8
_PICTURE_WIDTH = 110
_INDENT = {"tool": 4, "steer": 2, "note": 2}
# (open, waiting, settled, refused): drawn where the encoding has them, else in ASCII.
_DRAWN = ("┌", "│", "└", "\N{MULTIPLICATION SIGN}")
_ASCII = ("+", "|", "+", "x")
_FONT_FACES = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)


class Screen(Console):
    """A console that takes every text as it is, and outlives a reader who has seen enough."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def on_broken_pipe(self) -> None:
        """Go on without output: `midcourse demo | head` must not fail half-way through a turn."""
        self.quiet = True
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, self.file.fileno())
        os.close(devnull)

    def row(self, row: Row) -> None:
        """Print one row as it comes."""
        self.say(row.text, row.style, indent=_INDENT.get(row.kind, 0))

    def say(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Print text; in a terminal a long line goes on a little further to the right."""
        for line in text.split("\n"):
            whole = Text(line, style=style)
            if not self.is_terminal:
                self.print(Text(" " * indent).append_text(whole), soft_wrap=True)
                continue
            deeper = indent + (len(line) - len(line.lstrip())) + 2
            rest = whole.wrap(self, max(20, self.width - deeper))
            for number, part in enumerate(rest):
                part.rstrip()
                self.print(Text(" " * (deeper if number else indent)).append_text(part))
            if not rest:
                self.print()


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )


def receipts_table(told: Iterable[Told]) -> Table:
    """Return the table of what became of each steer."""
    table = _table("Receipts")
    table.add_column("steer", no_wrap=True)
    table.add_column("said", overflow="fold", ratio=2)
    table.add_column("receipt", no_wrap=True)
    table.add_column("where, or why not", overflow="fold", ratio=3)
    for one in told:
        state = Text(one.disposition, style=STYLES.get(one.disposition, ""))
        said = shortened(" / ".join(one.text.split("\n")), 200)
        table.add_row(printable(one.label), Text(said), state, Text(one.why))
    return table


def timeline_table(rows: Sequence[Row], *, ascii_only: bool = False) -> Table:
    """Return the timeline: seconds since the first row, what happened, and a lane for each steer.

    A lane opens where a steer is queued and closes where it is applied, held or unknown; a cross
    is a refusal. At most eight lanes stand side by side; what is said in words is complete anyway.
    """
    table = _table("Timeline")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("what happened", overflow="fold")
    table.add_column("steers", no_wrap=True)
    start = rows[0].time if rows else 0.0
    lanes = _Lanes(_ASCII if ascii_only else _DRAWN)
    for row in rows:
        if row.kind == "note":
            continue
        indent = " " * _INDENT.get(row.kind, 0)
        what = Text(indent + row.text, style=row.style)
        table.add_row(f"{max(0.0, row.time - start):.2f}", what, lanes.draw(row))
    return table


class _Lanes:
    def __init__(self, signs: tuple[str, str, str, str]) -> None:
        self._open, self._wait, self._settled, self._refused = signs
        self._lanes: list[str | None] = []

    def draw(self, row: Row) -> Text:
        marks: dict[int, tuple[str, str]] = {}
        for label in row.opens:
            marks[self._take(label)] = (self._open, STYLES["queued"])
        closing = []
        for label, disposition in row.closes:
            if label in self._lanes:
                lane = self._lanes.index(label)
                closing.append(lane)
                marks[lane] = (self._settled, STYLES[disposition])
        for label in row.refused:
            lane = self._take(label)
            closing.append(lane)
            marks[lane] = (self._refused, STYLES["refused"])
        text = Text()
        for lane, taken in enumerate(self._lanes[:_LANES]):
            waiting = (" ", "") if taken is None else (self._wait, STYLES["queued"])
            sign, style = marks.get(lane, waiting)
            text.append(sign, style=style)
        for lane in closing:
            self._lanes[lane] = None
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()
        return text

    def _take(self, label: str) -> int:
        for lane, taken in enumerate(self._lanes):
            if taken is None:
                self._lanes[lane] = label
                return lane
        self._lanes.append(label)
        return len(self._lanes) - 1


# ------------------------------------------------------------------------------------ keeping it


class Keep:
    """A file that is written at the end, and proven to be writable at the beginning.

    What stood there before stays until the new content is complete.

    Args:
        path: Ends in `.svg`, `.html` or `.jsonl`.

    Raises:
        OSError: The file cannot be written there; the message says why.
        ValueError: The name has another ending.
    """

    def __init__(self, path: str) -> None:
        self.suffix: str = os.path.splitext(path)[1].lower()
        if self.suffix not in FORMATS:
            raise ValueError(f"the name must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
        self.path: str = os.path.realpath(path)
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"{path} is a folder")
        if os.path.exists(self.path):
            if not os.path.isfile(self.path):
                raise OSError(f"{path} is not a regular file")
            if not os.access(self.path, os.W_OK):
                raise PermissionError(f"{path} is write-protected")
        folder, name = os.path.split(self.path)
        descriptor, self._beside = tempfile.mkstemp(prefix=f".{name[:80]}.", dir=folder)
        os.close(descriptor)

    def write(self, content: str) -> None:
        """Put `content` there, whole or not at all.

        Raises:
            OSError: It could not be written; what stood there before still does.
        """
        with open(self._beside, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(content)
        # The mode of a temporary file is private; the result gets that of any new file.
        os.chmod(self._beside, 0o666 & ~_umask())
        os.replace(self._beside, self.path)

    def discard(self) -> None:
        """Remove what is left of the attempt; does nothing after `write`."""
        with suppress(OSError):
            os.unlink(self._beside)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def picture(suffix: str, heading: str, told: Sequence[Told], rows: Sequence[Row]) -> str:
    """Return the receipts and the timeline as a self-contained SVG or HTML file."""
    screen = Screen(
        record=True,
        file=StringIO(),
        width=_PICTURE_WIDTH,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    parts: list[Any] = [Text(heading), Text()]
    if told:
        parts += [receipts_table(told), Text()]
    screen.print(Group(*parts, timeline_table(rows)))
    if suffix == ".svg":
        drawn = screen.export_svg(title="midcourse demo")
        # Rich names a font on the web; a picture must not fetch anything to be seen.
        return _FONT_FACES.sub("", drawn).replace(
            "font-family: Fira Code, monospace",
            "font-family: 'Fira Code', 'DejaVu Sans Mono', monospace",
        )
    return screen.export_html()


def as_lines(events: Iterable[Mapping[str, Any]]) -> str:
    """Return events as data, one JSON object a line."""
    return "".join(json.dumps(event) + "\n" for event in events)
