"""Modifiers of scores and weights, each for every mechanism and in random combinations: outputs and every gradient
against formulas (modified_attention.py)."""

import pytest
import torch
from attention_cases import Shape, grid_inputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from modified_attention import MECHANISMS, SHAPE, SQUARE, Case, assert_equal_to_formula, even_bias, takes
from torch import Tensor


def drawn_ranges(generator: torch.Generator, batch: int, heads: int, queries: int, keys: int) -> Tensor:
    """Ends in any order, some of them equal: rows that see nothing."""
    return torch.randint(0, keys + 1, (batch, heads, queries, 2), generator=generator).sort(-1).values


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
        "softcap": lambda: Case(inputs, True, {"softcap": 2.5}),
        "window": lambda: Case(inputs, True, {"window": 9}),
        "window of one": lambda: Case(inputs, True, {"window": 1}),
        "lengths": lambda: Case(inputs, False, {"key_lengths": lengths}),
        "causal lengths": lambda: Case(inputs, True, {"key_lengths": torch.tensor([0, 60])}),
        "window and lengths": lambda: Case(inputs, True, {"key_lengths": lengths, "window": 20}),
        "packed": lambda: Case(inputs, False, {"cu_seqlens": packed}),
        "packed causal": lambda: Case(inputs, True, {"cu_seqlens": packed.long()}),
        "packed window": lambda: Case(inputs, True, {"cu_seqlens": packed, "window": 7}),
        "ranges": lambda: Case(inputs, False, {"ranges": drawn_ranges(generator, batch, heads, queries, keys)}),
        "ranges of entries": lambda: Case(
            inputs, False, {"ranges": drawn_ranges(generator, batch, 1, queries, keys), "dropout": 0.2, "seed": 3}
        ),
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
        "local-m of steps": lambda: Case(
            inputs, False, {"local_radius": 6, "first_positions": torch.tensor([11, 60]), "key_lengths": lengths}
        ),
        "local-m causal of steps": lambda: Case(inputs, True, {"local_radius": 6, "first_positions": torch.tensor([-3, 13])}),
        "positions": lambda: Case(
            inputs, True, {"first_positions": torch.tensor([-3, 40]), "window": 30, "alibi": slopes}
        ),
        "positions of alibi": lambda: Case(inputs, False, {"first_positions": torch.tensor([2, 60]), "alibi": slopes}),
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
                "softcap": 4.0,
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
    "softcap": ("softcap",),
    "window": (),
    "window of one": (),
    "lengths": (),
    "causal lengths": (),
    "window and lengths": (),
    "packed": (),
    "packed causal": (),
    "packed window": (),
    "ranges": (),
    "ranges of entries": (),
    "bias": ("bias",),
    "bias of heads": ("bias",),
    "bias of rows": ("bias",),
    "bias that hides": ("bias",),
    "energy_bias": ("energy_bias",),
    "energy_bias of heads": ("energy_bias",),
    "alibi": ("alibi",),
    "local-m": (),
    "local-m causal": (),
    "local-m of steps": (),
    "local-m causal of steps": (),
    "positions": ("alibi",),
    "positions of alibi": ("alibi",),
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
