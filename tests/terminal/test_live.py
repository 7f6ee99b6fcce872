"""A person at a terminal: the real program at the other end of a pseudo-terminal.

Nothing here sleeps: each step waits, within a bound, for what the program shows. Where a line has
to arrive while the agent works, the pace is so slow that it does; `/stop` and Ctrl-C end the wait.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import midcourse as library

SOURCE = str(Path(library.__file__).parents[1])
BOUND = 30.0

# Until the prompt is there, and after it, Ctrl-C is a signal: it needs a controlling terminal.
_PROGRAM = """\
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from midcourse.terminal.cli import main
main()
"""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>])|\r")


class Terminal:
    """`midcourse demo` in a terminal of its own."""

    def __init__(self, *arguments: str, width: int = 100) -> None:
        self._ours, self._its = pty.openpty()
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        self.mode = self.attributes()
        self._raw = b""
        self._read = 0
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", _PROGRAM),
                *("demo", *arguments),
            ],
            env={
                **{k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}},
                "PYTHONPATH": SOURCE,
                "PYTHONUTF8": "1",
                "TERM": "xterm-256color",
                # Nobody here answers where the cursor is.
                "PROMPT_TOOLKIT_NO_CPR": "1",
            },
            stdin=self._its,
            stdout=self._its,
            stderr=self._its,
            start_new_session=True,
        )

    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._its)

    @property
    def screen(self) -> str:
        return _ESCAPES.sub("", self._raw.decode("utf-8", errors="replace"))

    def expect(self, text: str) -> None:
        """Wait until `text` comes after what was expected before."""
        until = time.monotonic() + BOUND
        while True:
            # Blanks are left out: a terminal may wrap a line, or jump over blanks.
            shown = re.sub(r"\s", "", self.screen)
            found = shown.find(re.sub(r"\s", "", text), self._read)
            if found >= 0:
                self._read = found + 1
                return
            if not self._more(until):
                pytest.fail(f"{text!r} did not come; the screen says:\n{self.screen}")

    def expect_prompt(self) -> None:
        """Wait until it reads keys; what is typed before that is the line discipline's."""
        until = time.monotonic() + BOUND
        while b"\x1b[?2004h" not in self._raw:
            if not self._more(until):
                pytest.fail(f"no prompt came; the screen says:\n{self.screen}")

    def _more(self, until: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, until - time.monotonic()))
        if ready:
            self._raw += os.read(self._ours, 65536)
        return bool(ready)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def exit_code(self) -> int:
        until = time.monotonic() + BOUND
        while self.process.poll() is None:
            # Its output is read meanwhile, or it would wait for us.
            self._more(min(until, time.monotonic() + 0.05))
            if time.monotonic() > until:
                pytest.fail(f"it did not end; the screen says:\n{self.screen}")
        while self._more(time.monotonic()):
            pass
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._its)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("src/a.py", "src/b.py", "tests/test_a.py", "docs/x.md", "größer.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import error  # TODO\n")
    return tmp_path


both_backends = pytest.mark.parametrize("terminals", ["trio", "asyncio"], indirect=True)


@pytest.fixture
def terminals(request: pytest.FixtureRequest, project: Path) -> Iterator[Any]:
    backend = getattr(request, "param", "trio")
    opened: list[Terminal] = []

    def start(*arguments: str, width: int = 100) -> Terminal:
        opened.append(Terminal(str(project), "--backend", backend, *arguments, width=width))
        if "--no-prompt" not in arguments:
            opened[-1].expect_prompt()
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


@both_backends
@pytest.mark.promise("terminal.steers", "terminal.truth")
def test_a_line_typed_while_it_works_is_seen_queued_and_then_applied(terminals: Any) -> None:
    terminal = terminals("--pace", "0.8")
    terminal.expect("request 1: the prompt is written")
    terminal.type("skip tests\r")
    terminal.expect('s1 queued: "skip tests"')
    terminal.expect("s1 applied")
    terminal.type("mach es schön\r")
    terminal.expect('s2 queued: "mach es schön"')
    terminal.expect("s2 applied")
    terminal.expect("turn 1 finished")
    terminal.expect('not understood, and so without effect: "mach es schön"')
    terminal.expect("a line typed now is refused")
    terminal.type("skip docs\r")
    terminal.expect("s3 refused, no_active_generation")
    terminal.type("/pending\r")
    terminal.expect("nothing waits")
    terminal.type("/quit\r")
    assert terminal.exit_code() == 0
    terminal.expect("Receipts")
    terminal.expect("Timeline")
    assert terminal.attributes() == terminal.mode


@both_backends
@pytest.mark.promise("terminal.steers", "terminal.truth")
def test_a_stop_holds_what_waits_and_pending_shows_it(terminals: Any) -> None:
    terminal = terminals("--pace", "60", "--linger", "0")
    terminal.expect("request 1: the prompt is written")
    terminal.type("only src\r")
    terminal.expect("s1 queued")
    terminal.type("/pending\r")
    terminal.expect('s1 queued: "only src"')
    terminal.type("/stop\r")
    terminal.expect("s1 held, stopped (the turn was stopped before it was written)")
    terminal.expect("turn 1 detached (stopped) after 1 request")
    assert terminal.exit_code() == 130
    assert terminal.attributes() == terminal.mode


@both_backends
@pytest.mark.promise("terminal.steers")
def test_ctrl_c_stops_and_once_more_leaves(terminals: Any) -> None:
    terminal = terminals("--pace", "60", "--linger", "600")
    terminal.expect("request 1: the prompt is written")
    terminal.type("skip tests\r")
    terminal.expect("s1 queued")
    terminal.type("half a line\x03")
    terminal.expect("interrupted: the turn is stopped")
    terminal.expect("s1 held, stopped")
    terminal.expect("a line typed now is refused")
    terminal.type("\x03")
    assert terminal.exit_code() == 130
    assert terminal.attributes() == terminal.mode


@pytest.mark.promise("terminal.steers")
@pytest.mark.parametrize("leave", ["/quit\r", "\x04"])
def test_quitting_while_it_works_stops_it(terminals: Any, leave: str) -> None:
    terminal = terminals("--pace", "60", "--linger", "600")
    terminal.expect("request 1: the prompt is written")
    terminal.type(leave)
    terminal.expect("turn 1 detached (stopped)")
    assert terminal.exit_code() == 130
    assert terminal.attributes() == terminal.mode


@both_backends
@pytest.mark.promise("terminal.steers")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_terminal_as_it_was(terminals: Any, number: signal.Signals) -> None:
    terminal = terminals("--pace", "60", "--linger", "0")
    terminal.expect("request 1: the prompt is written")
    terminal.expect("lists the folder itself")
    terminal.process.send_signal(number)
    terminal.expect("turn 1 detached (stopped)")
    assert terminal.exit_code() == 130
    assert terminal.attributes() == terminal.mode


@pytest.mark.promise("terminal.steers", "terminal.truth")
def test_a_paste_of_many_lines_is_one_steer(terminals: Any) -> None:
    terminal = terminals("--pace", "60", "--linger", "0", width=60)
    terminal.expect("request 1: the prompt is written")
    terminal.type("\x1b[200~skip tests\nlook for größer\nund noch eins\x1b[201~\r")
    terminal.expect('s1 queued: "skip tests" and 2 more lines')
    terminal.type("/nonsense\r")
    terminal.expect("/nonsense is no command")
    terminal.type("stop\r")
    terminal.expect("that is a steer now; /stop is the command")
    terminal.type("/stop\r")
    assert terminal.exit_code() == 130


@pytest.mark.promise("terminal.truth")
def test_more_lines_than_may_wait_are_refused_and_none_is_lost(terminals: Any) -> None:
    terminal = terminals("--pace", "60", "--linger", "0")
    terminal.expect("request 1: the prompt is written")
    terminal.type("".join(f"look for word{number}\r" for number in range(1, 131)))
    terminal.expect("s130 refused, queue_full")
    terminal.type("/stop\r")
    assert terminal.exit_code() == 130
    table = terminal.screen.rpartition("Receipts")[2].partition("Timeline")[0]
    receipts = re.findall(r"^ s(\d+) .*?(held|refused|queued|applied)", table, re.M)
    assert receipts == [(str(n), "held" if n <= 128 else "refused") for n in range(1, 131)]


@pytest.mark.promise("terminal.steers")
def test_it_leaves_by_itself_when_nobody_types(terminals: Any) -> None:
    terminal = terminals("--pace", "0", "--linger", "0.5")
    terminal.expect("turn 1 finished")
    assert terminal.exit_code() == 0
    assert terminal.attributes() == terminal.mode


@pytest.mark.promise("terminal.script")
def test_a_script_is_played_in_a_terminal_too(terminals: Any) -> None:
    terminal = terminals("--no-prompt")
    assert terminal.exit_code() == 0
    terminal.expect("Nobody can type here, so a script does.")
    terminal.expect("s6 held, stopped")
    assert terminal.attributes() == terminal.mode
