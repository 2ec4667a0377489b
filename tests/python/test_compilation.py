"""torch.compile: no operator breaks the graph. The tracing is what can fail, so the graph is run by PyTorch itself."""

import pytest
import torch
from attention_cases import Shape, random_inputs

import cogwheel

SHAPE = Shape(2, 4, 2, 17, 20, 16, 24)


def leaves_of(mechanism, **more):
    inputs = random_inputs(mechanism, SHAPE).to(torch.float32)
    return {name: tensor.detach().requires_grad_() for name, tensor in (inputs.tensors() | more).items()}


def randn(*size):
    return torch.randn(*size, generator=torch.Generator().manual_seed(2))


# A mechanism of each kind and each way of calling one, that test_operators.py does not compile.
CASES = {
    "dropout": (lambda **x: cogwheel.attention(mechanism="cog", dropout=0.3, seed=7, **x), "cog", {}),
    "biases and a window": (
        lambda **x: cogwheel.attention(mechanism="cog", causal=True, window=9, alibi=torch.arange(4.0), **x),
        "cog",
        {"bias": (4, 17, 20), "energy_bias": (17, 20)},
    ),
    "packed": (
        lambda query, key, value: cogwheel.attention(
            query[:1], key[:1, :, :17], value[:1, :, :17], "sigmoid", cu_seqlens=torch.tensor([0, 5, 17]), shift=torch.zeros(4)
        ),
        "softmax",
        {},
    ),
    "local-p": (
        lambda **x: cogwheel.attention(mechanism="softmax", local_radius=3.0, **x),
        "softmax",
        {"local_centers": (2, 4, 17)},
    ),
    "additive score": (
        lambda **x: cogwheel.attention(mechanism="consmax", score="additive", **x),
        "consmax",
        {"score_weight": (4, 16)},
    ),
    "mixture over a map with scalars": (
        lambda **x: cogwheel.attention(mechanism="differential_sigmoid", **x),
        "differential_sigmoid",
        {},
    ),
    "drop-in": (
        lambda query, key, value: cogwheel.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True, mechanism="cog"
        ),
        "cog",
        {},
    ),
    "weights": (
        lambda query, key, value: cogwheel.attention_weights(query, key, "centered") @ value.repeat_interleave(2, 1),
        "centered",
        {},
    ),
    "dense mechanism": (
        lambda query, key, value: cogwheel.attention(
            query, key[:, :, :17], value[:, :, :17], "polynomial", coefficients=torch.ones(4, 3), causal=True
        ),
        "softmax",
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_compiles_as_one_graph_forward_and_backward(case):
    attend, mechanism, sizes = CASES[case]
    leaves = leaves_of(mechanism, **{name: randn(*size) for name, size in sizes.items()})

    def step(leaves):
        return attend(**leaves).sin()

    expected, actual = step(leaves), torch.compile(step, fullgraph=True, backend="aot_eager")(leaves)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)
    gradients = [torch.autograd.grad(out.square().sum(), list(leaves.values())) for out in (actual, expected)]
    for ours, theirs in zip(*gradients):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    torch.compiler.reset()
