"""Attention of a block of queries: output, shift and mass of each row (cogwheel/attention/mechanisms/contract.h).

A kernel that multiplies tiles of values, keys or queries by numbers of pairs runs twice. 0·NaN is NaN, so that a product carries values that are
not finite to rows that do not see them; where a block's results are not finite it says so in `not_finite`, and the second run, APART, makes those
blocks again, such values one by one. Of all others it reads one number.
"""

from typing import Any, NamedTuple

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.lane import is_finite, product, rounded
from cogwheel.device_kernels.pairwise.arguments import Block, Modifiers, Score, Shape, Visible
from cogwheel.device_kernels.pairwise.modifiers import in_exponent, modified, modifiers_of_head, weighed
from cogwheel.device_kernels.pairwise.scores import load_side, score_of_head, scores
from cogwheel.device_kernels.pairwise.visible_keys import blocks_of_keys, down, rows_of_head, visible_of_head
from cogwheel.device_kernels.tiles import at_head, block_of_program, heads_read, load_rows, product_of_seen, store_rows

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)


class Sums(NamedTuple):
    shift: Any
    mass: Any
    output: Any  # weighted values; None for values that are the identity


def add_blocks(sums, q, key, value, theta, score, modifiers, rows, first_key, last_key, keys, block, WHOLE: tl.constexpr, APART: tl.constexpr):
    """With the keys of these blocks; WHOLE: every row sees all of them, unless biases hide some."""
    ALL: tl.constexpr = WHOLE and modifiers.bias is None and modifiers.energy_bias is None
    pair_rows = down(rows)
    for first in range(first_key, last_key, block.KEYS):
        k = load_side(key, first, keys, block, block.KEYS, WHOLE)
        columns = k.rows[None, :]
        pairs = modified(scores(q, k, score, block), modifiers, pair_rows, columns, row_map.HAS_ENERGY)
        shift = sums.shift
        mass = sums.mass
        values = sums.output
        used = tl.full([block.ROWS], 0, tl.float32)
        if row_map.HAS_ENERGY:
            energies = row_map.energy(pairs.score, theta)
            if pairs.exponent is not None:
                energies += pairs.exponent
            if not ALL:
                energies = tl.where(pairs.seen, energies, float("-inf"))
            highest = tl.maximum(shift, tl.max(energies, 1))
            factor = tl.where(highest == shift, 1.0, tl.exp(shift - highest))
            shift = highest
            mass = mass * factor
            if value is not None:
                values = values * factor[:, None]
            used = tl.where(shift == float("-inf"), 0.0, shift)
        weights, masses = row_map.terms(pairs.score, in_exponent(used[:, None], pairs), pair_rows.visible, theta)
        if not ALL:
            weights = tl.where(pairs.seen, weights, 0.0)
            masses = tl.where(pairs.seen, masses, 0.0)
        mass += tl.sum(masses, 1)
        if value is not None:
            weights = weighed(weights, modifiers, pair_rows, columns)
            if APART:
                values = product_of_seen(weights, pairs.seen, value, first, keys, q.tile, block.value_dim, values, block.KEYS, block.DV)
            else:
                v = load_rows(value, k.rows, keys, block.value_dim, block.DV, WHOLE)
                values = product(rounded(weights, v.dtype), v, values)
        sums = Sums(shift, mass, values)
    return sums


def forward(
    query: Heads, key: Heads, value: Heads, output: Heads, shift, mass, not_finite, theta,
    score: Score, modifiers: Modifiers, visible: Visible, shape: Shape, block: Block, APART: tl.constexpr,
):  # fmt: skip
    """`value` and `output` are None for values that are the identity (weights.py)."""
    if value is not None:
        not_finite += tl.program_id(0)
        if APART:
            if tl.load(not_finite) == 0:
                return
    batch, head, number = block_of_program(shape.heads, shape.queries, block.ROWS)
    number = tl.cdiv(shape.queries, block.ROWS) - 1 - number  # rows that see most start first
    first_row = number * block.ROWS
    key_head, value_head = heads_read(head, shape)
    theta = row_map.scalars_of_head(theta, head)
    score = score_of_head(score, head, block)
    modifiers = modifiers_of_head(modifiers, visible, shape, batch, head)
    q = load_side(at_head(query, batch, head), first_row, shape.queries, block, block.ROWS, False)
    key = at_head(key, batch, key_head)
    rows = rows_of_head(q.rows, visible_of_head(visible, shape, batch, head))
    of_row = tl.full([block.ROWS], float("-inf"), tl.float32)
    if row_map.HAS_SINK:
        of_row = row_map.initial_energy(of_row, theta)
    values = None
    if value is not None:
        value = at_head(value, batch, value_head)
        values = tl.full([block.ROWS, block.DV], 0, tl.float32)
    sums = Sums(of_row, tl.full([block.ROWS], 0, tl.float32), values)

    some, whole, rest, last = blocks_of_keys(rows, block.KEYS)
    if visible.window is not None or visible.ranges is not None:
        sums = add_blocks(sums, q, key, value, theta, score, modifiers, rows, some, whole, shape.keys, block, False, APART)
    sums = add_blocks(sums, q, key, value, theta, score, modifiers, rows, whole, rest, shape.keys, block, True, APART)
    sums = add_blocks(sums, q, key, value, theta, score, modifiers, rows, rest, last, shape.keys, block, False, APART)

    used = tl.full([block.ROWS], 0, tl.float32)
    if row_map.HAS_ENERGY:
        used = tl.where(sums.shift == float("-inf"), 0.0, sums.shift)
    if value is not None:
        denominator = row_map.normalizer(sums.mass, used, rows.visible, theta)
        numbers = tl.where(rows.visible[:, None] > 0, sums.output / denominator[:, None], 0.0)
        store_rows(at_head(output, batch, head), numbers, q.rows, shape.queries, block.value_dim, block.DV)
        if not APART:
            tl.store(not_finite, 1 - tl.min(is_finite(sums.output).to(tl.int32)))
    if not APART:
        at = (batch * shape.heads + head) * shape.queries + q.rows
        tl.store(shift + at, used, mask=q.rows < shape.queries)
        tl.store(mass + at, sums.mass, mask=q.rows < shape.queries)
