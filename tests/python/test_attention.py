"""The test table: mechanisms × shapes × visibility × dtype × strides, outputs and every gradient, against the reference."""

import pytest
import reference
import torch
from attention_cases import Inputs, Shape, assert_equal_to_reference, grid_inputs

import cogwheel

MECHANISMS = sorted(reference.TABLE)

LENGTHS = (1, 2, 63, 64, 65, 200, 1000)
HEAD_DIMS = (8, 20, 33, 64, 80, 128, 256)
VALUE_DIMS = (64, 8, 256, 33, 128, 1, 80)
HEADS = ((1, 1, 1), (2, 2, 2), (1, 4, 2), (1, 3, 1), (2, 6, 2))  # batch, heads, key heads

# Latin squares: every length of queries and of keys meets every other one, every head_dim and every value width.
SHAPES = [
    Shape(
        *HEADS[(i + 3 * j) % len(HEADS)],
        queries,
        keys,
        HEAD_DIMS[(i + j) % len(HEAD_DIMS)],
        VALUE_DIMS[(i + 2 * j) % len(VALUE_DIMS)],
    )
    for i, queries in enumerate(LENGTHS)
    for j, keys in enumerate(LENGTHS)
]


# All maps run through one engine: the whole square goes through a map with an energy, a signed one and a mixture, and
# each of the others takes a diagonal of it, on which every length, head_dim and value width occurs.
WHOLE_SQUARE = ("softmax", "cog", "differential")
TABLE_CELLS = [
    (mechanism, shape)
    for mechanism in MECHANISMS
    for cell, shape in enumerate(SHAPES)
    if mechanism in WHOLE_SQUARE or (cell // 7 + 2 * (cell % 7)) % 7 == 3
]


def test_every_operator_mechanism_has_a_row_in_the_table():
    entries = [entry for entry in cogwheel.mechanisms() if entry["family"] == "pairwise" and entry["definition"] is None]
    operators = {entry["name"] for entry in entries if entry["level"] == "operator"}
    assert operators == set(reference.TABLE) | set(reference.COMPOSED)


@pytest.mark.diagonal
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("mechanism, shape", TABLE_CELLS, ids=str)
def test_equals_reference(mechanism, shape, causal, dtype):
    assert_equal_to_reference(mechanism, grid_inputs(mechanism, shape).to(dtype), causal=causal)


@pytest.mark.diagonal
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("mechanism", sorted(reference.COMPOSED))
def test_every_form_over_every_map_equals_reference(mechanism, causal):
    assert_equal_to_reference(mechanism, grid_inputs(mechanism, Shape(2, 6, 2, 65, 70, 20, 33)), causal=causal)


@pytest.mark.diagonal
@pytest.mark.parametrize("head_dim", [8, 9, 12, 31, 48, 72, 96, 112, 160, 192, 255, 257, 520, 1024])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_kind_of_head_dim(mechanism, head_dim):
    shape = Shape(1, 2, 1, 70, 70, head_dim, head_dim)
    assert_equal_to_reference(mechanism, grid_inputs(mechanism, shape), causal=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_default_scale_where_it_is_not_a_power_of_two(mechanism):
    # 1/√20 rounds; at scores below 2 that stays within the tolerance.
    inputs = grid_inputs(mechanism, Shape(1, 2, 2, 40, 40, 20, 20), largest_score=2.0)
    inputs.scale = None
    assert_equal_to_reference(mechanism, inputs, causal=True)


def heads_last(tensor):
    """The same numbers, laid out [B, N, H, D] as a projection leaves them."""
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def columns_of_wider(tensor):
    """The same numbers as a slice of the last dimension of a wider tensor, as the thirds of a fused projection are."""
    return torch.cat([torch.full_like(tensor, torch.nan), tensor, torch.full_like(tensor, torch.nan)], -1).tensor_split(
        3, -1
    )[1]


def last_dimension_strided(tensor):
    return tensor.mT.contiguous().mT


def every_second_column(tensor):
    return torch.stack([tensor, torch.full_like(tensor, torch.nan)], -1).flatten(-2)[..., ::2]


def every_second_row(tensor):
    return torch.stack([tensor, torch.full_like(tensor, torch.nan)], -2).flatten(-3, -2)[..., ::2, :]


def misaligned(tensor):
    """The same numbers, starting one element past an aligned address."""
    storage = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)
    storage[1:] = tensor.flatten()
    return storage[1:].view(tensor.shape)


LAYOUTS = [
    heads_last,
    columns_of_wider,
    last_dimension_strided,
    every_second_column,
    every_second_row,
    misaligned,
]


def laid_out(inputs: Inputs, *layouts) -> Inputs:
    """Layouts for query, key, value and output gradient; one for all, or one each."""
    query, key, value, output_gradient = layouts * 4 if len(layouts) == 1 else layouts
    return Inputs(
        query(inputs.query),
        key(inputs.key),
        value(inputs.value),
        output_gradient(inputs.output_gradient),
        inputs.scale,
        inputs.parameters,
    )


@pytest.mark.diagonal
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_any_strides(mechanism, layout, dtype):
    inputs = grid_inputs(mechanism, Shape(2, 4, 2, 65, 70, 20, 33)).to(dtype)
    strided = laid_out(inputs, layout)
    assert torch.equal(strided.query, inputs.query) and torch.equal(strided.output_gradient, inputs.output_gradient)
    assert_equal_to_reference(mechanism, strided, causal=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_expanded_inputs(mechanism):
    """Stride 0: one key and one value for the whole batch, and the gradient of a sum."""
    inputs = grid_inputs(mechanism, Shape(3, 4, 2, 65, 70, 16, 24))
    inputs.key = inputs.key[:1].expand(3, -1, -1, -1)
    inputs.value = inputs.value[:1].expand(3, -1, -1, -1)
    inputs.output_gradient = torch.ones(()).expand(inputs.output_gradient.shape)
    # The keys changed under the queries: scores are still odd multiples of the unit.
    assert_equal_to_reference(mechanism, inputs, causal=True)


@pytest.mark.parametrize(
    "lam_shape", [(4,), (1,), (), (2, 4, 65), (1, 4, 1), (2, 1, 65), (1, 1, 65)], ids=lambda shape: str(list(shape))
)
def test_shapes_of_lam(lam_shape):
    inputs = grid_inputs("differential", Shape(2, 4, 2, 65, 70, 16, 24))
    lam = torch.rand(lam_shape, generator=torch.Generator().manual_seed(1))
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in {**inputs.tensors(), "lam": lam}.items()}
    out = cogwheel.attention(mechanism="differential", causal=True, scale=inputs.scale, **leaves)
    (gradient,) = torch.autograd.grad(out, [leaves["lam"]], inputs.output_gradient)

    broadcast = lam[:, None] if lam.dim() == 1 else lam
    full = broadcast.expand(2, 4, 65).double().requires_grad_()
    exact = inputs.to(torch.float64)
    expected = reference.attention(
        "differential",
        exact.query,
        exact.key,
        exact.value,
        scale=inputs.true_scale,
        visible=reference.visible_keys(65, 70, True),
        parameters={"lam": full},
    )
    (full_gradient,) = torch.autograd.grad(expected, [full], exact.output_gradient)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-6 * expected.abs().max().item())
    assert gradient.shape == lam.shape
    expected_gradient = full_gradient.sum_to_size(broadcast.shape).reshape(lam.shape)
    torch.testing.assert_close(
        gradient.double(), expected_gradient, rtol=0, atol=1e-5 * expected_gradient.abs().max().item()
    )
