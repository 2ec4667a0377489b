"""Every mechanism on drawn shapes, strides and broadcasts, against the judge."""

import pytest
import reference
import torch
from attention_cases import Inputs, Shape, assert_equal_to_reference, grid_inputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_attention import LAYOUTS

MECHANISMS = sorted(reference.TABLE)


def one_for_the_batch(tensor):
    """The first batch entry in place of all of them, by a stride of 0."""
    return tensor[:1].expand_as(tensor)


def one_for_the_heads(tensor):
    return tensor[:, :1].expand_as(tensor)


BROADCASTS = [torch.Tensor.contiguous, one_for_the_batch, one_for_the_heads]
few = settings(
    max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


@st.composite
def shapes(draw):
    key_heads = draw(st.integers(1, 2))
    return Shape(
        batch=draw(st.integers(1, 3)),
        heads=key_heads * draw(st.integers(1, 3)),
        key_heads=key_heads,
        queries=draw(st.integers(1, 90)),
        keys=draw(st.integers(1, 90)),
        head_dim=draw(st.integers(8, 70)),
        value_dim=draw(st.integers(1, 70)),
    )


@each_mechanism
@few
@given(data=st.data())
def test_any_strides_and_broadcasts(mechanism, data):
    """Each tensor may be laid out in its own way, and key, value and gradient may be broadcast."""
    inputs = grid_inputs(mechanism, data.draw(shapes()), seed=data.draw(st.integers(0, 2**31)))
    inputs = inputs.to(data.draw(st.sampled_from([torch.float32, torch.float64])))
    key, value, gradient = (data.draw(st.sampled_from([*BROADCASTS, *LAYOUTS])) for _ in range(3))
    query = data.draw(st.sampled_from([torch.Tensor.contiguous, *LAYOUTS]))
    changed = Inputs(
        query(inputs.query),
        key(inputs.key),
        value(inputs.value),
        gradient(inputs.output_gradient),
        inputs.scale,
        inputs.parameters,
    )
    assert_equal_to_reference(mechanism, changed, causal=data.draw(st.booleans()))
