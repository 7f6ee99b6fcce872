"""What the planner knows: everything it can tell from the messages in its context, and no more.

One pass over the messages of the current turn. Nothing is kept between two passes, so that whatever
the planner does can be explained from the context alone, and a steer has no other way in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from midcourse.terminal.instructions import (
    LookFor,
    NotUnderstood,
    Only,
    Skip,
    StopAfter,
    names,
    understand,
)
from midcourse.terminal.tools import wanted_folder

Message = Mapping[str, Any]

HABITS = (
    *(".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache"),
    *(".pytest_cache", ".ruff_cache", ".tox", ".nox", ".cache", ".idea", ".eggs"),
)
"""Folders that are not descended into unless an `only` names them."""

_BASE_REQUEST = re.compile(
    r"^(?:please )?"
    r"(?:survey|summari[sz]e|describe|explore|map|tour|look (?:over|at|through|around))"
    r"\b(?: (?:again|this|the|that|it|here|folder|project|directory|repository|tree|once|more"
    r"|please|over|whole|everything|all|of)\b)*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Budget:
    """What one turn may cost.

    Args:
        requests: Requests to the model, the answer included.
        files: Files to read.
        listed: Files to list; about 200,000 are found in some seconds.
    """

    requests: int = 40
    files: int = 2000
    listed: int = 200_000


@dataclass(slots=True)
class Hits:
    """Where a word was found: how often, in how many files, and the first places."""

    lines: int = 0
    files: int = 0
    shown: list[tuple[str, int, str]] = field(default_factory=list)


@dataclass(slots=True)
class Knowledge:
    """The state of a turn, as told by its messages."""

    budget: Budget = field(default_factory=Budget)
    requests: int = 0
    """Requests made before this one, in this turn."""
    tool_calls: int = 0
    skip: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    stop_after: int | None = None
    not_understood: list[str] = field(default_factory=list)
    news: list[str] = field(default_factory=list)
    """What the inputs since the latest request asked for, in words."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Every file that was listed, with its size in bytes."""
    folders: set[str] = field(default_factory=set)
    """Every folder that was listed."""
    waiting: set[str] = field(default_factory=set)
    """Every folder that was seen and not listed."""
    failed: dict[str, str] = field(default_factory=dict)
    links: int = 0
    special: int = 0
    cut: list[str] = field(default_factory=list)
    read: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    not_read: dict[str, str] = field(default_factory=dict)
    hits: dict[str, dict[str, Sequence[Any]]] = field(default_factory=dict)
    """By word, by path: the number of lines, and the first of them."""

    def wanted(self, path: str) -> bool:
        """Tell whether a file is one that the survey is about."""
        if any(names(pattern, path) for pattern in self.skip):
            return False
        return not self.only or any(names(pattern, path) for pattern in self.only)

    def wanted_folders(self) -> list[str]:
        """Return the folders that wait to be listed and may hold something wanted, in order."""
        skip = (*self.skip, *self.habits())
        return sorted(path for path in self.waiting if wanted_folder(path, skip, self.only))

    def habits(self) -> list[str]:
        """Return the folder names that are left alone by habit."""
        named = {part.lower() for pattern in self.only for part in pattern.split("/")}
        return [name for name in HABITS if name not in named]

    def file_limit(self) -> int:
        """Return how many files may be looked at in all."""
        limit = self.budget.files
        return limit if self.stop_after is None else min(limit, self.stop_after)

    def found(self, word: str, paths: Iterable[str]) -> Hits:
        """Return where `word` was found in `paths`."""
        total = Hits()
        places = self.hits.get(word, {})
        for path in paths:
            count, shown = places.get(path, (0, ()))
            if count:
                total.lines += count
                total.files += 1
                total.shown.extend((path, number, text) for number, text in shown)
        return total


def known(messages: Sequence[Message]) -> Knowledge:
    """Return what the messages of the latest turn tell, a pure function of them."""
    know = Knowledge()
    begin = 0
    for position, message in enumerate(messages):
        if message["role"] == "system":
            given = message.get("metadata", {}).get("budget")
            if given is not None:
                know.budget = Budget(**given)
        elif message["role"] == "user" and _delivery(message) == "new_turn":
            begin = position
    know.waiting.add("")
    for message in messages[begin:]:
        role = message["role"]
        if role == "assistant":
            know.requests += 1
            know.news.clear()
        elif role == "user":
            _take_instructions(know, message)
        elif role == "tool":
            know.tool_calls += 1
            _take_result(know, message["name"], message["content"])
    return know


def _delivery(message: Message) -> object:
    return message.get("metadata", {}).get("delivery")


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def _take_instructions(know: Knowledge, message: Message) -> None:
    opening = _delivery(message) == "new_turn"
    for instruction in understand(_text(message["content"])):
        match instruction:
            case Skip(pattern):
                _replace(know.skip, pattern, gone_from=know.only)
                know.news.append(f"skip {pattern}")
            case Only(pattern):
                # Several in one message add up; one in a later message is a correction.
                if not any(item.startswith("only ") for item in know.news):
                    know.only.clear()
                _replace(know.only, pattern, gone_from=know.skip)
                know.news.append(f"only {pattern}")
            case LookFor(word):
                if word not in know.words:
                    know.words.append(word)
                know.news.append(f"look for {word}")
            case StopAfter(files):
                know.stop_after = files
                know.news.append(f"stop after {files:,} files")
            case NotUnderstood(text):
                if opening and _BASE_REQUEST.match(text):
                    continue
                know.not_understood.append(text)
                know.news.append(f"not understood: {text}")


def _replace(patterns: list[str], pattern: str, *, gone_from: list[str]) -> None:
    """Add a pattern; what was said about the same thing before, either way, is over."""
    for said in (patterns, gone_from):
        said[:] = [one for one in said if one.lower() != pattern.lower()]
    patterns.append(pattern)


def _take_result(know: Knowledge, tool: str, result: Mapping[str, Any]) -> None:
    if tool == "list":
        for folder, inside in result["listed"].items():
            _take_folder(know, folder, inside)
        for folder, reason in result["failed"].items():
            know.waiting.discard(folder)
            know.failed[folder] = reason
    elif tool == "read":
        for record in result["read"]:
            path = record["path"]
            know.read[path] = record
            for word, hits in record.get("hits", {}).items():
                know.hits.setdefault(word, {})[path] = hits
        know.not_read.update(result["not_read"])
    elif tool == "search":
        for record in result["searched"]:
            for word, hits in record["hits"].items():
                know.hits.setdefault(word, {})[record["path"]] = hits


def _take_folder(know: Knowledge, folder: str, inside: Mapping[str, Any]) -> None:
    know.folders.add(folder)
    know.waiting.discard(folder)
    prefix = f"{folder}/" if folder else ""
    for name, size in inside["files"]:
        know.sizes[prefix + name] = size
    for name in inside["folders"]:
        path = prefix + name
        # A folder two levels down may have been listed by the same call, before its parent's
        # entry is looked at here.
        if path not in know.folders:
            know.waiting.add(path)
    know.links += inside["links"]
    know.special += inside["special"]
    if inside["cut"]:
        know.cut.append(folder)
