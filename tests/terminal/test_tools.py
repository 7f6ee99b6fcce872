"""The tools stay inside their folder, and nothing that lies in it is fatal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from midcourse.terminal import tools
from midcourse.terminal.tools import LARGEST_READ, Steps, Workspace

pytestmark = pytest.mark.promise("terminal.agent")


def result_of(steps: Steps) -> dict[str, Any]:
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: dict[str, Any] = end.value
        return result


def read(root: Path, *paths: str, words: tuple[str, ...] = ()) -> dict[str, Any]:
    return result_of(Workspace(str(root)).run("read", {"paths": paths, "words": words}))


def listing(root: Path, *folders: str, **options: Any) -> dict[str, Any]:
    return result_of(Workspace(str(root)).run("list", {"folders": folders or ("",), **options}))


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "inside-too").mkdir()
    (tmp_path / "inside-too" / "x.txt").write_text("secret")
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "../inside-too/x.txt",
        "..",
        "/etc/passwd",
        "out/secret.txt",
        "link.txt",
        "a\0b",
    ],
)
def test_a_path_that_leads_outside_is_neither_read_nor_listed_nor_searched(
    inside: Path, path: str
) -> None:
    (inside / "out").symlink_to(inside.parent)
    (inside / "link.txt").symlink_to(inside.parent / "secret.txt")

    assert read(inside, path) == {
        "read": [],
        "not_read": [[path, read(inside, path)["not_read"][0][1]]],
    }
    assert read(inside, path)["not_read"][0][1] in {"outside the folder", "a link, not followed"}
    assert listing(inside, path)["listed"] == {}
    found = result_of(Workspace(str(inside)).run("search", {"words": ["secret"], "paths": [path]}))
    assert found == {"searched": [{"path": path, "hits": {"secret": [0, []]}}]}


def test_links_are_counted_and_never_followed_so_loops_end(inside: Path) -> None:
    (inside / "a").mkdir()
    (inside / "a" / "up").symlink_to(inside)
    (inside / "self").symlink_to("self")
    (inside / "out").symlink_to(inside.parent)

    listed = listing(inside, depth=50)["listed"]

    assert set(listed) == {"", "a"}
    assert (listed[""]["links"], listed["a"]["links"]) == (2, 1)


def test_the_folder_itself_may_be_given_through_a_link(inside: Path, tmp_path: Path) -> None:
    (inside / "x.py").write_text("one\n")
    (tmp_path / "door").symlink_to(inside)
    assert read(tmp_path / "door", "x.py")["read"][0]["lines"] == 1


def test_what_cannot_be_read_is_named_with_its_reason(inside: Path) -> None:
    (inside / "binary").write_bytes(b"a\0b")
    (inside / "large.txt").write_bytes(b"x" * (LARGEST_READ + 1))
    os.mkfifo(inside / "pipe")
    (inside / "folder").mkdir()
    paths = ["binary", "large.txt", "pipe", "folder", "gone.txt"]

    result = read(inside, *paths)

    assert result["read"] == []
    assert dict(result["not_read"]) == {
        "binary": "binary",
        "large.txt": "too large",
        "pipe": "not a regular file",
        "folder": "not a regular file",
        "gone.txt": "no such file or directory",
    }
    assert listing(inside)["listed"][""]["special"] == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_must_not_be_read_is_named_with_its_reason(inside: Path) -> None:
    (inside / "closed").mkdir(mode=0)
    (inside / "closed.txt").touch(mode=0)
    assert listing(inside, "closed")["failed"] == {"closed": "permission denied"}
    assert read(inside, "closed.txt")["not_read"] == [["closed.txt", "permission denied"]]


def test_names_and_texts_in_no_encoding_survive(inside: Path) -> None:
    try:
        with open(os.fsencode(inside) + b"/bad\xff.txt", "wb") as file:
            file.write(b"TODO caf\xe9\n")
    except OSError:
        pytest.skip("this file system takes no such name")

    [[name, _]] = listing(inside)["listed"][""]["files"]
    [record] = read(inside, name, words=("CAF",))["read"]

    assert os.fsencode(name) == b"bad\xff.txt"
    assert record["todos"] == [1, [[1, "TODO caf\ufffd"]]]
    assert record["hits"] == {"CAF": [1, [[1, "TODO caf\ufffd"]]]}


def test_folders_are_listed_to_the_depth_asked_for_without_the_skipped_ones(inside: Path) -> None:
    for folder in ("src/app/deep", "src/tests", "docs"):
        (inside / folder).mkdir(parents=True)
    (inside / "src" / "app" / "x.py").write_text("")

    assert set(listing(inside)["listed"]) == {""}
    assert set(listing(inside, depth=2)["listed"]) == {"", "src", "docs"}
    assert set(listing(inside, depth=9, skip=["tests"])["listed"]) == {
        *("", "docs", "src", "src/app", "src/app/deep"),
    }
    assert set(listing(inside, depth=9, only=["src/app"])["listed"]) == {
        *("", "src", "src/app", "src/app/deep"),
    }


def test_a_tool_that_is_told_to_stop_returns_what_it_has(inside: Path) -> None:
    for number in range(5):
        (inside / f"{number}.py").write_text("x\n")
        (inside / f"d{number}").mkdir()
    workspace = Workspace(str(inside))

    steps = workspace.run("read", {"paths": [f"{number}.py" for number in range(5)]})
    assert [next(steps), next(steps)] == [1, 2]
    with pytest.raises(StopIteration) as end:
        steps.send(True)
    assert [record["path"] for record in end.value.value["read"]] == ["0.py", "1.py"]

    steps = workspace.run("list", {"folders": [f"d{number}" for number in range(5)]})
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(True)
    assert set(end.value.value["listed"]) == {"d0"}


def test_an_endless_folder_is_cut_and_says_so(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "ENTRIES_PER_FOLDER", 3)
    for number in range(5):
        (inside / f"{number}.py").touch()
    inside_it = listing(inside)["listed"][""]
    assert (len(inside_it["files"]), inside_it["cut"]) == (3, 1)


def test_an_unknown_tool_is_refused(inside: Path) -> None:
    with pytest.raises(ValueError, match="no tool is called 'delete'"):
        Workspace(str(inside)).run("delete", {})
