"""`midcourse demo` without a person: the script, the options, the exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import midcourse as library
from midcourse.terminal.command import midcourse
from midcourse.terminal.script import Cue, default_script

SOURCE = str(Path(library.__file__).parents[1])

backends = pytest.mark.parametrize("backend", ["trio", "asyncio"])


def demo(*arguments: str) -> Result:
    result = CliRunner().invoke(midcourse, ["demo", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def receipts(output: str) -> dict[str, str]:
    """The table of receipts: by steer, the disposition."""
    table = output.partition("\nReceipts")[2].partition("\nTimeline")[0]
    found = re.findall(r"^ (s\d+) +.*?\b(queued|applied|held|unknown|refused)\b", table, re.M)
    return dict(found)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("src/a.py", "src/b.py", "tests/test_a.py", "docs/x.md", "README.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("import error  # TODO\n")
    return folder


@pytest.mark.promise("terminal.script")
@backends
def test_the_bare_command_shows_queued_applied_held_and_refused(
    project: Path, backend: str
) -> None:
    result = demo(str(project), "--backend", backend)
    assert result.exit_code == 0
    assert receipts(result.output) == {
        **dict.fromkeys(("s1", "s2", "s3", "s4"), "applied"),
        "s5": "refused",
        "s6": "held",
    }
    for line in (
        "no model, no key, no network",
        's1 queued: "skip tests"',
        "boundary, then request 3: s1 applied",
        "the answer is kept back: s4 came in time, so the turn goes on",
        "s5 refused, no_active_generation",
        "s6 held, stopped",
        'not understood, and so without effect: "make it sound cheerful"',
        "skip tests: left out ",
        'Looked for "error": ',
    ):
        assert line in result.output


@pytest.mark.promise("terminal.script")
@backends
def test_a_script_plays_the_same_way_every_time(project: Path, backend: str) -> None:
    def told() -> str:
        output = demo(str(project), "--backend", backend).output
        return re.sub(r"\d+\.\d\d? ?s?", "", output)

    assert told() == told()


@pytest.mark.promise("terminal.script")
def test_an_empty_folder_is_enough_to_show_everything(tmp_path: Path) -> None:
    result = demo(str(tmp_path))
    assert result.exit_code == 0
    assert "The folder is empty." in result.output
    assert set(receipts(result.output).values()) == {"applied", "refused", "held"}


@pytest.mark.promise("terminal.script", "terminal.truth")
def test_a_steer_at_the_last_request_is_held_and_the_turn_finishes(project: Path) -> None:
    result = demo(str(project), "--max-requests", "3", "--steer", "3:skip tests")
    assert result.exit_code == 0
    assert "s1 held, call_budget_exhausted" in result.output
    assert "turn 1 finished after 3 requests" in result.output


@pytest.mark.promise("terminal.script", "terminal.truth")
def test_a_scripted_steer_whose_request_never_comes_is_named(project: Path) -> None:
    result = demo(str(project), "--steer", "35:skip tests")
    assert result.exit_code == 0
    assert "never admitted, the turn ended before request 35 took it: skip tests" in result.output
    assert "Receipts" not in result.output


@pytest.mark.promise("terminal.script")
@backends
def test_a_scripted_stop_holds_what_waits_and_is_an_exit_code(project: Path, backend: str) -> None:
    result = demo(
        *(str(project), "--backend", backend),
        *("--steer", "2:skip tests", "--steer", "2:/stop", "--steer", "2:x", "--steer", "3:y"),
        *("--late", "late"),
    )
    assert result.exit_code == 130
    assert receipts(result.output) == {"s1": "held", "s3": "refused"}
    assert "s2" not in result.output
    assert "never admitted, the turn ended before request 2 took it: x" in result.output
    assert "never admitted, the turn ended before request 3 took it: y" in result.output


@pytest.mark.promise("terminal.journal")
def test_the_kept_events_tell_the_same_as_the_screen(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    result = demo(str(project), "--save", str(path))
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    settled = {
        event["input_id"]: event["type"].partition(".")[2]
        for event in events
        if event["type"] in {"steering.applied", "steering.held", "steering.unknown"}
    }
    shown = receipts(result.output)
    assert settled == {label: what for label, what in shown.items() if what != "refused"}


@pytest.mark.promise("terminal.journal")
@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_the_timeline_is_kept_as_a_picture_when_the_turn_is_stopped_too(
    project: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"timeline.{suffix}"
    result = demo(str(project), "--steer", "2:/stop", "--save", str(path))
    assert result.exit_code == 130
    assert "detached" in path.read_text()


@pytest.mark.promise("terminal.script")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["file.txt"], "file.txt is not a folder"),
        (["--save", "timeline.png"], "the name must end in .svg, .html or .jsonl"),
        (["--save", "no/such/x.svg"], "No such file or directory"),
        (["--steer", "skip tests"], "is not REQUEST:TEXT"),
        (["--steer", "0:skip tests"], "is not REQUEST:TEXT"),
        (["--steer", "2:"], "is not REQUEST:TEXT"),
        (["--prompt", "  "], "is empty"),
        (["--prompt", "x" * 16_001], "more than 16,000 characters"),
        (["--max-requests", "0"], "not in the range"),
        (["--backend", "curio"], "curio"),
    ],
)
def test_a_wrong_command_line_is_refused_before_any_work(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").touch()
    result = demo(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "turn 1" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.promise("terminal.script")
def test_a_prompt_that_the_runtime_refuses_is_a_failure_that_says_why(project: Path) -> None:
    result = demo(str(project), "--prompt", "\udcff", "--late", "y")
    assert result.exit_code == 1
    assert "InvalidInput" in result.output


@pytest.mark.promise("terminal.script")
def test_help_tells_the_exit_codes_and_what_is_understood() -> None:
    output = demo("--help").output
    for line in ("stop after N files", "130", "--save FILE", "2    the command line is wrong"):
        assert line in output


@pytest.mark.promise("terminal.script")
def test_a_cue_is_read_with_whatever_its_text_holds() -> None:
    assert Cue.parse("2:skip a: b") == Cue(2, "skip a: b")
    assert Cue.parse(" Answer : one\ntwo ") == Cue(None, "one\ntwo")
    assert default_script("x")[0].prompt == "x"


# -------------------------------------------------------------------------- as a program


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    code = "from midcourse.terminal.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.promise("terminal.truth")
def test_a_terminal_of_a_small_character_set_shows_escapes(tmp_path: Path) -> None:
    (tmp_path / "größer.py").write_text("TODO \u65e5\n")
    ran = program("demo", str(tmp_path), PYTHONIOENCODING="ascii")
    assert ran.returncode == 0, ran.stderr
    assert b"gr\\xf6\\xdfer.py:1: TODO \\u65e5" in ran.stdout
    assert ran.stdout.isascii()


@pytest.mark.promise("terminal.script")
def test_a_reader_who_leaves_early_is_no_failure(project: Path) -> None:
    command = (
        f'"{sys.executable}" -c "from midcourse.terminal.cli import main; main()" demo | head -1'
    )
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.startswith(b"midcourse demo")


@pytest.mark.promise("terminal.script")
@pytest.mark.parametrize("missing", ["click", "prompt_toolkit", "rich"])
def test_without_the_extra_one_line_says_how_to_get_it(missing: str) -> None:
    code = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "from midcourse.terminal.cli import main\n"
        "main()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "demo"],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr == (
        f'midcourse: the demo needs {missing}: pip install "midcourse[terminal]"\n'
    )


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Path]:
    """A folder of 100,000 files, gone again at once: pytest keeps the folders of three runs."""
    folder = tmp_path / "crowd"
    folder.mkdir()
    for number in range(100_000):
        os.close(os.open(folder / f"{number}.py", os.O_CREAT | os.O_WRONLY))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.promise("terminal.script")
def test_a_folder_of_100_000_files_is_surveyed_within_its_budgets(crowd: Path) -> None:
    begun = time.monotonic()
    result = demo(str(crowd), "--max-files", "300", "--steer", "2:look for x")
    assert result.exit_code == 0
    assert "100,000 files in 1 folder, 0 B; 300 read" in result.output
    assert "not read, the budget of 300 files being spent: 99,700 files" in result.output
    assert receipts(result.output) == {"s1": "applied"}
    assert time.monotonic() - begun < 60
