"""The options of `midcourse demo`, and what it prints and keeps at the end."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
import click

from midcourse import Limits
from midcourse.terminal.host import FAILED, STOPPED, Host, Settings
from midcourse.terminal.knowledge import Budget
from midcourse.terminal.planner import NAME
from midcourse.terminal.script import Cue, Turn, default_script
from midcourse.terminal.timeline import (
    FORMATS,
    Keep,
    Screen,
    as_lines,
    picture,
    receipts_table,
    timeline_table,
)
from midcourse.terminal.wording import printable

_PROMPT = "Survey this folder"
_PACE = 0.8


def _cues(_: click.Context, __: click.Parameter, lines: tuple[str, ...]) -> tuple[Cue, ...]:
    try:
        return tuple(Cue.parse(line) for line in lines)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="midcourse")
def midcourse() -> None:
    """Steer a running agent, and know what became of each steer."""


@midcourse.command(
    epilog=f"""\b
Examples:
  midcourse demo                          type while it works
  midcourse demo src --steer "2:skip tests" --late "skip docs"
  midcourse demo --save timeline.svg
\b
What the planner understands:
  skip PATH or KIND    skip tests, skip *.md, skip src/old, skip markdown
  only PATH            only src/app, only python (a later one replaces it)
  look for WORD        look for cache, look for "two words"
  stop after N files   stop after 50 files
Anything else is applied all the same, and quoted in the answer as not understood.
\b
Exit codes:
  0    the turn finished
  1    it failed, or the result could not be kept
  2    the command line is wrong, or something that it names cannot be used
  {STOPPED}  it was stopped or interrupted"""
)
@click.argument("folder", default=".", type=click.Path(path_type=str))
@click.option("--prompt", default=_PROMPT, show_default=True, help="What the turn begins with.")
@click.option(
    "--steer",
    "cues",
    multiple=True,
    callback=_cues,
    metavar="REQUEST:TEXT",
    help="Submit TEXT while request REQUEST is worked on; `answer:TEXT` as the answer comes,"
    " `3:/stop` to stop the turn. May be repeated.",
)
@click.option(
    "--late", multiple=True, metavar="TEXT", help="Submit TEXT after the end. May be repeated."
)
@click.option(
    "--max-requests",
    default=Budget().requests,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="Requests that a turn may make.",
)
@click.option(
    "--max-files",
    default=Budget().files,
    show_default=True,
    type=click.IntRange(0, 1_000_000),
    help="Files that a turn may read.",
)
@click.option(
    "--pace",
    default=None,
    type=click.FloatRange(0, 60),
    help="Seconds that each tool call takes at least."
    f"  [default: {_PACE} where you can type, else 0]",
)
@click.option(
    "--linger",
    default=15.0,
    show_default=True,
    type=click.FloatRange(0, 3600),
    help="Seconds that the line stays open after the end and the last keystroke.",
)
@click.option(
    "--no-prompt", is_flag=True, help="Play a script, even in a terminal where you could type."
)
@click.option(
    "--backend",
    default="trio",
    show_default=True,
    type=click.Choice(["trio", "asyncio"]),
    help="The event loop that everything runs on.",
)
@click.option(
    "--save",
    metavar="FILE",
    help=f"Keep the timeline as a picture, or the events as data: a name ending in"
    f" {', '.join(FORMATS)}.",
)
def demo(
    *,
    folder: str,
    prompt: str,
    cues: tuple[Cue, ...],
    late: tuple[str, ...],
    max_requests: int,
    max_files: int,
    pace: float | None,
    linger: float,
    no_prompt: bool,
    backend: str,
    save: str | None,
) -> None:
    """Survey FOLDER with a live agent that you can steer while it works.

    The agent is real, its model is not: a small rule-based planner that needs no key and no
    network. It lists, reads and searches files under FOLDER and never outside. Where there is no
    terminal, and no --steer or --late, a script submits steers and shows what becomes of them.
    """
    _check_folder(folder)
    if not prompt.strip():
        raise click.BadParameter("is empty", param_hint="--prompt")
    if len(prompt) > (most := Limits().text_chars):
        raise click.BadParameter(f"has more than {most:,} characters", param_hint="--prompt")
    live = not no_prompt and _can_type()
    turns: tuple[Turn, ...] = (Turn(prompt, cues, late),)
    if not live and not cues and not late:
        turns = default_script(prompt)
    settings = Settings(
        folder=folder,
        turns=turns,
        budget=Budget(requests=max_requests, files=max_files),
        pace=pace if pace is not None else _PACE if live else 0.0,
        linger=linger,
        live=live,
    )
    _encode_anything()
    keep = _check_save(save)
    heading = f"midcourse demo, on {printable(os.path.abspath(folder))}"
    try:
        screen = Screen()
        host = Host(settings, screen)
        screen.say(heading, "bold")
        screen.say(f"The planner is {NAME}.", "dim")
        code = _run(host, backend)
        _print_tables(host, screen)
        if keep is not None:
            code = _keep(keep, heading, host, screen) or code
    finally:
        if keep is not None:
            keep.discard()
    sys.exit(code)


def _run(host: Host, backend: str) -> int:
    try:
        anyio.run(host.run, backend=backend)
    except KeyboardInterrupt:
        # Between the end of our signal handling and the end of the loop.
        return STOPPED
    return host.exit_code


def _print_tables(host: Host, screen: Screen) -> None:
    told = list(host.journal.told.values())
    screen.print()
    if told:
        screen.print(receipts_table(told))
        screen.print()
    screen.print(timeline_table(host.journal.rows, ascii_only=screen.options.ascii_only))


def _keep(keep: Keep, heading: str, host: Host, screen: Screen) -> int:
    if keep.suffix == ".jsonl":
        content = as_lines(event.to_json() for event in host.events)
    else:
        told = list(host.journal.told.values())
        content = picture(keep.suffix, heading, told, host.journal.rows)
    try:
        keep.write(content)
    except OSError as error:
        screen.say(printable(f"could not write {keep.path}: {error}"), "bold red")
        return FAILED
    screen.say(f"kept in {printable(keep.path)}", "dim")
    return 0


def _check_folder(folder: str) -> None:
    shown = printable(folder)
    if not os.path.exists(folder):
        raise click.BadParameter(f"{shown} does not exist", param_hint="FOLDER")
    if not os.path.isdir(folder):
        raise click.BadParameter(f"{shown} is not a folder", param_hint="FOLDER")
    try:
        with os.scandir(folder):
            pass
    except OSError as error:
        raise click.BadParameter(f"{shown}: {error.strerror}", param_hint="FOLDER") from None


def _check_save(save: str | None) -> Keep | None:
    if save is None:
        return None
    try:
        return Keep(save)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise click.BadParameter(printable(f"{save}: {reason}"), param_hint="--save") from None


def _can_type() -> bool:
    def is_terminal(stream: Any) -> bool:
        return stream is not None and not stream.closed and stream.isatty()

    return is_terminal(sys.stdin) and is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"


def _encode_anything() -> None:
    """Make a terminal of a small character set show escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
