"""A folder to compile mechanisms in, with its own cache and a compiler that counts its calls."""

import contextlib
import os
import pathlib
from dataclasses import dataclass

# Cog, and the example of docs/your-own-mechanism.md: what most tests define, so that each is compiled once.
MINE = {"name": "mine", "f": "sign(s)*exp(abs(s))", "g": "exp(abs(s))"}
MINE_LINE = "mine: f = sign(s)*exp(abs(s)); g = exp(abs(s))"
SHARP = {
    "name": "sharp_cog",
    "f": "sign(s)*exp(tau*abs(s))",
    "g": "exp(tau*abs(s))",
    "parameters": {"tau": 1.0},
}

COMPILER = """#!/bin/sh
case "$*" in
  *--version*) ;;
  *) echo once >>{log}; [ ! -e {broken} ] || {{ cat {broken}; exit 1; }} ;;
esac
exec c++ "$@"
"""


@dataclass(frozen=True)
class Workshop:
    folder: pathlib.Path

    @property
    def environment(self) -> dict[str, str]:
        return {"XDG_CACHE_HOME": str(self.folder / "cache"), "CXX": str(self.folder / "compiler")}

    @property
    def modules(self) -> list[pathlib.Path]:
        return sorted((self.folder / "cache/cogwheel/mechanisms").glob("*.so"))

    def compilations(self) -> int:
        log = self.folder / "log"
        return len(log.read_text().splitlines()) if log.exists() else 0


def make_workshop(folder: pathlib.Path) -> Workshop:
    compiler = folder / "compiler"
    compiler.write_text(COMPILER.format(log=folder / "log", broken=folder / "broken"))
    compiler.chmod(0o755)
    return Workshop(folder)


@contextlib.contextmanager
def workshop_of_this_process(folder: pathlib.Path):
    """This process compiles there too, as long as it lasts."""
    made = make_workshop(folder)
    before = {name: os.environ.get(name) for name in made.environment}
    os.environ.update(made.environment)
    yield made
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def in_environment(workshop: Workshop, repository: pathlib.Path) -> dict[str, str]:
    """The environment of a process that compiles there and imports the package."""
    return {**os.environ, **workshop.environment, "PYTHONPATH": str(repository / "python")}
