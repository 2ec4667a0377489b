"""Times fused attention in fp32 against torch's fused softmax, in one process: ours/torch, interleaved, minimum of several.

    python bench/attention_fp32.py [N ...]      shapes [1, 12, N, 64], causal; default 512 1024 2048 4096

Page faults of large short-lived blocks drown either side unless the allocator keeps its pages; set for both
MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=1073741824.
COGWHEEL_ISA=avx2 forces a lower instruction set.
"""

import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import cogwheel

MECHANISMS = ("softmax", "cog")


def fastest(jobs: list[Callable[[], object]], seconds: float = 2.0) -> list[float]:
    """The least time of each job, in seconds; the jobs take turns."""
    for job in jobs:
        job()
    best, rounds, start = [float("inf")] * len(jobs), 0, time.perf_counter()
    while rounds < 3 or time.perf_counter() - start < seconds:
        rounds += 1
        for index, job in enumerate(jobs):
            begin = time.perf_counter()
            job()
            best[index] = min(best[index], time.perf_counter() - begin)
    return best


def forward_of(attend: Callable[..., torch.Tensor], tensors: list[torch.Tensor]) -> Callable[[], object]:
    def run() -> None:
        with torch.no_grad():
            attend(*tensors)

    return run


def both_of(attend: Callable[..., torch.Tensor], tensors: list[torch.Tensor]) -> Callable[[], object]:
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    gradient = torch.randn_like(tensors[0])
    return lambda: torch.autograd.grad(attend(*leaves), leaves, gradient)


def main() -> None:
    peers = [lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)]
    peers += [lambda q, k, v, name=name: cogwheel.attention(q, k, v, name, causal=True) for name in MECHANISMS]
    print(f"{torch.get_num_threads()} threads; time over that of torch {torch.__version__}'s fused softmax")
    for n in [int(word) for word in sys.argv[1:]] or [512, 1024, 2048, 4096]:
        tensors = [torch.randn(1, 12, n, 64) for _ in range(3)]
        for direction, job_of in (("forward", forward_of), ("forward + backward", both_of)):
            times = fastest([job_of(peer, tensors) for peer in peers])
            ratios = "  ".join(f"{name} {t / times[0]:.2f}" for name, t in zip(MECHANISMS, times[1:]))
            print(f"N {n:6}  {direction:18}  torch {1e3 * times[0]:8.2f} ms  {ratios}", flush=True)


if __name__ == "__main__":
    main()
