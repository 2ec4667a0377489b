"""The command `cogwheel`: finds the executable in the installed package and becomes it.

A module of its own, because whatever lies in the package imports torch first, which takes seconds.
"""

import importlib.util
import os
import pathlib
import sys


def main() -> None:
    package = importlib.util.find_spec("cogwheel")
    folders = list(package.submodule_search_locations) if package else []
    executable = next((path for path in (pathlib.Path(folder) / "bin/cogwheel" for folder in folders) if path.is_file()), None)
    if executable is None:
        sys.exit("cogwheel: executable: expected bin/cogwheel in the installed package, got none; install it again")
    os.environ.setdefault("COGWHEEL_PYTHON", sys.executable)  # whose environment `bench` and the default text are of
    os.execv(executable, [str(executable), *sys.argv[1:]])
