"""`bench alignment`: steps of a decoder that look at an encoded source, against the same in eager PyTorch.

What belongs to a step counts, forward and backward: the projection of the decoder's states where an alignment has one,
scores, weights and contexts, and the gradients of all of these, of keys and of encoder states too. The keys of a source
are projected once for all steps, on both sides, and are not counted.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

import cogwheel
from cogwheel.bench.eager import WEIGHTS
from cogwheel.bench.timing import Timing, take_turns

# Bahdanau's score and Luong's concat are the same work, additive.
SCORES = ("additive", "dot", "general")
WINDOWS = ("", "local_m", "local_p")
# Graves' window has no score and no row map.
WINDOW = "window"
ALIGNMENTS = [f"{score}_{window}".rstrip("_") for score in SCORES for window in WINDOWS] + [WINDOW]
DEFAULT = ["additive", "dot", "general", WINDOW]


@dataclass(frozen=True)
class Case:
    """`steps` of the decoder at once, `batch` sources of up to `source` tokens, states of `width` on both sides."""

    steps: int
    batch: int = 64
    source: int = 30
    width: int = 512
    radius: float = 10.0  # D of local alignments
    curves: int = 10  # of Graves' window


def inputs(alignment: str, case: Case) -> dict[str, Tensor]:
    """Every tensor with a gradient, by name."""
    generator = torch.Generator().manual_seed(0)

    def normal(*size: int, deviation: float = 1.0) -> Tensor:
        return deviation * torch.randn(size, generator=generator)

    fan = case.width**-0.5
    if alignment == WINDOW:
        size = case.batch, case.steps, case.curves
        tensors = {name: normal(*size).exp() for name in ("alpha", "beta")}
        tensors["kappa"] = case.source * torch.rand(*size, generator=generator)
        return tensors | {"encoded": normal(case.batch, case.source, case.width, deviation=fan)}
    tensors = {
        "states": normal(case.batch, case.steps, case.width),
        "encoded": normal(case.batch, case.source, case.width, deviation=fan),
    }
    if not alignment.startswith("dot"):
        tensors["key"] = normal(case.batch, case.source, case.width, deviation=fan)
    if alignment.startswith("additive"):
        tensors["query_weight"] = normal(case.width, case.width, deviation=fan)
        tensors["score_weight"] = normal(case.width, deviation=fan)
    if alignment.endswith("local_p"):
        tensors["position_weight"] = normal(case.width, case.width, deviation=fan)
        tensors["position_score"] = normal(case.width, deviation=fan)
    return tensors


def source_lengths(case: Case) -> Tensor:
    """[B], from two thirds of the longest on: a batch of sources that were sorted by length roughly."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(max(1, 2 * case.source // 3), case.source + 1, (case.batch,), generator=generator)


def predicted(states: Tensor, lengths: Tensor, weight: Tensor, score: Tensor) -> Tensor:
    """p of local-p, [B, T]."""
    return lengths[:, None] * torch.sigmoid(torch.tanh(F.linear(states, weight)) @ score)


def eager_window(alpha: Tensor, beta: Tensor, kappa: Tensor, encoded: Tensor, lengths: Tensor) -> Tensor:
    places = torch.arange(1.0, encoded.shape[1] + 1, dtype=encoded.dtype)
    curves = alpha[..., None] * torch.exp(-beta[..., None] * (kappa[..., None] - places) ** 2)
    return torch.where(places <= lengths[:, None, None], curves.sum(2), 0.0) @ encoded


def cogwheel_side(alignment: str, mechanism: str, case: Case) -> Callable[..., Tensor]:
    lengths = source_lengths(case)
    if alignment == WINDOW:
        return lambda alpha, beta, kappa, encoded: cogwheel.soft_window(alpha, beta, kappa, encoded, lengths)[0]
    sizes = lengths.float()

    def attend(
        states: Tensor,
        encoded: Tensor,
        key: Tensor | None = None,
        query_weight: Tensor | None = None,
        score_weight: Tensor | None = None,
        position_weight: Tensor | None = None,
        position_score: Tensor | None = None,
    ) -> Tensor:
        more = {}
        if alignment.startswith("additive"):
            more |= {"score": "additive", "score_weight": score_weight[None]}
        if "local" in alignment:
            more["local_radius"] = case.radius
        if position_score is not None:
            more["local_centers"] = predicted(states, sizes, position_weight, position_score)[:, None]
        query = states if query_weight is None else F.linear(states, query_weight)
        keys = encoded if key is None else key
        return cogwheel.attention(
            query[:, None], keys[:, None], encoded[:, None], mechanism, scale=1.0, key_lengths=lengths, **more
        )[:, 0]

    return attend


def eager_side(alignment: str, mechanism: str, case: Case) -> Callable[..., Tensor]:
    lengths = source_lengths(case)
    if alignment == WINDOW:
        return lambda **tensors: eager_window(**tensors, lengths=lengths)
    sizes = lengths.float()
    place, step = torch.arange(case.source), torch.arange(case.steps)[:, None]
    present = place < lengths[:, None, None]  # [B, 1, S]
    if alignment.endswith("local_m"):
        present = present & ((place - step).abs() <= case.radius)
    weigh = WEIGHTS[mechanism]

    def attend(
        states: Tensor,
        encoded: Tensor,
        key: Tensor | None = None,
        query_weight: Tensor | None = None,
        score_weight: Tensor | None = None,
        position_weight: Tensor | None = None,
        position_score: Tensor | None = None,
    ) -> Tensor:
        query = states if query_weight is None else F.linear(states, query_weight)
        keys = encoded if key is None else key
        if score_weight is None:
            scores = query @ keys.mT
        else:
            scores = torch.tanh(query[:, :, None] + keys[:, None]) @ score_weight
        if position_score is None:
            return weigh(scores, present) @ encoded
        distance = place - predicted(states, sizes, position_weight, position_score)[..., None]
        weights = weigh(scores, present & (distance.abs() <= case.radius))
        return (weights * torch.exp(-(distance**2) / (2 * (case.radius / 2) ** 2))) @ encoded

    return attend


def job(attend: Callable[..., Tensor], tensors: dict[str, Tensor]) -> Callable[[], object]:
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}
    with torch.no_grad():
        gradient = torch.randn_like(attend(**tensors))
    return lambda: torch.autograd.grad(attend(**leaves), list(leaves.values()), gradient)


def measure(alignments: list[str], mechanisms: list[str], case: Case, *, seconds: float) -> dict[str, tuple[Timing, Timing]]:
    """Times of Cogwheel and of eager PyTorch, by name, all taking turns."""
    jobs = {}
    for alignment in alignments:
        tensors = inputs(alignment, case)
        for mechanism in ["softmax"] if alignment == WINDOW else mechanisms:
            name = alignment if mechanism == "softmax" else f"{alignment}_{mechanism}"
            jobs[name, "cogwheel"] = job(cogwheel_side(alignment, mechanism, case), tensors)
            jobs[name, "eager"] = job(eager_side(alignment, mechanism, case), tensors)
    timings = take_turns(jobs, seconds=seconds, min_turns=20)
    return {name: (timings[name, "cogwheel"], timings[name, "eager"]) for name, side in jobs if side == "cogwheel"}
