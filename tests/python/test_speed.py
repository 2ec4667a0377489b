"""A guard against regressions of speed: time over that of torch's fused softmax, in the same process, interleaved.

The limits are about twice what the kernels reach (docs/architecture.md), so that a noisy machine does not trip them; a
kernel that lost its vectors or its threads does.
"""

import time

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import cogwheel

with open("/proc/cpuinfo") as cpuinfo:
    FLAGS = set(cpuinfo.read().split())

pytestmark = pytest.mark.skipif("avx2" not in FLAGS, reason="the portable kernels promise numbers, not speed")


def least_time(calls, repeats):
    """Least time of each call, taken in turn so that a disturbance meets all of them."""
    least = [float("inf")] * len(calls)
    for _ in range(repeats):
        for index, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[index] = min(least[index], time.perf_counter() - start)
    return least


@pytest.mark.parametrize(
    "queries, direction, limit",
    [
        (256, "forward", 1.25),
        (256, "forward and backward", 0.85),
        (1024, "forward", 0.95),
        (1024, "forward and backward", 0.85),
    ],
)
def test_faster_than_fused_softmax(queries, direction, limit):
    if "avx512f" not in FLAGS:
        limit *= 1.5  # torch's matrix products gain less from AVX2 than these kernels lose
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.randn(1, 12, queries, 64, generator=generator, requires_grad=True) for _ in range(3)]
    gradient = torch.randn(1, 12, queries, 64, generator=generator)

    def attend(function):
        if direction == "forward":
            with torch.no_grad():
                function()
        else:
            torch.autograd.grad(function(), leaves, gradient)

    names = ["torch", "softmax", "cog"]
    calls = [
        lambda: attend(lambda: scaled_dot_product_attention(*leaves, is_causal=True)),
        lambda: attend(lambda: cogwheel.attention(*leaves, "softmax", causal=True)),
        lambda: attend(lambda: cogwheel.attention(*leaves, "cog", causal=True)),
    ]
    least_time(calls, 2)
    times = dict(zip(names, least_time(calls, 15)))
    ratios = {name: times[name] / times["torch"] for name in names[1:]}
    print(f"{direction}, {queries} queries: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    assert max(ratios.values()) <= limit, ratios
