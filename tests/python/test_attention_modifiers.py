"""What acts on scores and weights beside the mechanism: windows, lengths, packed sequences, biases, ALiBi, local
attention and dropout, each for every mechanism, outputs and every gradient, against formulas written out here."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy
import pytest
import reference
import torch
from attention_cases import (
    GRADIENT_TOLERANCE,
    OUTPUT_TOLERANCE,
    Inputs,
    Shape,
    assert_same_bits,
    cancellation_floors,
    differentiate,
    grid_inputs,
    largest_error,
    random_inputs,
    relative_norm,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import cogwheel

MECHANISMS = sorted(reference.TABLE)
ENERGY_MAPS = ("softmax", "cog", "softmax_off_by_one", "differential", "differential_cog", "centered")
SHAPE = Shape(2, 4, 2, 70, 83, 16, 24)
SQUARE = Shape(1, 4, 2, 83, 83, 16, 24)

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


def unit_of(inputs: Inputs) -> float:
    """Scores of the grid are odd multiples of this power of two, so even multiples may be added to them."""
    return inputs.true_scale * inputs.query[0, 0, 0, 0].abs().item()


def even_bias(inputs: Inputs, *size: int, seed: int = 5) -> Tensor:
    steps = torch.randint(-20, 21, size, generator=torch.Generator().manual_seed(seed))
    return (2 * unit_of(inputs) * steps).to(inputs.query.dtype)


@dataclass
class Case:
    """One call, and what the formula needs to know of it."""

    inputs: Inputs
    causal: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    differentiable: tuple[str, ...] = ()  # names of options with a gradient

    @property
    def sizes(self) -> tuple[int, int]:
        return self.inputs.query.shape[2], self.inputs.key.shape[2]


def visible_keys(case: Case) -> Tensor:
    """[B or 1, H or 1, N, M]."""
    queries, keys = case.sizes
    i, j = torch.arange(queries)[:, None], torch.arange(keys)[None, :]
    options = case.options
    diagonal = i + keys - queries
    visible = reference.visible_keys(queries, keys, case.causal)[None, None]
    if "window" in options:
        visible = visible & (j > diagonal - options["window"])
    if "key_lengths" in options:
        visible = visible & (j < options["key_lengths"][:, None, None, None])
    if "cu_seqlens" in options:
        sequence = (torch.arange(queries)[:, None] >= options["cu_seqlens"][1:]).sum(-1)
        visible = visible & (sequence[:, None] == sequence[None, :])
    if "local_radius" in options:
        centers = options.get("local_centers", (diagonal if case.causal else i).squeeze(-1)[None, None])
        visible = visible & ((j - centers[..., None].double()).abs() <= options["local_radius"])
    for name in ("bias", "energy_bias"):
        if name in options:
            visible = visible & (options[name] != -torch.inf)
    return visible


PHILOX_MULTIPLIERS = numpy.array([0xD2511F53, 0xCD9E8D57], dtype=numpy.uint64)
PHILOX_WEYL = numpy.array([0x9E3779B9, 0xBB67AE85], dtype=numpy.uint64)


def philox(counter: numpy.ndarray, seed: int) -> numpy.ndarray:
    """Philox4x32-10 of Salmon et al. (2011): [..., 4] counters → [..., 4] words."""
    counter, low = counter.astype(numpy.uint64), numpy.uint64(0xFFFFFFFF)
    key = numpy.array([seed & 0xFFFFFFFF, seed >> 32], dtype=numpy.uint64)
    for _ in range(10):
        products = counter[..., [0, 2]] * PHILOX_MULTIPLIERS
        high, rest = products >> numpy.uint64(32), products & low
        counter = numpy.stack(
            [
                high[..., 1] ^ counter[..., 1] ^ key[0],
                rest[..., 1],
                high[..., 0] ^ counter[..., 3] ^ key[1],
                rest[..., 0],
            ],
            axis=-1,
        )
        key = (key + PHILOX_WEYL) & low
    return counter


def kept_weights(batch: int, heads: int, queries: int, keys: int, dropout: float, seed: int) -> Tensor:
    """1/(1 − dropout) where a weight is kept, else 0. Key 64·p + 16·w + c of a row reads word w of counter 16·p + c."""
    head, query, key = numpy.meshgrid(
        numpy.arange(batch * heads), numpy.arange(queries), numpy.arange(keys), indexing="ij"
    )
    counter = numpy.stack([key // 64 * 16 + key % 16, query, head, numpy.zeros_like(key)], axis=-1)
    words = numpy.take_along_axis(philox(counter, seed), (key % 64 // 16)[..., None], axis=-1)[..., 0]
    kept = words < int((1 - dropout) * 2**32)
    return torch.from_numpy(kept / (1 - dropout)).view(batch, heads, queries, keys)


def judged_weights(mechanism: str, case: Case, leaves: dict[str, Tensor]) -> Tensor:
    row, options = reference.TABLE[mechanism], case.options
    queries, keys = case.sizes
    dtype = leaves["query"].dtype
    scores = reference.sub_head_scores(mechanism, leaves["query"], leaves["key"], scale=case.inputs.true_scale)
    visible = visible_keys(case)
    i, j = torch.arange(queries)[:, None], torch.arange(keys)[None, :]

    def finite(name: str) -> Tensor:
        bias = leaves.get(name, options[name]).to(dtype)
        return torch.where(bias == -torch.inf, 0.0, bias)

    exponent = torch.zeros((), dtype=dtype)
    if "bias" in options:
        scores = scores + finite("bias").expand(scores.shape[0], scores.shape[2], queries, keys)[:, None]
    if "energy_bias" in options:
        exponent = exponent + finite("energy_bias").expand(scores.shape[0], scores.shape[2], queries, keys)[:, None]
    if "alibi" in options:
        decay = -options["alibi"].to(dtype)[:, None, None] * (i + keys - queries - j).abs()
        if mechanism in ENERGY_MAPS:
            exponent = exponent + decay
        else:
            scores = scores + decay
    if mechanism in ("cog", "differential_cog"):
        # Eq. 3 with what is added to the exponent: sign(p) exp(|p| + b) over the sum of the exponentials.
        magnitudes = scores.sign().detach() * scores + exponent
        powers = torch.where(visible[:, None], magnitudes, -torch.inf)
        largest = powers.detach().amax(-1, keepdim=True).nan_to_num(neginf=0.0)
        powers = torch.exp(powers - largest)
        total = powers.sum(-1, keepdim=True)
        of_sub_heads = scores.sign().detach() * powers / torch.where(total > 0, total, 1.0)
        weights = of_sub_heads[:, 0]
        if mechanism == "differential_cog":
            weights = weights - leaves["lam"][:, None, None] * of_sub_heads[:, 1]
    else:
        weights = row.weights(scores + exponent, visible, {name: leaves[name] for name in case.inputs.parameters})
    if "local_centers" in options:
        centers = leaves.get("local_centers", options["local_centers"].to(dtype))
        sigma = options["local_radius"] / 2
        weights = weights * torch.exp(-((j - centers[..., None]) ** 2) / (2 * sigma**2))
    if "dropout" in options:
        batch, heads = weights.shape[:2]
        weights = weights * kept_weights(
            batch, heads, queries, keys, options["dropout"], options["seed"]
        ).to(dtype)
    return weights


def judged_results(mechanism: str, case: Case, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    inputs = case.inputs.to(dtype)
    tensors = {**inputs.tensors(), **{name: case.options[name].to(dtype) for name in case.differentiable}}
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in tensors.items()}
    weights = judged_weights(mechanism, case, leaves)
    heads, value_heads = weights.shape[1], leaves["value"].shape[1]
    output = torch.stack(
        [weights[:, head] @ leaves["value"][:, head * value_heads // heads] for head in range(heads)], dim=1
    )
    return differentiate(output, inputs, leaves)


def actual_results(mechanism: str, case: Case) -> dict[str, Tensor]:
    tensors = {**case.inputs.tensors(), **{name: case.options[name] for name in case.differentiable}}
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
    output = cogwheel.attention(
        mechanism=mechanism, causal=case.causal, scale=case.inputs.scale, **{**case.options, **leaves}
    )
    return differentiate(output, case.inputs, leaves)


def assert_as_judged(mechanism: str, case: Case) -> None:
    dtype = case.inputs.query.dtype
    actual, expected = actual_results(mechanism, case), judged_results(mechanism, case)
    floors = cancellation_floors(mechanism, case.inputs, visible_keys(case)[:, None])
    term = floors.get("score", 0.0)
    floors |= {"bias": term, "energy_bias": term, "local_centers": term}
    # Cosines and decays with distance are no numbers of the grid: twice the error of eager PyTorch is allowed too.
    rounded = reference.TABLE[mechanism].cosine or "alibi" in case.options
    eager = judged_results(mechanism, case, torch.float32) if rounded and dtype == torch.float32 else {}
    for name, tensor in actual.items():
        tolerance = (OUTPUT_TOLERANCE if name == "output" else GRADIENT_TOLERANCE)[dtype]
        assert tensor.dtype == dtype and tensor.shape == expected[name].shape, name
        floor = floors.get(name, 0.0)
        for measure in (largest_error, relative_norm):
            allowed = max(tolerance, 2 * measure(eager[name], expected[name], floor) if eager else 0.0)
            error = measure(tensor, expected[name], floor)
            assert error <= allowed, f"{mechanism} {name}: {measure.__name__} {error:.2e}, allowed {allowed:.1e}"


def takes(mechanism: str, name: str) -> bool:
    if name in ("bias", "alibi"):
        return not reference.TABLE[mechanism].cosine
    return name != "energy_bias" or mechanism in ENERGY_MAPS


def modified_case(mechanism: str, name: str, dtype: torch.dtype) -> Case:
    shape = SQUARE if name.startswith("packed") else SHAPE
    inputs = grid_inputs(mechanism, shape, largest_score=5.0).to(dtype)
    batch, heads, queries, keys = shape.batch, shape.heads, shape.queries, shape.keys
    lengths = torch.tensor([47, 83])
    packed = torch.tensor([0, 1, 20, 20, 64, 83], dtype=torch.int32)
    generator = torch.Generator().manual_seed(9)
    centers = (keys * torch.rand(batch, heads, queries, generator=generator)).round(decimals=2).to(dtype)
    hiding = even_bias(inputs, batch, 1, queries, keys)
    hiding[torch.rand(hiding.shape, generator=generator) < 0.3] = -torch.inf
    hiding[0, 0, 33] = -torch.inf  # a row that sees nothing
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    return {
        "window": lambda: Case(inputs, True, {"window": 9}),
        "window of one": lambda: Case(inputs, True, {"window": 1}),
        "lengths": lambda: Case(inputs, False, {"key_lengths": lengths}),
        "causal lengths": lambda: Case(inputs, True, {"key_lengths": torch.tensor([0, 60])}),
        "window and lengths": lambda: Case(inputs, True, {"key_lengths": lengths, "window": 20}),
        "packed": lambda: Case(inputs, False, {"cu_seqlens": packed}),
        "packed causal": lambda: Case(inputs, True, {"cu_seqlens": packed.long()}),
        "packed window": lambda: Case(inputs, True, {"cu_seqlens": packed, "window": 7}),
        "bias": lambda: Case(inputs, True, {"bias": even_bias(inputs, batch, heads, queries, keys)}, ("bias",)),
        "bias of heads": lambda: Case(inputs, False, {"bias": even_bias(inputs, heads, 1, keys)}, ("bias",)),
        "bias of rows": lambda: Case(inputs, False, {"bias": even_bias(inputs, batch, 1, queries, 1)}, ("bias",)),
        "bias that hides": lambda: Case(inputs, False, {"bias": hiding}, ("bias",)),
        "energy_bias": lambda: Case(
            inputs, True, {"energy_bias": even_bias(inputs, batch, heads, queries, keys)}, ("energy_bias",)
        ),
        "energy_bias of heads": lambda: Case(
            inputs, False, {"energy_bias": even_bias(inputs, 1, heads, queries, keys)}, ("energy_bias",)
        ),
        "alibi": lambda: Case(inputs, True, {"alibi": slopes}),
        "local-m": lambda: Case(inputs, False, {"local_radius": 6}),
        "local-m causal": lambda: Case(inputs, True, {"local_radius": 6}),
        "local-p": lambda: Case(
            inputs, False, {"local_radius": 8.5, "local_centers": centers}, ("local_centers",)
        ),
        "local-p, lengths": lambda: Case(
            inputs,
            True,
            {"local_radius": 8.5, "local_centers": centers, "key_lengths": lengths},
            ("local_centers",),
        ),
        "dropout": lambda: Case(inputs, True, {"dropout": 0.3, "seed": 2**40 + 17}),
        "bias, local-p and dropout": lambda: Case(
            inputs,
            False,
            {"bias": hiding, "local_radius": 20.0, "local_centers": centers, "dropout": 0.25, "seed": 3},
            ("bias", "local_centers"),
        ),
        "everything on an exponent": lambda: Case(
            inputs,
            True,
            {
                "energy_bias": hiding,
                "bias": even_bias(inputs, keys),
                "alibi": slopes,
                "window": 40,
                "key_lengths": lengths,
                "dropout": 0.1,
                "seed": 0,
            },
            ("energy_bias", "bias"),
        ),
    }[name]()


NAMES = {
    "window": (),
    "window of one": (),
    "lengths": (),
    "causal lengths": (),
    "window and lengths": (),
    "packed": (),
    "packed causal": (),
    "packed window": (),
    "bias": ("bias",),
    "bias of heads": ("bias",),
    "bias of rows": ("bias",),
    "bias that hides": ("bias",),
    "energy_bias": ("energy_bias",),
    "energy_bias of heads": ("energy_bias",),
    "alibi": ("alibi",),
    "local-m": (),
    "local-m causal": (),
    "local-p": (),
    "local-p, lengths": (),
    "dropout": (),
    "bias, local-p and dropout": ("bias",),
    "everything on an exponent": ("energy_bias", "bias", "alibi"),
}
CASES = [
    (mechanism, name) for mechanism in MECHANISMS for name, needed in NAMES.items() if all(takes(mechanism, n) for n in needed)
]


@pytest.mark.diagonal
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("mechanism, name", CASES)
def test_equals_the_formula(mechanism, name, dtype):
    assert_as_judged(mechanism, modified_case(mechanism, name, dtype))


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
    assert_as_judged(*drawn)


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
    case = modified_case(mechanism, "lengths", torch.float32)
    case.options |= {"dropout": 0.2, "seed": 4}
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
    # Neighbours are independent: pairs are dropped as often as chance would have it.
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


REFUSED = {
    "window without causal": ({"window": 3}, "window: expected causal=True beside it, got causal=False"),
    "window of nothing": ({"window": 0, "causal": True}, "window: expected 1 or more, got 0"),
    "lengths of floats": ({"key_lengths": torch.tensor([1.0, 2.0])}, "key_lengths dtype: expected int64, got Float"),
    "too many lengths": (
        {"key_lengths": torch.tensor([1, 2, 3])},
        r"key_lengths: expected \[2\], one for each batch entry, got \[3\]",
    ),
    "a length too long": ({"key_lengths": torch.tensor([1, 84])}, r"key_lengths: expected 0 to 83 \(the keys\), got 84"),
    "a negative length": ({"key_lengths": torch.tensor([-1, 8])}, r"key_lengths: expected 0 to 83 \(the keys\), got -1"),
    "packed batch": ({"cu_seqlens": torch.tensor([0, 70])}, "query batch: expected 1 beside cu_seqlens, got 2"),
    "bias of another shape": (
        {"bias": torch.zeros(3, 70, 83)},
        r"bias: expected broadcastable to \[2, 4, 70, 83\], got \[3, 70, 83\]",
    ),
    "bias of another dtype": (
        {"bias": torch.zeros(70, 83, dtype=torch.float64)},
        r"bias dtype: expected Float \(as query\), got Double",
    ),
    "energy_bias without an exponent": (
        {"mechanism": "relu", "energy_bias": torch.zeros(70, 83)},
        r"energy_bias: expected none \(relu has no exponent\), got \[70, 83\]",
    ),
    "bias of a cosine": (
        {"mechanism": "norm", "bias": torch.zeros(70, 83)},
        r"bias: expected none \(the score of norm is a cosine\), got \[70, 83\]",
    ),
    "slopes of other heads": ({"alibi": torch.zeros(3)}, r"alibi: expected \[4\], one slope for each head, got \[3\]"),
    "slopes that learn": (
        {"alibi": torch.zeros(4, requires_grad=True)},
        "alibi: expected slopes that need no gradient, got slopes that need one",
    ),
    "centers without a radius": (
        {"local_centers": torch.zeros(2, 4, 70)},
        r"local_centers: expected local_radius beside them, got \[2, 4, 70\]",
    ),
    "centers of other queries": (
        {"local_centers": torch.zeros(2, 4, 83), "local_radius": 3.0},
        r"local_centers: expected \[2, 4, 70\], got \[2, 4, 83\]",
    ),
    "a radius of nothing": ({"local_radius": 0.0}, "local_radius: expected a number above 0, got 0"),
    "a radius beside a window": (
        {"local_radius": 2.0, "window": 3, "causal": True},
        "local_radius: expected none beside window, got 2",
    ),
    "dropout of everything": ({"dropout": 1.0}, "dropout: expected a probability from 0 to below 1, got 1"),
    "negative dropout": ({"dropout": -0.1}, "dropout: expected a probability from 0 to below 1, got -0.1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_gets_one_line(name):
    options, message = REFUSED[name]
    inputs = random_inputs("softmax", SHAPE)
    with pytest.raises(ValueError, match=f"^attention: {message}$"):
        cogwheel.attention(inputs.query, inputs.key, inputs.value, **options)


@pytest.mark.parametrize(
    "ends, message",
    [
        ([1, 83], "expected 0 first, got 1"),
        ([0, 40, 30, 83], "expected numbers that never fall, got 30 after 40"),
        ([0, 40], r"expected 83 last \(as queries\), got 40"),
        ([0], r"expected \[sequences \+ 1\], at least 2 numbers, got \[1\]"),
    ],
)
def test_bad_sequences_get_one_line(ends, message):
    inputs = random_inputs("softmax", SQUARE)
    with pytest.raises(ValueError, match=f"^attention: cu_seqlens: {message}$"):
        cogwheel.attention(inputs.query, inputs.key, inputs.value, cu_seqlens=torch.tensor(ends))
