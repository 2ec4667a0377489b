"""Loads the operators, a shared library that the CMake build writes beside this file."""

import os
import pathlib
import re

import torch

_REBUILD = "build it with ./quickstart --setup-only"


class OperatorsError(ImportError, ValueError):
    """No library of operators, or one of another build."""


def _load(path: pathlib.Path) -> None:
    if not path.is_file():
        raise OperatorsError(f"cogwheel: operators: expected the file {path}, got none; {_REBUILD}")
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise OperatorsError(
            f"cogwheel: operators: expected a library built for torch {torch.__version__}, got {path}, "
            f"which does not load ({error}); {_REBUILD}"
        ) from error
    built_for = torch.ops.cogwheel.built_for_torch()
    if not re.match(rf"{re.escape(built_for)}\b", torch.__version__):  # 2.13.0 serves 2.13.0+cpu and 2.13.0.dev1 alike
        raise OperatorsError(
            f"cogwheel: operators: expected a library built for torch {torch.__version__}, got {path}, "
            f"which is built for {built_for}; {_REBUILD}"
        )


# COGWHEEL_OPERATORS: another build's library, for work on Cogwheel with several build folders.
PATH = pathlib.Path(os.environ.get("COGWHEEL_OPERATORS", pathlib.Path(__file__).parent / "libcogwheel_ops.so")).resolve()
_load(PATH)

if os.environ.get("COGWHEEL_ENGINE") == "interpreted":
    from cogwheel import device_kernels

    device_kernels.implement()
