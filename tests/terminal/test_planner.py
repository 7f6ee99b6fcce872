"""The planner: a pure function of the messages, steers included."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from midcourse.terminal.planner import plan
from midcourse.terminal.tools import Workspace

from .test_tools import result_of

pytestmark = pytest.mark.promise("terminal.agent")


class Turn:
    """Plays a turn without a runtime: the planner, the tools, and a list of messages."""

    def __init__(self, root: Path, prompt: str = "Survey this folder", **budget: int) -> None:
        self.workspace = Workspace(str(root))
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: list[Mapping[str, Any]] = []
        if budget:
            self.messages.append(
                {"role": "system", "content": "", "metadata": {"budget": dict(budget)}}
            )
        self.say(prompt, "new_turn")

    def say(self, text: object, delivery: str = "request_boundary") -> None:
        self.messages.append({"role": "user", "content": text, "metadata": {"delivery": delivery}})

    def request(self) -> str | None:
        decision = plan(self.messages)
        self.messages.append(decision.message())
        for call in decision.calls:
            self.calls.append((call.name, call.arguments))
            result = result_of(self.workspace.run(call.name, call.arguments))
            self.messages.append(
                {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": result}
            )
        return decision.answer

    def answer(self, most: int = 60) -> str:
        for _ in range(most):
            answer = self.request()
            if answer is not None:
                return answer
        raise AssertionError(f"no answer after {most} requests")

    def paths_of(self, tool: str) -> list[str]:
        return [
            path for name, arguments in self.calls if name == tool for path in arguments["paths"]
        ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "README.md": "# A project\ncache the results\n",
        "src/app/main.py": "import cache\n# TODO: tidy up\n",
        "src/app/view.py": "x = 1\n",
        "src/web/page.js": "// cache\n",
        "src/web/page.css": "a {}\n",
        "tests/test_main.py": "import main  # FIXME later\n",
        "tests/data.json": "{}\n",
        "docs/index.md": "# Docs\n",
        "node_modules/x/index.js": "cache\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_small_project_is_surveyed_in_a_handful_of_requests(project: Path) -> None:
    turn = Turn(project)
    answer = turn.answer()
    assert 4 <= sum(message["role"] == "assistant" for message in turn.messages) <= 15
    assert "8 files in 5 folders" in answer
    assert "Python" in answer
    assert "src/app/main.py:2: TODO: tidy up" in answer
    assert "left alone by habit: node_modules (1)" in answer


def test_the_same_messages_always_give_the_same_decision_and_are_not_changed(
    project: Path,
) -> None:
    turn = Turn(project)
    turn.request()
    turn.say("skip tests")
    before = copy.deepcopy(turn.messages)
    assert plan(turn.messages) == plan(turn.messages)
    assert turn.messages == before


def test_a_skip_leaves_out_what_is_not_read_yet_and_what_was(project: Path) -> None:
    turn = Turn(project)
    turn.request()
    turn.say("skip tests and markdown")
    answer = turn.answer()
    assert not [path for path in turn.paths_of("read") if "test" in path or path.endswith(".md")]
    assert "skip tests: left out 1 folder unseen" in answer
    assert "skip markdown: left out 2 files" in answer
    assert "4 files in 2 folders" in answer


def test_an_only_after_everything_was_read_leaves_the_rest_out_of_the_figures(
    project: Path,
) -> None:
    turn = Turn(project)
    turn.answer()
    turn.say("only src/app")
    answer = turn.answer()
    assert "2 files in 1 folder" in answer
    assert "page.js" not in answer


def test_a_later_only_replaces_the_earlier_one(project: Path) -> None:
    turn = Turn(project)
    turn.request()
    turn.say("only docs")
    turn.request()
    turn.say("only src/app and src/web")
    assert "4 files in 2 folders" in turn.answer()


def test_an_only_takes_back_the_skip_of_the_same(project: Path) -> None:
    turn = Turn(project)
    turn.request()
    turn.say("skip docs")
    turn.request()
    turn.say("only docs")
    assert "1 file in 1 folder" in turn.answer()


def test_an_only_overrides_what_is_left_alone_by_habit(project: Path) -> None:
    answer = Turn(project, "only node_modules").answer()
    assert "1 file in 1 folder" in answer
    assert "habit" not in answer


def test_a_word_is_looked_for_in_what_was_read_before_and_is_read_after(project: Path) -> None:
    turn = Turn(project)
    while not turn.paths_of("read"):
        turn.request()
    turn.say('look for CACHE and "no such thing"')
    answer = turn.answer()
    assert turn.paths_of("search")
    assert sorted(turn.paths_of("read")) == sorted(set(turn.paths_of("read")))
    assert 'Looked for "CACHE": 3 lines in 3 files' in answer
    assert 'Looked for "no such thing": in none of the files that were read.' in answer


def test_a_stop_after_is_kept(project: Path) -> None:
    answer = Turn(project, "stop after 3 files").answer()
    assert "3 read" in answer
    assert "stop after 3 files: 3 files looked at" in answer
    assert "not read, as told: " in answer


def test_a_stop_after_more_than_there_are_says_so(project: Path) -> None:
    answer = Turn(project, "stop after 500 files").answer()
    assert "stop after 500 files: not reached, 8 files looked at" in answer


def test_what_is_not_understood_is_quoted_in_the_answer_and_without_effect(project: Path) -> None:
    plain = Turn(project).answer()
    turn = Turn(project)
    turn.request()
    turn.say("make it sound \x1b[1mcheerful\nund bitte auf Deutsch")
    answer = turn.answer()
    assert answer.startswith(plain.split("\n\nNot in")[0])
    assert 'not understood, and so without effect: "make it sound \\x1b[1mcheerful"' in answer
    assert '"und bitte auf Deutsch"' in answer


def test_the_parts_of_a_message_are_read_too(project: Path) -> None:
    turn = Turn(project)
    turn.say([{"type": "text", "text": "only docs"}, {"type": "image", "data": ""}])
    assert "1 file in 1 folder" in turn.answer()


def test_another_turn_begins_afresh(project: Path) -> None:
    turn = Turn(project)
    turn.say("only docs")
    turn.answer()
    turn.say("Survey this folder again", "new_turn")
    answer = turn.answer()
    assert "8 files" in answer
    assert "What I was told" not in answer


def test_the_answer_comes_within_the_budget_of_requests_and_names_it(project: Path) -> None:
    for requests in range(1, 12):
        turn = Turn(project, requests=requests, files=100, listed=1000)
        answer = turn.answer(requests)
        if requests < 3:
            assert f"the budget of {requests} request" in answer


def test_the_budget_of_files_is_spread_over_the_folder(tmp_path: Path) -> None:
    for folder in "abcd":
        (tmp_path / folder).mkdir()
        for number in range(25):
            (tmp_path / folder / f"{number}.py").write_text("x\n")
    turn = Turn(tmp_path, requests=40, files=20, listed=1000)
    answer = turn.answer()
    assert {path[0] for path in turn.paths_of("read")} == set("abcd")
    assert "100 files in 4 folders, 200 B; 20 read" in answer
    assert "not read, the budget of 20 files being spent: 80 files" in answer


def test_the_budget_of_listing_holds(tmp_path: Path) -> None:
    for folder in range(30):
        (tmp_path / f"d{folder:02}" / "below").mkdir(parents=True)
        for number in range(10):
            (tmp_path / f"d{folder:02}" / f"{number}.py").touch()
    answer = Turn(tmp_path, requests=40, files=5, listed=50).answer()
    assert "not listed, " in answer


def test_an_empty_folder_and_one_that_only_holds_empty_ones_are_answered(tmp_path: Path) -> None:
    assert Turn(tmp_path).answer() == "The folder is empty."
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert Turn(tmp_path).answer() == "The folder is empty."
    (tmp_path / "a" / "x.py").touch()
    assert "no file that the survey is about" in Turn(tmp_path, "skip python").answer()


def test_a_deep_chain_of_folders_is_reached(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "x.py").write_text("x\n")
    assert "1 file in 1 folder" in Turn(tmp_path).answer(40)
