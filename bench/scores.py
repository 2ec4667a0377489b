"""Times what a score costs (S2-24), in one process, interleaved, minimum of several: time over that of the product.

    python bench/scores.py [N ...]      softmax, shapes [1, 12, N, 64], causal, fp32; default 256 512 1024 2048

`eager additive` is Bahdanau's score in plain PyTorch, which makes every pair's vector, [1, 12, N, N, 64]; it runs up to
N = 512, where that takes 0.8 GB a copy. Projections of queries and keys by general and concat count, those that make
queries and keys do not. Allocator settings as in attention_fp32.py; COGWHEEL_ISA=avx2 forces a lower instruction set.
"""

import sys
from collections.abc import Callable

import torch
from attention_fp32 import both_of, fastest, forward_of
from torch import Tensor

import cogwheel

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


def main() -> None:
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}; time over that of the product (dot)")
    for n in [int(word) for word in sys.argv[1:]] or [256, 512, 1024, 2048]:
        jobs = peers(n)
        for direction, job_of in (("forward", forward_of), ("forward + backward", both_of)):
            times = fastest([job_of(*job) for job in jobs.values()], seconds=6.0)
            ratios = "  ".join(f"{name} {t / times[0]:.2f}" for name, t in list(zip(jobs, times))[1:])
            print(f"N {n:6}  {direction:18}  dot {1e3 * times[0]:8.2f} ms  {ratios}", flush=True)


if __name__ == "__main__":
    main()
