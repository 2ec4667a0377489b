"""Statistics of rows, against sums over the reference's weights in float64."""

import math

import numpy as np
import pytest
import reference
import torch
from attention_cases import Shape, grid_inputs
from scipy import stats

import cogwheel

SHAPES = [
    Shape(batch=2, heads=4, key_heads=2, queries=67, keys=67, head_dim=16, value_dim=5),
    Shape(batch=1, heads=2, key_heads=1, queries=3, keys=1000, head_dim=64, value_dim=64),
    Shape(batch=1, heads=1, key_heads=1, queries=300, keys=280, head_dim=8, value_dim=1),  # causal: rows that see nothing
    Shape(batch=1, heads=2, key_heads=2, queries=1, keys=1, head_dim=8, value_dim=16),
]

# |f| of a row map, where its name does not say that it is the weight itself.
MAGNITUDES = {
    "softmax": lambda s, _: s.exp(),
    "cog": lambda s, _: s.abs().exp(),
    "softmax_off_by_one": lambda s, _: s.exp(),
    "linear_abs": lambda s, _: s.abs(),
    "cubic": lambda s, _: s.abs() ** 3,
    "relu": lambda s, _: s.clamp_min(0),
    "relu_mean": lambda s, _: s.clamp_min(0),
    "squared_relu": lambda s, _: s.clamp_min(0) ** 2,
    "sigmoid": lambda s, p: torch.sigmoid(s + p["shift"][:, None, None]),
    "consmax": lambda s, p: torch.exp(s - p["beta"][:, None, None]),
    "norm": lambda s, _: 1 + s,
    "uniform": lambda s, _: torch.ones_like(s),
}


def statistics_of(weights, visible):
    """The statistics of weights [B, H, N, M], by name; log_mass is log Σ|a|. `visible` broadcasts to the weights."""
    sizes = weights.abs()
    visible = visible.expand_as(weights)
    keys = visible.sum(-1).double()
    away = torch.where(visible, weights - weights.sum(-1, keepdim=True) / keys[..., None], 0.0)
    variance = (away**2).sum(-1) / keys
    # Where weights differ by rounding alone there is no kurtosis.
    differ = variance.sqrt() > 1e-6 * sizes.amax(-1)
    total = sizes.sum(-1)
    share = sizes / torch.where(total > 0, total, 1.0)[..., None]
    return {
        "log_mass": total.log(),
        "sum": weights.sum(-1),
        "abs_sum": total,
        "negative_mass": weights.clamp_max(0).abs().sum(-1),
        "entropy": -torch.xlogy(share, share).sum(-1),
        "sink": weights[..., 0],
        "largest": sizes.amax(-1),
        "keys": keys,
        "positive": (weights > 0).sum(-1) / keys.clamp_min(1),
        "negative": (weights < 0).sum(-1) / keys.clamp_min(1),
        "kurtosis": torch.where(differ, (away**4).sum(-1) / keys / variance**2, torch.nan),
    }


def log_mass_of(mechanism, inputs, visible):
    """log Σ|f| of a row map."""
    scores = reference.sub_head_scores(mechanism, inputs.query, inputs.key, scale=inputs.true_scale)[:, 0]
    return torch.where(visible, MAGNITUDES[mechanism](scores, inputs.parameters), 0.0).sum(-1).log()


def assert_kurtosis(got, truth, tolerance):
    assert torch.equal(got.isnan(), truth.isnan())
    # A weight's relative error counts by how little the weights differ.
    torch.testing.assert_close(got, truth, rtol=200 * tolerance, atol=0, equal_nan=True)


def assert_statistics(statistics, expected, weights, tolerance):
    scale = max(1.0, expected["log_mass"].nan_to_num(neginf=0.0).abs().max().item())
    for name, truth in expected.items():
        got = getattr(statistics, name).double()
        if name == "kurtosis":
            assert_kurtosis(got, truth, tolerance)
            continue
        bound = tolerance * (scale if name in ("log_mass", "entropy") else max(1.0, truth.abs().max().item()))
        assert torch.equal(got.isneginf(), truth.isneginf()), name
        finite = truth.isfinite()
        error = (got - truth)[finite].abs().max().item() if finite.any() else 0.0
        assert error <= bound, f"{name}: off by {error:.2e}, more than {bound:.2e}"
    at = statistics.argmax
    assert torch.equal(at < 0, expected["abs_sum"] == 0)
    # Rounding may choose another of several equal keys.
    found = weights.abs().gather(-1, at.clamp_min(0)[..., None])[..., 0]
    assert (found >= expected["largest"] - tolerance * expected["largest"].abs().max()).all()


def attention_statistics(mechanism, inputs, **options):
    options.setdefault("scale", inputs.scale)
    return cogwheel.attention_statistics(
        inputs.query, inputs.key, inputs.value, mechanism, **options, **inputs.parameters
    )


@pytest.mark.diagonal
@pytest.mark.parametrize("mechanism", sorted(reference.TABLE))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_statistics_of_every_mechanism(mechanism, dtype, causal, shape):
    inputs = grid_inputs(mechanism, shape)
    exact = inputs.to(torch.float64)
    visible = reference.visible_keys(shape.queries, shape.keys, causal)
    weights = reference.weights(
        mechanism, exact.query, exact.key, scale=exact.true_scale, visible=visible, parameters=exact.parameters
    )
    expected = statistics_of(weights, visible)
    if mechanism in MAGNITUDES:
        expected["log_mass"] = log_mass_of(mechanism, exact, visible)
    _, statistics = attention_statistics(mechanism, inputs.to(dtype), causal=causal)
    assert_statistics(statistics, expected, weights, 4e-6 if dtype == torch.float32 else 1e-13)


SMALL = Shape(batch=2, heads=4, key_heads=2, queries=70, keys=90, head_dim=16, value_dim=8)


def options_of(name):
    generator = torch.Generator().manual_seed(3)
    bias = torch.randn(2, 1, 70, 90, generator=generator, dtype=torch.float64)
    bias = bias.masked_fill(torch.rand(70, 90, generator=generator) < 0.2, -torch.inf)
    return {
        "window": {"causal": True, "window": 20},
        "key_lengths": {"key_lengths": torch.tensor([90, 0])},
        "softcap": {"softcap": 1.5, "causal": True},
        "bias": {"bias": bias},
        "energy_bias": {"energy_bias": bias, "causal": True},
        "alibi": {"alibi": torch.tensor([0.5, 0.25, 0.1, 0.0], dtype=torch.float64), "causal": True},
        "local": {
            "local_radius": 9.0,
            "local_centers": 89 * torch.rand(2, 4, 70, generator=generator, dtype=torch.float64),
        },
        "dropout": {"dropout": 0.4, "seed": 11, "causal": True},
        "cosine": {"score": "cosine"},
        "additive": {"score": "additive", "score_weight": torch.randn(4, 16, generator=generator, dtype=torch.float64)},
    }[name]


def seen_with(options):
    """The keys that queries of SMALL see with these options."""
    visible = reference.visible_keys(SMALL.queries, SMALL.keys, options.get("causal", False)).expand(2, 1, -1, -1)
    if "window" in options:
        before = torch.arange(SMALL.queries)[:, None] + SMALL.keys - SMALL.queries - torch.arange(SMALL.keys)
        visible = visible & (before < options["window"])
    if "key_lengths" in options:
        visible = visible & (torch.arange(SMALL.keys) < options["key_lengths"][:, None, None, None])
    if "local_radius" in options:
        away = torch.arange(SMALL.keys) - options["local_centers"][..., None]
        visible = visible & (away.abs() <= options["local_radius"])
    for name in ("bias", "energy_bias"):
        visible = visible & ~options[name].isneginf() if name in options else visible
    return visible


@pytest.mark.parametrize("mechanism", ["cog", "sigmoid", "centered", "differential"])
@pytest.mark.parametrize(
    "option", ["softcap", "window", "key_lengths", "bias", "energy_bias", "alibi", "local", "dropout", "cosine", "additive"]
)
def test_statistics_are_of_the_weights_that_are_applied(mechanism, option):
    """With every modifier: sums over the result of attention_weights, which other tests compare with a reference."""
    options = options_of(option)
    if option == "energy_bias" and mechanism == "sigmoid":
        pytest.skip("sigmoid has no exponent")
    if option == "additive" and mechanism == "differential":
        options["score_weight"] = options["score_weight"].repeat(2, 1)
    inputs = grid_inputs(mechanism, SMALL).to(torch.float64)
    options.setdefault("scale", None if option in ("cosine", "additive") else inputs.scale)
    weights = cogwheel.attention_weights(inputs.query, inputs.key, mechanism, **options, **inputs.parameters)
    expected = statistics_of(weights, seen_with(options))
    _, statistics = attention_statistics(mechanism, inputs, **options)
    if mechanism in MAGNITUDES:  # before the normaliser; the table above has it
        expected["log_mass"] = statistics.log_mass
    assert_statistics(statistics, expected, weights, 1e-13)


@pytest.mark.parametrize("mechanism", ["matrix_exponential", "simple_norm_by_row"])
def test_dense_mechanisms_have_statistics_too(mechanism):
    query, value = torch.randn(2, 3, 20, 8, dtype=torch.float64) / 4, torch.randn(2, 3, 20, 8, dtype=torch.float64)
    weights = cogwheel.attention_weights(query, query, mechanism, causal=True)
    output, statistics = cogwheel.attention_statistics(query, query, value, mechanism, causal=True)
    assert torch.equal(output, cogwheel.attention(query, query, value, mechanism, causal=True))
    assert_statistics(statistics, statistics_of(weights, reference.visible_keys(20, 20, True)), weights, 1e-12)


@pytest.mark.parametrize("mechanism", ["softmax", "cog", "softmax_off_by_one", "cubic", "centered", "differential"])
def test_output_and_gradients_are_those_of_attention(mechanism):
    inputs = grid_inputs(mechanism, SMALL)
    leaves = [tensor.requires_grad_() for tensor in inputs.tensors().values()]
    output, statistics = attention_statistics(mechanism, inputs, causal=True, argmax=False)
    plain = cogwheel.attention(
        inputs.query, inputs.key, inputs.value, mechanism, causal=True, scale=inputs.scale, **inputs.parameters
    )
    assert torch.equal(output, plain)
    for got, expected in zip(
        torch.autograd.grad(output, leaves, inputs.output_gradient),
        torch.autograd.grad(plain, leaves, inputs.output_gradient),
    ):
        assert torch.equal(got, expected)
    assert statistics.argmax is None
    assert not any(each.requires_grad for each in statistics if each is not None)


@pytest.mark.parametrize("mechanism", ["softmax", "cog", "softmax_off_by_one", "differential"])
def test_extreme_scores(mechanism):
    """Scores of ±1e4: one key takes all."""
    inputs = grid_inputs(mechanism, SMALL, largest_score=1e4)
    exact = inputs.to(torch.float64)
    weights = reference.weights(
        mechanism,
        exact.query,
        exact.key,
        scale=exact.true_scale,
        visible=torch.ones(70, 90, dtype=torch.bool),
        parameters=exact.parameters,
    )
    expected = statistics_of(weights, torch.ones(70, 90, dtype=torch.bool))
    _, statistics = attention_statistics(mechanism, inputs)
    if mechanism in MAGNITUDES:
        expected["log_mass"] = statistics.log_mass.double()
        assert statistics.log_mass.isfinite().all()
        assert statistics.log_mass.max() > 1e3
    assert_kurtosis(statistics.kurtosis.double(), expected["kurtosis"], 4e-6)
    for name in ("sum", "abs_sum", "negative_mass", "entropy", "sink", "largest", "keys"):
        torch.testing.assert_close(getattr(statistics, name).double(), expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mechanism", ["cog", "relu", "centered", "differential"])
def test_a_row_that_sees_nothing(mechanism):
    inputs = grid_inputs(mechanism, SMALL)
    _, statistics = attention_statistics(mechanism, inputs, key_lengths=torch.tensor([0, 5]))
    empty = {name: numbers[0] for name, numbers in statistics._asdict().items()}
    assert (empty.pop("log_mass") == -math.inf).all()
    assert (empty.pop("argmax") == -1).all()
    assert empty.pop("kurtosis").isnan().all()
    assert all((each == 0).all() for each in empty.values())


@pytest.mark.parametrize("mechanism", ["softmax", "cog", "relu", "differential"])
def test_kurtosis_and_entropy_are_scipys(mechanism):
    inputs = grid_inputs(mechanism, SMALL).to(torch.float64)
    weights = cogwheel.attention_weights(
        inputs.query, inputs.key, mechanism, scale=inputs.scale, **inputs.parameters
    ).numpy()
    _, statistics = attention_statistics(mechanism, inputs)
    some = (statistics.abs_sum > 0).numpy()
    kurtosis = stats.kurtosis(weights[some], axis=-1, fisher=False)
    np.testing.assert_allclose(statistics.kurtosis.numpy()[some], kurtosis, rtol=1e-9)
    entropy = stats.entropy(abs(weights[some]), axis=-1)
    np.testing.assert_allclose(statistics.entropy.numpy()[some], entropy, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("spread", [1e-3, 1e-2, 1.0])
def test_kurtosis_of_nearly_equal_weights(spread):
    """As at the start of training, over several tiles: powers of the weights themselves would cancel in float32."""
    generator = torch.Generator().manual_seed(5)
    query, key = torch.ones(1, 1, 3, 8), torch.zeros(1, 1, 1500, 8)
    key[..., 0] = spread * torch.randn(1500, generator=generator)
    _, statistics = cogwheel.attention_statistics(query, key, key, scale=1.0)
    weights = key[0, 0, :, 0].double().softmax(0)
    away = weights - weights.mean()
    truth = (away**4).mean() / (away**2).mean() ** 2
    torch.testing.assert_close(statistics.kurtosis.double(), truth.expand(1, 1, 3), rtol=2e-3, atol=0)
    key[..., 0] = 1.0
    assert cogwheel.attention_statistics(query, key, key)[1].kurtosis.isnan().all()


@pytest.mark.parametrize("mechanism", ["softmax", "cog", "differential"])
def test_a_nan_reaches_only_the_rows_that_see_it(mechanism):
    inputs = grid_inputs(mechanism, SMALL)
    _, clean = attention_statistics(mechanism, inputs, causal=True)
    inputs.key[:, :, 50] = torch.nan
    _, statistics = attention_statistics(mechanism, inputs, causal=True)
    seen_from = 50 - (90 - 70)
    for before, after in zip(clean, statistics):
        same = before[:, :, :seen_from], after[:, :, :seen_from]
        torch.testing.assert_close(*same, rtol=0, atol=0, equal_nan=True)
    assert statistics.entropy[:, :, seen_from:].isnan().all()


@pytest.mark.parametrize("mechanism", ["cog", "sigmoid", "centered", "differential"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bit_inputs_have_wide_statistics(mechanism, dtype):
    inputs = grid_inputs(mechanism, SMALL).to(dtype)
    _, statistics = attention_statistics(mechanism, inputs)
    _, wide = attention_statistics(mechanism, inputs.to(torch.float32))
    for got, expected in zip(statistics[:7], wide[:7]):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, expected, rtol=2e-6, atol=4e-6)
    assert_kurtosis(statistics.kurtosis, wide.kurtosis, 4e-6)


@pytest.mark.parametrize("mechanism", ["cog", "differential"])
def test_any_number_of_threads_gives_the_same_bits(mechanism):
    inputs = grid_inputs(mechanism, SMALL)
    threads = torch.get_num_threads()
    runs = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            runs.append(torch.stack([each.float() for each in attention_statistics(mechanism, inputs)[1]]))
    finally:
        torch.set_num_threads(threads)
    for other in runs[1:]:
        torch.testing.assert_close(runs[0], other, rtol=0, atol=0, equal_nan=True)


def test_bad_input_is_one_line():
    inputs = grid_inputs("softmax", SMALL)
    with pytest.raises(TypeError, match="attention_statistics: parameters of softmax: expected .*, got sink"):
        cogwheel.attention_statistics(inputs.query, inputs.key, inputs.value, sink=torch.zeros(4))
    many = torch.empty(1, 4, 2**24 + 1, 8, device="meta")
    with pytest.raises(ValueError, match="argmax: expected at most 16777216 keys, got 16777217"):
        cogwheel.attention_statistics(inputs.query, many, many)


@pytest.mark.parametrize("mechanism", ["cog", "centered", "differential"])
def test_operators_are_registered_as_pytorch_demands(mechanism):
    shape = Shape(batch=1, heads=2, key_heads=1, queries=9, keys=9, head_dim=8, value_dim=4)
    inputs = grid_inputs(mechanism, shape)
    keywords = {"parameters": list(inputs.parameters.values()), "parameter_names": list(inputs.parameters)}
    torch.library.opcheck(
        torch.ops.cogwheel.attention_statistics.default,
        (inputs.query, inputs.key, inputs.value, True, mechanism),
        keywords,
        test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"),
    )


@pytest.mark.parametrize("mechanism", ["cog", "differential"])
def test_compiles_as_one_graph(mechanism):
    inputs = grid_inputs(mechanism, SMALL)

    def step(query, key, value):
        output, statistics = cogwheel.attention_statistics(
            query, key, value, mechanism, causal=True, scale=inputs.scale, **inputs.parameters
        )
        return output + 1, statistics.entropy + 1, statistics.argmax

    leaves = [tensor.requires_grad_() for tensor in (inputs.query, inputs.key, inputs.value)]
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")(*leaves)
    expected = step(*leaves)
    for got, eager in zip(compiled, expected):
        assert torch.equal(got, eager)
    for got, eager in zip(*(torch.autograd.grad(each[0].sum(), leaves) for each in (compiled, expected))):
        assert torch.equal(got, eager)
    torch.compiler.reset()


@pytest.mark.parametrize("mechanism", ["softmax", "cog"])
def test_outputs_of_random_values_are_as_large_as_squared_weights_say(mechanism):
    """E|o|^2 = D sum a^2 for v ~ N(0, I), whatever the signs of a: the mean of many draws within 3 standard errors."""
    draws, tokens, width = 3000, 48, 16
    generator = torch.Generator().manual_seed(14)
    query, key = (2 * torch.randn(1, 1, tokens, width, generator=generator, dtype=torch.float64) for _ in range(2))
    weights = cogwheel.attention_weights(query, key, mechanism=mechanism, causal=True)[0, 0]
    assert (weights.min() < -0.1) == (mechanism == "cog")
    value = torch.randn(draws, 1, tokens, width, generator=generator, dtype=torch.float64)
    query, key = (x.expand(draws, -1, -1, -1) for x in (query, key))
    sizes = cogwheel.attention(query, key, value, mechanism=mechanism, causal=True).square().sum(-1)[:, 0]
    expected = width * weights.square().sum(-1)
    error = sizes.std(0) / math.sqrt(draws)
    rows = [0, 1, 7, 15, 31, 47]
    assert ((sizes.mean(0) - expected).abs() < 3 * error)[rows].all()
    assert ((sizes.mean(0) - 1.2 * expected).abs() > 3 * error)[rows].all()  # the test can tell
