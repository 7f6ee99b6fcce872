"""The planner's three tools: list, read and search, under one folder and never outside it.

Each tool is a generator: it does a little, yields how much is done so far, and is told whether to
stop. So whoever drives it can run it in slices in a worker thread, show progress, and end it early
with what it has. A result is a JSON-ready mapping, fit for a message; whatever could not be read is
named in it with the reason, and is never an exception.

No link is followed, neither to a folder nor to a file, wherever it leads: that keeps the tools
inside, free of loops, and counts every file once.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from midcourse.terminal.instructions import may_hold, names

Result = dict[str, Any]
Steps = Generator[int, bool | None, Result]

LARGEST_READ = 2_000_000
"""Bytes: a longer file is named as too large and not read."""

ENTRIES_PER_FOLDER = 200_000
"""A folder that holds more is listed up to here, and the result says that it was cut."""

_ENTRIES_PER_STEP = 500
_SHOWN_PER_FILE = 5
_SHOWN_LENGTH = 120
_BINARY_LOOK = 8192
_TODO = re.compile(r"\b(?:TODO|FIXME|XXX)\b.*")
# O_NONBLOCK: opening a named pipe must not wait for its writer. O_NOFOLLOW: see the module.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class _NotRead(Exception):
    """Why a path was not read, in words for the answer."""


class Workspace:
    """The folder that the tools work on.

    Args:
        root: An existing folder. Links in this path itself are resolved once, here.

    Paths given to the tools and found in their results are relative to it, with slashes; `""` is
    the folder itself. A path that is absolute, climbs with `..` or passes through a link is not
    touched. A tree that somebody else changes at the same moment is checked, but not locked.
    """

    def __init__(self, root: str) -> None:
        self.root: str = os.path.realpath(root)

    def run(self, tool: str, arguments: Mapping[str, Any]) -> Steps:
        """Return the steps of one tool call.

        Raises:
            ValueError: There is no such tool.
        """
        if tool == "list":
            return self.list_folders(**arguments)
        if tool == "read":
            return self.read_files(**arguments)
        if tool == "search":
            return self.search_files(**arguments)
        raise ValueError(f"no tool is called {tool!r}; there are list, read and search")

    def list_folders(
        self,
        folders: Sequence[str],
        *,
        depth: int = 1,
        skip: Sequence[str] = (),
        only: Sequence[str] = (),
    ) -> Steps:
        """List folders, and what lies in them down to `depth` levels.

        Args:
            folders: Where to begin.
            depth: 1 lists these folders alone.
            skip: Patterns whose folders are not descended into.
            only: Where given, folders that cannot hold what these name are not descended into.
        """
        listed: dict[str, Any] = {}
        failed: dict[str, str] = {}
        seen = 0
        level = list(folders)
        for _ in range(max(1, depth)):
            below: list[str] = []
            for folder in level:
                try:
                    entries = self._scan(folder)
                    for count in entries:
                        if isinstance(count, int):
                            # A folder is listed whole or not at all, so the wish to stop is
                            # looked at between folders only.
                            yield seen + count
                        else:
                            listed[folder] = count
                except _NotRead as reason:
                    failed[folder] = str(reason)
                    continue
                seen += len(listed[folder]["files"])
                for name in listed[folder]["folders"]:
                    path = f"{folder}/{name}" if folder else name
                    if wanted_folder(path, skip, only):
                        below.append(path)
                if (yield seen):
                    return {"listed": listed, "failed": failed}
            level = below
        return {"listed": listed, "failed": failed}

    def read_files(self, paths: Sequence[str], *, words: Sequence[str] = ()) -> Steps:
        """Read files: count their lines, note their TODOs and the lines that hold `words`."""
        read: list[Result] = []
        not_read: list[list[str]] = []
        for done, path in enumerate(paths, start=1):
            try:
                text = self._text(path)
            except _NotRead as reason:
                not_read.append([path, str(reason)])
            else:
                lines = text.splitlines()
                record: Result = {"path": path, "lines": len(lines), "todos": _todos(text, lines)}
                if words:
                    record["hits"] = {word: _hits(word, text, lines) for word in words}
                read.append(record)
            if (yield done):
                break
        return {"read": read, "not_read": not_read}

    def search_files(self, words: Sequence[str], *, paths: Sequence[str]) -> Steps:
        """Look for the lines of files that hold `words`, in any case."""
        searched: list[Result] = []
        for done, path in enumerate(paths, start=1):
            hits: dict[str, Any] = {word: [0, []] for word in words}
            try:
                text = self._text(path)
            except _NotRead:
                pass
            else:
                lines = text.splitlines()
                hits = {word: _hits(word, text, lines) for word in words}
            searched.append({"path": path, "hits": hits})
            if (yield done):
                break
        return {"searched": searched}

    # -------------------------------------------------------------------------------- inside

    def _inside(self, path: str) -> str:
        parts = path.split("/") if path else []
        if os.path.isabs(path) or ".." in parts or "\0" in path:
            raise _NotRead("outside the folder")
        full = os.path.join(self.root, *parts)
        # The root is free of links, so any difference comes from a link below it.
        if os.path.realpath(full) != full:
            raise _NotRead("a link, not followed")
        return full

    def _scan(self, folder: str) -> Iterator[int | Result]:
        full = self._inside(folder)
        files: list[list[Any]] = []
        below: list[str] = []
        links = special = cut = 0
        try:
            with os.scandir(full) as entries:
                for count, entry in enumerate(entries):
                    if count >= ENTRIES_PER_FOLDER:
                        cut = 1
                        break
                    if count % _ENTRIES_PER_STEP == _ENTRIES_PER_STEP - 1:
                        yield count
                    try:
                        if entry.is_symlink():
                            links += 1
                        elif entry.is_dir(follow_symlinks=False):
                            below.append(entry.name)
                        elif entry.is_file(follow_symlinks=False):
                            size = entry.stat(follow_symlinks=False).st_size
                            files.append([entry.name, size])
                        else:
                            special += 1
                    except OSError:
                        special += 1  # gone between the listing and the look at it
        except OSError as error:
            raise _NotRead(_reason(error)) from None
        yield {
            "files": sorted(files),
            "folders": sorted(below),
            "links": links,
            "special": special,
            "cut": cut,
        }

    def _text(self, path: str) -> str:
        full = self._inside(path)
        try:
            descriptor = os.open(full, _FLAGS)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise _NotRead("not a regular file")
                if status.st_size > LARGEST_READ:
                    raise _NotRead("too large")
                with open(descriptor, "rb", closefd=False) as file:
                    # One byte more than allowed tells of a file that grew, or whose size is a
                    # lie. None is what a file that would block says.
                    data = file.read(LARGEST_READ + 1) or b""
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _NotRead(_reason(error)) from None
        if len(data) > LARGEST_READ:
            raise _NotRead("too large")
        if b"\0" in data[:_BINARY_LOOK]:
            raise _NotRead("binary")
        return data.decode("utf-8", errors="replace")


def wanted_folder(path: str, skip: Iterable[str], only: Sequence[str]) -> bool:
    """Tell whether a folder may hold something wanted."""
    if any(names(pattern, path) for pattern in skip):
        return False
    return not only or any(may_hold(pattern, path) for pattern in only)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _todos(text: str, lines: list[str]) -> list[Any]:
    if not _TODO.search(text):
        return [0, []]
    found = [
        (number, match.group())
        for number, line in enumerate(lines, start=1)
        if (match := _TODO.search(line))
    ]
    return _counted(found)


def _hits(word: str, text: str, lines: list[str]) -> list[Any]:
    folded = word.casefold()
    if folded not in text.casefold():
        return [0, []]
    found = [
        (number, line.strip())
        for number, line in enumerate(lines, start=1)
        if folded in line.casefold()
    ]
    return _counted(found)


def _counted(found: list[tuple[int, str]]) -> list[Any]:
    shown = [[number, line[:_SHOWN_LENGTH]] for number, line in found[:_SHOWN_PER_FILE]]
    return [len(found), shown]
