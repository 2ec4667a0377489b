"""Modifiers of scores and weights, each for every mechanism and in random combinations: outputs and every gradient
against formulas (modified_attention.py)."""

import pytest
import torch
from attention_cases import Shape, grid_inputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from modified_attention import MECHANISMS, Case, assert_equal_to_formula, even_bias, takes
from modifier_cases import CASES, modified_case
from torch import Tensor


@pytest.mark.diagonal
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("mechanism, name", CASES)
def test_equals_the_formula(mechanism, name, dtype):
    assert_equal_to_formula(mechanism, modified_case(mechanism, name, dtype))


@st.composite
def drawn_cases(draw):
    """Any mechanism, any sizes, any options that go together; biases broadcast and strided at will."""
    mechanism = draw(st.sampled_from(MECHANISMS))
    queries, key_heads = draw(st.integers(1, 140)), draw(st.integers(1, 2))
    packed = draw(st.booleans())
    shape = Shape(
        batch=1 if packed else draw(st.integers(1, 2)),
        heads=key_heads * draw(st.integers(1, 2)),
        key_heads=key_heads,
        queries=queries,
        keys=queries if packed else draw(st.integers(1, 140)),
        head_dim=draw(st.integers(8, 40)),
        value_dim=draw(st.integers(1, 40)),
    )
    inputs = grid_inputs(mechanism, shape, seed=draw(st.integers(0, 2**31)), largest_score=draw(st.floats(0.1, 5.0)))
    case = Case(inputs.to(draw(st.sampled_from([torch.float32, torch.float64]))), draw(st.booleans()))

    def bias() -> Tensor:
        sizes = [draw(st.sampled_from([1, size])) for size in (shape.batch, shape.heads, shape.queries, shape.keys)]
        values = even_bias(case.inputs, *sizes, seed=draw(st.integers(0, 99)))
        if draw(st.booleans()):
            values = values.mT.contiguous().mT
        if draw(st.booleans()):
            values = torch.where(torch.rand(values.shape, generator=generator) < 0.2, -torch.inf, values)
        return values.expand(shape.batch, -1, -1, -1) if draw(st.booleans()) else values

    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    if packed:
        cuts = draw(st.lists(st.integers(0, queries), max_size=5))
        case.options["cu_seqlens"] = torch.tensor([0, *sorted(cuts), queries])
    elif draw(st.booleans()):
        lengths = draw(st.lists(st.integers(0, shape.keys), min_size=shape.batch, max_size=shape.batch))
        case.options["key_lengths"] = torch.tensor(lengths)
    if case.causal and draw(st.booleans()):
        case.options["window"] = draw(st.integers(1, 150))
    elif not packed and draw(st.booleans()):
        case.options["local_radius"] = draw(st.integers(2, 240)) / 4  # exact, as its bounds are
        if draw(st.booleans()):
            size = (shape.batch, shape.heads, shape.queries)
            centers = (shape.keys + 20) * torch.rand(size, generator=generator) - 10
            case.options["local_centers"] = ((8 * centers).round() / 8).to(case.inputs.query.dtype)
            case.differentiable += ("local_centers",)
    own_position = case.causal or ("local_radius" in case.options and "local_centers" not in case.options)
    if own_position and not packed and draw(st.booleans()):
        first = draw(st.lists(st.integers(-20, 150), min_size=shape.batch, max_size=shape.batch))
        case.options["first_positions"] = torch.tensor(first)
    if takes(mechanism, "softcap") and draw(st.booleans()):
        case.options["softcap"] = draw(st.floats(0.5, 20.0))
    for name in ("bias", "energy_bias"):
        if takes(mechanism, name) and draw(st.booleans()):
            case.options[name] = bias()
            case.differentiable += (name,)
    if draw(st.booleans()):
        case.options |= {"dropout": draw(st.floats(0.05, 0.9)), "seed": draw(st.integers(0, 2**62))}
    return mechanism, case


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_cases())
def test_drawn_options_equal_the_formula(drawn):
    assert_equal_to_formula(*drawn)
