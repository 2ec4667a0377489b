"""Times what a score costs, in one process, interleaved, minimum of several: time over that of the product.

    python bench/scores.py [N ...]      softmax, shapes [1, 12, N, 64], causal, fp32; default 256 512 1024 2048

`eager additive` is Bahdanau's score in plain PyTorch, which makes every pair's vector, [1, 12, N, N, 64]; it runs up to
N = 512, where that takes 0.8 GB a copy. Projections of queries and keys by general and concat count, those that make
queries and keys do not. COGWHEEL_ISA=avx2 forces a lower instruction set.
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor

import cogwheel
from cogwheel.bench.machine import start_with_kept_pages
from cogwheel.bench.timing import take_turns

HEADS, WIDTH = 12, 64
LARGEST_EAGER = 512


def eager_additive(query: Tensor, key: Tensor, value: Tensor, weight: Tensor) -> Tensor:
    scores = (torch.tanh(query[..., :, None, :] + key[..., None, :, :]) * weight[:, None, None, :]).sum(-1)
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ value


def peers(n: int) -> dict[str, tuple[Callable[..., Tensor], list[Tensor]]]:
    query, key, value = (torch.randn(1, HEADS, n, WIDTH) for _ in range(3))
    matrix = torch.randn(HEADS, WIDTH, WIDTH) / WIDTH**0.5
    vector = torch.randn(HEADS, WIDTH) / WIDTH**0.5
    projection = torch.randn(HEADS, WIDTH, 2 * WIDTH) / WIDTH**0.5

    def scored(score: str, **weights: Tensor) -> tuple[Callable[..., Tensor], list[Tensor]]:
        def attend(query: Tensor, key: Tensor, value: Tensor, *given: Tensor) -> Tensor:
            return cogwheel.attention(query, key, value, causal=True, score=score, **dict(zip(weights, given)))

        return attend, [query, key, value, *weights.values()]

    jobs = {
        "dot": scored("dot"),
        "general": scored("general", score_weight=matrix),
        "cosine": scored("cosine"),
        "additive": scored("additive", score_weight=vector),
        "concat": scored("concat", score_projection=projection, score_weight=vector),
    }
    if n <= LARGEST_EAGER:
        jobs["eager additive"] = (eager_additive, [query, key, value, vector])
    return jobs


def forward_of(attend: Callable[..., Tensor], tensors: list[Tensor]) -> Callable[[], object]:
    def run() -> None:
        with torch.no_grad():
            attend(*tensors)

    return run


def both_of(attend: Callable[..., Tensor], tensors: list[Tensor]) -> Callable[[], object]:
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    gradient = torch.randn_like(tensors[0])
    return lambda: torch.autograd.grad(attend(*leaves), leaves, gradient)


def main() -> None:
    start_with_kept_pages()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}; time over that of the product (dot)")
    for n in [int(word) for word in sys.argv[1:]] or [256, 512, 1024, 2048]:
        jobs = peers(n)
        for direction, job_of in (("forward", forward_of), ("forward + backward", both_of)):
            timings = take_turns({name: job_of(*job) for name, job in jobs.items()}, seconds=6.0)
            minima = {name: timing.min for name, timing in timings.items()}
            ratios = "  ".join(f"{name} {time / minima['dot']:.2f}" for name, time in list(minima.items())[1:])
            print(f"N {n:6}  {direction:18}  dot {1e3 * minima['dot']:8.2f} ms  {ratios}", flush=True)


if __name__ == "__main__":
    main()
