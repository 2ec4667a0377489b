"""Attention of a few queries, as in decoding: every program has all rows that read one head of keys, and some of the keys; `merge` puts their
sums together."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.lane import is_finite
from cogwheel.device_kernels.pairwise.arguments import Block, Modifiers, Score, Shape, Visible
from cogwheel.device_kernels.pairwise.forward import Sums, add_blocks
from cogwheel.device_kernels.pairwise.modifiers import modifiers_of_head
from cogwheel.device_kernels.pairwise.scores import Side
from cogwheel.device_kernels.pairwise.visible_keys import blocks_of_keys, rows_of_head, visible_of_head
from cogwheel.device_kernels.tiles import at_head

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)


def decode(
    query: Heads, key: Heads, value: Heads, of_shift, of_mass, of_output, not_finite, theta, keys_of_program,
    score: Score, modifiers: Modifiers, visible: Visible, shape: Shape, block: Block, APART: tl.constexpr,
):  # fmt: skip
    """of_shift, of_mass [parts, B, Hq, N] and of_output [parts, B, Hq, N, Dv] of parts of `keys_of_program` keys, a multiple of KEYS. Scores are
    products."""
    not_finite += tl.program_id(0)
    if APART:
        if tl.load(not_finite) == 0:
            return
    parts = tl.cdiv(shape.keys, keys_of_program)
    part = tl.program_id(0) % parts
    of_batch = (tl.program_id(0) // parts).to(tl.int64)
    key_heads = shape.value_heads * shape.sub_heads
    batch = of_batch // key_heads
    key_head = of_batch % key_heads
    value_head = key_head // shape.sub_heads
    of_value_head = shape.heads // shape.value_heads
    count = of_value_head // shape.sub_heads * shape.queries

    order = tl.arange(0, block.ROWS)
    there = order < count
    row = tl.minimum(order, count - 1)
    head = value_head * of_value_head + key_head % shape.sub_heads + row // shape.queries * shape.sub_heads
    number = row % shape.queries
    rows = rows_of_head(number, visible_of_head(visible, shape, batch, head))
    modifiers = modifiers_of_head(modifiers, visible, shape, batch, head[:, None])
    theta = row_map.scalars_of_head(theta, head[:, None])
    columns = tl.arange(0, block.D)
    at_query = query.data + batch * query.batch + head * query.head + number.to(tl.int64) * query.row
    tile = tl.load(at_query[:, None] + columns[None, :], mask=there[:, None] & (columns[None, :] < block.head_dim), other=0.0)
    q = Side(query, 0, order, count, tile)

    initial = tl.full([block.ROWS, 1], float("-inf"), tl.float32)
    if row_map.HAS_SINK:
        initial = row_map.initial_energy(initial, theta)
    sums = Sums(tl.max(initial, 1), tl.full([block.ROWS], 0, tl.float32), tl.full([block.ROWS, block.DV], 0, tl.float32))
    some, _, _, last = blocks_of_keys(rows, block.KEYS)
    first = tl.maximum(some, part * keys_of_program)
    last = tl.minimum(last, (part + 1) * keys_of_program)
    key = at_head(key, batch, key_head)
    value = at_head(value, batch, value_head)
    sums = add_blocks(sums, q, key, value, theta, score, modifiers, rows, first, last, shape.keys, block, False, APART)

    at = ((part * (tl.num_programs(0) // parts // key_heads).to(tl.int64) + batch) * shape.heads + head) * shape.queries + number
    of_values = tl.arange(0, block.DV)
    places = of_output + at[:, None] * block.value_dim + of_values[None, :]
    tl.store(places, sums.output, mask=there[:, None] & (of_values[None, :] < block.value_dim))
    if not APART:
        tl.store(of_shift + at, sums.shift, mask=there)
        tl.store(of_mass + at, sums.mass, mask=there)
        tl.store(not_finite, 1 - tl.min(is_finite(sums.output).to(tl.int32)))
