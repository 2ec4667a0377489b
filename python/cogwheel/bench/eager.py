"""Attention in plain PyTorch, written in the obvious way: the peer that a fused kernel has to beat."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def scores_of(query: Tensor, key: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Scores [B, H, N, M] and the mask of visible keys [N, M]."""
    visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    if causal:
        visible = visible.tril(key.shape[2] - query.shape[2])
    return query @ key.mT / math.sqrt(query.shape[-1]), visible


def _seen(scores: Tensor, visible: Tensor) -> Tensor:
    """The number of keys that each query sees, in the dtype of the scores."""
    return visible.sum(-1, keepdim=True).to(scores.dtype)


def _softmax(scores: Tensor, visible: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(~visible, -torch.inf), -1)


def _cog(scores: Tensor, visible: Tensor) -> Tensor:
    return torch.sign(scores) * torch.softmax(scores.abs().masked_fill(~visible, -torch.inf), -1)


def _off_by_one(scores: Tensor, visible: Tensor) -> Tensor:
    hidden = scores.masked_fill(~visible, -torch.inf)
    sink = torch.zeros_like(scores[..., :1])
    return torch.softmax(torch.cat([hidden, sink], -1), -1)[..., :-1]


def _over_sum(values: Tensor, sizes: Tensor, visible: Tensor) -> Tensor:
    return values * visible / (sizes * visible).sum(-1, keepdim=True).clamp_min(1e-12)


def _sigmoid(scores: Tensor, visible: Tensor) -> Tensor:
    return torch.sigmoid(scores - _seen(scores, visible).log()) * visible


WEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "softmax": _softmax,
    "cog": _cog,
    "softmax_off_by_one": _off_by_one,
    "linear_abs": lambda s, visible: _over_sum(s, s.abs(), visible),
    "cubic": lambda s, visible: _over_sum(s**3, s.abs() ** 3, visible),
    "relu": lambda s, visible: _over_sum(s.relu(), s.relu(), visible),
    "relu_mean": lambda s, visible: s.relu() * visible / _seen(s, visible),
    "squared_relu": lambda s, visible: s.relu() ** 2 * visible / _seen(s, visible),
    "sigmoid": _sigmoid,
    "centered": lambda s, visible: _softmax(s, visible) - visible / _seen(s, visible),
}


def attention(mechanism: str) -> Callable[..., Tensor] | None:
    """(query, key, value, causal, lam) → output, or None where there is no formula here."""
    if mechanism == "differential":

        def differential(query: Tensor, key: Tensor, value: Tensor, causal: bool, lam: Tensor) -> Tensor:
            weights = _softmax(*scores_of(query, key, causal))
            return (weights[:, ::2] - lam[:, None, None] * weights[:, 1::2]) @ value

        return differential
    if mechanism not in WEIGHTS:
        return None

    def attend(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
        return WEIGHTS[mechanism](*scores_of(query, key, causal)) @ value

    return attend
