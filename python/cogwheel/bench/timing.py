"""Times of jobs that take turns."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds of one job, over its turns."""

    min: float
    median: float
    turns: int


def take_turns(jobs: dict[str, Callable[[], object]], *, seconds: float, min_turns: int = 5) -> dict[str, Timing]:
    """Runs the jobs in turn, for `seconds` in total and at least `min_turns` times, after one turn each that is not counted."""
    for job in jobs.values():
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    start = time.perf_counter()
    turns = 0
    while turns < min_turns or time.perf_counter() - start < seconds:
        turns += 1
        for name, job in jobs.items():
            begin = time.perf_counter()
            job()
            times[name].append(time.perf_counter() - begin)
    return {name: Timing(min(each), statistics.median(each), turns) for name, each in times.items()}
