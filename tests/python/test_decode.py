"""Prefill and decode from a cache equal the full causal pass: every map and form, split anywhere."""

import pytest
import reference
import torch
import torch.nn.functional as F
from attention_cases import OUTPUT_TOLERANCE, Inputs, Shape, assert_same_bits, grid_inputs, largest_error, relative_norm
from hypothesis import given, settings
from hypothesis import strategies as st

import cogwheel

MECHANISMS = sorted({*reference.TABLE, *reference.COMPOSED})
GROUPED = Shape(2, 4, 2, 150, 150, 16, 20)
LONG = Shape(1, 2, 2, 1300, 1300, 16, 8)  # three chunks of keys


def cache_for(inputs: Inputs, capacity: int) -> cogwheel.KeyValueCache:
    batch, key_heads, _, head_dim = inputs.key.shape
    _, value_heads, _, value_dim = inputs.value.shape
    return cogwheel.KeyValueCache(
        batch, key_heads, capacity, head_dim, value_dim, value_heads=value_heads, dtype=inputs.key.dtype
    )


def in_steps(mechanism: str, inputs: Inputs, ends: list[int], **options) -> torch.Tensor:
    """The output of every token, from a cache that grows to each of `ends`."""
    tokens = inputs.query.shape[2]
    cache, outputs = cache_for(inputs, tokens), []
    for begin, end in zip([0, *ends], [*ends, tokens]):
        cache.append(inputs.key[:, :, begin:end], inputs.value[:, :, begin:end])
        outputs.append(
            cache.attend(inputs.query[:, :, begin:end], mechanism, scale=inputs.scale, **inputs.parameters, **options)
        )
    return torch.cat(outputs, 2)


def full(mechanism: str, inputs: Inputs, **options) -> torch.Tensor:
    return cogwheel.attention(
        inputs.query, inputs.key, inputs.value, mechanism, causal=True, scale=inputs.scale, **inputs.parameters, **options
    )


def expected_output(mechanism: str, inputs: Inputs) -> torch.Tensor:
    double = inputs.to(torch.float64)
    return reference.attention(
        mechanism,
        double.query,
        double.key,
        double.value,
        scale=inputs.true_scale,
        visible=reference.visible_keys(inputs.query.shape[2], inputs.key.shape[2], True),
        parameters=double.parameters,
    )


def assert_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = OUTPUT_TOLERANCE[torch.float32]):
    assert actual.shape == expected.shape
    for measure in (largest_error, relative_norm):
        error = measure(actual, expected.double())
        assert error <= tolerance, f"{measure.__name__} {error:.2e}, allowed {tolerance:.1e}"  # NaN fails


def random_ends(generator: torch.Generator, tokens: int) -> list[int]:
    """A prefill of any length, then single tokens and a few at once, up to a last long step."""
    ends = [int(torch.randint(1, tokens - 40, (), generator=generator))]
    for step in (1, 1, 1, 2, 5, 16):
        ends.append(ends[-1] + step)
    return ends


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_prefill_and_decode_equal_the_full_pass(mechanism):
    generator = torch.Generator().manual_seed(sum(map(ord, mechanism)))
    for shape in (GROUPED, LONG) if mechanism in reference.TABLE else (GROUPED,):
        inputs = grid_inputs(mechanism, shape)
        decoded = in_steps(mechanism, inputs, random_ends(generator, shape.keys))
        # Both sides round a cosine alike; the reference is exact.
        assert_close(decoded, full(mechanism, inputs))
        if not reference.row_of(mechanism).cosine:
            assert_close(decoded, expected_output(mechanism, inputs))


@pytest.mark.parametrize("head_dim", [512, 1023])
def test_wide_heads(head_dim):
    inputs = grid_inputs("cog", Shape(2, 2, 1, 90, 90, head_dim, 16))
    assert_close(in_steps("cog", inputs, [70, 71]), expected_output("cog", inputs))


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_any_split_point(data):
    mechanism = data.draw(st.sampled_from(["softmax", "cog", "sigmoid", "differential"]))
    tokens = data.draw(st.integers(1, 700))
    heads, key_heads = data.draw(st.sampled_from([(1, 1), (8, 1), (6, 2)]))
    inputs = grid_inputs(mechanism, Shape(1, heads, key_heads, tokens, tokens, 16, 12), seed=data.draw(st.integers(0, 99)))
    ends = sorted(data.draw(st.sets(st.integers(1, tokens - 1), max_size=5))) if tokens > 1 else []
    window = data.draw(st.sampled_from([None, 1, 70]))
    assert_close(in_steps(mechanism, inputs, ends, window=window), full(mechanism, inputs, window=window))


@pytest.mark.parametrize("mechanism", ["softmax", "cog", "sigmoid", "differential_cog"])
def test_what_acts_beside_the_map(mechanism):
    inputs = grid_inputs(mechanism, Shape(2, 4, 2, 600, 600, 16, 8))
    generator = torch.Generator().manual_seed(0)
    alibi = torch.tensor([0.5, 0.25, 0.0, 0.01])
    ends = [560, 561, 577, 599]
    assert_close(in_steps(mechanism, inputs, ends, alibi=alibi), full(mechanism, inputs, alibi=alibi), 4e-6)
    assert_close(in_steps(mechanism, inputs, ends, local_radius=30.0), full(mechanism, inputs, local_radius=30.0), 4e-6)
    # Single steps whose bias is the row of the whole one; some keys are hidden.
    bias = torch.randn(4, 600, 600, generator=generator)
    bias[torch.rand(bias.shape, generator=generator) < 0.2] = -torch.inf
    expected = full(mechanism, inputs, bias=bias)
    cache = cache_for(inputs, 600)
    cache.append(inputs.key[:, :, :597], inputs.value[:, :, :597])
    for token in (597, 598, 599):
        cache.append(inputs.key[:, :, token : token + 1], inputs.value[:, :, token : token + 1])
        step = cache.attend(
            inputs.query[:, :, token : token + 1], mechanism, scale=inputs.scale, **inputs.parameters,
            bias=bias[:, token : token + 1, : token + 1],
        )  # fmt: skip
        assert_close(step, expected[:, :, token : token + 1], 4e-6)


@pytest.mark.parametrize("score", ["additive", "general", "cosine"])
def test_other_scores(score):
    generator = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(1, 4, 80, 16, generator=generator) for _ in range(3))
    weight = {"additive": (4, 16), "general": (4, 16, 16), "cosine": None}[score]
    options = {"score": score, "score_weight": None if weight is None else torch.randn(weight, generator=generator)}
    inputs = Inputs(query, key, value, value, None)
    assert_close(in_steps("softmax", inputs, [70, 71], **options), full("softmax", inputs, **options))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mechanism", ["softmax", "cog", "differential"])
def test_16_bits(mechanism, dtype):
    inputs = grid_inputs(mechanism, Shape(1, 4, 2, 700, 700, 64, 64)).to(dtype)
    decoded, expected = in_steps(mechanism, inputs, [690, 691, 692]), full(mechanism, inputs)
    assert decoded.dtype == dtype
    exact = expected_output(mechanism, inputs)
    assert (decoded.double() - exact).abs().max() <= 1.01 * (expected.double() - exact).abs().max()


DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("head_dim", [9, 16, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_cache_holds_what_was_appended(dtype, head_dim):
    """In steps that begin and end anywhere in the panels of 64 keys that a cache keeps, by tensors of any strides."""
    generator = torch.Generator().manual_seed(head_dim)
    key, value = (torch.randn(2, 200, 3, head_dim, generator=generator).to(dtype).transpose(1, 2) for _ in range(2))
    cache = cogwheel.KeyValueCache(2, 3, 200, head_dim, dtype=dtype)
    ends = [1, 2, 63, 64, 65, 129, 199, 200]
    for begin, end in zip([0, *ends], ends):
        cache.append(key[:, :, begin:end], value[:, :, begin:end])
        assert_same_bits(cache.key, key[:, :, :end])
        assert_same_bits(cache.value, value[:, :, :end])
    cache.crop(torch.tensor([70, 130]))
    cache.append(-key[:, :, :70], value[:, :, :70], torch.tensor([70, 3]))
    assert_same_bits(cache.key[0], torch.cat([key[0, :, :70], -key[0, :, :70]], 1))
    assert_same_bits(cache.key[1, :, :133], torch.cat([key[1, :, :130], -key[1, :, :3]], 1))
    assert_same_bits(cache.fork([1]).key, cache.key[1:, :, :133])


@pytest.mark.parametrize("queries", [1, 3, 40])
@pytest.mark.parametrize("head_dim", [9, 16, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mechanism", ["cog", "differential"])
def test_keys_of_a_cache_give_the_bits_of_keys_in_rows(mechanism, dtype, head_dim, queries):
    """Also where what was cropped and what another entry has beyond this one's length is not finite."""
    tokens = 700
    inputs = grid_inputs(mechanism, Shape(2, 4, 2, tokens, tokens, head_dim, 20)).to(dtype)
    last = inputs.query[:, :, -queries:]
    options = {"scale": inputs.scale, **inputs.parameters}
    for window in (None, 70):
        cache = cache_for(inputs, 3 * tokens)
        cache.append(*(torch.full_like(x, torch.nan) for x in (inputs.key, inputs.value)))
        cache.crop(0)
        cache.append(inputs.key, inputs.value)
        expected = cogwheel.attention(last, inputs.key, inputs.value, mechanism, causal=True, window=window, **options)
        assert_same_bits(cache.attend(last, mechanism, window=window, **options), expected)
        # The second entry is the longer one now.
        cache.append(*(torch.full_like(x, torch.nan)[:, :, :50] for x in (inputs.key, inputs.value)), torch.tensor([0, 50]))
        assert_same_bits(cache.attend(last, mechanism, window=window, **options)[0], expected[0])


@pytest.mark.parametrize("mechanism", ["softmax", "cog", "sigmoid", "relu_mean"])
@pytest.mark.parametrize("window", [None, 20])
def test_entries_of_different_lengths(mechanism, window):
    """Each entry gives what it gives alone, from a ragged prefill on, also where ALiBi counts from its own end."""
    inputs = grid_inputs(mechanism, Shape(3, 4, 2, 620, 620, 16, 8))
    lengths = torch.tensor([600, 3, 77])
    options = {"scale": inputs.scale, "window": window, "alibi": torch.tensor([0.5, 0.25, 0.0, 0.01])}
    cache = cache_for(inputs, 620)
    cache.append(inputs.key[:, :, :600], inputs.value[:, :, :600], lengths)
    assert torch.equal(cache.lengths, lengths)
    prefill = cache.attend(inputs.query[:, :, :600], mechanism, query_lengths=lengths, **options)

    def new(tensor, step):
        return torch.stack([tensor[b, :, n + step : n + step + 2] for b, n in enumerate(lengths.tolist())])

    steps = []
    for step in (0, 2):
        cache.append(new(inputs.key, step), new(inputs.value, step))
        steps.append(cache.attend(new(inputs.query, step), mechanism, **options))
    decoded = torch.cat(steps, 2)
    for b, length in enumerate(lengths.tolist()):
        alone = cogwheel.attention(
            *(x[b : b + 1, :, : length + 4] for x in (inputs.query, inputs.key, inputs.value)),
            mechanism, causal=True, **options,
        )  # fmt: skip
        assert_close(prefill[b : b + 1, :, :length], alone[:, :, :length], 4e-6)
        assert_close(decoded[b : b + 1], alone[:, :, length:], 4e-6)


def test_gradients_of_a_few_queries_of_many_keys():
    """Forward by the decode engine, backward by the usual one; the same rule chooses for a cache."""
    inputs = grid_inputs("softmax", Shape(1, 2, 1, 3, 1200, 16, 8))
    leaves = [x.double().requires_grad_() for x in (inputs.query, inputs.key, inputs.value)]
    output = cogwheel.attention(*leaves, causal=True, scale=inputs.scale)
    expected = expected_output("softmax", inputs)
    assert_close(output, expected, 1e-14)
    dense = torch.nn.functional.scaled_dot_product_attention(
        *leaves, reference.visible_keys(3, 1200, True), scale=inputs.true_scale, enable_gqa=True
    )
    gradients = torch.autograd.grad(output.square().sum(), leaves)
    for actual, exact in zip(gradients, torch.autograd.grad(dense.square().sum(), leaves)):
        assert_close(actual, exact, 1e-13)


@pytest.mark.parametrize("mechanism", ["softmax", "cog", "differential"])
def test_the_same_bits_for_any_number_of_threads_and_any_batch(mechanism):
    inputs = grid_inputs(mechanism, Shape(2, 4, 2, 2, 5000, 16, 20))
    options = {"causal": True, "scale": inputs.scale, **inputs.parameters}
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(cogwheel.attention(inputs.query, inputs.key, inputs.value, mechanism, **options))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert_same_bits(result, results[0])
    alone = cogwheel.attention(inputs.query[:1], inputs.key[:1], inputs.value[:1], mechanism, **options)
    assert_same_bits(alone, results[0][:1])


@pytest.mark.parametrize("mechanism", ["softmax", "cog", "sigmoid"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_non_finite_entry_reaches_only_rows_that_see_it(mechanism, bad):
    inputs = grid_inputs(mechanism, Shape(1, 4, 2, 3, 1100, 16, 8))
    options = {"causal": True, "scale": inputs.scale}
    clean = cogwheel.attention(inputs.query, inputs.key, inputs.value, mechanism, **options)
    for name in ("key", "value"):
        tensors = {"query": inputs.query, "key": inputs.key.clone(), "value": inputs.value.clone()}
        tensors[name][:, :, 1098] = bad  # of queries 1 and 2, not of query 0
        output = cogwheel.attention(mechanism=mechanism, **options, **tensors)
        assert_same_bits(output[:, :, 0], clean[:, :, 0], name)
        assert (~output[:, :, 1:].isfinite()).any(-1).all() or mechanism == "sigmoid" and name == "key"


def test_extreme_scores_stay_finite_over_chunks():
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, n, 16, generator=generator) for n in (1, 3000, 3000))
    for mechanism in ("softmax", "cog"):
        assert cogwheel.attention(query * 1e3, key * 1e3, value, mechanism).isfinite().all()
    expected = F.scaled_dot_product_attention(query.double() * 30, key.double() * 30, value.double())
    assert_close(cogwheel.attention(query * 30, key * 30, value), expected, 2e-4)


def test_a_sink_counts_once():
    """Over several chunks, also where it is the largest exponent of all."""
    inputs = grid_inputs("softmax_off_by_one", Shape(1, 2, 2, 1, 3000, 16, 8))
    for sink in (-3.0, 9.0, 40.0):
        inputs.parameters = {"sink": torch.tensor([sink, 0.0])}
        assert_close(full("softmax_off_by_one", inputs), expected_output("softmax_off_by_one", inputs))


def test_a_query_that_sees_nothing_gives_zero():
    query, key, value = torch.randn(2, 2, 3, 16), torch.randn(2, 2, 900, 16), torch.full((2, 2, 900, 8), torch.nan)
    for mechanism in ("softmax", "cog", "relu", "softmax_off_by_one"):
        output = cogwheel.attention(query, key, value, mechanism, key_lengths=torch.tensor([0, 0]))
        assert torch.equal(output, torch.zeros_like(output))


def small_cache(lengths=(3, 5)) -> cogwheel.KeyValueCache:
    cache = cogwheel.KeyValueCache(2, 1, 8, 16)
    generator = torch.Generator().manual_seed(1)
    cache.append(*(torch.randn(2, 1, 5, 16, generator=generator) for _ in range(2)), torch.tensor(lengths))
    return cache


def test_crop_forgets_the_newest():
    cache, whole = small_cache(), small_cache()
    cache.crop(torch.tensor([2, 4]))
    assert cache.lengths.tolist() == [2, 4]
    assert_same_bits(cache.key[0, :, :2], whole.key[0, :, :2])
    generator = torch.Generator().manual_seed(2)
    key, value, query = (torch.randn(2, 1, 1, 16, generator=generator) for _ in range(3))
    cache.append(key, value)
    whole = cogwheel.attention(query[:1], torch.cat([whole.key[:1, :, :2], key[:1]], 2),
                               torch.cat([whole.value[:1, :, :2], value[:1]], 2))  # fmt: skip
    assert_close(cache.attend(query)[:1], whole)
    cache.crop(1)
    assert cache.lengths.tolist() == [1, 1]
    cache.crop(0)
    assert cache.key.shape == (2, 1, 0, 16)


def test_forks_are_independent():
    cache = small_cache()
    beams = cache.fork([1, 1, 0])
    assert beams.lengths.tolist() == [5, 5, 3] and beams.capacity == 8
    query = torch.randn(3, 1, 1, 16)
    before = cache.attend(query[:2])
    expected = cache.fork(torch.tensor([1, 1, 0])).attend(query)
    beams.append(torch.ones(3, 1, 1, 16), torch.ones(3, 1, 1, 16))
    assert_same_bits(cache.attend(query[:2]), before)
    beams.crop(torch.tensor([5, 5, 3]))
    assert_same_bits(beams.attend(query), expected)
    assert_same_bits(expected[2:], cache.fork([0]).attend(query[2:]))
    cache.free()
    assert_same_bits(beams.attend(query), expected)  # a fork outlives its origin


def test_a_cache_holds_numbers_and_no_graph():
    cache = cogwheel.KeyValueCache(1, 1, 4, 16)
    key = torch.randn(1, 1, 2, 16, requires_grad=True)
    with torch.inference_mode():
        made_in_inference = cogwheel.KeyValueCache(1, 1, 4, 16)
    for each in (cache, made_in_inference):
        each.append(key, key)
        query = torch.randn(1, 1, 2, 16, requires_grad=True)
        each.attend(query).sum().backward()
        assert query.grad.isfinite().all() and key.grad is None and not each.key.requires_grad


def append(cache, *shape, lengths=None, dtype=torch.float32):
    return cache.append(torch.ones(*shape, dtype=dtype), torch.ones(*shape, dtype=dtype), lengths)


BAD = {
    "full": (lambda c: append(c, 2, 1, 4, 16), "append to entry 1: expected at most 3 more tokens (capacity 8), got 4"),
    "key heads": (lambda c: append(c, 2, 2, 1, 16), "key: expected [2, 1, tokens, 16], got [2, 2, 1, 16]"),
    "rank": (lambda c: append(c, 2, 1, 16), "key: expected [2, 1, tokens, 16], got [2, 1, 16]"),
    "dtype": (lambda c: append(c, 2, 1, 1, 16, dtype=torch.float64), "key: expected Float on cpu, got Double on cpu"),
    "values": (
        lambda c: c.append(torch.ones(2, 1, 2, 16), torch.ones(2, 1, 1, 16)),
        "value: expected [2, 1, 2, 16], got [2, 1, 1, 16]",
    ),
    "too long": (
        lambda c: append(c, 2, 1, 1, 16, lengths=torch.tensor([1, 2])),
        "lengths of entry 1: expected 0 to 1 (the tokens of key), got 2",
    ),
    "negative": (
        lambda c: append(c, 2, 1, 1, 16, lengths=torch.tensor([-1, 1])),
        "lengths of entry 0: expected 0 to 1 (the tokens of key), got -1",
    ),
    "lengths dtype": (
        lambda c: append(c, 2, 1, 1, 16, lengths=torch.tensor([1.0, 1.0])),
        "lengths: expected int64 [2] on the cpu, got Float [2]",
    ),
    "crop": (lambda c: c.crop(4), "crop of entry 0: expected 0 to 3 (its length), got 4"),
    "crop below": (lambda c: c.crop(-1), "crop of entry 0: expected 0 to 3 (its length), got -1"),
    "crop count": (lambda c: c.crop(torch.tensor([1])), "crop: expected int64 [2] on the cpu, got Long [1]"),
    "fork": (lambda c: c.fork([0, 2]), "fork: expected entries 0 to 1, got 2"),
    "fork below": (lambda c: c.fork([-1]), "fork: expected entries 0 to 1, got -1"),
    "fork nothing": (lambda c: c.fork([]), "batch: expected 1 or more, got 0"),
    "queries": (lambda c: c.attend(torch.ones(2, 1, 4, 16)), "query_lengths of entry 0: expected 0 to 3 (its tokens), got 4"),
    "query batch": (lambda c: c.attend(torch.ones(1, 1, 1, 16)), "query: expected [2, heads, tokens, head_dim], got [1, 1, 1, 16]"),
    "query rank": (lambda c: c.attend(torch.ones(2, 1, 16)), "query: expected [2, heads, tokens, head_dim], got [2, 1, 16]"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused_changes_nothing(case):
    cache = small_cache()
    key, value = cache.key.clone(), cache.value.clone()
    call, message = BAD[case]
    with pytest.raises(ValueError) as error:
        call(cache)
    assert str(error.value).splitlines() == ["cache: " + message]
    assert cache.lengths.tolist() == [3, 5]
    assert_same_bits(cache.key, key)
    assert_same_bits(cache.value, value)


def test_a_freed_cache_is_refused():
    cache = small_cache()
    cache.free()
    cache.free()
    calls = {
        "fork": lambda: cache.fork([0]),
        "append": lambda: append(cache, 2, 1, 1, 16),
        "attend": lambda: cache.attend(torch.ones(2, 1, 1, 16)),
        "crop": lambda: cache.crop(1),
        "lengths": lambda: cache.lengths,
        "key": lambda: cache.key,
        "value": lambda: cache.value,
        "capacity": lambda: cache.capacity,
    }
    for name, call in calls.items():
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == f"cache: {name}: expected a cache in use, got one that was freed"


def test_what_cannot_decode_is_refused():
    query = torch.ones(2, 1, 1, 16)
    for mechanism in [entry["name"] for entry in cogwheel.mechanisms() if entry["level"] == "dense"]:
        parameters = {"coefficients": torch.ones(1, 2)} if mechanism == "polynomial" else {}
        with pytest.raises(ValueError) as error:
            small_cache().attend(query, mechanism, **parameters)
        assert str(error.value) == (
            f"attention: mechanism: expected one whose rows stand alone, to decode, got {mechanism}, a function of the "
            "whole score matrix"
        )
    with pytest.raises(ValueError, match=r"first_positions: expected none beside a cache's own, got \[2\]"):
        small_cache().attend(query, first_positions=torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="attention: mechanism: expected softmax"):
        small_cache().attend(query, "sofmax")
    with pytest.raises(TypeError, match="parameters of softmax"):
        small_cache().attend(query, "softmax", lam=query)
    with pytest.raises(ValueError, match="query dtype|key dtype"):
        small_cache().attend(query.double())


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"batch": 0}, "batch: expected 1 or more, got 0"),
        ({"key_heads": -1}, "key_heads: expected 1 or more, got -1"),
        ({"capacity": 0}, "capacity: expected 1 or more, got 0"),
        ({"head_dim": 0}, "head_dim: expected 1 or more, got 0"),
        ({"value_dim": 0}, "value_dim: expected 1 or more, got 0"),
        ({"value_heads": 0}, "value_heads: expected 1 or more, got 0"),
        ({"dtype": torch.int32}, "dtype: expected float32, float64, bfloat16 or float16, got Int"),
    ],
)
def test_sizes_that_cannot_be(sizes, message):
    with pytest.raises(ValueError) as error:
        cogwheel.KeyValueCache(**{"batch": 1, "key_heads": 1, "capacity": 4, "head_dim": 16, **sizes})
    assert str(error.value) == "cache: " + message


def test_a_step_compiles_as_one_graph():
    generator = torch.Generator().manual_seed(0)
    prompt, step = (torch.randn(3, 2, 4, length, 16, generator=generator) for length in (9, 1))

    def decode(cache, query, key, value):
        cache.append(key[:, :2], value[:, :2])
        return cache.attend(query, "cog", window=6) + 1

    outputs = []
    for run in (decode, torch.compile(decode, fullgraph=True, backend="aot_eager")):
        cache = cogwheel.KeyValueCache(2, 2, 16, 16)
        with torch.no_grad():
            cache.append(prompt[1][:, :2], prompt[2][:, :2])
            outputs.append(run(cache, *step))
        assert cache.lengths.tolist() == [10, 10]
    assert torch.equal(*outputs)
    torch.compiler.reset()
