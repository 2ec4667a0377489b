"""Loads the operators, a shared library that the CMake build writes beside this file."""

import os
import pathlib

import torch

_REBUILD = "build it with ./quickstart --setup-only"


def _load(path: pathlib.Path) -> None:
    if not path.is_file():
        raise ImportError(f"cogwheel: operators: expected the file {path}, got none; {_REBUILD}")
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(
            f"cogwheel: operators: expected a library built for torch {torch.__version__}, got {path}, "
            f"which does not load ({error}); {_REBUILD}"
        ) from error


# COGWHEEL_OPERATORS: another build's library, for those who work on Cogwheel with several build folders.
_load(pathlib.Path(os.environ.get("COGWHEEL_OPERATORS", pathlib.Path(__file__).parent / "libcogwheel_ops.so")))
