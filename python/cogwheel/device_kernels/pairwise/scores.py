"""Scores of blocks of pairs: scale times a product, or an additive score (cogwheel/ops/pairwise/scores.h), and what their derivatives bring to
one side of the pairs."""

from typing import Any, NamedTuple

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.lane import product, rounded, tanh
from cogwheel.device_kernels.pairwise.arguments import Score
from cogwheel.device_kernels.tiles import load_rows, product_of_seen


class Side(NamedTuple):
    """A block of queries or keys."""

    head: Heads
    first: Any
    rows: Any
    count: Any
    tile: Any


@jit
def score_of_head(score, head, block):
    weight = None
    if score.weight is not None:
        weight = score.weight + head * block.head_dim
    return Score(score.scale, weight)


@jit
def load_side(head, first, count, block, SIZE: tl.constexpr, WHOLE: tl.constexpr):
    rows = first + tl.arange(0, SIZE)
    return Side(head, first, rows, count, load_rows(head, rows, count, block.head_dim, block.D, WHOLE))


@jit
def tanh_of_sums(a, b, d):
    """tanh(a_d + b_d) of each pair."""
    of_a = tl.load(a.head.data + a.rows.to(tl.int64) * a.head.row + d, mask=a.rows < a.count, other=0.0).to(tl.float32)
    of_b = tl.load(b.head.data + b.rows.to(tl.int64) * b.head.row + d, mask=b.rows < b.count, other=0.0).to(tl.float32)
    return tanh(of_a[:, None] + of_b[None, :])


@jit
def scores(a, b, score, block):
    """Of pairs of the rows of two sides, before modifiers."""
    s = tl.full([a.rows.shape[0], b.rows.shape[0]], 0, tl.float32)
    if score.weight is None:
        s = product(a.tile, tl.trans(b.tile), s)
    else:
        for d in range(0, block.head_dim):
            s += tl.load(score.weight + d) * tanh_of_sums(a, b, d)
    return s * score.scale


@jit
def add_derivative(of_a, ds, a, b, score, seen, block, APART: tl.constexpr):
    """of_a [a, D] + the gradient of side a, divided by the scale, from the derivative by each score, which is 0 where not seen. A row of b that
    is not finite reaches only what sees it where the score is additive, and APART."""
    if score.weight is None:
        if APART:
            of_a = product_of_seen(ds, seen, b.head, b.first, b.count, b.tile, block.head_dim, of_a, b.rows.shape[0], block.D)
        else:
            of_a = product(rounded(ds, b.tile.dtype), b.tile, of_a)
    else:
        columns = tl.arange(0, block.D)
        for d in range(0, block.head_dim):
            t = tanh_of_sums(a, b, d)
            part = tl.sum(tl.where(seen, ds * (1.0 - t * t), 0.0), 1) * tl.load(score.weight + d)
            of_a += tl.where(columns[None, :] == d, part[:, None], 0.0)
    return of_a


@jit
def add_derivative_of_weight(of_weight, ds, a, b, seen, block):
    """of_weight [D] + the gradient of an additive score's weight, divided by the scale."""
    columns = tl.arange(0, block.D)
    for d in range(0, block.head_dim):
        part = tl.sum(tl.where(seen, ds * tanh_of_sums(a, b, d), 0.0))
        of_weight += tl.where(columns == d, part, 0.0)
    return of_weight
