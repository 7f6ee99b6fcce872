"""Running one tool call: in slices in a worker thread, bounded, ended early by a steer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
from anyio import to_thread

from midcourse.terminal.tools import Result, Steps
from midcourse.terminal.wording import counted

SLICE = 0.05
"""Seconds that a tool runs in its thread at a stretch: how soon it hears that a steer waits."""

CALL_LIMIT = 5.0
"""Seconds after which a tool call is told to return with what it has."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A tool call that has ended.

    Attributes:
        result: What it returned, perhaps less than it was asked for.
        seconds: How long it took.
        early: Whether it returned early because a steer waits.
    """

    result: Result
    seconds: float
    early: bool


async def run_tool(
    steps: Steps,
    *,
    wait_steered: Callable[[], Awaitable[object]],
    progress: Callable[[int], None],
) -> Ran:
    """Run the steps of a tool to their end, or to an earlier one.

    The first slice is always run, so that no call is in vain. Cancelled, it ends after the
    running slice.

    Args:
        steps: From `Workspace.run`.
        wait_steered: Returns when a steer waits.
        progress: Called after each slice with how much is done.
    """
    begun = time.monotonic()
    steered = anyio.Event()

    async def watch() -> None:
        await wait_steered()
        steered.set()

    done: int | Result = 0
    stop = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        done = await to_thread.run_sync(_slice, steps, stop)
        while isinstance(done, int):
            progress(done)
            stop = steered.is_set() or time.monotonic() - begun > CALL_LIMIT
            done = await to_thread.run_sync(_slice, steps, stop)
        tasks.cancel_scope.cancel()
    assert not isinstance(done, int)
    return Ran(done, time.monotonic() - begun, stop and steered.is_set())


def _slice(steps: Steps, stop: bool) -> int | Result:
    """Run a tool for one slice; return its result, or how much is done so far."""
    until = time.monotonic() + SLICE
    try:
        done = steps.send(True) if stop else next(steps)
        while time.monotonic() < until:
            done = next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result
    return done


def brought(tool: str, result: Result) -> str:
    """Say in a few words what a tool call brought."""
    if tool == "list":
        folders = result["listed"].values()
        files = sum(len(folder["files"]) for folder in folders)
        parts = [f"{counted(files, 'file')} in {counted(len(folders), 'folder')}"]
        if result["failed"]:
            parts.append(f"{len(result['failed']):,} unreadable")
    elif tool == "read":
        lines = sum(record["lines"] for record in result["read"])
        parts = [f"{counted(len(result['read']), 'file')}, {counted(lines, 'line')}"]
        if result["not_read"]:
            parts.append(f"{len(result['not_read']):,} not read")
    else:
        found = sum(hits[0] for one in result["searched"] for hits in one["hits"].values())
        parts = [f"{counted(found, 'line')} in {counted(len(result['searched']), 'file')}"]
    return ", ".join(parts)
