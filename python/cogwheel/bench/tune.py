"""`bench attention --tune`: other sizes of blocks for the kernels of a GPU, against those of Cogwheel's table."""

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from cogwheel.bench.attention import Case, inputs, job, peers
from cogwheel.bench.timing import Job, clock_of

Sizes = tuple[int, int, int, int]  # rows and keys of a block, warps, stages; fewer stages where their tiles take more memory than there is
ENOUGH = 0.98  # of the table's time, below which other sizes are kept
# In the order of trials.
FORWARD, BACKWARD = ("forward",), ("backward_keys", "backward_queries")
CANDIDATES: tuple[Sizes, ...] = (
    (128, 64, 8, 2), (128, 64, 8, 3), (128, 64, 8, 4), (128, 64, 4, 3), (128, 128, 8, 2), (128, 32, 8, 3), (128, 32, 4, 4),
    (64, 128, 8, 2), (64, 64, 4, 2), (64, 64, 4, 3), (64, 64, 8, 2), (64, 32, 4, 2), (64, 32, 8, 2), (64, 32, 4, 3), (32, 64, 4, 2), (32, 32, 4, 2),
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """Medians of whole calls, that with these sizes of the kernel and that with the table's in turn; None where such blocks cannot be had."""

    mechanism: str
    kernel: str
    sizes: Sizes
    seconds: float | None
    seconds_of_table: float | None

    @property
    def ratio(self) -> float:
        return math.inf if self.seconds is None else self.seconds / self.seconds_of_table


def trials(mechanisms: list[str], case: Case, *, turns: int = 20) -> Iterator[Trial]:
    """Each as it is measured; a kernel keeps the best sizes found while those after it are tried."""
    seconds_of = clock_of(case.device)
    for mechanism in mechanisms:
        attend = peers(mechanism, case, with_eager=False, with_flex=False)[mechanism]
        call = job(attend, inputs(mechanism, case), case.backward)
        call()  # with the table's sizes: what fails now is no fault of a trial
        kernels = FORWARD + BACKWARD if case.backward else FORWARD
        try:
            for kernel in kernels:
                best = None
                for sizes in CANDIDATES:
                    trial = Trial(mechanism, kernel, sizes, *_against_table(call, kernel, sizes, seconds_of, turns))
                    yield trial
                    if trial.ratio < (best.ratio if best else ENOUGH):
                        best = trial
                torch.ops.cogwheel.try_block_sizes(kernel, best.sizes if best else ())
        finally:
            for kernel in kernels:
                torch.ops.cogwheel.try_block_sizes(kernel, ())


def _against_table(call: Job, kernel: str, sizes: Sizes, seconds_of: Callable[[Job], float], turns: int) -> tuple[float | None, float | None]:
    times: dict[tuple[int, ...], list[float]] = {sizes: [], (): []}
    for turn in range(turns + 1):
        for each, found in times.items():
            torch.ops.cogwheel.try_block_sizes(kernel, each)
            try:
                seconds = seconds_of(call)
            except (RuntimeError, ValueError):  # more memory than a program has, a compiler's failure
                torch.ops.cogwheel.try_block_sizes(kernel, ())
                seconds_of(call)  # which fails where the device is lost, or the table's sizes
                if each == ():
                    raise
                return None, None
            if turn > 0:  # the first compiles
                found.append(seconds)
    return statistics.median(times[sizes]), statistics.median(times[()])
