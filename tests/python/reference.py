"""The judge: every mechanism as a dense formula in plain PyTorch, written from its paper.

Nothing here may be derived from the C++ headers: a formula that both shared would pass while wrong. The functions work
in the dtype of their arguments, so that the same formula gives the truth (float64) and eager fp32 for comparison.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
    the sum, as in the authors' efficient form; autograd says nothing true about the slope there.
    """
    sign = torch.sign(scores).detach()
    exponents = torch.where(visible, sign * scores, -torch.inf)
    largest = exponents.detach().amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = torch.exp(exponents - largest)
    return sign * powers / powers.sum(-1, keepdim=True).where(visible.any(-1, keepdim=True), torch.ones((), dtype=scores.dtype))


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


def differential_weights(scores: Tensor, visible: Tensor, parameters: dict[str, Tensor]) -> Tensor:
    """softmax(Q₁K₁ᵀ/√d) − λ softmax(Q₂K₂ᵀ/√d), Ye et al. (2024), eq. 1; λ is [H] or broadcasts to [B, H, N]."""
    lam = parameters["lam"]
    lam = lam[:, None, None] if lam.dim() == 1 else lam[..., None]
    return softmax_weights(scores[:, 0], visible) - lam * softmax_weights(scores[:, 1], visible)


def _draw_lam(generator: torch.Generator, heads: int) -> Tensor:
    return 0.2 + 0.6 * torch.rand(heads, generator=generator, dtype=torch.float64)


TABLE: dict[str, Row] = {
    "softmax": Row(
        weights=lambda scores, visible, _: softmax_weights(scores[:, 0], visible),
        row_sum=lambda _: torch.ones(()),
    ),
    "cog": Row(
        weights=lambda scores, visible, _: cog_weights(scores[:, 0], visible),
        row_sum=None,
    ),
    "differential": Row(
        weights=differential_weights,
        row_sum=lambda parameters: 1 - parameters["lam"][:, None],
        sub_heads=2,
        parameters={"lam": _draw_lam},
    ),
}


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
    row = TABLE[mechanism]
    batch, query_heads, queries, _ = query.shape
    heads, key_heads = query_heads // row.sub_heads, key.shape[1] // row.sub_heads
    scores = torch.stack(
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
    assert scores.shape == (batch, row.sub_heads, heads, queries, key.shape[2])
    return row.weights(scores, visible, parameters)


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
