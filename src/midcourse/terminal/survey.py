"""The answer: a survey of the folder, written from what the planner knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from midcourse.terminal.instructions import names
from midcourse.terminal.knowledge import Knowledge
from midcourse.terminal.languages import language_of
from midcourse.terminal.wording import counted, listed, printable, shortened, size_of

_LANGUAGES = 10
_LARGEST = 5
_PLACES = 8
_QUOTED = 300


def survey(know: Knowledge) -> str:
    """Return the survey as plain text, a few dozen lines at most."""
    wanted = sorted(path for path in know.sizes if know.wanted(path))
    parts = [
        _overview(know, wanted),
        _languages(know, wanted),
        _largest(know, wanted),
        _todos(know, wanted),
        *(_word(know, word, wanted) for word in know.words),
        _told(know, wanted),
        _not_done(know, wanted),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _overview(know: Knowledge, wanted: list[str]) -> list[str]:
    read = [path for path in wanted if path in know.read]
    lines = sum(know.read[path]["lines"] for path in read)
    size = sum(know.sizes[path] for path in wanted)
    folders = {path.rpartition("/")[0] for path in wanted}
    if not wanted:
        empty = not know.sizes and not know.waiting - know.failed.keys()
        return ["The folder is empty." if empty else "There is no file that the survey is about."]
    first = (
        f"{counted(len(wanted), 'file')} in {counted(len(folders), 'folder')}, {size_of(size)};"
        f" {len(read):,} read, {counted(lines, 'line')}."
    )
    return [first]


def _languages(know: Knowledge, wanted: list[str]) -> list[str]:
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in wanted:
        language = language_of(path)
        files[language] += 1
        if path in know.read:
            lines[language] += know.read[path]["lines"]
    if not files:
        return []
    order = sorted(files, key=lambda name: (-lines[name], -files[name], name))
    shown = [(name, files[name], lines[name]) for name in order[:_LANGUAGES]]
    if rest := order[_LANGUAGES:]:
        more = f"{len(rest)} more"
        shown.append((more, sum(files[name] for name in rest), sum(lines[name] for name in rest)))
    width = max(len("Languages"), *(len(name) for name, _, _ in shown))
    return [
        f"{'Languages':<{width}}  {'files':>8}  {'lines read':>10}",
        *(f"{name:<{width}}  {count:>8,}  {number:>10,}" for name, count, number in shown),
    ]


def _largest(know: Knowledge, wanted: list[str]) -> list[str]:
    order = sorted(wanted, key=lambda path: (-know.sizes[path], path))[:_LARGEST]
    if not order:
        return []
    return ["Largest files", *(f"{size_of(know.sizes[p]):>8}  {printable(p)}" for p in order)]


def _todos(know: Knowledge, wanted: list[str]) -> list[str]:
    places: list[tuple[str, int, str]] = []
    total = files = 0
    for path in wanted:
        if path in know.read:
            count, shown = know.read[path]["todos"]
            total += count
            files += bool(count)
            places.extend((path, number, text) for number, text in shown)
    if not total:
        return ["Open TODOs: none in what was read."] if know.read else []
    head = f"Open TODOs: {counted(total, 'line')} in {counted(files, 'file')}"
    return [head, *_places(places, total)]


def _word(know: Knowledge, word: str, wanted: list[str]) -> list[str]:
    hits = know.found(word, wanted)
    shown = f'Looked for "{shortened(word, 60)}"'
    if not hits.lines:
        return [f"{shown}: in none of the files that were read."]
    head = f"{shown}: {counted(hits.lines, 'line')} in {counted(hits.files, 'file')}"
    return [head, *_places(hits.shown, hits.lines)]


def _places(places: list[tuple[str, int, str]], total: int) -> list[str]:
    lines = [
        f"  {printable(path)}:{number}: {shortened(text, 70)}"
        for path, number, text in _one_a_file_first(places)[:_PLACES]
    ]
    if total > len(lines):
        lines.append(f"  and {total - len(lines):,} more")
    return lines


def _one_a_file_first(places: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    rank: Counter[str] = Counter()
    ranked = []
    for place in places:
        ranked.append((rank[place[0]], place))
        rank[place[0]] += 1
    return [place for _, place in sorted(ranked)]


def _told(know: Knowledge, wanted: list[str]) -> list[str]:
    lines = []
    for pattern in know.skip:
        files = sum(names(pattern, path) for path in know.sizes)
        folders = sum(names(pattern, path) for path in know.waiting)
        lines.append(f"  skip {shortened(pattern, 60)}: {_left_out(files, folders)}")
    for pattern in know.only:
        files = sum(names(pattern, path) for path in know.sizes)
        what = f"{counted(files, 'file')} found" if files else "nothing found is called that"
        lines.append(f"  only {shortened(pattern, 60)}: {what}")
    lines.extend(f"  look for {shortened(word, 60)}: see above" for word in know.words)
    if know.stop_after is not None:
        lines.append(f"  stop after {counted(know.stop_after, 'file')}: {_stopped(know, wanted)}")
    for text in know.not_understood:
        quoted = shortened(text, _QUOTED)
        lines.append(f'  not understood, and so without effect: "{quoted}"')
    return ["What I was told", *lines] if lines else []


def _stopped(know: Knowledge, wanted: list[str]) -> str:
    looked_at = sum(path in know.read or path in know.not_read for path in wanted)
    if know.stop_after is not None and looked_at < know.stop_after:
        return f"not reached, {counted(looked_at, 'file')} looked at"
    return f"{counted(looked_at, 'file')} looked at"


def _left_out(files: int, folders: int) -> str:
    counts = []
    if files:
        counts.append(counted(files, "file"))
    if folders:
        counts.append(f"{counted(folders, 'folder')} unseen")
    return "left out " + " and ".join(counts) if counts else "nothing found is called that"


def _not_done(know: Knowledge, wanted: list[str]) -> list[str]:
    """Say what the figures above leave out, and why."""
    lines = []
    reasons: dict[str, list[str]] = {}
    for path in wanted:
        if path in know.not_read:
            reasons.setdefault(know.not_read[path], []).append(path)
    for reason, paths in sorted(reasons.items()):
        lines.append(f"  {reason}: {counted(len(paths), 'file')} ({_some(paths)})")
    unread = sum(path not in know.read and path not in know.not_read for path in wanted)
    if unread:
        lines.append(f"  not read, {_which_budget(know)}: {counted(unread, 'file')}")
    if unlisted := know.wanted_folders():
        paths = [f"{path}/" for path in unlisted]
        lines.append(f"  not listed, {_which_budget(know)}: {_some(paths)}")
    habit = Counter(
        path.rpartition("/")[2]
        for path in know.waiting
        if any(names(name, path) for name in know.habits())
        and not any(names(pattern, path) for pattern in know.skip)
    )
    if habit:
        folders = [f"{name} ({count:,})" for name, count in sorted(habit.items())]
        lines.append(f"  left alone by habit: {_some(folders)}")
    for folder, reason in sorted(know.failed.items()):
        lines.append(f"  {reason}: {printable(folder) or 'the folder itself'}/")
    for folder in know.cut:
        lines.append(f"  cut short, too many entries: {printable(folder) or 'the folder itself'}")
    if know.links:
        lines.append(f"  links, never followed: {know.links:,}")
    if know.special:
        lines.append(f"  neither files nor folders: {know.special:,}")
    return ["Not in these figures", *lines] if lines else []


def _which_budget(know: Knowledge) -> str:
    if know.stop_after is not None and know.stop_after <= know.budget.files:
        return "as told"
    if know.requests >= know.budget.requests - 1:
        return f"the budget of {counted(know.budget.requests, 'request')} being spent"
    return f"the budget of {counted(know.budget.files, 'file')} being spent"


def _some(paths: Iterable[str]) -> str:
    return listed([printable(path) for path in paths])
