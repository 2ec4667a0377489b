"""Gradients of keys and values. Blocks of keys have one owner, which adds in the order of the queries; what is not finite is added APART, in a
second run (forward.py)."""

from typing import Any, NamedTuple

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.lane import in_dtype_of, is_finite, product, rounded
from cogwheel.device_kernels.pairwise.arguments import Block, Modifiers, Score, Shape, Visible
from cogwheel.device_kernels.pairwise.modifiers import in_exponent, modified, modifiers_of_head, weighed
from cogwheel.device_kernels.pairwise.scores import add_derivative, load_side, score_of_head, scores
from cogwheel.device_kernels.pairwise.visible_keys import across, blocks_of_rows, rows_of_head, visible_of_head
from cogwheel.device_kernels.tiles import at_head, block_of_program, heads_read, load_pairs, load_rows, product_of_seen, store_rows

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)


class Sums(NamedTuple):
    of_keys: Any  # 1/scale of their gradients
    of_values: Any


def add_blocks(
    sums, k, v, query, gradient, shift, inverse, of_mass, theta, score, modifiers, visible, first_row, last_row, queries, block,
    OF_KEYS: tl.constexpr, OF_VALUES: tl.constexpr, WHOLE: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """With the queries of these blocks; WHOLE: each row up to the last sees all keys of the block, unless biases hide some."""
    ALL: tl.constexpr = WHOLE and modifiers.bias is None and modifiers.energy_bias is None
    columns = k.rows[:, None]
    for first in range(first_row, last_row, block.ROWS):
        q = load_side(query, first, queries, block, block.ROWS, False)
        in_rows = q.rows < queries
        rows = across(rows_of_head(q.rows, visible))
        pairs = modified(scores(k, q, score, block), modifiers, rows, columns, row_map.HAS_ENERGY)
        seen = in_rows[None, :]
        if not ALL:
            seen = seen & pairs.seen
        inverse_of_row = tl.load(inverse + q.rows, mask=in_rows, other=0.0)[None, :]
        in_terms = in_exponent(tl.load(shift + q.rows, mask=in_rows, other=0.0)[None, :], pairs)
        f, _, f_by_score, g_by_score = row_map.terms_with_derivatives(pairs.score, in_terms, rows.visible, theta)
        of_keys = sums.of_keys
        of_values = sums.of_values
        if v is not None:
            do = in_dtype_of(load_rows(gradient, q.rows, queries, block.value_dim, block.DV, False), v)
        if OF_VALUES:
            weights = tl.where(seen, weighed(f * inverse_of_row, modifiers, rows, columns), 0.0)
            if APART:
                of_values = product_of_seen(weights, pairs.seen & seen, gradient, first, queries, v, block.value_dim, of_values, block.ROWS, block.DV)
            else:
                of_values = product(rounded(weights, do.dtype), do, of_values)
        if OF_KEYS:
            if v is not None:
                of_weights = product(v, tl.trans(do), tl.full([block.KEYS, block.ROWS], 0, tl.float32))
            else:
                of_weights = load_pairs(gradient, rows.numbers, columns, pairs.seen & seen)
            of_weights = weighed(of_weights, modifiers, rows, columns)
            of_mass_of_row = tl.load(of_mass + q.rows, mask=in_rows, other=0.0)[None, :]
            ds = tl.where(seen, (f_by_score * of_weights - of_mass_of_row * g_by_score) * inverse_of_row, 0.0)
            if modifiers.softcap is not None:
                ds = tl.where(seen, ds * (1.0 - pairs.tanh * pairs.tanh), 0.0)
            of_keys = add_derivative(of_keys, ds, k, q, score, pairs.seen & seen, block, APART)
        sums = Sums(of_keys, of_values)
    return sums


def backward_keys(
    query: Heads, key: Heads, value: Heads, gradient: Heads, shift, inverse, of_mass, not_finite, theta, of_key: Heads, of_value: Heads,
    score: Score, modifiers: Modifiers, visible: Visible, shape: Shape, block: Block,
    OF_KEYS: tl.constexpr, OF_VALUES: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """Of a head of keys (OF_KEYS), of values, or of both where they are as many: over the query heads that read it."""
    not_finite += tl.program_id(0)
    if APART:
        if tl.load(not_finite) == 0:
            return
    own_heads = shape.value_heads * shape.sub_heads if OF_KEYS else shape.value_heads
    batch, own_head, number = block_of_program(own_heads, shape.keys, block.KEYS)
    value_head = own_head // shape.sub_heads if OF_KEYS else own_head
    of_value_head = shape.heads // shape.value_heads
    first_head = value_head * of_value_head + (own_head % shape.sub_heads if OF_KEYS else 0)
    first_key = number * block.KEYS
    columns = first_key + tl.arange(0, block.KEYS)
    v = None
    if value is not None:
        v = load_rows(at_head(value, batch, value_head), columns, shape.keys, block.value_dim, block.DV, False)
    sums = Sums(tl.full([block.KEYS, block.D], 0, tl.float32), tl.full([block.KEYS, block.DV], 0, tl.float32))
    for head in range(first_head, (value_head + 1) * of_value_head, shape.sub_heads if OF_KEYS else 1):
        of_head = visible_of_head(visible, shape, batch, head)
        some, all, rest, last = blocks_of_rows(first_key, of_head, block.ROWS, block.KEYS)
        scalars = row_map.scalars_of_head(theta, head)
        weight = score_of_head(score, head, block)
        changed = modifiers_of_head(modifiers, visible, shape, batch, head)
        k = load_side(at_head(key, batch, heads_read(head, shape)[0]), first_key, shape.keys, block, block.KEYS, False)
        q = at_head(query, batch, head)
        do = at_head(gradient, batch, head)
        at = (batch * shape.heads + head) * shape.queries
        sums = add_blocks(
            sums, k, v, q, do, shift + at, inverse + at, of_mass + at, scalars, weight, changed, of_head, some, all, shape.queries, block,
            OF_KEYS, OF_VALUES, False, APART,
        )  # fmt: skip
        sums = add_blocks(
            sums, k, v, q, do, shift + at, inverse + at, of_mass + at, scalars, weight, changed, of_head, all, rest, shape.queries, block,
            OF_KEYS, OF_VALUES, True, APART,
        )  # fmt: skip
        if visible.window is not None:
            sums = add_blocks(
                sums, k, v, q, do, shift + at, inverse + at, of_mass + at, scalars, weight, changed, of_head, rest, last, shape.queries, block,
                OF_KEYS, OF_VALUES, False, APART,
            )  # fmt: skip
    if not APART:
        tl.store(not_finite, 1 - tl.minimum(tl.min(is_finite(sums.of_keys).to(tl.int32)), tl.min(is_finite(sums.of_values).to(tl.int32))))
    if OF_KEYS:
        store_rows(at_head(of_key, batch, own_head), sums.of_keys * score.scale, columns, shape.keys, block.head_dim, block.D)
    if OF_VALUES:
        store_rows(at_head(of_value, batch, value_head), sums.of_values, columns, shape.keys, block.value_dim, block.DV)
