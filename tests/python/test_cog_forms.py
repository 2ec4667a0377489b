"""The three forms of Cog are one function: the paper's naive and efficient code (figure 3), and the fused kernel.

The forms differ at a score of exactly 0 alone, where the naive one drops the key from the sum and the others keep its
exp(−m̂): the inputs have no such score, and a test says what happens at one.
"""

import math

import pytest
import torch
from attention_cases import Shape, grid_inputs

import cogwheel


def naive(scores, visible):
    """Figure 3, left: SignExp over the sum of its magnitudes."""
    sign = torch.where(visible, scores.sign(), 0.0)
    exponents = sign * scores
    sign_exp = sign * torch.exp(exponents - exponents.amax(-1, keepdim=True))
    return sign_exp / sign_exp.abs().sum(-1, keepdim=True)


def efficient(scores, visible):
    """Figure 3, right: the sign of the score times the softmax of its magnitude."""
    return scores.sign() * torch.softmax(scores.abs().masked_fill(~visible, -math.inf), -1)


def results(attend, inputs):
    """The output and the gradients of query, key and value."""
    leaves = [tensor.clone().requires_grad_() for tensor in (inputs.query, inputs.key, inputs.value)]
    output = attend(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, inputs.output_gradient)]


def dense(weights, inputs):
    size = inputs.query.shape[2]
    visible = torch.ones(size, size, dtype=torch.bool).tril()
    return results(
        lambda query, key, value: weights(inputs.true_scale * query @ key.mT, visible) @ value, inputs
    )


def fused(inputs):
    return results(
        lambda query, key, value: cogwheel.attention(query, key, value, "cog", causal=True, scale=inputs.scale), inputs
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("length", [1, 33, 200, 600])
def test_the_three_forms_agree(length, dtype):
    inputs = grid_inputs("cog", Shape(2, 3, 3, length, length, 16, 24)).to(dtype)
    assert (inputs.query @ inputs.key.mT).count_nonzero() == 2 * 3 * length * length
    forms = {"naive": dense(naive, inputs), "efficient": dense(efficient, inputs), "fused": fused(inputs)}
    # Outputs to 1e-6 absolute. Gradients sum as many terms as there are rows, so theirs is relative to the largest.
    for name in ("naive", "efficient"):
        torch.testing.assert_close(forms["fused"][0], forms[name][0], rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-14)
        for ours, theirs in zip(forms["fused"][1:], forms[name][1:]):
            allowed = (1e-5 if dtype == torch.float32 else 1e-13) * theirs.abs().max().clamp_min(1).item()
            torch.testing.assert_close(ours, theirs, rtol=0, atol=allowed)


def test_at_a_score_of_zero_the_naive_form_is_another_function():
    """Two keys, scores 0 and 1: the naive weights are (0, 1), the others (0, e/(1 + e))."""
    query = torch.zeros(1, 1, 1, 8, dtype=torch.float64)
    key = torch.zeros(1, 1, 2, 8, dtype=torch.float64)
    query[..., 0], key[..., 1, 0] = 1, 1
    scores, visible = query @ key.mT, torch.ones(1, 2, dtype=torch.bool)
    kept = math.e / (1 + math.e)
    for weights, expected in (
        (naive(scores, visible), 1.0),
        (efficient(scores, visible), kept),
        (cogwheel.attention_weights(query, key, "cog", scale=1.0), kept),
    ):
        assert weights.flatten().tolist() == pytest.approx([0.0, expected], abs=1e-15)
