"""What the README and the docs show is what the project is."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.promise("docs.examples")
def test_the_readme_shows_the_example_as_it_is_in_its_file() -> None:
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert shown == [(ROOT / "examples" / "own_host.py").read_text()]


@pytest.mark.promise("docs.examples")
def test_the_example_of_the_readme_has_under_30_lines_and_applies_its_steer() -> None:
    example = ROOT / "examples" / "own_host.py"
    assert len(example.read_text().splitlines()) < 30
    run = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=True
    )
    queued, applied, end = run.stdout.splitlines()
    assert "'disposition': 'queued'" in queued
    assert "'disposition': 'applied'" in applied
    assert end == "finished Opened b.txt, not a.txt."


@pytest.mark.promise("docs.drawn")
def test_the_page_of_tables_is_drawn_from_the_tables_of_the_core() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_tables.py"))["page"]()
    assert (ROOT / "docs" / "tables.md").read_text() == drawn


@pytest.mark.promise("docs.examples")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    for target in re.findall(r"\]\(([\w./-]+\.(?:md|toml|py))\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.promise("docs.examples")
def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = re.findall(r"```console\n(.*?)\n```", (ROOT / "README.md").read_text())
    assert len(commands) == 2
    assert commands[0].endswith("midcourse demo")
    assert commands[1].endswith("nox")
    assert commands[1] in (ROOT / ".ci" / "run").read_text().splitlines()


@pytest.mark.promise("docs.examples", "two_step.take")
def test_the_example_of_a_framework_on_a_thread_applies_its_steer() -> None:
    example = ROOT / "examples" / "framework_on_a_thread.py"
    run = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout.splitlines() == [
        "steer queued",
        "steer applied",
        "finished I was told: a.txt, b.txt, not a.txt.",
    ]
