"""Properties of modifiers whatever the formula: modifiers without effect, hidden keys, equal bits for any number of
threads, how dropout is drawn, and PyTorch's requirements of an operator."""

import math

import pytest
import torch
from attention_cases import Inputs, Shape, assert_same_bits, grid_inputs, random_inputs
from modified_attention import MECHANISMS, SHAPE, SQUARE, Case, actual_results, even_bias, takes

import cogwheel

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


@each_mechanism
def test_a_sliding_window_that_holds_everything_changes_nothing(mechanism):
    inputs = random_inputs(mechanism, SHAPE)
    plain, windowed = Case(inputs), Case(inputs, options={"window": SHAPE.keys})
    expected = actual_results(mechanism, plain)
    for name, tensor in actual_results(mechanism, windowed).items():
        assert_same_bits(tensor, expected[name], name)


@each_mechanism
def test_packed_sequences_are_what_each_is_alone(mechanism):
    ends = [0, 5, 70, 71, 83]
    inputs = random_inputs(mechanism, SQUARE)
    packed = actual_results(mechanism, Case(inputs, options={"cu_seqlens": torch.tensor(ends)}))
    for begin, end in zip(ends, ends[1:]):
        part = Inputs(
            *(x[:, :, begin:end] for x in (inputs.query, inputs.key, inputs.value, inputs.output_gradient)),
            inputs.scale,
            inputs.parameters,
        )
        alone = actual_results(mechanism, Case(part))
        for name in ("output", "query", "key", "value"):
            torch.testing.assert_close(packed[name][:, :, begin:end], alone[name], rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("where", ["key", "value"])
@pytest.mark.parametrize("mechanism", ["softmax", "cog", "relu", "sigmoid", "differential"])
def test_what_a_bias_hides_reaches_nothing(mechanism, where, bad):
    """A key behind −∞ may hold anything, in any row that does not see it."""
    inputs = random_inputs(mechanism, SHAPE)
    bias = torch.zeros(1, 1, SHAPE.queries, SHAPE.keys)
    bias[..., 40] = -torch.inf
    case = Case(inputs, False, {"bias": bias})
    clean = actual_results(mechanism, case)
    inputs.tensors()[where][:, :, 40] = bad
    dirty = actual_results(mechanism, case)
    assert_same_bits(dirty["output"], clean["output"], "output")
    for name in ("query", "key", "value"):
        assert_same_bits(dirty[name], clean[name], name)


@each_mechanism
def test_same_bits_for_any_number_of_threads(mechanism):
    inputs = grid_inputs(mechanism, SHAPE, largest_score=5.0).to(torch.float32)
    case = Case(inputs, False, {"key_lengths": torch.tensor([47, 83]), "dropout": 0.2, "seed": 4})
    if takes(mechanism, "bias"):
        case.options["bias"] = even_bias(case.inputs, SHAPE.heads, 1, SHAPE.keys)
        case.differentiable = ("bias",)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = actual_results(mechanism, case)
        for threads in (2, 3):
            torch.set_num_threads(threads)
            for name, tensor in actual_results(mechanism, case).items():
                assert_same_bits(tensor, expected[name], f"{name} with {threads} threads")
    finally:
        torch.set_num_threads(before)


def test_dropout_is_drawn_from_the_generator_of_torch_and_drops_its_share():
    inputs = random_inputs("softmax", Shape(2, 4, 4, 200, 200, 16, 16))
    call = lambda **options: cogwheel.attention_weights(inputs.query, inputs.key, "softmax", **options)  # noqa: E731
    plain = call()
    torch.manual_seed(1)
    first, second = call(dropout=0.25), call(dropout=0.25)
    torch.manual_seed(1)
    assert torch.equal(call(dropout=0.25), first) and not torch.equal(first, second)
    torch.testing.assert_close(first[first != 0], plain[first != 0] / 0.75)
    share = (first == 0).double().mean().item()
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / first.numel())
    # Neighbours are independent: both of a pair are dropped as often as expected by chance.
    dropped = (first == 0).double()
    for dimension in range(4):
        pairs = dropped.narrow(dimension, 1, dropped.shape[dimension] - 1) * dropped.narrow(
            dimension, 0, dropped.shape[dimension] - 1
        )
        assert abs(pairs.mean().item() - 0.0625) < 5 * math.sqrt(0.0625 * 0.9375 / pairs.numel())


def test_dropout_of_nothing_is_nothing():
    inputs = random_inputs("cog", SHAPE)
    expected = actual_results("cog", Case(inputs))
    for name, tensor in actual_results("cog", Case(inputs, options={"dropout": 0.0, "seed": 1})).items():
        assert_same_bits(tensor, expected[name], name)


@pytest.mark.parametrize("name", ["bias", "energy_bias", "local-p", "lengths", "packed", "dropout", "alibi"])
@pytest.mark.parametrize("mechanism", ["cog", "differential"])
def test_registered_as_pytorch_demands_and_differentiable(mechanism, name, fast_mode):
    shape = Shape(1, 2, 1, 6, 6, 8, 3) if name == "packed" else Shape(2, 2, 1, 5, 7, 8, 3)
    inputs = random_inputs(mechanism, shape).to(torch.float64)
    generator = torch.Generator().manual_seed(3)
    options = {
        "bias": {"bias": torch.randn(2, 1, 7, generator=generator, dtype=torch.float64)},
        "energy_bias": {"energy_bias": torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)},
        "local-p": {
            "local_radius": 2.2,
            "local_centers": 0.13 + 6 * torch.rand(2, 2, 5, generator=generator, dtype=torch.float64),
        },
        "lengths": {"key_lengths": torch.tensor([3, 7])},
        "packed": {"cu_seqlens": torch.tensor([0, 2, 6])},
        "dropout": {"dropout": 0.4, "seed": torch.tensor(5)},
        "alibi": {"alibi": torch.tensor([0.5, 0.25])},
    }[name]
    learned = {n: t.requires_grad_() for n, t in options.items() if n in ("bias", "energy_bias", "local_centers")}
    leaves = {n: t.requires_grad_() for n, t in {**inputs.tensors(), **learned}.items()}

    def attention(*tensors):
        return cogwheel.attention(mechanism=mechanism, **{**options, **dict(zip(leaves, tensors))})

    assert torch.autograd.gradcheck(attention, list(leaves.values()), fast_mode=fast_mode)
    parameters = inputs.parameters
    torch.library.opcheck(
        torch.ops.cogwheel.attention.default,
        (inputs.query, inputs.key, inputs.value, mechanism),
        {**options, "parameters": list(parameters.values()), "parameter_names": list(parameters)},
    )
