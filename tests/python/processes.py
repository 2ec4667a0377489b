"""Processes that tests start, and those that these start."""

import contextlib
import time

import pytest


@contextlib.contextmanager
def ended_with_test():
    """Kills at its end the processes that it was given: ``with ended_with_test() as end: process = end(Popen(…))``."""
    started = []

    def end(process):
        started.append(process)
        return process

    yield end
    for process in started:
        process.kill()
        process.wait()


def children_of(process):
    """Process numbers."""
    with contextlib.suppress(FileNotFoundError):
        return [int(child) for child in open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()]
    return []


def wait_for(condition, seconds=240):
    """Until it holds; a machine may be slow, so that the time only ends a test that would hang."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail("nothing happened")


def is_gone(number):
    try:
        return open(f"/proc/{number}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True
