"""Inputs on which attention can be tested exactly, and the comparison with the reference.

Signed maps jump at a score of 0: rounding that flips the sign of a score near 0 moves an output by far more than an ulp.
So the inputs here lie on a grid on which every score is exact in fp32 and none is 0.
"""

import math
from dataclasses import dataclass, field, replace

import reference
import torch
from torch import Tensor

import cogwheel

# Relative to the largest element, elementwise and in the relative norm.
OUTPUT_TOLERANCE = {torch.float32: 2e-6, torch.float64: 2e-14}
GRADIENT_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-13}


@dataclass(frozen=True)
class Shape:
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    head_dim: int
    value_dim: int

    def __str__(self) -> str:
        return (
            f"B{self.batch}-H{self.heads}:{self.key_heads}-N{self.queries}-M{self.keys}"
            f"-D{self.head_dim}-V{self.value_dim}"
        )


@dataclass
class Inputs:
    query: Tensor
    key: Tensor
    value: Tensor
    output_gradient: Tensor
    scale: float | None  # as passed; None is the default, 1/√D
    parameters: dict[str, Tensor] = field(default_factory=dict)

    @property
    def true_scale(self) -> float:
        return 1 / math.sqrt(self.query.shape[-1]) if self.scale is None else self.scale

    def to(self, dtype: torch.dtype) -> "Inputs":
        return replace(
            self,
            query=self.query.to(dtype),
            key=self.key.to(dtype),
            value=self.value.to(dtype),
            output_gradient=self.output_gradient.to(dtype),
            parameters={name: tensor.to(dtype) for name, tensor in self.parameters.items()},
        )

    def tensors(self) -> dict[str, Tensor]:
        """The tensors with a gradient, by name."""
        return {"query": self.query, "key": self.key, "value": self.value, **self.parameters}


def grid_inputs(mechanism: str, shape: Shape, *, seed: int = 0, largest_score: float = 10.0) -> Inputs:
    """fp32 inputs whose scores are exact odd multiples of a power of two, with largest_score/2 < max|s| ≤ largest_score.

    Query entries are integers. Key entries are even integers but for the first, which is odd, as is the query's first.
    So q·k is odd: an exact integer below 2²⁴, never 0. Powers of two scale it without rounding.
    """
    generator = torch.Generator().manual_seed(seed)
    row = reference.row_of(mechanism)

    def integers(low: int, high: int, *size: int) -> Tensor:
        return torch.randint(low, high + 1, size, generator=generator).to(torch.float32)

    query = integers(-3, 3, shape.batch, row.sub_heads * shape.heads, shape.queries, shape.head_dim)
    key = 2 * integers(-2, 2, shape.batch, row.sub_heads * shape.key_heads, shape.keys, shape.head_dim)
    query[..., 0] = 2 * integers(0, 1, *query.shape[:-1]) - 1
    key[..., 0] = 2 * integers(0, 1, *key.shape[:-1]) - 1

    # The default scale, 1/√D, is itself a power of two where D is one of 4, 16, 64, 256.
    root = math.sqrt(shape.head_dim)
    exact_default = root == 2 ** round(math.log2(root))
    scale = 2.0 ** -round(math.log2(root))
    grouped_key = key.unflatten(1, (shape.key_heads, 1, row.sub_heads))
    grouped_query = query.unflatten(1, (shape.key_heads, shape.heads // shape.key_heads, row.sub_heads))
    largest = scale * (grouped_query @ grouped_key.transpose(-1, -2)).abs().max().item() if shape.keys else 1.0
    query *= 2.0 ** math.floor(math.log2(largest_score / largest))

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator)

    return Inputs(
        query=query,
        key=key,
        value=normal(shape.batch, shape.key_heads, shape.keys, shape.value_dim),
        output_gradient=normal(shape.batch, shape.heads, shape.queries, shape.value_dim),
        scale=None if exact_default else scale,
        parameters={
            # Rounded to fp32 here, so that both precisions see the same number.
            name: draw(generator, shape.heads).to(torch.float32)
            for name, draw in (row.parameters or {}).items()
        },
    )


def random_inputs(mechanism: str, shape: Shape, *, seed: int = 0, spread: float = 1.0) -> Inputs:
    """Normal numbers, off the grid: for properties that hold without a reference."""
    inputs = grid_inputs(mechanism, shape, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    inputs.query = spread * torch.randn(inputs.query.shape, generator=generator)
    inputs.key = torch.randn(inputs.key.shape, generator=generator)
    return inputs


def differentiate(output: Tensor, inputs: Inputs, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    gradients = torch.autograd.grad(output, list(leaves.values()), inputs.output_gradient)
    return {"output": output.detach(), **dict(zip(leaves, gradients))}


def operator_results(mechanism: str, inputs: Inputs, *, causal: bool) -> dict[str, Tensor]:
    """The output and every gradient, by name, from Cogwheel. The strides of the inputs are kept."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in inputs.tensors().items()}
    return differentiate(
        cogwheel.attention(mechanism=mechanism, causal=causal, scale=inputs.scale, **leaves), inputs, leaves
    )


def reference_results(
    mechanism: str, inputs: Inputs, *, causal: bool, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    """The same from the reference, in float64 (the truth) or float32 (the formula in eager PyTorch)."""
    inputs = inputs.to(dtype)
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in inputs.tensors().items()}
    output = reference.attention(
        mechanism,
        leaves["query"],
        leaves["key"],
        leaves["value"],
        scale=inputs.true_scale,
        visible=reference.visible_keys(inputs.query.shape[2], inputs.key.shape[2], causal),
        parameters={name: leaves[name] for name in inputs.parameters},
    )
    return differentiate(output, inputs, leaves)


def largest_error(actual: Tensor, expected: Tensor, floor: float = 0.0) -> float:
    """Largest difference, relative to the largest expected element, or to `floor` where that is larger."""
    if expected.numel() == 0:
        return 0.0
    return ((actual.double() - expected).abs().max() / expected.abs().max().clamp_min(max(floor, 1e-30))).item()


def relative_norm(actual: Tensor, expected: Tensor, floor: float = 0.0) -> float:
    """‖actual − expected‖ / ‖expected‖: sees a small error that is everywhere, as the largest one does not."""
    if expected.numel() == 0:
        return 0.0
    minimum = max(floor, 1e-30) * math.sqrt(expected.numel())
    return ((actual.double() - expected).norm() / expected.norm().clamp_min(minimum)).item()


def cancellation_floors(mechanism: str, inputs: Inputs, visible: Tensor) -> dict[str, float]:
    """A thirtieth of the terms of which a gradient is made, by name.

    ∂L/∂s is a difference, (f′ do·v − g′ do·o)/N, which vanishes where one weight is ±1 (always, for a single key). What
    is then left is the rounding of its terms, so such a gradient is compared with them: 1e-5 of a thirtieth is three
    ulps. The terms of a map that is steep at small scores, such as s/Σ|s|, grow with its steepness.
    The gradient of a key sums one such remainder for each of its queries. "score" is the term itself.
    """
    if inputs.key.numel() == 0 or inputs.query.numel() == 0:
        return {}
    per_key = inputs.output_gradient.double().norm(dim=-1).max() * inputs.value.double().norm(dim=-1).max()
    steepness = reference.steepness(
        mechanism,
        inputs.query.double(),
        inputs.key.double(),
        scale=inputs.true_scale,
        visible=visible,
    )
    term = per_key * steepness / 30
    queries_of_a_key = inputs.query.shape[2] * inputs.query.shape[1] / inputs.key.shape[1]
    if reference.row_of(mechanism).cosine:
        # ∂cos/∂q is at most 1/|q|.
        by_query, by_key = (1 / x.double().norm(dim=-1).min() for x in (inputs.query, inputs.key))
    else:
        by_query = inputs.true_scale * inputs.key.double().abs().max()
        by_key = inputs.true_scale * inputs.query.double().abs().max()
    return {
        "score": term.item(),
        # Signed weights cancel too, over keys in the output and over queries in the gradient of a value.
        "output": inputs.value.double().abs().max().item() / 10,
        "value": inputs.output_gradient.double().abs().max().item() * math.sqrt(queries_of_a_key) / 30,
        "query": (term * by_query).item(),
        "key": (term * by_key).item() * math.sqrt(queries_of_a_key),
        # A sum over queries and batch entries of do·o₂, whose terms are of either sign.
        "lam": per_key.item() / 30 * math.sqrt(inputs.query.shape[0] * inputs.query.shape[2]),
    }


def assert_equal_to_reference(mechanism: str, inputs: Inputs, *, causal: bool, extreme: bool = False) -> None:
    """Output and every gradient agree with float64 to the tolerance of the inputs' dtype.

    Cosines lie on no grid: dividing by lengths rounds the scores themselves. There, and at `extreme` scores, twice the error
    of the same formula in eager PyTorch is allowed too.
    """
    dtype = inputs.query.dtype
    actual = operator_results(mechanism, inputs, causal=causal)
    expected = reference_results(mechanism, inputs, causal=causal)
    visible = reference.visible_keys(inputs.query.shape[2], inputs.key.shape[2], causal)
    floors = cancellation_floors(mechanism, inputs, visible)
    eager = (
        reference_results(mechanism, inputs, causal=causal, dtype=torch.float32)
        if (extreme or reference.row_of(mechanism).cosine) and dtype == torch.float32
        else {}
    )
    for name, tensor in actual.items():
        assert tensor.dtype == dtype and tensor.shape == expected[name].shape, name
        tolerance = (OUTPUT_TOLERANCE if name == "output" else GRADIENT_TOLERANCE)[dtype]
        for measure in (largest_error, relative_norm):
            floor = floors.get(name, 0.0)
            allowed = max(tolerance, 2 * measure(eager[name], expected[name], floor) if eager else 0.0)
            error = measure(tensor, expected[name], floor)
            # Written so that NaN fails.
            assert error <= allowed, f"{mechanism} {name}: {measure.__name__} {error:.2e}, allowed {allowed:.1e}"


def assert_same_bits(actual: torch.Tensor, expected: torch.Tensor, what: str = "") -> None:
    assert torch.equal(actual, expected), f"{what}: {(actual != expected).sum().item()} elements differ"
