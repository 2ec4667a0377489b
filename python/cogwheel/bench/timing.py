"""Times of jobs that take turns."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

Job = Callable[[], object]
CACHES = 256 << 20  # bytes; of a GPU


@dataclass(frozen=True)
class Timing:
    """Seconds of one job, over its turns."""

    min: float
    median: float
    turns: int


def row(name: str, timing: Timing, base: Timing, **more: object) -> dict[str, object]:
    """Of a table: what one took, over what another did."""
    return {
        "name": name,
        "least_seconds": timing.min,
        "median_seconds": timing.median,
        "turns": timing.turns,
        "ratio": timing.min / base.min,
        "ratio_of_medians": timing.median / base.median,
        **more,
    }


def _of_host(job: Job) -> float:
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def clock_of(device: torch.device | str) -> Callable[[Job], float]:
    """What measures the seconds of a job: on CUDA events before and after what it puts on the stream, while that is busy with a write of more than caches hold, so that
    the host is ahead and caches are cold; on other devices the host's clock, until they have ended."""
    kind = torch.device(device).type
    if kind == "cpu":
        return _of_host
    module = torch.get_device_module(kind)
    if kind != "cuda":
        wait = getattr(module, "synchronize", lambda: None)  # which a device without queues does not have
        return lambda job: _of_host(lambda: (job(), wait()))

    before = torch.empty(CACHES, dtype=torch.int8, device=device)

    def of_events(job: Job) -> float:
        begin, end = (module.Event(enable_timing=True) for _ in range(2))
        before.zero_()
        begin.record()
        job()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    return of_events


def take_turns(jobs: dict[str, Job], *, seconds: float, min_turns: int = 5, device: torch.device | str = "cpu") -> dict[str, Timing]:
    """Runs the jobs in turn, for `seconds` in total and at least `min_turns` times, after one turn each that is not counted."""
    seconds_of = clock_of(device)
    for job in jobs.values():
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    start = time.perf_counter()
    turns = 0
    while turns < min_turns or time.perf_counter() - start < seconds:
        turns += 1
        for name, job in jobs.items():
            times[name].append(seconds_of(job))
    return {name: Timing(min(each), statistics.median(each), turns) for name, each in times.items()}
