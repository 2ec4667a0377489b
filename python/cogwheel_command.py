"""The command `cogwheel`: finds the executable in the installed package and becomes it.

A module of its own, because whatever lies in the package imports torch first, which takes seconds.
"""

import importlib.util
import os
import pathlib
import sys
from collections.abc import Iterator


def _candidates() -> Iterator[pathlib.Path]:
    # Beside the operators of another build, its own executable: work on Cogwheel with several build folders.
    if operators := os.environ.get("COGWHEEL_OPERATORS"):
        yield pathlib.Path(operators).resolve().parent.parent / "cli/cogwheel"
    package = importlib.util.find_spec("cogwheel")
    for folder in package.submodule_search_locations or () if package else ():
        yield pathlib.Path(folder) / "bin/cogwheel"
    # A source tree that is on the path has the package without the executable, which an installed one behind it has.
    for folder in sys.path:
        yield pathlib.Path(folder) / "cogwheel/bin/cogwheel"


def executable() -> pathlib.Path:
    """Raises FileNotFoundError, in one line, where there is none."""
    found = next((path for path in _candidates() if path.is_file()), None)
    if found is None:
        package = importlib.util.find_spec("cogwheel")
        got = f"none in {pathlib.Path(package.origin).parent}" if package and package.origin else "no package"
        raise FileNotFoundError(f"cogwheel: executable: expected bin/cogwheel in an installed package, got {got}; install it, or name a build's operators in COGWHEEL_OPERATORS")
    return found


def environment() -> dict[str, str]:
    """Of the executable: with the Python whose environment `bench` and the default text are of."""
    return {"COGWHEEL_PYTHON": sys.executable, **os.environ}


def main() -> None:
    try:
        path = str(executable())
    except FileNotFoundError as error:
        sys.exit(str(error))
    os.execve(path, [path, *sys.argv[1:]], environment())
