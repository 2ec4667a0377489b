"""Times of jobs that take turns."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds of one job, of the turns that it had."""

    least: float
    median: float
    turns: int


def take_turns(jobs: dict[str, Callable[[], object]], *, seconds: float, least_turns: int = 5) -> dict[str, Timing]:
    """Runs the jobs in turn, for `seconds` in all and at least so often each; a first turn of each is not counted."""
    for job in jobs.values():
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    start = time.perf_counter()
    turns = 0
    while turns < least_turns or time.perf_counter() - start < seconds:
        turns += 1
        for name, job in jobs.items():
            begin = time.perf_counter()
            job()
            times[name].append(time.perf_counter() - begin)
    return {name: Timing(min(each), statistics.median(each), turns) for name, each in times.items()}
