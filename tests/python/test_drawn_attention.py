"""Every mechanism on drawn shapes, scores, strides and broadcasts, against the reference."""

import pytest
import reference
import torch
from attention_cases import Shape, assert_equal_to_reference, grid_inputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_attention import LAYOUTS, laid_out


def one_for_the_batch(tensor):
    """The first batch entry in place of all of them, by a stride of 0."""
    return tensor[:1].expand_as(tensor)


def one_for_the_heads(tensor):
    return tensor[:, :1].expand_as(tensor)


layouts = st.sampled_from([torch.Tensor.contiguous, *LAYOUTS])
layouts_and_broadcasts = st.one_of(layouts, st.sampled_from([one_for_the_batch, one_for_the_heads]))
usual_scores = st.floats(0.01, 10.0)
extreme_scores = st.floats(10.0, 1e4)


@st.composite
def shapes(draw):
    key_heads = draw(st.integers(1, 3))
    return Shape(
        batch=draw(st.integers(1, 3)),
        heads=key_heads * draw(st.integers(1, 3)),
        key_heads=key_heads,
        queries=draw(st.integers(1, 150)),
        keys=draw(st.integers(1, 150)),
        head_dim=draw(st.integers(8, 140)),
        value_dim=draw(st.integers(1, 140)),
    )


@pytest.mark.parametrize("mechanism", sorted(reference.TABLE))
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_any_shape_score_and_strides(mechanism, data):
    """Each tensor may be laid out in its own way, and key, value and gradient may be broadcast."""
    largest_score = min(data.draw(st.one_of(usual_scores, extreme_scores)), reference.TABLE[mechanism].largest_score)
    inputs = grid_inputs(
        mechanism, data.draw(shapes()), seed=data.draw(st.integers(0, 2**31)), largest_score=largest_score
    ).to(data.draw(st.sampled_from([torch.float32, torch.float64])))
    strided = laid_out(inputs, data.draw(layouts), *(data.draw(layouts_and_broadcasts) for _ in range(3)))
    assert_equal_to_reference(mechanism, strided, causal=data.draw(st.booleans()), extreme=largest_score > 10)
