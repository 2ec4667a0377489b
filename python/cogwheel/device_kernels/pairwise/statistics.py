"""Statistics of the weights of each row (cogwheel/attention/kernels/pairwise/row_statistics.h), of a row map or of a mixture of its sub-heads. Two
passes over the keys: powers of differences need the mean."""

from typing import Any, NamedTuple

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.pairwise.arguments import Block, Modifiers, Score, Shape, Visible
from cogwheel.device_kernels.pairwise.modifiers import in_exponent, modified, modifiers_of_head, weighed
from cogwheel.device_kernels.pairwise.scores import Side, load_side, score_of_head, scores
from cogwheel.device_kernels.pairwise.visible_keys import blocks_of_keys, down, rows_of_head, visible_of_head
from cogwheel.device_kernels.tiles import at_head, block_of_program, heads_read

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)

ROUNDING = tl.constexpr(8 * 2.0**-23)  # no more of the largest weight is a difference


class Member(NamedTuple):
    """A query head's part in the weights: `times` f/N."""

    q: Side
    key: Heads
    theta: Any
    score: Score
    shift: Any
    denominator: Any
    times: Any


class Tile(NamedTuple):
    weights: Any  # 0 where not seen
    terms: Any  # of the first member, before the normaliser
    seen: Any
    columns: Any


class Sums(NamedTuple):
    terms: Any  # |.| of them
    signed: Any
    absolute: Any
    below: Any  # |.| of the negative ones
    entropy: Any
    largest: Any
    where: Any
    sink: Any
    positive: Any
    negative: Any


def member(query, key, shift, mass, theta, score, rows, first_row, shape, batch, head, times, block):
    q = load_side(at_head(query, batch, head), first_row, shape.queries, block, block.ROWS, False)
    at = (batch * shape.heads + head) * shape.queries + q.rows
    in_rows = q.rows < shape.queries
    of_row = tl.load(shift + at, mask=in_rows, other=0.0)
    of_keys = tl.load(mass + at, mask=in_rows, other=1.0)
    scalars = row_map.scalars_of_head(theta, head)
    denominator = row_map.normalizer(of_keys, of_row, rows.visible, scalars)
    head_of_keys = at_head(key, batch, heads_read(head, shape)[0])
    return Member(q, head_of_keys, scalars, score_of_head(score, head, block), of_row, denominator, times)


def weights_of_keys(member, modifiers, rows, first, shape, block):
    """Of the keys [first, first + KEYS), before modifiers."""
    pair_rows = down(rows)
    k = load_side(member.key, first, shape.keys, block, block.KEYS, False)
    columns = k.rows[None, :]
    pairs = modified(scores(member.q, k, member.score, block), modifiers, pair_rows, columns, row_map.HAS_ENERGY)
    terms = row_map.terms(pairs.score, in_exponent(member.shift[:, None], pairs), pair_rows.visible, member.theta)[0]
    return Tile(terms / member.denominator[:, None] * member.times[:, None], terms, pairs.seen, columns)


def weights_of_members(one, other, modifiers, rows, first, shape, block, MINUS_MEAN: tl.constexpr):
    tile = weights_of_keys(one, modifiers, rows, first, shape, block)
    weights = tile.weights
    if MINUS_MEAN:
        weights -= (1.0 / rows.visible)[:, None]
    if other is not None:
        weights += weights_of_keys(other, modifiers, rows, first, shape, block).weights
    weights = tl.where(tile.seen, weighed(weights, modifiers, down(rows), tile.columns), 0.0)
    terms = tl.where(tile.seen, weighed(tile.terms, modifiers, down(rows), tile.columns), 0.0)
    return Tile(weights, terms, tile.seen, tile.columns)


def statistics(
    query: Heads, key: Heads, shift, mass, coefficient, found, theta,
    score: Score, modifiers: Modifiers, visible: Visible, shape: Shape, block: Block,
    MINUS_MEAN: tl.constexpr, OF_MIXTURE: tl.constexpr, ARGMAX: tl.constexpr,
):  # fmt: skip
    """found [12, B, H, N]. `coefficient` [B, H, N]: the weights are those of the first sub-head plus so many times those of the second.
    MINUS_MEAN: minus what each key would have if all had the same. OF_MIXTURE: of mixtures, which count their own weights."""
    step = 2 if coefficient is not None else 1
    heads = shape.heads // step
    batch, own_head, number = block_of_program(heads, shape.queries, block.ROWS)
    head = own_head * step
    first_row = number * block.ROWS
    order = first_row + tl.arange(0, block.ROWS)
    in_rows = order < shape.queries
    modifiers = modifiers_of_head(modifiers, visible, shape, batch, head)
    rows = rows_of_head(order, visible_of_head(visible, shape, batch, head))
    at = (batch * heads + own_head) * shape.queries + order
    once = tl.full([block.ROWS], 1.0, tl.float32)
    one = member(query, key, shift, mass, theta, score, rows, first_row, shape, batch, head, once, block)
    other = None
    if coefficient is not None:
        times = tl.load(coefficient + at, mask=in_rows, other=0.0)
        other = member(query, key, shift, mass, theta, score, rows, first_row, shape, batch, head + 1, times, block)

    some, _, _, last = blocks_of_keys(rows, block.KEYS)
    zero = tl.full([block.ROWS], 0, tl.float32)
    sums = Sums(zero, zero, zero, zero, zero, zero, tl.full([block.ROWS], -1, tl.int32), zero, zero, zero)
    for first in range(some, last, block.KEYS):
        tile = weights_of_members(one, other, modifiers, rows, first, shape, block, MINUS_MEAN)
        weights = tile.weights
        sizes = tl.abs(weights)
        largest = tl.max(sizes, 1)
        sums = Sums(
            sums.terms + tl.sum(tl.abs(tile.terms), 1),
            sums.signed + tl.sum(weights, 1),
            sums.absolute + tl.sum(sizes, 1),
            sums.below + tl.sum(tl.where(weights < 0, sizes, 0.0), 1),
            sums.entropy + tl.sum(tl.where(sizes > 0, sizes * tl.log(tl.where(sizes > 0, sizes, 1.0)), 0.0), 1),
            tl.maximum(sums.largest, largest),
            tl.where(largest > sums.largest, first + tl.argmax(sizes, 1), sums.where),
            sums.sink + tl.sum(tl.where(tile.columns == 0, weights, 0.0), 1),
            sums.positive + tl.sum((weights > 0).to(tl.float32), 1),
            sums.negative + tl.sum((weights < 0).to(tl.float32), 1),
        )

    keys = tl.maximum(rows.visible, 1.0)
    mean = sums.signed / keys
    unit = tl.where(sums.largest > 0, sums.largest, 1.0)
    squares = zero
    fourths = zero
    for first in range(some, last, block.KEYS):
        tile = weights_of_members(one, other, modifiers, rows, first, shape, block, MINUS_MEAN)
        away = tl.where(tile.seen, (tile.weights - mean[:, None]) / unit[:, None], 0.0)
        squares += tl.sum(away * away, 1)
        fourths += tl.sum(away * away * away * away, 1)
    variance = squares / keys
    kurtosis = tl.where(variance > ROUNDING * ROUNDING, fourths / keys / (variance * variance), float("nan"))

    nothing = sums.absolute == 0
    some_weight = tl.where(nothing, 1.0, sums.absolute)
    log_mass = tl.log(sums.absolute if OF_MIXTURE else sums.terms)
    if not OF_MIXTURE:
        log_mass += one.shift
    between = tl.num_programs(0) // tl.cdiv(shape.queries, block.ROWS) * shape.queries.to(tl.int64)  # one statistic and the next
    place = found + at
    tl.store(place, tl.where(nothing, float("-inf"), log_mass), mask=in_rows)
    tl.store(place + between, sums.signed, mask=in_rows)
    tl.store(place + between * 2, sums.absolute, mask=in_rows)
    tl.store(place + between * 3, sums.below, mask=in_rows)
    tl.store(place + between * 4, tl.where(nothing, 0.0, tl.log(some_weight) - sums.entropy / some_weight), mask=in_rows)
    tl.store(place + between * 5, sums.sink, mask=in_rows)
    tl.store(place + between * 6, sums.largest, mask=in_rows)
    tl.store(place + between * 7, rows.visible, mask=in_rows)
    tl.store(place + between * 8, sums.positive / keys, mask=in_rows)
    tl.store(place + between * 9, sums.negative / keys, mask=in_rows)
    tl.store(place + between * 10, kurtosis, mask=in_rows)
    if ARGMAX:
        tl.store(place + between * 11, sums.where.to(tl.float32), mask=in_rows)
