"""The reference: every mechanism as a dense formula in plain PyTorch, written from its paper.

Nothing here may be derived from the C++ headers: a formula that both shared would pass while wrong. The functions work
in the dtype of their arguments, so that the same formula gives the truth (float64) and eager fp32 for comparison.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor


def visible_keys(queries: int, keys: int, causal: bool) -> Tensor:
    """[queries, keys], True where the query sees the key; causal aligns the last query with the last key."""
    query, key = torch.arange(queries)[:, None], torch.arange(keys)[None, :]
    return key <= query + keys - queries if causal else torch.ones(queries, keys, dtype=torch.bool)


def softmax_weights(scores: Tensor, visible: Tensor) -> Tensor:
    """a_ij = exp(p_ij − m_i) / Σ_k exp(p_ik − m_i), m_i = max_k p_ik; k over the visible keys.

    Vaswani et al. (2017), eq. 1. The maximum is a constant: the result does not depend on it.
    """
    exponents = torch.where(visible, scores, -torch.inf)
    largest = exponents.detach().amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = torch.exp(exponents - largest)
    return powers / powers.sum(-1, keepdim=True).where(visible.any(-1, keepdim=True), torch.ones((), dtype=scores.dtype))


def cog_weights(scores: Tensor, visible: Tensor) -> Tensor:
    """a_ij = SignExp(p_ij) / Σ_k |SignExp(p_ik)|, SignExp(p) = s·exp(s·p − m̂_i), s = sign(p), m̂_i = max_k |p_ik|.

    Lv et al. (2024), eq. 3. The sign is a constant for the gradient. At p = 0 the numerator is 0 while exp(−m̂) stays in
    the sum, as in the authors' efficient form; autograd's derivative there is not the convention of the kernels.
    """
    sign = torch.sign(scores).detach()
    exponents = torch.where(visible, sign * scores, -torch.inf)
    largest = exponents.detach().amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = torch.exp(exponents - largest)
    return sign * powers / powers.sum(-1, keepdim=True).where(visible.any(-1, keepdim=True), torch.ones((), dtype=scores.dtype))


def off_by_one_weights(scores: Tensor, visible: Tensor, sink: Tensor) -> Tensor:
    """a_ij = exp(p_ij) / (exp(sink) + Σ_k exp(p_ik)), Miller (2023) with sink = 0; sink [H]."""
    sink = sink[:, None, None]
    exponents = torch.where(visible, scores, -torch.inf)
    largest = torch.maximum(exponents.detach().amax(-1, keepdim=True), sink.detach())
    powers = torch.exp(exponents - largest)
    return powers / (torch.exp(sink - largest) + powers.sum(-1, keepdim=True))


def over_sum(terms: Tensor, magnitudes: Tensor, visible: Tensor) -> Tensor:
    """terms / Σ_k magnitudes over the visible keys; 0 where the sum is 0."""
    total = torch.where(visible, magnitudes, 0.0).sum(-1, keepdim=True)
    return torch.where(visible, terms, 0.0) / torch.where(total > 0, total, 1.0)


def visible_count(visible: Tensor, scores: Tensor) -> Tensor:
    return visible.sum(-1, keepdim=True).clamp_min(1).to(scores.dtype)


def sigmoid_weights(scores: Tensor, visible: Tensor, shift: Tensor | None) -> Tensor:
    """σ(p_ij + b), Ramapuram et al. (2024); b is −log n unless given, [H]."""
    offset = -torch.log(visible_count(visible, scores)) if shift is None else shift[:, None, None]
    return torch.where(visible, torch.sigmoid(scores + offset), 0.0)


def consmax_weights(scores: Tensor, visible: Tensor, beta: Tensor, gamma: Tensor) -> Tensor:
    """exp(p_ij − β)/γ, Liu et al. (2024); β and γ [H]."""
    return torch.where(visible, torch.exp(scores - beta[:, None, None]), 0.0) / gamma[:, None, None]


@dataclass(frozen=True)
class Row:
    """One row of the test table."""

    # weights(scores of each sub-head, visible, parameters): [B, sub_heads, H, N, M] → [B, H, N, M]
    weights: Callable[[Tensor, Tensor, dict[str, Tensor]], Tensor]
    # The sum of a row of weights from the parameters, broadcastable to [B, H, N], where it is fixed; None where not.
    row_sum: Callable[[dict[str, Tensor]], Tensor] | None
    sub_heads: int = 1
    # Parameters by name: draw(generator, heads) → float64
    parameters: dict[str, Callable[[torch.Generator, int], Tensor]] | None = None
    # |f′(s)|/N of every visible score, where it can exceed 1: how steeply weights rise.
    steepness: Callable[[Tensor, Tensor], Tensor] | None = None
    # The scores are cosines of queries and keys, without a scale.
    cosine: bool = False
    # False where weights do not depend on scores, so that a NaN in a query or key reaches nothing.
    reads_scores: bool = True
    # The largest |score| that its documented range allows in fp32.
    largest_score: float = math.inf


def differential(row: Row) -> Row:
    """A₁ − λ A₂ over the weights A of any map: Ye et al. (2024), eq. 1, where the map is softmax.

    λ is [H] or broadcasts to [B, H, N]. Scalars of the map are [2H]: each sub-head, adjacent ones of a head, has its own.
    """

    def weights(scores: Tensor, visible: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        lam = parameters["lam"]
        lam = lam[:, None, None] if lam.dim() == 1 else lam[..., None]
        first, second = (
            row.weights(
                scores[:, part : part + 1],
                visible,
                {name: None if scalars is None else scalars[part::2] for name, scalars in parameters.items() if name != "lam"},
            )
            for part in range(2)
        )
        return first - lam * second

    def for_sub_heads(draw: Callable[[torch.Generator, int], Tensor]) -> Callable[[torch.Generator, int], Tensor]:
        return lambda generator, heads: draw(generator, 2 * heads)

    return replace(
        row,
        weights=weights,
        row_sum=row.row_sum and (lambda parameters: row.row_sum(parameters) * (1 - parameters["lam"][:, None])),
        sub_heads=2,
        parameters={
            **{name: for_sub_heads(draw) for name, draw in (row.parameters or {}).items()},
            "lam": _draw_lam,
        },
    )


def centered(row: Row) -> Row:
    """A − 1/n over the n visible keys: Ali et al. (2023), where the map is softmax; in its causal form n is the row."""
    return replace(
        row,
        weights=lambda scores, visible, parameters: row.weights(scores, visible, parameters)
        - torch.where(visible, 1 / visible_count(visible, scores), 0.0),
        row_sum=row.row_sum and (lambda parameters: row.row_sum(parameters) - 1),
    )


def _draw_lam(generator: torch.Generator, heads: int) -> Tensor:
    return 0.2 + 0.6 * torch.rand(heads, generator=generator, dtype=torch.float64)


def _normal(mean: float, spread: float) -> Callable[[torch.Generator, int], Tensor]:
    return lambda generator, heads: mean + spread * torch.randn(heads, generator=generator, dtype=torch.float64)


def _positive_part(scores: Tensor) -> Tensor:
    return scores.clamp_min(0.0)


TABLE: dict[str, Row] = {
    "softmax": Row(
        weights=lambda scores, visible, _: softmax_weights(scores[:, 0], visible),
        row_sum=lambda _: torch.ones(()),
    ),
    "cog": Row(
        weights=lambda scores, visible, _: cog_weights(scores[:, 0], visible),
        row_sum=None,
    ),
    "softmax_off_by_one": Row(
        weights=lambda scores, visible, parameters: off_by_one_weights(scores[:, 0], visible, parameters["sink"]),
        row_sum=None,
        parameters={"sink": _normal(0.0, 2.0)},
    ),
    "linear_abs": Row(
        weights=lambda scores, visible, _: over_sum(scores[:, 0], scores[:, 0].abs(), visible),
        row_sum=None,
        steepness=lambda scores, visible: over_sum(torch.ones_like(scores), scores.abs(), visible),
    ),
    "cubic": Row(
        weights=lambda scores, visible, _: over_sum(scores[:, 0] ** 3, scores[:, 0].abs() ** 3, visible),
        row_sum=None,
        steepness=lambda scores, visible: over_sum(3 * scores**2, scores.abs() ** 3, visible),
    ),
    "relu": Row(
        weights=lambda scores, visible, _: over_sum(
            _positive_part(scores[:, 0]), _positive_part(scores[:, 0]), visible
        ),
        row_sum=None,
        steepness=lambda scores, visible: over_sum((scores > 0).to(scores.dtype), _positive_part(scores), visible),
    ),
    "relu_mean": Row(
        weights=lambda scores, visible, _: torch.where(visible, _positive_part(scores[:, 0]), 0.0)
        / visible_count(visible, scores),
        row_sum=None,
    ),
    "squared_relu": Row(
        weights=lambda scores, visible, _: torch.where(visible, _positive_part(scores[:, 0]) ** 2, 0.0)
        / visible_count(visible, scores),
        row_sum=None,
    ),
    "sigmoid": Row(
        weights=lambda scores, visible, parameters: sigmoid_weights(scores[:, 0], visible, parameters["shift"]),
        row_sum=None,
        parameters={"shift": _normal(-2.0, 1.0)},
    ),
    "consmax": Row(
        weights=lambda scores, visible, parameters: consmax_weights(
            scores[:, 0], visible, parameters["beta"], parameters["gamma"]
        ),
        row_sum=None,
        parameters={"beta": _normal(2.5, 0.5), "gamma": _normal(100.0, 10.0)},
        largest_score=80.0,
    ),
    "norm": Row(
        weights=lambda scores, visible, _: over_sum(1 + scores[:, 0], 1 + scores[:, 0], visible),
        row_sum=lambda _: torch.ones(()),
        cosine=True,
        steepness=lambda scores, visible: over_sum(torch.ones_like(scores), 1 + scores, visible),
    ),
    "uniform": Row(
        weights=lambda scores, visible, _: over_sum(
            0 * scores[:, 0] + 1, torch.ones_like(scores[:, 0]), visible
        ),
        row_sum=lambda _: torch.ones(()),
        reads_scores=False,
    ),
}

# Every form over every map that reads its scores; over softmax a form goes by its own name.
COMPOSED: dict[str, Row] = {
    form.__name__ if name == "softmax" else f"{form.__name__}_{name}": form(row)
    for form in (centered, differential)
    for name, row in TABLE.items()
    if row.reads_scores
}
# Forms treat every map alike, so a few stand for all where each costs seconds; one test runs every composition.
TABLE |= {name: COMPOSED[name] for name in ("centered", "differential", "differential_cog", "differential_sigmoid")}


def row_of(mechanism: str) -> Row:
    return TABLE[mechanism] if mechanism in TABLE else COMPOSED[mechanism]


def sub_head_scores(mechanism: str, query: Tensor, key: Tensor, *, scale: float) -> Tensor:
    """[B, c, H, N, M] from query [B, cH, N, D] and key [B, cHk, M, D], where c is the mechanism's number of sub-heads."""
    row = row_of(mechanism)
    if row.cosine:
        query, key = (x / x.norm(dim=-1, keepdim=True) for x in (query, key))
        scale = 1.0
    heads, key_heads = query.shape[1] // row.sub_heads, key.shape[1] // row.sub_heads
    return torch.stack(
        [
            torch.stack(
                [
                    # Head h is served by key head ⌊h·Hk/H⌋; sub-heads of a head are adjacent.
                    scale
                    * query[:, head * row.sub_heads + part]
                    @ key[:, head * key_heads // heads * row.sub_heads + part].transpose(-1, -2)
                    for head in range(heads)
                ],
                dim=1,
            )
            for part in range(row.sub_heads)
        ],
        dim=1,
    )


def steepness(mechanism: str, query: Tensor, key: Tensor, *, scale: float, visible: Tensor) -> float:
    """The largest |f′(s)|/N of a visible score, at least 1."""
    size_of_derivative = row_of(mechanism).steepness
    if size_of_derivative is None or query.numel() == 0 or key.numel() == 0:
        return 1.0
    return max(1.0, size_of_derivative(sub_head_scores(mechanism, query, key, scale=scale), visible).max().item())


def weights(
    mechanism: str,
    query: Tensor,
    key: Tensor,
    *,
    scale: float,
    visible: Tensor,
    parameters: dict[str, Tensor],
) -> Tensor:
    """[B, H, N, M] from query [B, cH, N, D] and key [B, cHk, M, D], where c is the mechanism's number of sub-heads."""
    return row_of(mechanism).weights(sub_head_scores(mechanism, query, key, scale=scale), visible, parameters)


def attention(
    mechanism: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    visible: Tensor,
    parameters: dict[str, Tensor],
) -> Tensor:
    """[B, H, N, Dv]."""
    a = weights(mechanism, query, key, scale=scale, visible=visible, parameters=parameters)
    heads, value_heads = a.shape[1], value.shape[1]
    return torch.stack([a[:, head] @ value[:, head * value_heads // heads] for head in range(heads)], dim=1)
