"""What is run before a change lands: `nox` runs the default sessions, `nox -l` lists all."""

from __future__ import annotations

import os
import shutil
import subprocess

import nox

PYTHONS = ("3.11", "3.12", "3.13")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = False  # a missing Python is skipped with a word
nox.options.sessions = ["lint", "typing", "tests", "lowest", "wheel"]

# pyenv hides the versions that are not selected: select all that are tested.
if "PYENV_VERSION" not in os.environ and shutil.which("pyenv"):
    listing = subprocess.run(
        ["pyenv", "versions", "--bare"], capture_output=True, text=True, check=False
    )
    found = [version for version in listing.stdout.split() if version.startswith(PYTHONS)]
    if found:
        os.environ["PYENV_VERSION"] = ":".join(found)


def group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), name))


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff, with the ASYNC rules, and its formatting."""
    session.install(*group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def typing(session: nox.Session) -> None:
    """mypy and pyright, strict, ordinary use included; every public name fully typed."""
    session.install("-e", ".[terminal]", "nox", *group("typing"), *group("bench"))
    session.run("mypy")
    session.run("pyright")
    session.run("pyright", "--ignoreexternal", "--verifytypes", "midcourse")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """All tests; on the first Python with branch coverage, core and engine at 100 %."""
    session.install(".[terminal]", *group("test"))
    if session.python != PYTHONS[0] and not session.posargs:
        session.run("pytest", "-q", "-m", "not search")
        return
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "combine", "-q")
    if not session.posargs:
        whole = "*/midcourse/_core/*,*/midcourse/_engine/*"
        session.run("coverage", "report", f"--include={whole}", "--fail-under=100")
    session.run("coverage", "report")


@nox.session
def lowest(session: nox.Session) -> None:
    """The lower ends of all version ranges."""
    session.install("uv")
    session.run(
        "uv", "pip", "install", "--python", session.virtualenv.location, "-q",
        "--resolution=lowest-direct", ".[terminal]", *group("test"),
    )  # fmt: skip
    session.run("pytest", "-q", "-m", "not search")


@nox.session
def wheel(session: nox.Session) -> None:
    """The wheel and the sdist, in an environment that has nothing else."""
    session.install("build")
    out = session.create_tmp()
    session.run("python", "-m", "build", "-q", "--outdir", out)
    for built in sorted(os.listdir(out)):
        if built.endswith((".whl", ".tar.gz")):
            session.install("--force-reinstall", os.path.join(out, built))
            # Not from here, where `src` would hide what the package forgot.
            with session.chdir(out):
                session.run("python", "-c", "import midcourse, importlib.resources as r;"
                            "assert (r.files(midcourse) / 'py.typed').is_file()")  # fmt: skip


@nox.session
def races(session: nox.Session) -> None:
    """The long search for a schedule that breaks a promise: `nox -s races -- --seconds 3600`."""
    session.install(".[terminal]", *group("test"))
    session.run("python", "-m", "tests.search", *(session.posargs or ["--seconds", "3600"]))


@nox.session
def bench(session: nox.Session) -> None:
    """What things cost, as ratios to their floors."""
    session.install(".", *group("bench"))
    session.run("python", "-m", "benchmarks", *session.posargs)
