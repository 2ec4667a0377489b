"""Attention of a block of queries: output, shift and mass of each row (cogwheel/attention/mechanisms/contract.h).

Every kernel runs twice. 0·NaN is NaN, so that a product carries values that are not finite to rows that do not see them; where a block's
results are not finite it says so in NOT_FINITE, and the second run, APART, makes those blocks again, such values one by one. Of all others it
reads one number.
"""

import triton.language as tl

from cogwheel.device_kernels.lane import is_finite, product, rounded
from cogwheel.device_kernels.tiles import block_of_program, heads_read, load_rows, product_of_seen, store_rows
from cogwheel.device_kernels.visible_keys import blocks_of_keys, ends_of_rows, first_position, length

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)


def add_blocks(
    shift, mass, sums, q, K, V, theta, scale, begin, end, first_key, last_key, keys, k_row, v_row,
    head_dim: tl.constexpr, value_dim: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    WHOLE: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """Shift, mass and weighted sums of values with the keys of these blocks; WHOLE: every row sees all of them."""
    visible = (end - begin).to(tl.float32)
    for first in range(first_key, last_key, KEYS):
        columns = first + tl.arange(0, KEYS)
        k = load_rows(K, columns, keys, k_row, head_dim, D, WHOLE)
        s = product(q, tl.trans(k), tl.zeros([ROWS, KEYS], tl.float32)) * scale
        seen = (columns[None, :] >= begin[:, None]) & (columns[None, :] < end[:, None])
        used = tl.zeros([ROWS], tl.float32)
        if row_map.HAS_ENERGY:
            energies = row_map.energy(s, theta)
            if not WHOLE:
                energies = tl.where(seen, energies, float("-inf"))
            highest = tl.maximum(shift, tl.max(energies, 1))
            factor = tl.where(highest == shift, 1.0, tl.exp(shift - highest))
            shift = highest
            mass = mass * factor
            sums = sums * factor[:, None]
            used = tl.where(shift == float("-inf"), 0.0, shift)
        weights, masses = row_map.terms(s, used[:, None], visible[:, None], theta)
        if not WHOLE:
            weights = tl.where(seen, weights, 0.0)
            masses = tl.where(seen, masses, 0.0)
        mass += tl.sum(masses, 1)
        if APART:
            sums = product_of_seen(weights, seen, V, first, keys, v_row, value_dim, sums, KEYS, DV)
        else:
            v = load_rows(V, columns, keys, v_row, value_dim, DV, WHOLE)
            sums = product(rounded(weights, v.dtype), v, sums)
    return shift, mass, sums


def forward(
    Q, K, V, O, SHIFT, MASS, NOT_FINITE, THETA, LENGTHS, FIRST,
    scale, diagonal, window, heads, value_heads, sub_heads, queries, keys,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head, o_row,
    head_dim: tl.constexpr, value_dim: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    NOT_FINITE += tl.program_id(0)
    if APART:
        if tl.load(NOT_FINITE) == 0:
            return
    of_batch, batch, head, block = block_of_program(heads, queries, ROWS)
    block = tl.cdiv(queries, ROWS) - 1 - block  # rows that see most start first
    key_head, value_head = heads_read(head, heads, value_heads, sub_heads)
    theta = row_map.scalars_of_head(THETA, head)
    rows = block * ROWS + tl.arange(0, ROWS)
    K += batch * k_batch + key_head * k_head
    V += batch * v_batch + value_head * v_head
    there = length(LENGTHS, batch, keys)
    begin, end = ends_of_rows(rows, queries, there, first_position(FIRST, batch, diagonal), window, CAUSAL, WINDOWED)
    q = load_rows(Q + batch * q_batch + head * q_head, rows, queries, q_row, head_dim, D, False)
    shift = tl.full([ROWS], float("-inf"), tl.float32)
    if row_map.HAS_SINK:
        shift = row_map.initial_energy(shift, theta)
    mass = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, DV], tl.float32)

    first, whole, after, last = blocks_of_keys(begin, end, KEYS)
    if WINDOWED:
        shift, mass, sums = add_blocks(
            shift, mass, sums, q, K, V, theta, scale, begin, end, first, whole, keys, k_row, v_row,
            head_dim, value_dim, D, DV, ROWS, KEYS, False, APART,
        )  # fmt: skip
    shift, mass, sums = add_blocks(
        shift, mass, sums, q, K, V, theta, scale, begin, end, whole, after, keys, k_row, v_row,
        head_dim, value_dim, D, DV, ROWS, KEYS, True, APART,
    )  # fmt: skip
    shift, mass, sums = add_blocks(
        shift, mass, sums, q, K, V, theta, scale, begin, end, after, last, keys, k_row, v_row,
        head_dim, value_dim, D, DV, ROWS, KEYS, False, APART,
    )  # fmt: skip

    used = tl.zeros([ROWS], tl.float32)
    if row_map.HAS_ENERGY:
        used = tl.where(shift == float("-inf"), 0.0, shift)
    denominator = row_map.normalizer(mass, used, (end - begin).to(tl.float32), theta)
    output = tl.where(end[:, None] > begin[:, None], sums / denominator[:, None], 0.0)
    store_rows(O + batch * o_batch + head * o_head, output, rows, queries, o_row, value_dim, DV)
    if not APART:
        at = of_batch * queries + rows
        tl.store(SHIFT + at, used, mask=rows < queries)
        tl.store(MASS + at, mass, mask=rows < queries)
        tl.store(NOT_FINITE, 1 - tl.min(is_finite(sums).to(tl.int32)))
