"""A guard against regressions of speed: ratios of minimum times in one process, taking turns, never times.

The limits leave a noisy machine up to twice what kernels take on a quiet one (docs/performance.md); a kernel that lost
its vectors, its threads or its blocking does not pass.
"""

from pathlib import Path

import pytest
import torch

import cogwheel
from cogwheel.bench.attention import BASELINE, Case, measure
from cogwheel.bench.timing import take_turns

FLAGS = set(Path("/proc/cpuinfo").read_text().split())
pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif("avx2" not in FLAGS, reason="the portable kernels promise numbers, not speed"),
]
# torch's matrix products gain less from AVX2 than these kernels lose.
LESS = 1.0 if "avx512f" in FLAGS else 1.5


def min_times(mechanisms: list[str], case: Case) -> dict[str, float]:
    timings = measure(mechanisms, case, seconds=1.0, with_eager=False, with_flex=False)
    times = {name: timing.min for name, timing in timings.items()}
    print(f"{case}: " + ", ".join(f"{name} {time / times[BASELINE]:.2f}" for name, time in times.items()))
    return times


@pytest.mark.parametrize(
    "case, limit",
    [
        (Case(length=256), 1.25),
        (Case(length=256, backward=True), 0.95),
        (Case(length=1024), 0.95),
        (Case(length=1024, backward=True), 0.95),
        (Case(length=1024, head_dim=80), 1.0),
        (Case(length=64, batch=16), 1.25),
        (Case(length=256, dtype="bf16"), 1.25),
        (Case(length=1024, dtype="bf16"), 1.1),
        (Case(length=1024, dtype="bf16", backward=True), 1.25),
    ],
    ids=str,
)
def test_no_slower_than_fused_softmax(case, limit):
    times = min_times(["softmax", "cog"], case)
    assert max(times["softmax"], times["cog"]) <= LESS * limit * times[BASELINE], times


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "forward and backward"])
def test_other_maps_cost_what_softmax_does(backward):
    maps = ["cog", "softmax_off_by_one", "sigmoid", "linear_abs", "cubic", "relu", "squared_relu", "consmax"]
    times = min_times(["softmax", *maps], Case(length=512, backward=backward))
    assert max(times[name] for name in maps) <= 1.6 * times["softmax"], times


def test_a_window_costs_in_proportion_to_its_width():
    query, key, value = (torch.randn(1, 4, 4096, 64) for _ in range(3))
    jobs = {
        window: lambda window=window: cogwheel.attention(query, key, value, "cog", causal=True, window=window)
        for window in (None, 256, 64)
    }
    least = {window: timing.min for window, timing in take_turns(jobs, seconds=1.0).items()}
    # Of 4,096 · 4,097 / 2 pairs, a window of 256 leaves an eighth and one of 64 a thirtieth; tiles overlap its edges.
    assert least[256] <= 0.3 * least[None] and least[64] <= 0.2 * least[None], least


@pytest.mark.parametrize("mechanism", ["softmax", "cog"])
def test_statistics_of_rows(mechanism):
    """1.25 at most on a quiet machine, with AVX-512."""
    query, key, value = torch.randn(3, 1, 6, 1024, 64)
    calls = (cogwheel.attention, lambda *given, **options: cogwheel.attention_statistics(*given, argmax=False, **options))
    jobs = {name: lambda call=call: call(query, key, value, mechanism, causal=True)
            for name, call in zip(("attention", "statistics"), calls)}  # fmt: skip
    with torch.no_grad():
        times = take_turns(jobs, seconds=1.0)
    ratio = times["statistics"].min / times["attention"].min
    print(f"statistics of {mechanism}: {ratio:.2f} of attention")
    assert ratio < 1.7 * LESS
