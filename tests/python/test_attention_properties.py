"""Properties of attention beyond closeness to a reference: sums, causality, extreme scores, a score of zero."""

import pytest
import reference
import torch
from attention_cases import (
    Inputs,
    Shape,
    assert_equal_to_reference,
    assert_same_bits,
    grid_inputs,
    largest_error,
    operator_results,
    random_inputs,
    reference_results,
    relative_norm,
)

import cogwheel

MECHANISMS = sorted(reference.TABLE)
SHAPE = Shape(2, 4, 2, 150, 170, 24, 40)

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
each_visibility = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])


def output_of(mechanism: str, inputs: Inputs, *, causal: bool) -> torch.Tensor:
    return cogwheel.attention(mechanism=mechanism, causal=causal, scale=inputs.scale, **inputs.tensors())


@each_visibility
@each_mechanism
def test_weights_equal_reference(mechanism, causal):
    inputs = grid_inputs(mechanism, SHAPE)
    weights = cogwheel.attention_weights(
        inputs.query, inputs.key, mechanism, causal=causal, scale=inputs.scale, **inputs.parameters
    )
    exact = inputs.to(torch.float64)
    visible = reference.visible_keys(SHAPE.queries, SHAPE.keys, causal)
    expected = reference.weights(
        mechanism, exact.query, exact.key, scale=inputs.true_scale, visible=visible, parameters=exact.parameters
    )
    assert weights.shape == expected.shape
    assert largest_error(weights, expected) <= 2e-6
    assert relative_norm(weights, expected) <= 2e-6
    assert weights.masked_select(~visible).count_nonzero() == 0


@each_visibility
@each_mechanism
def test_output_is_weights_times_values(mechanism, causal):
    inputs = grid_inputs(mechanism, SHAPE)
    weights = cogwheel.attention_weights(
        inputs.query, inputs.key, mechanism, causal=causal, scale=inputs.scale, **inputs.parameters
    )
    value = inputs.value.repeat_interleave(SHAPE.heads // SHAPE.key_heads, dim=1)
    assert relative_norm(output_of(mechanism, inputs, causal=causal), weights.double() @ value.double()) <= 2e-6


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if reference.TABLE[name].row_sum])
def test_row_sums(mechanism):
    inputs = random_inputs(mechanism, SHAPE)
    weights = cogwheel.attention_weights(inputs.query, inputs.key, mechanism, causal=True, **inputs.parameters)
    expected = reference.TABLE[mechanism].row_sum(inputs.parameters).expand(2, 4, 150)
    torch.testing.assert_close(weights.sum(-1), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("spread", [0.01, 1.0, 100.0])
def test_absolute_cog_weights_sum_to_one_and_some_are_negative(spread):
    inputs = random_inputs("cog", SHAPE, spread=spread)
    weights = cogwheel.attention_weights(inputs.query, inputs.key, "cog", causal=True)
    torch.testing.assert_close(weights.abs().sum(-1), torch.ones(2, 4, 150), rtol=0, atol=2e-6)
    assert weights.sum(-1).abs().max() <= 1 + 2e-6
    assert (weights < 0).any() and (weights > 0).any()



@each_mechanism
@pytest.mark.parametrize("keys", [150, 170, 120])
def test_causality_is_exact(mechanism, keys):
    """Whatever later keys and values hold, NaN included, earlier rows keep every bit."""
    shape = Shape(2, 4, 2, 150, keys, 24, 40)
    inputs = random_inputs(mechanism, shape)
    before = output_of(mechanism, inputs, causal=True)
    for first_changed in (1, 63, 64, 65, 100, keys - 1):
        for change in (lambda x: 100 * x + 1, lambda x: torch.full_like(x, torch.nan)):
            inputs_changed = Inputs(
                inputs.query,
                torch.cat([inputs.key[:, :, :first_changed], change(inputs.key[:, :, first_changed:])], dim=2),
                torch.cat([inputs.value[:, :, :first_changed], change(inputs.value[:, :, first_changed:])], dim=2),
                inputs.output_gradient,
                inputs.scale,
                inputs.parameters,
            )
            after = output_of(mechanism, inputs_changed, causal=True)
            # Query i sees keys j ≤ i + M − N.
            unaffected = max(0, first_changed - (keys - 150))
            assert_same_bits(after[:, :, :unaffected], before[:, :, :unaffected], f"keys from {first_changed}")
            assert not torch.equal(after[:, :, unaffected:], before[:, :, unaffected:])


@each_mechanism
def test_rows_that_see_no_key_are_zero(mechanism):
    inputs = random_inputs(mechanism, Shape(2, 2, 1, 100, 30, 16, 24))
    results = operator_results(mechanism, inputs, causal=True)
    assert results["output"][:, :, :70].count_nonzero() == 0
    assert results["query"][:, :, :70].count_nonzero() == 0
    assert results["output"][:, :, 70:].count_nonzero() > 0
    assert all(tensor.isfinite().all() for tensor in results.values())
    # The numbers in a row that sees nothing have no effect.
    inputs.output_gradient[:, :, :70] = torch.nan
    if not reference.TABLE[mechanism].cosine:  # whose queries are divided by their lengths before
        inputs.query[:, :, :70] = torch.nan
    for name, tensor in operator_results(mechanism, inputs, causal=True).items():
        if name == "lam":  # sums do·o₂ over every row
            continue
        if name == "query" and reference.TABLE[mechanism].cosine:
            tensor, results[name] = tensor[:, :, 70:], results[name][:, :, 70:]
        assert_same_bits(tensor, results[name], name)


@pytest.mark.diagonal
@each_visibility
@each_mechanism
@pytest.mark.parametrize("largest_score", [30.0, 300.0, 1e4])
def test_extreme_scores_on_the_grid(mechanism, largest_score, causal):
    """Finite, with at most twice the error of the formula in eager PyTorch."""
    if largest_score > reference.TABLE[mechanism].largest_score:
        pytest.skip(f"scores of {mechanism} end at {reference.TABLE[mechanism].largest_score}")
    inputs = grid_inputs(mechanism, SHAPE, largest_score=largest_score)
    assert_equal_to_reference(mechanism, inputs, causal=causal, extreme=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("low, high", [(-100.0, 1.0), (-1e4, 1e4), (-1e4, -9e3), (9e3, 1e4)])
def test_two_scores_far_apart(mechanism, low, high):
    """With the plain maximum in place of max|s|, Cog would take exp(99) here, or exp(20,000)."""
    row = reference.TABLE[mechanism]
    query = torch.zeros(1, row.sub_heads, 1, 8)
    query[..., 0] = 1.0
    key = torch.zeros(1, row.sub_heads, 2, 8)
    key[..., 0, 0], key[..., 1, 0] = low, high
    value = torch.randn(1, 1, 2, 8, generator=torch.Generator().manual_seed(0))
    inputs = Inputs(query, key, value, torch.ones(1, 1, 1, 8), 1.0)
    if max(-low, high) > row.largest_score:
        pytest.skip(f"scores of {mechanism} end at {row.largest_score}")
    generator = torch.Generator().manual_seed(1)
    inputs.parameters = {
        name: draw(generator, 1).to(torch.float32) for name, draw in (row.parameters or {}).items()
    }
    expected = reference_results(mechanism, inputs, causal=False)
    for name, tensor in operator_results(mechanism, inputs, causal=False).items():
        # Weights of exp(−99) and less vanish in fp32, and gradients that come from rounding 1 − 1 with them.
        scale = 1e4 if name in ("query",) else 1.0
        torch.testing.assert_close(tensor.double(), expected[name], rtol=2e-6, atol=2e-6 * scale, msg=name)


def zero_score_results(mechanism: str, inputs: Inputs, causal: bool) -> dict[str, torch.Tensor]:
    """Cog with its convention at a score of exactly 0, written out without autograd.

    Weight 0, though g = exp(0) counts in the denominator; f′ = exp(0) = 1 and g′ = 0. With w the values of g:
    ds = (|f′| (do·v) − (do·o) sign(s) w) / Σw.
    """
    assert mechanism == "cog"
    inputs = inputs.to(torch.float64)
    query, key, value, output_gradient = inputs.query, inputs.key, inputs.value, inputs.output_gradient
    scores = inputs.true_scale * query @ key.mT
    visible = reference.visible_keys(query.shape[2], key.shape[2], causal)
    mass = torch.where(visible, torch.exp(scores.abs()), 0.0)
    total = mass.sum(-1, keepdim=True)
    weights = torch.sign(scores) * mass / total
    output = weights @ value
    per_key = output_gradient @ value.mT
    per_row = (output_gradient * output).sum(-1, keepdim=True)
    score_gradient = (mass * per_key - per_row * torch.sign(scores) * mass) / total
    return {
        "output": output,
        "query": inputs.true_scale * score_gradient @ key,
        "key": inputs.true_scale * score_gradient.mT @ query,
        "value": weights.mT @ output_gradient,
    }


@each_visibility
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("zero", ["some", "all", "negative"])
def test_cog_at_a_score_of_exactly_zero(zero, dtype, causal):
    inputs = grid_inputs("cog", Shape(2, 2, 2, 90, 90, 16, 24)).to(dtype)
    if zero == "some":
        # Two coordinates of −1, 0 or 1 in place of sixteen: about half of the scores vanish.
        inputs.query[..., 2:] = 0
        inputs.query[..., :2].sign_()
        inputs.query[:, :, ::2, 0] = 0
        inputs.query[:, :, 1::2, 1] = 0
        inputs.key[..., :2] = (inputs.key[..., :2] / 2).round().sign()
    else:
        # A projection that starts at zero: the output is 0, its gradient is not.
        inputs.query.zero_()
        if zero == "negative":
            inputs.query.neg_()
    scores = inputs.query @ inputs.key.mT
    assert (scores == 0).float().mean() > 0.2

    expected = zero_score_results("cog", inputs, causal)
    actual = operator_results("cog", inputs, causal=causal)
    for name, tensor in expected.items():
        tolerance = (2e-6 if name == "output" else 1e-5) if dtype == torch.float32 else 1e-12
        torch.testing.assert_close(
            actual[name].double(), tensor, rtol=0, atol=tolerance * max(tensor.abs().max().item(), 1e-30), msg=name
        )
    if zero != "some":
        assert actual["output"].count_nonzero() == 0
        assert actual["query"].abs().max() > 0


@pytest.mark.parametrize("queries", [1, 2, 3, 7])
@pytest.mark.parametrize("mechanism", ["cog", "softmax"])
def test_backward_weights_have_the_sign_of_those_of_forward(mechanism, queries):
    """Of scores that are 0 but for rounding, where Cog's weights change their sign."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 2, queries, 64, generator=generator)
    first = query[:, :, :1]
    key = torch.randn(2, 2, 48, 64, generator=generator)
    key = key - (key * first).sum(-1, keepdim=True) / (first**2).sum(-1, keepdim=True) * first
    value = torch.eye(48).expand(2, 2, 48, 48).clone().requires_grad_()
    output = cogwheel.attention(query, key, value, mechanism, scale=1.0)
    gradient = torch.zeros_like(output)
    gradient[:, :, 0, 0] = 1
    (found,) = torch.autograd.grad(output, value, gradient)
    torch.testing.assert_close(found[..., 0], output[:, :, 0].detach(), rtol=1e-5, atol=1e-6)
