"""Modifiers of scores and weights (cogwheel/attention/kernels/pairwise/modifiers.h), for blocks of pairs: rows and keys come in shapes that
broadcast to these, whichever comes first."""

from typing import Any, NamedTuple

import triton.language as tl

from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.lane import tanh
from cogwheel.device_kernels.pairwise.arguments import Pairs
from cogwheel.device_kernels.pairwise.visible_keys import is_seen, position


class Head(NamedTuple):
    """`Modifiers` of one batch entry and head of the output. What is None is not there."""

    softcap: Any
    bias: Pairs
    energy_bias: Pairs
    slope: Any
    first: Any  # the key that the first query stands at
    centers: Any  # [N]
    precision: Any
    seed: Any
    dropout_head: Any  # counted through the batch
    dropout_query: Any  # the number of the first query
    kept_below: Any
    kept_factor: Any


class Modified(NamedTuple):
    score: Any  # that row maps take
    tanh: Any  # of the soft cap
    exponent: Any  # that is added to an energy
    seen: Any


@jit
def pairs_at(pairs, batch, head):
    moved = None
    if pairs is not None:
        moved = Pairs(pairs.data + batch * pairs.batch + head * pairs.head, pairs.batch, pairs.head, pairs.row, pairs.key)
    return moved


@jit
def modifiers_of_head(modifiers, visible, shape, batch, head):
    """`head` is one of the queries."""
    head = head // shape.sub_heads
    heads = shape.heads // shape.sub_heads
    slope = None
    first = None
    if modifiers.slopes is not None:
        slope = tl.load(modifiers.slopes + head)
        first = modifiers.diagonal
        if visible.first_positions is not None:
            first = position(visible.first_positions + batch)
    centers = None
    if modifiers.centers is not None:
        centers = modifiers.centers + (batch * heads + head) * shape.queries
    seed = None
    dropout_head = None
    dropout_query = None
    if modifiers.kept_below is not None:
        seed = modifiers.seed_number
        if modifiers.seed is not None:
            seed = tl.load(modifiers.seed)
        seed = seed.to(tl.int64)
        dropout_head = head + batch * heads
        dropout_query = head * 0
        if modifiers.part is not None:
            dropout_query = tl.load(modifiers.part + 1)
            of_entry = tl.load(modifiers.part + 3)
            dropout_head = head + tl.load(modifiers.part + 2) + batch * tl.where(of_entry > 0, of_entry, heads)
    return Head(
        modifiers.softcap, pairs_at(modifiers.bias, batch, head), pairs_at(modifiers.energy_bias, batch, head), slope, first, centers,
        modifiers.precision, seed, dropout_head, dropout_query, modifiers.kept_below, modifiers.kept_factor,
    )  # fmt: skip


@jit
def load_bias(pairs, rows, columns, seen):
    """−∞, which hides a key, where it is not seen."""
    return tl.load(pairs.data + rows.numbers.to(tl.int64) * pairs.row + columns.to(tl.int64) * pairs.key, mask=seen, other=float("-inf"))


@jit
def seen_with_biases(modifiers, rows, columns):
    seen = is_seen(rows, columns)
    if modifiers.bias is not None:
        seen = seen & (load_bias(modifiers.bias, rows, columns, seen) != float("-inf"))
    if modifiers.energy_bias is not None:
        seen = seen & (load_bias(modifiers.energy_bias, rows, columns, seen) != float("-inf"))
    return seen


@jit
def modified(score, modifiers, rows, columns, HAS_ENERGY: tl.constexpr):
    """HAS_ENERGY: the row map has an exponent, to which ALiBi's decay is added, and not to the score."""
    seen = is_seen(rows, columns)
    tanh_of_score = None
    exponent = None
    if modifiers.softcap is not None:
        tanh_of_score = tanh(score / modifiers.softcap)
        score = tanh_of_score * modifiers.softcap
    if modifiers.slope is not None:
        decay = -modifiers.slope * tl.abs(modifiers.first + rows.numbers - columns).to(tl.float32)
        if HAS_ENERGY:
            exponent = decay
        else:
            score += decay
    if modifiers.bias is not None:
        bias = load_bias(modifiers.bias, rows, columns, seen)
        seen = seen & (bias != float("-inf"))
        score += tl.where(seen, bias, 0.0)
    if modifiers.energy_bias is not None:
        bias = load_bias(modifiers.energy_bias, rows, columns, seen)
        seen = seen & (bias != float("-inf"))
        bias = tl.where(seen, bias, 0.0)
        exponent = bias if exponent is None else exponent + bias
    return Modified(score, tanh_of_score, exponent, seen)


@jit
def in_exponent(shift, pairs):
    """What terms subtract from the energy of each pair; `shift` is broadcast to pairs."""
    if pairs.exponent is not None:
        shift = shift - pairs.exponent
    return shift


@jit
def from_center(modifiers, rows, columns):
    return columns.to(tl.float32) - tl.load(modifiers.centers + rows.numbers)


@jit
def weighed(x, modifiers, rows, columns):
    """x times the factors of weights: Gaussians, and 0 or 1/(1 − dropout), drawn as in cogwheel/attention/kernels/pairwise/dropout.h."""
    if modifiers.centers is not None:
        away = from_center(modifiers, rows, columns)
        x = x * tl.exp(away * away * (-0.5 * modifiers.precision))
    if modifiers.kept_below is not None:
        counter = columns // 64 * 16 + columns % 16 + rows.numbers * 0
        query = (modifiers.dropout_query + rows.numbers).to(tl.uint32) + columns.to(tl.uint32) * 0
        head = modifiers.dropout_head.to(tl.uint32) + query * 0
        words = tl.philox(modifiers.seed, counter.to(tl.uint32), query, head, query * 0)
        number = columns % 64 // 16
        word = tl.where(number < 2, tl.where(number == 0, words[0], words[1]), tl.where(number == 2, words[2], words[3]))
        x = x * tl.where(word.to(tl.int64) < modifiers.kept_below, modifiers.kept_factor, 0.0)  # 0·NaN is NaN
    return x
