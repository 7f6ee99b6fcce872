"""Dependencies point one way: terminal and adapters, runtime, engine, core."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import midcourse

PACKAGE = Path(midcourse.__file__).parent

# A stand-in for the package, so that importing a part of it does not run the whole. What is
# blocked cannot be imported, whoever asks for it.
PRELUDE = f"""
import sys, types

package = types.ModuleType("midcourse")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["midcourse"] = package

def block(*names):
    for name in names:
        assert name not in sys.modules, name
        sys.modules[name] = None
"""

CORE_ALONE = """
block("trio", "anyio", "outcome", "sniffio")
from midcourse._core import errors, events, generation, offer, record, session, tables, values

limits = values.Limits()
live = session.Session(
    "s", mode=tables.Mode.REQUEST_BOUNDARY, limits=limits, clock=float, notify=lambda *_: None
)

def submit(given, anchor=None):
    prepared = offer.prepare(given, anchor, anchored=anchor is not None, limits=limits)
    return live.accept(prepared, live.place(prepared))

initial = offer.prepare(values.Input("user", "begin"), None, anchored=False, limits=limits)
state = live.open(initial, "g", attachment_kinds=(), max_requests=None, initial_written=True)
live.started(state)
steer = submit(values.Input("steer", "go left"), "g")
state.begin(steer)
state.settle(steer, tables.WriteEnd.RETURNED, None)
state.begin_request()
assert not state.goes_on()
state.end(tables.Cause.FINISH)
assert [event.type for event in live.log.after(0)] == [
    "generation.started", "input.accepted", "steering.accepted", "input.queued",
    "input.delivered", "steering.applied", "request.started", "generation.finished",
]
ours = {name for name in sys.modules if name.startswith("midcourse.")}
assert all(name.startswith("midcourse._core") for name in ours), ours
"""

# The runtime's half of a generation, in thirty lines: it opens, binds, and hands inputs over.
ENGINE_ON_TRIO = """
block("anyio")
import trio
from midcourse._core import offer, session, tables, values
from midcourse._engine.block import GenerationBlock

limits = values.Limits()
live = session.Session(
    "s", mode=tables.Mode.REQUEST_BOUNDARY, limits=limits, clock=float, notify=lambda *_: None
)
initial = offer.prepare(values.Input("user", "begin"), None, anchored=False, limits=limits)

class Host:
    def open(self):
        self.state = live.open(
            initial, "g", attachment_kinds=(), max_requests=None, initial_written=False
        )
        return self.state

    def bind(self, generation):
        live.started(self.state)

    def unbind(self, generation):
        pass

    def on_loop(self, step):
        return step()

class Context:
    messages = []

    async def add_message(self, message):
        await trio.lowlevel.checkpoint()
        self.messages.append(message["content"])

async def submit(generation, text):
    prepared = offer.prepare(values.Input("steer", text), "g", anchored=True, limits=limits)

    def admit():
        place = live.place(prepared)
        return live.accept(prepared, place) if generation._hand_off(prepared) else None

    return (await generation._submit(admit)).receipt()

async def checkpoint(generation):
    await trio.lowlevel.checkpoint()

async def main():
    block = GenerationBlock(Host(), Context(), checkpoint, limits)
    async with block as generation:
        async for request in generation.requests():
            if request.number == 1:
                receipt = await submit(generation, "go left")
                assert receipt["disposition"] == "queued", receipt
            request.finish("done")
    assert generation.outcome == "finished"

trio.run(main)
assert Context.messages == ["begin", "go left"]
assert [event.type for event in live.log.after(0)][-2:] == [
    "request.started", "generation.finished",
]
assert live.log.get(live.log.last).data["requests"] == 2
"""


def python(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", PRELUDE + program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.promise("house.core_alone")
def test_the_core_runs_without_trio_and_anyio() -> None:
    python(CORE_ALONE)


@pytest.mark.promise("house.engine_on_trio")
def test_the_engine_runs_a_generation_on_trio_where_anyio_cannot_be_imported() -> None:
    python(ENGINE_ON_TRIO)


# ------------------------------------------------------------------------------- the imports


def imports(path: Path) -> Iterator[str]:
    """The absolute names of the modules that a file imports, wherever in it."""
    package = ["midcourse", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            parts = [*base, *([node.module] if node.module else [])]
            # `from . import x` may name a module, too.
            yield from (".".join([*parts, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            assert isinstance(node.args[0], ast.Constant), f"{path}: an import nobody can read"
            yield str(node.args[0].value)


def sources(*parts: str) -> list[Path]:
    found = [path for part in parts for path in sorted(PACKAGE.glob(part))]
    assert found, parts
    return found


def within(name: str, *allowed: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


def strangers(paths: list[Path], *allowed: str) -> list[tuple[str, str]]:
    """What these files import besides the standard library and what is allowed."""
    return [
        (str(path.relative_to(PACKAGE)), name)
        for path in paths
        for name in imports(path)
        if name.partition(".")[0] not in sys.stdlib_module_names and not within(name, *allowed)
    ]


@pytest.mark.promise("house.one_way", "house.core_alone")
def test_the_core_imports_the_standard_library_and_itself() -> None:
    assert strangers(sources("_core/*.py"), "midcourse._core") == []


@pytest.mark.promise("house.core_alone")
def test_the_core_has_no_loop_no_clock_no_thread_and_no_logger() -> None:
    forbidden = ("asyncio", "threading", "time", "logging", "concurrent", "contextvars", "random")
    found = [
        (path.name, name)
        for path in sources("_core/*.py")
        for name in imports(path)
        if within(name, *forbidden)
    ]
    assert found == []
    words = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    for path in sources("_core/*.py"):
        assert not [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, words)
        ]


@pytest.mark.promise("house.one_way", "house.engine_on_trio")
def test_the_engine_imports_the_core_itself_trio_and_outcome_and_anyio_in_one_file() -> None:
    files = sources("_engine/*.py")
    own = ("midcourse._core", "midcourse._engine", "trio", "outcome")
    assert {file for file, _ in strangers(files, *own)} <= {"_engine/on_anyio.py"}
    assert strangers(files, *own, "anyio") == []


@pytest.mark.promise("house.one_way")
def test_the_facade_imports_neither_the_terminal_nor_an_adapter() -> None:
    own = ("midcourse._core", "midcourse._engine", "trio", "outcome", "anyio")
    private = sources("_*.py")
    names = [f"midcourse.{path.stem}" for path in private if path.stem != "__init__"]
    assert strangers(private, *own, *names) == []


@pytest.mark.promise("house.one_way")
def test_nothing_of_the_library_imports_the_terminal() -> None:
    outside = [path for path in sources("**/*.py") if "terminal" not in path.parts]
    assert [
        (path.name, name)
        for path in outside
        for name in imports(path)
        if within(name, "midcourse.terminal")
    ] == []


@pytest.mark.promise("house.public_names", "house.one_way")
def test_the_package_itself_only_names_again_what_stands_elsewhere() -> None:
    module = ast.parse((PACKAGE / "__init__.py").read_text())
    docstring, *imported, listed = module.body
    assert isinstance(docstring, ast.Expr)
    names = []
    for node in imported:
        assert isinstance(node, ast.ImportFrom)
        assert all(alias.asname is None for alias in node.names)
        names += [alias.name for alias in node.names]
    assert isinstance(listed, ast.Assign)
    assert ast.literal_eval(listed.value) == sorted(names)
