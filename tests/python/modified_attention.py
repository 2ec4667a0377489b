"""Modifiers of scores and weights (windows, lengths, packed sequences, biases, ALiBi, local attention, dropout), by
formulas written out here: the reference of the tests of modifiers."""

from dataclasses import dataclass, field
from typing import Any

import numpy
import reference
import torch
from attention_cases import (
    GRADIENT_TOLERANCE,
    OUTPUT_TOLERANCE,
    Inputs,
    Shape,
    cancellation_floors,
    differentiate,
    largest_error,
    relative_norm,
)
from torch import Tensor

import cogwheel

MECHANISMS = sorted(reference.TABLE)
ENERGY_MAPS = ("softmax", "cog", "softmax_off_by_one", "differential", "differential_cog", "centered")
SHAPE = Shape(2, 4, 2, 70, 83, 16, 24)
SQUARE = Shape(1, 4, 2, 83, 83, 16, 24)


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


def standing(case: Case, diagonal: int) -> Tensor:
    """The position of each query, [B or 1, 1, N, 1]: i + diagonal unless the options say otherwise."""
    i = torch.arange(case.sizes[0])[:, None]
    first = case.options.get("first_positions", torch.tensor([diagonal]))
    return i + first[:, None, None, None]


def visible_keys(case: Case) -> Tensor:
    """[B or 1, H or 1, N, M]."""
    queries, keys = case.sizes
    j = torch.arange(keys)[None, :]
    options = case.options
    stands = standing(case, keys - queries)
    visible = j <= stands if case.causal else torch.ones(1, 1, queries, keys, dtype=torch.bool)
    if "window" in options:
        visible = visible & (j > stands - options["window"])
    if "key_lengths" in options:
        visible = visible & (j < options["key_lengths"][:, None, None, None])
    if "cu_seqlens" in options:
        sequence = (torch.arange(queries)[:, None] >= options["cu_seqlens"][1:]).sum(-1)
        visible = visible & (sequence[:, None] == sequence[None, :])
    if "local_radius" in options:
        own = standing(case, keys - queries if case.causal else 0).squeeze(-1)
        centers = options.get("local_centers", own)
        visible = visible & ((j - centers[..., None].double()).abs() <= options["local_radius"])
    if "ranges" in options:
        visible = visible & (j >= options["ranges"][..., :1]) & (j < options["ranges"][..., 1:])
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


def reference_weights(mechanism: str, case: Case, leaves: dict[str, Tensor]) -> Tensor:
    row, options = reference.TABLE[mechanism], case.options
    queries, keys = case.sizes
    dtype = leaves["query"].dtype
    scores = reference.sub_head_scores(mechanism, leaves["query"], leaves["key"], scale=case.inputs.true_scale)
    visible = visible_keys(case)
    j = torch.arange(keys)[None, :]

    def finite(name: str) -> Tensor:
        bias = leaves.get(name, options[name]).to(dtype)
        return torch.where(bias == -torch.inf, 0.0, bias)

    exponent = torch.zeros((), dtype=dtype)
    if "softcap" in options:
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    if "bias" in options:
        scores = scores + finite("bias").expand(scores.shape[0], scores.shape[2], queries, keys)[:, None]
    if "energy_bias" in options:
        exponent = exponent + finite("energy_bias").expand(scores.shape[0], scores.shape[2], queries, keys)[:, None]
    if "alibi" in options:
        decay = -options["alibi"].to(dtype)[:, None, None] * (standing(case, keys - queries) - j).abs()
        decay = decay[:, None]  # of all sub-heads
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


def reference_results(mechanism: str, case: Case, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    inputs = case.inputs.to(dtype)
    tensors = {**inputs.tensors(), **{name: case.options[name].to(dtype) for name in case.differentiable}}
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in tensors.items()}
    weights = reference_weights(mechanism, case, leaves)
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


def assert_equal_to_formula(mechanism: str, case: Case) -> None:
    dtype = case.inputs.query.dtype
    actual, expected = actual_results(mechanism, case), reference_results(mechanism, case)
    floors = cancellation_floors(mechanism, case.inputs, visible_keys(case)[:, None])
    term = floors.get("score", 0.0)
    floors |= {"bias": term, "energy_bias": term, "local_centers": term}
    # Cosines, decays with distance and capped scores do not lie on the grid: twice the error of eager PyTorch is allowed too.
    rounded = reference.TABLE[mechanism].cosine or not {"alibi", "softcap"}.isdisjoint(case.options)
    eager = reference_results(mechanism, case, torch.float32) if rounded and dtype == torch.float32 else {}
    for name, tensor in actual.items():
        tolerance = (OUTPUT_TOLERANCE if name == "output" else GRADIENT_TOLERANCE)[dtype]
        assert tensor.dtype == dtype and tensor.shape == expected[name].shape, name
        floor = floors.get(name, 0.0)
        for measure in (largest_error, relative_norm):
            allowed = max(tolerance, 2 * measure(eager[name], expected[name], floor) if eager else 0.0)
            error = measure(tensor, expected[name], floor)
            assert error <= allowed, f"{mechanism} {name}: {measure.__name__} {error:.2e}, allowed {allowed:.1e}"


def takes(mechanism: str, name: str) -> bool:
    if name in ("bias", "alibi", "softcap"):
        return not reference.TABLE[mechanism].cosine
    return name != "energy_bias" or mechanism in ENERGY_MAPS
