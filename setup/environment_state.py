"""Prints which of Cogwheel's requirements an environment has, as shell assignments.

usage: environment_state.py PACKAGE...

Reads only metadata: importing torch would take seconds on every start.
"""

import importlib.metadata
import pathlib
import shlex
import sys


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


torch = version("torch")
release = tuple(int(part) for part in torch.split("+")[0].split(".")[:2]) if torch else ()

for name, value in {
    "torch_version": torch,
    "torch_is_new_enough": "yes" if release >= (2, 11) else "",
    "missing_python": " ".join(package for package in sys.argv[1:] if not version(package)),
    "cogwheel_installed": "yes" if version("cogwheel") else "",
    "environment_bin": str(pathlib.Path(sys.executable).parent),
}.items():
    print(f"{name}={shlex.quote(value)}")
