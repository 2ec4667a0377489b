"""torch.autocast changes nothing: attention computes in the dtype of its inputs, its matrix products too."""

import contextlib

import pytest
import torch

import cogwheel

HEADS, TOKENS, WIDTH = 2, 6, 16


def random(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(sum(size)))


CASES = {
    "dot": {"mechanism": "cog"},
    "general": {"score": "general", "score_weight": random(HEADS, WIDTH, WIDTH)},
    "cosine": {"score": "cosine"},
    "additive": {"score": "additive", "score_weight": random(HEADS, WIDTH)},
    "concat": {
        "score": "concat", "score_weight": random(HEADS, WIDTH), "score_projection": random(HEADS, WIDTH, 2 * WIDTH)
    },
    "polynomial": {"mechanism": "polynomial", "coefficients": random(HEADS, 3)},
    "matrix_exponential_by_row": {"mechanism": "matrix_exponential_by_row"},
}  # fmt: skip


def everything(case: str) -> list[torch.Tensor]:
    """Output, first and second gradients, tangent, statistics, and what a cache gives."""
    names = [name for name, option in CASES[case].items() if isinstance(option, torch.Tensor)]
    leaves = [random(1, HEADS, TOKENS, WIDTH + i)[..., :WIDTH].requires_grad_() for i in range(3)]
    leaves += [CASES[case][name].clone().requires_grad_() for name in names]

    def attend(query, key, value, *tensors):
        return cogwheel.attention(query, key, value, causal=True, **CASES[case] | dict(zip(names, tensors)))

    output = attend(*leaves)
    first = torch.autograd.grad(output.square().sum(), leaves, create_graph=True)
    second = torch.autograd.grad(sum(each.square().sum() for each in first), leaves)
    tensors = tuple(leaf.detach() for leaf in leaves)
    results = [output, *first, *second, torch.func.jvp(attend, tensors, tensors)[1]]
    results += cogwheel.attention_statistics(*tensors[:3], causal=True, argmax=False, **CASES[case])[1][:7]
    if "mechanism" not in CASES[case] or case == "dot":
        cache = cogwheel.KeyValueCache(1, HEADS, TOKENS, WIDTH)
        cache.append(*tensors[1:3])
        results.append(cache.attend(tensors[0], **CASES[case]))
    return results


@pytest.mark.parametrize("case", CASES)
def test_the_bits_are_those_without_it(case):
    results = []
    for context in (contextlib.nullcontext(), torch.autocast("cpu", torch.bfloat16)):
        with context:
            results.append(everything(case))
    for at, (plain, inside) in enumerate(zip(*results)):
        assert inside.dtype == torch.float32 and torch.equal(plain, inside), at
