"""What the tests of this folder share."""

import os
import pathlib
import sys

import pytest


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    return pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def cogwheel_executable() -> pathlib.Path:
    """The command line: in the environment's bin, or where COGWHEEL_EXECUTABLE says (another build folder's)."""
    path = pathlib.Path(os.environ.get("COGWHEEL_EXECUTABLE", pathlib.Path(sys.executable).parent / "cogwheel"))
    assert path.is_file(), f"expected the executable {path}, got none; build it with ./quickstart --setup-only"
    return path
