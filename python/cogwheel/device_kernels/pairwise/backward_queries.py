"""Gradients of queries, and of what has a number for each pair or row: scalars, biases, centers, the weight of additive scores. Blocks of queries
have one owner, which adds in the order of the keys, so that a number has the same bits from run to run. As in forward.py, what is not finite is
added APART, in a second run."""

from typing import Any, NamedTuple

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.lane import in_dtype_of, is_finite, product
from cogwheel.device_kernels.pairwise.arguments import Block, Modifiers, Score, Shape, Visible
from cogwheel.device_kernels.pairwise.modifiers import from_center, in_exponent, modified, modifiers_of_head, weighed
from cogwheel.device_kernels.pairwise.scores import add_derivative, add_derivative_of_weight, load_side, score_of_head, scores
from cogwheel.device_kernels.pairwise.visible_keys import blocks_of_keys, down, rows_of_head, visible_of_head
from cogwheel.device_kernels.tiles import at_head, block_of_program, heads_read, load_pairs, load_rows, store_rows

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)


class OfRows(NamedTuple):
    """Numbers of a block of rows that the loops read."""

    shift: Any
    inverse: Any
    of_mass: Any


class OfPairs(NamedTuple):
    """Where gradients by pairs go, at the first row of a head: [N, M]."""

    bias: Any
    energy_bias: Any


class Sums(NamedTuple):
    queries: Any  # 1/scale of their gradients
    scalars: Any  # [ROWS, scalars], without 1/N
    centers: Any
    weight: Any  # 1/scale of the gradient of an additive score's


def add_blocks(
    sums, q, do, key, value, gradient, of_rows, of_pairs, theta, score, modifiers, rows, first_key, last_key, keys, block,
    WHOLE: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    ALL: tl.constexpr = WHOLE and modifiers.bias is None and modifiers.energy_bias is None
    pair_rows = down(rows)
    in_rows = (q.rows < q.count)[:, None]
    each_scalar = tl.arange(0, row_map.PADDED_PARAMETERS)
    for first in range(first_key, last_key, block.KEYS):
        k = load_side(key, first, keys, block, block.KEYS, WHOLE)
        columns = k.rows[None, :]
        pairs = modified(scores(q, k, score, block), modifiers, pair_rows, columns, row_map.HAS_ENERGY)
        in_terms = in_exponent(of_rows.shift[:, None], pairs)
        f, g, f_by_score, g_by_score = row_map.terms_with_derivatives(pairs.score, in_terms, pair_rows.visible, theta)
        if value is not None:
            v = load_rows(value, k.rows, keys, block.value_dim, block.DV, WHOLE)
            of_weights = product(do, tl.trans(v), tl.full([block.ROWS, block.KEYS], 0, tl.float32))
        else:
            of_weights = load_pairs(gradient, pair_rows.numbers, columns, pairs.seen)
        of_weights = weighed(of_weights, modifiers, pair_rows, columns)
        of_mass = of_rows.of_mass[:, None]
        inverse = of_rows.inverse[:, None]
        ds = (f_by_score * of_weights - of_mass * g_by_score) * inverse
        if not ALL:
            ds = tl.where(pairs.seen, ds, 0.0)
        if not APART:
            at = q.rows[:, None].to(tl.int64) * keys + columns
            if of_pairs.bias is not None:
                tl.store(of_pairs.bias + at, ds, mask=pairs.seen & in_rows)
            if of_pairs.energy_bias is not None:
                tl.store(of_pairs.energy_bias + at, (f * of_weights - of_mass * g) * inverse, mask=pairs.seen & in_rows)
        if modifiers.softcap is not None:
            ds = tl.where(pairs.seen, ds * (1.0 - pairs.tanh * pairs.tanh), 0.0)
        of_queries = add_derivative(sums.queries, ds, q, k, score, pairs.seen, block, APART)
        of_scalars = sums.scalars
        of_centers = sums.centers
        of_weight = sums.weight
        if not APART:
            if row_map.PARAMETERS > 0:
                along = row_map.parameter_derivatives(pairs.score, in_terms, pair_rows.visible, theta)
                for p in tl.static_range(row_map.PARAMETERS):
                    of_scalar = along[2 * p] * of_weights - of_mass * along[2 * p + 1]
                    if not ALL:
                        of_scalar = tl.where(pairs.seen, of_scalar, 0.0)
                    of_scalars += tl.where(each_scalar[None, :] == p, tl.sum(of_scalar, 1)[:, None], 0.0)
            if modifiers.centers is not None:
                away = from_center(modifiers, pair_rows, columns) * modifiers.precision
                of_centers += tl.sum(tl.where(pairs.seen, f * of_weights * inverse * away, 0.0), 1)
            if score.weight is not None:
                of_weight = add_derivative_of_weight(of_weight, tl.where(in_rows, ds, 0.0), q, k, pairs.seen & in_rows, block)
        sums = Sums(of_queries, of_scalars, of_centers, of_weight)
    return sums


def backward_queries(
    query: Heads, key: Heads, value: Heads, gradient: Heads, shift, inverse, of_mass, of_scalars, not_finite, theta,
    of_query: Heads, of_bias, of_energy_bias, of_centers, of_weight,
    score: Score, modifiers: Modifiers, visible: Visible, shape: Shape, block: Block, APART: tl.constexpr,
):  # fmt: skip
    """of_bias, of_energy_bias [B, Hq, N, M] and of_centers [B, Hq, N], where not None; of_weight [programs, D] where scores are additive."""
    not_finite += tl.program_id(0)
    if APART:
        if tl.load(not_finite) == 0:
            return
    batch, head, number = block_of_program(shape.heads, shape.queries, block.ROWS)
    number = tl.cdiv(shape.queries, block.ROWS) - 1 - number
    first_row = number * block.ROWS
    key_head, value_head = heads_read(head, shape)
    theta = row_map.scalars_of_head(theta, head)
    score = score_of_head(score, head, block)
    modifiers = modifiers_of_head(modifiers, visible, shape, batch, head)
    q = load_side(at_head(query, batch, head), first_row, shape.queries, block, block.ROWS, False)
    in_rows = q.rows < shape.queries
    key = at_head(key, batch, key_head)
    gradient = at_head(gradient, batch, head)
    do = None
    if value is not None:
        value = at_head(value, batch, value_head)
        do = in_dtype_of(load_rows(gradient, q.rows, shape.queries, block.value_dim, block.DV, False), q.tile)
    rows = rows_of_head(q.rows, visible_of_head(visible, shape, batch, head))
    of_head = (batch * shape.heads + head) * shape.queries
    at = of_head + q.rows
    of_rows = OfRows(
        tl.load(shift + at, mask=in_rows, other=0.0), tl.load(inverse + at, mask=in_rows, other=0.0), tl.load(of_mass + at, mask=in_rows, other=0.0)
    )
    if of_bias is not None:
        of_bias += of_head * shape.keys
    if of_energy_bias is not None:
        of_energy_bias += of_head * shape.keys
    of_pairs = OfPairs(of_bias, of_energy_bias)
    sums = Sums(
        tl.full([block.ROWS, block.D], 0, tl.float32), tl.full([block.ROWS, row_map.PADDED_PARAMETERS], 0, tl.float32),
        tl.full([block.ROWS], 0, tl.float32), tl.full([block.D], 0, tl.float32),
    )  # fmt: skip

    some, whole, rest, last = blocks_of_keys(rows, block.KEYS)
    if visible.window is not None or visible.ranges is not None:
        sums = add_blocks(
            sums, q, do, key, value, gradient, of_rows, of_pairs, theta, score, modifiers, rows, some, whole, shape.keys, block, False, APART
        )
    sums = add_blocks(
        sums, q, do, key, value, gradient, of_rows, of_pairs, theta, score, modifiers, rows, whole, rest, shape.keys, block, True, APART
    )
    sums = add_blocks(
        sums, q, do, key, value, gradient, of_rows, of_pairs, theta, score, modifiers, rows, rest, last, shape.keys, block, False, APART
    )
    store_rows(at_head(of_query, batch, head), sums.queries * score.scale, q.rows, shape.queries, block.head_dim, block.D)
    if not APART:
        tl.store(not_finite, 1 - tl.min(is_finite(sums.queries).to(tl.int32)))
        each_scalar = tl.arange(0, row_map.PADDED_PARAMETERS)
        for p in tl.static_range(row_map.PARAMETERS):
            of_scalar = tl.sum(tl.where(each_scalar[None, :] == p, sums.scalars, 0.0), 1)
            place = of_scalars + at * row_map.PARAMETERS + p
            tl.store(place, tl.load(place, mask=in_rows, other=0.0) + of_scalar * of_rows.inverse, mask=in_rows)
        if of_centers is not None:
            tl.store(of_centers + at, sums.centers, mask=in_rows)
        if of_weight is not None:
            columns = tl.arange(0, block.D)
            places = of_weight + tl.program_id(0).to(tl.int64) * block.head_dim + columns
            tl.store(places, sums.weight * score.scale, mask=columns < block.head_dim)
