"""What the heads of a language model do: patching, attribution and circuits.

A :class:`Prompts` has a right and a wrong answer for each prompt; every measure is of the difference of their logits at
``end``. Whatever takes ``corrupted`` compares with a pass over these tokens, of the same shape and with the names in the same
places. Heads and layers count from 0; what a model does not have is NaN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cogwheel import _bindings
from cogwheel.nn.language_model import LanguageModel


def _operators() -> Any:
    _bindings.classes()
    return torch.ops.cogwheel


@dataclasses.dataclass(frozen=True)
class Prompts:
    """tokens [B, N] int64, filled up at the right; end, answer and foil [B] int64."""

    tokens: Tensor
    end: Tensor
    answer: Tensor
    foil: Tensor

    def _inputs(self, corrupted: Tensor | None = None) -> dict[str, Tensor]:
        inputs = {"tokens": self.tokens, "end": self.end, "answer": self.answer, "foil": self.foil}
        return inputs if corrupted is None else inputs | {"corrupted": corrupted}


@dataclasses.dataclass(frozen=True)
class IoiPrompts:
    """Prompts that name an indirect object: the answer is its name, the foil that of the subject."""

    clean: Prompts
    corrupted: Tensor
    """Tokens with three other names in the places of the names"""
    io_at: Tensor
    """Where the indirect object stands, [B]; the subject stands at ``s1_at`` and ``s2_at``"""
    s1_at: Tensor
    s2_at: Tensor


@dataclasses.dataclass(frozen=True)
class MatrixRank:
    """How many directions a matrix uses."""

    singular_values: Tensor
    """σ₁ ≥ σ₂ ≥ …, float64"""
    numerical: int
    """Those above σ₁ · max(rows, columns) · 2⁻⁵²"""
    effective: float
    """exp(−Σ p log p) of p = σ / Σσ (Roy and Vetterli 2007)"""
    stable: float
    """Σσ² / σ₁²"""
    negative_share: float
    """Share of the entries below 0"""


@dataclasses.dataclass(frozen=True)
class Patching:
    """Mean logit differences: of both passes, and with each value patched, [layers, heads, tokens] float64."""

    clean: float
    corrupted: float
    patched: Tensor

    def restored(self) -> Tensor:
        """(patched - corrupted) / (clean - corrupted): 1 where a value brings the whole answer back."""
        if self.clean == self.corrupted:
            raise ValueError(f"patching: expected prompts whose logit differences the corruption changes, got {self.clean} for both")
        return (self.patched - self.corrupted) / (self.clean - self.corrupted)


@dataclasses.dataclass(frozen=True)
class PathPatching:
    """Mean logit differences: of the clean pass, and with the path from each head patched, [layers, heads] float64."""

    clean: float
    patched: Tensor

    def change(self) -> Tensor:
        """(patched - clean) / clean."""
        if self.clean == 0:
            raise ValueError("path patching: expected a mean logit difference other than 0, got 0")
        return (self.patched - self.clean) / self.clean


@dataclasses.dataclass(frozen=True)
class Score:
    """Mean weights [layers, heads] float64, and means of their magnitudes: signed weights may cancel."""

    weight: Tensor
    magnitude: Tensor


@dataclasses.dataclass(frozen=True)
class HeadScores:
    """Weights on the token before, on the same token of the first half, and on the one after that."""

    previous: Score
    duplicate: Score
    induction: Score


@dataclasses.dataclass(frozen=True)
class CopyingScores:
    """Sum of eigenvalues over the sum of their magnitudes, [layers, heads] float64: 1 copies, -1 deletes.

    ``bare`` is of values and output alone, ``full`` from tokens read to logits written with the gains of norms;
    ``null_deviation`` is how far random matrices of these sizes lie from 0.
    """

    bare: Tensor
    full: Tensor
    null_deviation: float


@dataclasses.dataclass(frozen=True)
class RepresentationDistance:
    """Of y - y': the mean over heads' blocks of components of the largest |y - y'|, and norms for p = 2 and infinity.

    Relative ones are divided by the same norm of y. The release of Cog attention divides ``blocks`` by that of its
    shortest texts.
    """

    blocks: float
    euclidean: float
    relative_euclidean: float
    largest: float
    relative_largest: float


@dataclasses.dataclass(frozen=True)
class OverSquashing:
    """Spectral norms of the last output's derivative by the stream before the first layer at each position, [N] float64.

    ``frozen`` holds the weights of attention fixed, as the theorem does, ``full`` does not. ``bound`` is never below
    ``frozen``. ``path_product`` is the theorem's sum over paths with the mean weights of heads, signs included: with negative
    weights it bounds nothing. ``path_magnitude`` is the same of their magnitudes.
    """

    path_product: Tensor
    path_magnitude: Tensor
    bound: Tensor
    frozen: Tensor
    full: Tensor


def patch_activations(
    model: LanguageModel, clean: Prompts, corrupted: Tensor, name: str = "hook_resid_pre", *, by_token: bool = False
) -> Patching:
    """Puts each value of the clean pass into the corrupted one (Meng et al. 2022, "causal tracing").

    ``name`` is that of an activation in any layer: ``hook_resid_pre``, ``hook_attn_out``, ``hook_mlp_out``,
    ``attn.hook_z``, ``attn.hook_q``, ``attn.hook_k``, ``attn.hook_v``, ``attn.hook_pattern`` and others; those of heads are
    patched head by head. ``by_token`` tells tokens apart (rows, of a pattern). A pass for each, from its layer on.
    """
    return _patching(model, clean, corrupted, name, by_token, False)


def attribute_patches(
    model: LanguageModel, clean: Prompts, corrupted: Tensor, name: str = "hook_resid_pre", *, by_token: bool = False
) -> Patching:
    """:func:`patch_activations` to first order, from one gradient (Nanda 2023)."""
    return _patching(model, clean, corrupted, name, by_token, True)


def _patching(
    model: LanguageModel, clean: Prompts, corrupted: Tensor, name: str, by_token: bool, estimate: bool
) -> Patching:
    found = model._computing().patch_activations(clean._inputs(corrupted), name, by_token, estimate)
    return Patching(found[0].item(), found[1].item(), found[2])


def patch_paths(
    model: LanguageModel,
    clean: Prompts,
    corrupted: Tensor,
    *,
    receivers: Sequence[tuple[str, int]] = (),
    freeze_feed_forward: bool = False,
) -> PathPatching:
    """What each head tells others directly (Wang et al. 2023): its output at ``end`` is that of the corrupted prompt.

    All other attention stays that of the clean pass. Without ``receivers`` the output hears it; else the inputs of heads, as
    ``("blocks.2.hook_q_input", 3)``, and all that follows from them. With ``freeze_feed_forward``, nothing goes through
    feed-forward networks. For a model all of whose layers have heads of attention.
    """
    names, heads = [name for name, _ in receivers], [head for _, head in receivers]
    found = model._computing().patch_paths(clean._inputs(corrupted), names, heads, freeze_feed_forward)
    return PathPatching(found[0].item(), found[1])


def ioi_prompts(count: int, seed: int = 0) -> IoiPrompts:
    """Prompts of the task ``ioi`` (Wang et al. 2023), of pairs of names that its training never shows.

    They are those of ``cogwheel inspect ioi`` for the same count and seed, in the tokens of every run of the task.
    """
    *clean, corrupted, io_at, s1_at, s2_at = _operators().ioi_prompts(count, seed)
    return IoiPrompts(Prompts(*clean), corrupted, io_at, s1_at, s2_at)


def attribute_logits(model: LanguageModel, prompts: Prompts) -> tuple[list[str], Tensor]:
    """How much each part adds to the logit difference: names, and values [parts, B] that sum to it.

    Embeddings, heads (``"L0H1"``), what attention adds besides them, feed-forward networks, and biases; the scale of the
    last norm is that of the pass.
    """
    return model._computing().attribute_logits(prompts._inputs())


def repeated_tokens(vocabulary: int, sequences: int = 32, length: int = 16, seed: int = 0) -> Tensor:
    """Random tokens [sequences, 2 length] whose second half repeats the first."""
    half = torch.randint(vocabulary, (sequences, length), generator=torch.Generator().manual_seed(seed))
    return torch.cat([half, half], 1)


def head_scores(model: LanguageModel, tokens: Tensor) -> HeadScores:
    """Where heads look in repeated tokens (Olsson et al. 2022), as :func:`repeated_tokens` makes them."""
    return HeadScores(*(Score(*score) for score in model._computing().head_scores(tokens)))


def copying_scores(model: LanguageModel) -> CopyingScores:
    """Whether heads copy or delete what they read (Elhage et al. 2021)."""
    bare, full, deviation = model._computing().copying_scores()
    return CopyingScores(bare, full, deviation.item())


def representation_distance(model: LanguageModel, first: Tensor, second: Tensor) -> RepresentationDistance:
    """How far apart two texts are at their last token, tokens [N] each (Barbero et al. 2024, "representational collapse").

    Of the output of the final norm, which the head reads. What is left of a small difference may be less than float32
    can tell: ``model.double()``.
    """
    return RepresentationDistance(*model._computing().representation_distance(first, second))


def over_squashing(model: LanguageModel, tokens: Tensor) -> OverSquashing:
    """How much the output at the last of ``tokens`` [N] depends on each position (Barbero et al. 2024, theorem B.5).

    Of a model in float64 (``model.double()``) with heads of attention in every layer.
    """
    return OverSquashing(*model._computing().over_squashing(tokens))


def matrix_rank(matrix: Tensor) -> MatrixRank:
    """Of [rows, columns], computed in float64. ValueError for another shape, or numbers that are not finite."""
    values, numerical, others = _operators().matrix_rank(matrix)
    return MatrixRank(torch.tensor(values, dtype=torch.float64), numerical, *others)


def score_matrices(query: Tensor, key: Tensor, norm: float = 8.0) -> dict[str, Tensor]:
    """Scores, powers, exponentials and weights of one head, query and key [N, D], by name: [N, N] float64.

    QKᵀ/√D; A = QQᵀ with the largest eigenvalue ``norm``, its powers, exp(A) and exp(A) − I; the exponential of each score;
    softmax and Cog. Those that a causal model would mask also with later keys hidden.
    """
    return dict(zip(*_operators().score_matrices(query, key, norm)))


def head_distances(maps: Tensor) -> Tensor:
    """How unlike heads are: maps [..., H, N, N] → [..., H, H], the mean over later queries of ½ Σ|a − a′|."""
    return _operators().head_distances(maps)
