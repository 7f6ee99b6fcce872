"""The model of the demo: a small rule-based planner, with no key and no network.

Like a model it is asked with messages and answers with tool calls or with a final text, and like a
model it knows nothing but the messages. It plans the cheapest next thing: search what was read
before a word was asked for, then list, then read, then answer. It sizes its batches so that a small
folder takes about ten requests and a large one stays within the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from midcourse.terminal.knowledge import Knowledge, Message, known
from midcourse.terminal.survey import survey
from midcourse.terminal.wording import counted, listed, shortened, shortened_path

NAME = "a small rule-based planner: no model, no key, no network"

_LIST_SHARE = 4
"""At most one request in so many is spent on listing level by level."""
_READ_BATCHES = 8
_SMALLEST_BATCH = 3
_DEEP = 64
_SEARCH_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call that the planner asks for."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the planner does next.

    Attributes:
        text: One line for people: what it takes from new inputs and what it does.
        calls: The tool calls; none where it answers.
        answer: The final text; None where it goes on.
        left: How many files and folders are known and not looked at yet.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    news: tuple[str, ...] = field(default=())
    left: int = 0

    def message(self) -> dict[str, Any]:
        """Return it as the assistant's message for the context."""
        if self.answer is not None:
            return {"role": "assistant", "content": self.answer}
        calls = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.calls
        ]
        return {"role": "assistant", "content": self.text, "tool_calls": calls}


def plan(messages: Sequence[Message]) -> Decision:
    """Return what to do next, a pure function of the messages.

    The inputs that came since the latest request are read with all the others; whatever they ask
    for holds from this decision on, for what was read before it too.
    """
    know = known(messages)
    left = know.budget.requests - know.requests
    if left > 1:
        decision = _search(know) or _list(know, left) or _read(know, left)
        if decision is not None:
            return decision
    return Decision("answers", answer=survey(know), news=tuple(know.news))


def _call(know: Knowledge, text: str, name: str, left: int, **arguments: Any) -> Decision:
    call = ToolCall(f"call-{know.tool_calls + 1}", name, arguments)
    return Decision(text, (call,), news=tuple(know.news), left=left)


def _search(know: Knowledge) -> Decision | None:
    """Look for a word in the files that were read before it was asked for."""
    words = []
    paths: list[str] = []
    for word in know.words:
        places = know.hits.get(word, {})
        unsearched = [path for path in know.read if path not in places and know.wanted(path)]
        # Words with the same files to go are one call.
        if unsearched and (not paths or unsearched == paths):
            words.append(word)
            paths = unsearched
    if not paths:
        return None
    batch = sorted(paths)[:_SEARCH_BATCH]
    shown = listed([f'"{shortened(word, 30)}"' for word in words])
    text = f"searches {counted(len(batch), 'file')} read before for {shown}"
    return _call(know, text, "search", len(paths), words=words, paths=batch)


def _list(know: Knowledge, left: int) -> Decision | None:
    folders = know.wanted_folders()
    if not folders or len(know.sizes) >= know.budget.listed:
        return None
    if know.stop_after is not None and _enough(know):
        return None
    # Level by level while requests allow, so that a steer can prune what is not listed yet;
    # past that share, everything that is left at once.
    slow = know.requests < know.budget.requests // _LIST_SHARE and left > _READ_BATCHES
    depth = max(1, know.requests) if slow else _DEEP
    batch = folders[: max(_SMALLEST_BATCH, -(-len(folders) // 2))] if slow else folders
    where = listed([shortened_path(f"{path}/") for path in batch if path], 1)
    text = f"lists {where or 'the folder itself'}"
    skip = [*know.skip, *know.habits()]
    return _call(
        know,
        text,
        "list",
        len(folders),
        folders=batch,
        depth=depth,
        skip=skip,
        only=list(know.only),
    )


def _enough(know: Knowledge) -> bool:
    """Tell whether more wanted files are known than will be read."""
    limit = know.file_limit()
    return sum(1 for _ in _first(filter(know.wanted, know.sizes), limit)) >= limit


def _first(paths: Iterable[str], limit: int) -> Iterable[str]:
    for number, path in enumerate(paths):
        if number >= limit:
            return
        yield path


def _read(know: Knowledge, left: int) -> Decision | None:
    wanted = [path for path in know.sizes if know.wanted(path)]
    looked_at = [path for path in wanted if path in know.read or path in know.not_read]
    room = know.file_limit() - len(looked_at)
    unread = sorted(path for path in wanted if path not in know.read and path not in know.not_read)
    if not unread or room <= 0:
        return None
    total = min(len(wanted), know.file_limit())
    rest = min(len(unread), room)
    # The last request is the answer's; one more is kept for a steer that comes with it.
    size = max(_SMALLEST_BATCH, -(-total // _READ_BATCHES), -(-rest // max(1, left - 2)))
    size = min(size, rest)
    batch = (_mixed(unread) if len(unread) > room else unread)[:size]
    text = f"reads {counted(len(batch), 'file')} of {rest:,} to go"
    return _call(know, text, "read", rest, paths=batch, words=list(know.words))


def _mixed(paths: list[str]) -> list[str]:
    """Put paths in an order that has nothing to do with their folders, always the same one.

    Where not all can be read, whatever is read of it is then a fair sample of the whole folder.
    """
    return sorted(paths, key=lambda path: crc32(path.encode("utf-8", "surrogatepass")))
