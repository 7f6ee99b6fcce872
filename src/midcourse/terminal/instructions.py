"""The few instructions that the planner understands, and which files they are about.

A text is cut into clauses; each clause is one of four instructions or is not understood. Nothing
is guessed: a clause that does not begin like one of them is handed back word for word, so that the
answer can quote it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from midcourse.terminal.languages import language_called, language_of


@dataclass(frozen=True, slots=True)
class Skip:
    """Leave out what `pattern` names."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Only:
    """Leave out everything that `pattern` does not name."""

    pattern: str


@dataclass(frozen=True, slots=True)
class LookFor:
    """Report the lines that hold `word`, in any case."""

    word: str


@dataclass(frozen=True, slots=True)
class StopAfter:
    """Read no more than `files` files."""

    files: int


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A clause that is none of the others, word for word."""

    text: str


Instruction = Skip | Only | LookFor | StopAfter | NotUnderstood

_SKIP = (
    r"skip(?:ping)?|ignor(?:e|ing)|exclud(?:e|ing)|leave out|omit|without|avoid"
    r"|(?:do not|don't|dont|never) (?:read|look (?:at|in|into|through|under)|open|list|touch|visit)"
)
_ONLY = (
    r"(?:only|just) (?:read|look (?:at|in|into|through|under)|list|open)"
    r"|(?:read|look (?:at|in|into|through|under)|list|open) only"
    r"|only|just|focus on|concentrate on|stick to|restrict (?:it |yourself )?to|nothing but"
)
_LOOK = r"(?:also )?(?:look(?:ing)? (?:out )?for|search(?:ing)? for|find|grep(?: for)?|watch for)"
_STOP = (
    r"(?:stop|finish|end|quit) (?:after|at)(?: (?:reading|the first))?|(?:read )?at most"
    r"|(?:read )?no more than|limit (?:it |yourself )?to|only(?: read)?(?: the first)?"
    r"|just(?: read)?(?: the first)?|read only(?: the first)?"
)
_VERB = f"{_SKIP}|{_ONLY}|{_LOOK}|{_STOP}"
_POLITE = re.compile(
    r"^(?:(?:please|and|then|also|now|but|ok|okay|actually|instead|sorry|oh|hey|could you|can you"
    r"|you can|you should|let's|lets)[\s,:]+)+",
    re.IGNORECASE,
)
# A comma or "and" ends a clause only where another instruction begins: "skip a, b and c" is one
# clause, "skip a and look for b" two.
_BETWEEN = re.compile(
    r"[;\n\r]+|\.\s+|(?:\s*,\s*|\s+)(?:but|then)\s+|(?:\s*,\s*|\s+(?:and|also)\s+)"
    rf"(?:(?:and|but|then|also|please)\s+)*(?=(?:{_VERB})\s)",
    re.IGNORECASE,
)
_CLAUSES = (
    ("stop", re.compile(rf"^(?:{_STOP})\s+([\d,_]+)(?:\s+(?:more\s+)?files?)?$", re.IGNORECASE)),
    ("skip", re.compile(rf"^(?:{_SKIP})\s+(.+)$", re.IGNORECASE)),
    ("look", re.compile(rf"^(?:{_LOOK})\s+(.+)$", re.IGNORECASE)),
    ("only", re.compile(rf"^(?:{_ONLY})\s+(.+)$", re.IGNORECASE)),
)
_QUOTES = re.compile(r"\"[^\"\n]*\"|`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w)")
_BLANKS = re.compile(r"[^\S\n]+")
_KEPT = re.compile("\ue000([0-9]{1,9})\ue001")
_QUOTED = re.compile(r"""^(["'`])(.+)\1$""")
_BEFORE_NAME = re.compile(
    r"^(?:(?:the|all|any|every|everything|anything|files?|folders?|director(?:y|ies)|paths?|in|under"
    r"|inside|from|at|called|named|of|with|that are|my|your|these|those|its)\s+)+",
    re.IGNORECASE,
)
_AFTER_NAME = frozenset(
    (
        *("file", "files", "folder", "folders", "directory", "directories", "path", "paths"),
        *("code", "please", "thanks", "too", "as", "well", "instead", "for", "now", "only"),
    )
)
_BEFORE_WORD = re.compile(
    r"^(?:(?:the|a|an|all|any|every|words?|strings?|phrases?|text|lines?|mentions?|uses?|places|of"
    r"|with|that say|containing|called|named)\s+)+",
    re.IGNORECASE,
)
_OR = re.compile(r"\s*,\s*(?:(?:and|or)\s+)?|\s+(?:and|or)\s+", re.IGNORECASE)

_TESTS = frozenset({"test", "tests", "testing", "__tests__", "spec", "specs"})
_TEST_FILE = re.compile(r"^(?:test_.*|.*_test|.*_tests|.*\.test|.*\.spec|conftest)\.\w+$")


def understand(text: str) -> tuple[Instruction, ...]:
    """Return what `text` asks for, in its own order.

    Never raises and never returns nothing for a text with a letter or digit in it: what is not an
    instruction comes back as `NotUnderstood`.
    """
    found: list[Instruction] = []
    for clause in _clauses(text):
        found.extend(_read(clause))
    return tuple(found)


def _clauses(text: str) -> list[str]:
    clauses = []
    for between in _split(_BETWEEN, text):
        part = between.strip().strip(",").strip()
        if any(character.isalnum() for character in part):
            clauses.append(part)
    return clauses


def _split(between: re.Pattern[str], text: str) -> list[str]:
    """Split `text`, but never inside quotes: what they hold is one name or phrase."""
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found.group())
        return f"\ue000{len(kept) - 1}\ue001"

    def restore(found: re.Match[str]) -> str:
        number = int(found.group(1))
        return kept[number] if number < len(kept) else found.group()

    # Blanks are collapsed, or the patterns would take quadratic time on a line of 16,000 of them.
    masked = _BLANKS.sub(" ", _QUOTES.sub(keep, text))
    return [_KEPT.sub(restore, part) for part in between.split(masked)]


def _read(clause: str) -> list[Instruction]:
    bare = _POLITE.sub("", clause).strip().rstrip("!?").rstrip()
    for name, pattern in _CLAUSES:
        match = pattern.match(bare)
        if match is None:
            continue
        rest = match.group(1).strip()
        if name == "stop":
            digits = rest.replace(",", "").replace("_", "")
            return [StopAfter(int(digits))] if 0 < len(digits) <= 9 else [NotUnderstood(clause)]
        if name == "look":
            words = _named(rest, _BEFORE_WORD)
            return [LookFor(word) for word in words] or [NotUnderstood(clause)]
        names = _named(rest, _BEFORE_NAME, _AFTER_NAME)
        kind = Skip if name == "skip" else Only
        return [kind(name) for name in names] or [NotUnderstood(clause)]
    return [NotUnderstood(clause)]


def _named(text: str, before: re.Pattern[str], after: frozenset[str] = frozenset()) -> list[str]:
    names = []
    for part in _split(_OR, text):
        name = part.strip()
        if not _QUOTED.match(name):
            words = before.sub("", name + " ").strip().split(" ")
            while len(words) > 1 and words[-1].lower() in after:
                words.pop()
            name = " ".join(words).rstrip(".") or name
        if quoted := _QUOTED.match(name):
            name = quoted.group(2)
        if any(character.isalnum() or character in "*?_" for character in name):
            names.append(name)
    return names


# ----------------------------------------------------------------------- what a pattern is about


def _plain(pattern: str) -> str:
    plain = pattern.strip().replace("\\", "/")
    while plain.startswith("./"):
        plain = plain[2:]
    return plain.rstrip("/")


@lru_cache(maxsize=512)
def _prepared(pattern: str) -> tuple[str, str, str | None, bool]:
    plain = _plain(pattern)
    lowered = plain.lower()
    # ".py" and "*.py" are one kind of file; ".py files" has lost its last word already.
    is_suffix = lowered.startswith(".") and "/" not in lowered and language_called(lowered[1:])
    if is_suffix:
        lowered = f"*{lowered}"
    return lowered, plain, language_called(plain), lowered in {"test", "tests"}


@lru_cache(maxsize=200_000)
def names(pattern: str, path: str) -> bool:
    """Tell whether `pattern` names the file or folder at `path`, or a folder that holds it.

    A pattern with a slash is a path from the top; one with `*`, `?` or `[` a glob over the whole
    path or any one name in it; anything else a language, the word `tests`, or one name. All of it
    in any case.
    """
    lowered, plain, language, tests = _prepared(pattern)
    if not lowered:
        return path == ""
    below = path.lower()
    parts = below.split("/")
    if any(character in lowered for character in "*?["):
        return fnmatchcase(below, lowered) or any(fnmatchcase(part, lowered) for part in parts)
    if "/" in plain:
        return below == lowered or below.startswith(f"{lowered}/")
    if lowered in parts:
        return True
    if tests:
        return not _TESTS.isdisjoint(parts) or _TEST_FILE.match(parts[-1]) is not None
    return language is not None and language == language_of(path)


def may_hold(pattern: str, folder: str) -> bool:
    """Tell whether something that `pattern` names may lie in or under `folder`."""
    lowered, plain, _, _ = _prepared(pattern)
    if "/" not in plain or any(character in lowered for character in "*?["):
        return True
    below = folder.lower()
    return not below or f"{lowered}/".startswith(f"{below}/") or below.startswith(f"{lowered}/")
