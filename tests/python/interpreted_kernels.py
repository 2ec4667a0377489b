"""Tests of kernels for GPUs on a machine without one: interpreted in a process of its own, because a process chooses its engine when it starts. What is
named *interpreted* runs in one that a test of the same file starts."""

import os
import subprocess
import sys

import pytest

INTERPRETED = os.environ.get("COGWHEEL_ENGINE") == "interpreted"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="runs in a process of its own, of the test that starts it")


def in_process(arguments: list[str], **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=os.path.dirname(__file__), env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
    )


def run_interpreted(*arguments: str) -> None:
    assert not INTERPRETED, "a test that starts such a process was selected in one: it would start itself, without end"
    done = in_process(["-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], COGWHEEL_ENGINE="interpreted")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


# Of a file of such tests: each launches something (conftest.py), or it would show nothing.
launching = [pytest.mark.usefixtures("launches")] if INTERPRETED else []
