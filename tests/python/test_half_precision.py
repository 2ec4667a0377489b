"""bfloat16 and float16: computed in float32, the output rounded once, no further from the truth than PyTorch's softmax."""

import collections
import functools

import pytest
import reference
import torch
import torch.nn.functional as F
from attention_cases import (
    Inputs,
    Shape,
    assert_same_bits,
    differentiate,
    grid_inputs,
    largest_error,
    operator_results,
    reference_results,
    relative_norm,
)
from interpreted_kernels import INTERPRETED
from torch.nn.attention import SDPBackend, sdpa_kernel

import cogwheel

HALVES = [torch.bfloat16, torch.float16]
SHAPES = [Shape(2, 4, 2, 65, 70, 20, 33), Shape(1, 2, 1, 200, 200, 64, 64), Shape(2, 2, 2, 1, 129, 80, 8), Shape(2, 1, 1, 9, 70, 512, 16)]
each_half = pytest.mark.parametrize("dtype", HALVES, ids=["bf16", "fp16"])
each_visibility = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
each_mechanism = pytest.mark.parametrize("mechanism", sorted(reference.TABLE))


def half_inputs(mechanism: str, shape: Shape, dtype: torch.dtype, *, seed: int = 0) -> Inputs:
    """On the grid, whose queries and keys are small integers times powers of two and so exact in 16 bits too."""
    return grid_inputs(mechanism, shape, seed=seed).to(dtype)


@functools.cache
def product_of_attention() -> str:
    return cogwheel.bfloat16_products()[0]["product"]


def rounds_weights(dtype: torch.dtype) -> bool:
    """Whether this process rounds weights to the values' type before they meet: kernels for GPUs, and where it multiplies pairs of bfloat16."""
    return INTERPRETED or (dtype == torch.bfloat16 and product_of_attention() != "widened")


def torch_softmax_results(inputs: Inputs, *, causal: bool) -> dict[str, torch.Tensor]:
    leaves = {name: getattr(inputs, name).detach().requires_grad_() for name in ("query", "key", "value")}
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        output = F.scaled_dot_product_attention(*leaves.values(), is_causal=causal, scale=inputs.true_scale)
    return differentiate(output, inputs, leaves)


@pytest.mark.diagonal
@each_half
@each_visibility
@each_mechanism
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_output_is_rounded_once(mechanism, shape, causal, dtype):
    """Within half a unit in the last place of the true output, plus the tolerance of fp32; close if weights are rounded."""
    inputs = half_inputs(mechanism, shape, dtype)
    output = operator_results(mechanism, inputs, causal=causal)["output"]
    truth = reference_results(mechanism, inputs, causal=causal)["output"]
    assert output.dtype == dtype
    if rounds_weights(dtype):
        assert relative_norm(output, truth) <= torch.finfo(dtype).eps / 2
        return
    half_a_place = torch.finfo(dtype).eps / 2 * truth.abs() + torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    assert ((output.double() - truth).abs() <= half_a_place * (1 + 1e-6) + 4e-6 * truth.abs().max()).all()


@each_half
@each_visibility
@pytest.mark.parametrize("shape", [Shape(2, 4, 4, 65, 65, 20, 20), Shape(1, 2, 2, 200, 200, 64, 64)], ids=str)
def test_softmax_is_no_further_from_the_truth_than_pytorchs(shape, causal, dtype):
    # The largest of many errors is a matter of chance: the mean of several draws.
    errors = collections.defaultdict(float)
    for seed in range(8):
        inputs = half_inputs("softmax", shape, dtype, seed=seed)
        truth = reference_results("softmax", inputs, causal=causal)
        for who, results in (
            ("ours", operator_results("softmax", inputs, causal=causal)),
            ("theirs", torch_softmax_results(inputs, causal=causal)),
        ):
            for name, tensor in results.items():
                assert tensor.dtype == dtype
                for measure in (largest_error, relative_norm):
                    errors[who, name, measure.__name__] += measure(tensor, truth[name]) / 8
    for (who, name, measure), error in errors.items():
        # Two roundings to nearest are the same to a tenth.
        assert who == "theirs" or error <= 1.1 * errors["theirs", name, measure], (name, measure)


@pytest.mark.diagonal
@each_half
@each_visibility
@each_mechanism
@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_gradients_are_those_of_fp32_rounded(mechanism, shape, causal, dtype):
    """The output that backward reads has been rounded, as PyTorch's has: do·o, which all scores share, by half a place."""
    inputs = half_inputs(mechanism, shape, dtype)
    halves = operator_results(mechanism, inputs, causal=causal)
    wide = operator_results(mechanism, inputs.to(torch.float32), causal=causal)
    for name, tensor in halves.items():
        assert tensor.dtype == dtype and tensor.isfinite().all(), name
        assert relative_norm(tensor, wide[name].double()) <= 2 * torch.finfo(dtype).eps, name


@each_half
@pytest.mark.parametrize("mechanism", ["softmax", "cog", "differential", "sigmoid"])
def test_rows_that_see_no_key_are_zero(mechanism, dtype):
    inputs = half_inputs(mechanism, Shape(2, 2, 1, 100, 30, 16, 24), dtype)
    results = operator_results(mechanism, inputs, causal=True)
    assert results["output"][:, :, :70].count_nonzero() == 0
    assert results["query"][:, :, :70].count_nonzero() == 0
    assert results["output"][:, :, 70:].count_nonzero() > 0


@each_half
def test_strides_do_not_matter(dtype):
    inputs = half_inputs("cog", Shape(2, 4, 2, 65, 70, 20, 33), dtype)
    expected = operator_results("cog", inputs, causal=True)
    for name in ("query", "key", "value", "output_gradient"):
        tensor = getattr(inputs, name)
        setattr(inputs, name, tensor.transpose(1, 2).contiguous().transpose(1, 2))
    for name, tensor in operator_results("cog", inputs, causal=True).items():
        assert_same_bits(tensor, expected[name], name)


@each_half
def test_infinities_and_nans_stay_what_they_are(dtype):
    query = torch.ones(1, 1, 2, 8, dtype=dtype)
    key = torch.ones(1, 1, 3, 8, dtype=dtype)
    value = torch.tensor([[1.0, torch.inf, torch.nan, -torch.inf]], dtype=dtype).repeat(3, 1)[None, None]
    output = cogwheel.attention(query, key, value)
    assert output[0, 0, 0, 0] == 1 and output[0, 0, 0, 1] == torch.inf and output[0, 0, 0, 3] == -torch.inf
    assert output[..., 2].isnan().all()


@each_half
def test_every_16_bit_number_survives(dtype):
    """A single key has weight 1: its value comes back, every one of the 65,536 patterns.

    Products of pairs may take subnormal numbers for 0.
    """
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    value = patterns.reshape(1, 256, 1, 256)
    ones = torch.ones(1, 256, 1, 8, dtype=dtype)
    output = cogwheel.attention(ones, ones, value)
    assert torch.equal(output.isnan(), value.isnan())
    if rounds_weights(dtype):
        for each in (output, value):
            each[each.abs() < torch.finfo(dtype).smallest_normal] = 0
    assert torch.equal(output[~value.isnan()], value[~value.isnan()])


@each_half
def test_rounds_to_nearest_even(dtype):
    """The mean of two neighbours lies halfway: the even one is nearer by convention."""
    place = torch.finfo(dtype).eps
    pairs = torch.tensor([[1, 1 + place], [1 + place, 1 + 2 * place]], dtype=dtype)  # [keys, width] transposed below
    ones = torch.ones(1, 1, 1, 8, dtype=dtype)
    value = pairs.t().reshape(1, 1, 2, 2)
    output = cogwheel.attention(ones, ones.expand(1, 1, 2, 8), value)[0, 0, 0]
    assert output.tolist() == [1, 1 + 2 * place]


@each_half
def test_options_may_come_in_either_precision(dtype):
    inputs = half_inputs("cog", Shape(1, 2, 2, 20, 20, 16, 16), dtype)
    bias = torch.randn(20, 20, generator=torch.Generator().manual_seed(0)).to(dtype)
    given = [inputs.query, inputs.key, inputs.value]
    narrow = bias.clone().requires_grad_()
    wide = bias.float().requires_grad_()
    outputs = [cogwheel.attention(*given, "cog", bias=each) for each in (narrow, wide)]
    assert_same_bits(outputs[0], outputs[1])
    for output, leaf in zip(outputs, (narrow, wide)):
        output.float().sum().backward()
        assert leaf.grad.dtype == leaf.dtype
    with pytest.raises(ValueError, match="bias dtype: expected .*, got Double"):
        cogwheel.attention(*given, "cog", bias=bias.double())


@each_half
def test_is_registered_as_pytorch_demands(dtype):
    inputs = half_inputs("cog", Shape(1, 2, 2, 9, 9, 16, 16), dtype)
    leaves = [tensor.requires_grad_() for tensor in (inputs.query, inputs.key, inputs.value)]
    torch.library.opcheck(
        torch.ops.cogwheel.attention.default, (*leaves, "cog"), {"causal": True, "parameters": [], "parameter_names": []}
    )


@each_half
def test_hidden_keys_have_no_effect_whatever_their_values(dtype):
    """NaN and infinity in keys and values that a causal query does not see, and in what no gradient may read."""
    inputs = half_inputs("cog", Shape(1, 2, 1, 70, 70, 64, 64), dtype)
    clean = operator_results("cog", inputs, causal=True)
    inputs.key[:, :, 50:] = torch.nan
    inputs.value[:, :, 60:] = torch.inf
    dirty = operator_results("cog", inputs, causal=True)
    assert_same_bits(dirty["output"][:, :, :50], clean["output"][:, :, :50])
    assert_same_bits(dirty["query"][:, :, :50], clean["query"][:, :, :50])
    assert not dirty["output"][:, :, 50:].isfinite().all()


@pytest.mark.parametrize("head_dim, offset", [(64, 0), (63, 0), (64, 1)], ids=["pairs", "odd width", "odd address"])
def test_products_of_pairs_give_the_same_numbers(head_dim, offset):
    """Products of bfloat16 in pairs where rows lie in them, else widened: on the grid both are exact."""
    inputs = half_inputs("cog", Shape(2, 2, 1, 65, 70, head_dim, 64), torch.bfloat16)
    storage = torch.empty(inputs.key.numel() + offset, dtype=torch.bfloat16)
    storage[offset:] = inputs.key.flatten()
    inputs.key = storage[offset:].view(inputs.key.shape)
    halves = operator_results("cog", inputs, causal=True)
    wide = operator_results("cog", inputs.to(torch.float32), causal=True)
    for name, tensor in halves.items():
        assert relative_norm(tensor, wide[name].double()) <= 2 * torch.finfo(torch.bfloat16).eps, name


@pytest.mark.parametrize("mechanism", ["cog", "differential"])
def test_any_number_of_threads_gives_the_same_bits(mechanism):
    inputs = half_inputs(mechanism, Shape(1, 4, 2, 300, 300, 64, 64), torch.bfloat16)
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            results.append(operator_results(mechanism, inputs, causal=True))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        for name in other:
            assert_same_bits(other[name], results[0][name], name)


@pytest.mark.parametrize("options", [{"window": 9}, {"dropout": 0.3, "seed": 5}, {"alibi": torch.tensor([0.1, 0.4])}], ids=str)
def test_options_do_what_they_do_in_float32(options):
    inputs = half_inputs("cog", Shape(1, 2, 2, 70, 70, 64, 64), torch.bfloat16)

    def attend(wide):
        leaves = [(tensor.float() if wide else tensor).detach().requires_grad_() for tensor in inputs.tensors().values()]
        output = cogwheel.attention(*leaves, "cog", causal=True, scale=inputs.scale, **options)
        return output, torch.autograd.grad(output, leaves, inputs.output_gradient.to(output.dtype))

    (output, gradients), (wide_output, wide_gradients) = attend(False), attend(True)
    for narrow, wide in zip((output, *gradients), (wide_output, *wide_gradients)):
        assert relative_norm(narrow, wide.detach().double()) <= 2 * torch.finfo(torch.bfloat16).eps
