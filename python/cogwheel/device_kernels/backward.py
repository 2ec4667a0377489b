"""Gradients of attention. First what every key of a row has in common, then gradients of queries and scalars by blocks of queries, and of
keys and values by blocks of keys. Each number has one owner, which adds in the order of the other side, so that it has the same bits from run to
run. As in forward.py, what is not finite is added APART, in a second run."""

import triton.language as tl

from cogwheel.device_kernels.lane import in_dtype_of, is_finite, product, rounded
from cogwheel.device_kernels.tiles import block_of_program, heads_read, load_rows, product_of_seen, store_rows
from cogwheel.device_kernels.visible_keys import blocks_of_keys, blocks_of_rows, ends_of_rows, first_position, length

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)


def backward_rows(
    O, DO, SHIFT, MASS, THETA, LENGTHS, FIRST, INVERSE, OF_MASS, OF_SCALARS,
    diagonal, window, heads, queries, keys, o_batch, o_head, o_row, do_batch, do_head, do_row,
    value_dim: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, DV: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """1/N and (do·o) N′ of each row, and −(do·o) N_θ/N for each scalar: [scalars, B, Hq, N]."""
    of_batch, batch, head, block = block_of_program(heads, queries, ROWS)
    rows = block * ROWS + tl.arange(0, ROWS)
    in_rows = rows < queries
    o = load_rows(O + batch * o_batch + head * o_head, rows, queries, o_row, value_dim, DV, False).to(tl.float32)
    do = load_rows(DO + batch * do_batch + head * do_head, rows, queries, do_row, value_dim, DV, False).to(tl.float32)
    along_output = tl.sum(o * do, 1)
    there = length(LENGTHS, batch, keys)
    begin, end = ends_of_rows(rows, queries, there, first_position(FIRST, batch, diagonal), window, CAUSAL, WINDOWED)
    at = of_batch * queries + rows
    shift = tl.load(SHIFT + at, mask=in_rows, other=0.0)
    mass = tl.load(MASS + at, mask=in_rows, other=1.0)
    denominator = row_map.normalizer_with_derivatives(mass, shift, (end - begin).to(tl.float32), row_map.scalars_of_head(THETA, head))
    inverse = tl.where(end > begin, 1.0 / denominator[0], 0.0)
    tl.store(INVERSE + at, inverse, mask=in_rows)
    tl.store(OF_MASS + at, tl.where(end > begin, along_output * denominator[1], 0.0), mask=in_rows)
    for p in tl.static_range(row_map.PARAMETERS):
        of_scalar = tl.where(end > begin, -along_output * denominator[2 + p] * inverse, 0.0)
        tl.store(OF_SCALARS + p * (tl.num_programs(0) // tl.cdiv(queries, ROWS)).to(tl.int64) * queries + at, of_scalar, mask=in_rows)


def add_to_queries(
    dq, sums, q, do, K, V, theta, scale, begin, end, shift, inverse, of_mass, first_key, last_key, keys, k_row, v_row,
    head_dim: tl.constexpr, value_dim: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    WHOLE: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """Gradients of queries, and sums for scalars of which 1/N is left out, with the keys of these blocks."""
    visible = (end - begin).to(tl.float32)
    each_scalar = tl.arange(0, row_map.PADDED_PARAMETERS)
    for first in range(first_key, last_key, KEYS):
        columns = first + tl.arange(0, KEYS)
        k = load_rows(K, columns, keys, k_row, head_dim, D, WHOLE)
        v = load_rows(V, columns, keys, v_row, value_dim, DV, WHOLE)
        s = product(q, tl.trans(k), tl.zeros([ROWS, KEYS], tl.float32)) * scale
        seen = (columns[None, :] >= begin[:, None]) & (columns[None, :] < end[:, None])
        terms = row_map.terms_with_derivatives(s, shift[:, None], visible[:, None], theta)
        of_weights = product(do, tl.trans(v), tl.zeros([ROWS, KEYS], tl.float32))
        ds = (terms[2] * of_weights - of_mass[:, None] * terms[3]) * inverse[:, None]
        if not WHOLE:
            ds = tl.where(seen, ds, 0.0)
        if APART:
            dq = product_of_seen(ds, seen, K, first, keys, k_row, head_dim, dq, KEYS, D)
        else:
            dq = product(rounded(ds, k.dtype), k, dq)
            if row_map.PARAMETERS > 0:
                along = row_map.parameter_derivatives(s, shift[:, None], visible[:, None], theta)
                for p in tl.static_range(row_map.PARAMETERS):
                    of_pairs = along[2 * p] * of_weights - of_mass[:, None] * along[2 * p + 1]
                    if not WHOLE:
                        of_pairs = tl.where(seen, of_pairs, 0.0)
                    sums += tl.where(each_scalar[None, :] == p, tl.sum(of_pairs, 1)[:, None], 0.0)
    return dq, sums


def backward_queries(
    Q, K, V, DO, SHIFT, INVERSE, OF_MASS, OF_SCALARS, NOT_FINITE, THETA, LENGTHS, FIRST, DQ,
    scale, diagonal, window, heads, value_heads, sub_heads, queries, keys,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, do_batch, do_head, do_row, dq_batch, dq_head, dq_row,
    head_dim: tl.constexpr, value_dim: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    NOT_FINITE += tl.program_id(0)
    if APART:
        if tl.load(NOT_FINITE) == 0:
            return
    of_batch, batch, head, block = block_of_program(heads, queries, ROWS)
    block = tl.cdiv(queries, ROWS) - 1 - block
    key_head, value_head = heads_read(head, heads, value_heads, sub_heads)
    theta = row_map.scalars_of_head(THETA, head)
    rows = block * ROWS + tl.arange(0, ROWS)
    in_rows = rows < queries
    K += batch * k_batch + key_head * k_head
    V += batch * v_batch + value_head * v_head
    there = length(LENGTHS, batch, keys)
    begin, end = ends_of_rows(rows, queries, there, first_position(FIRST, batch, diagonal), window, CAUSAL, WINDOWED)
    q = load_rows(Q + batch * q_batch + head * q_head, rows, queries, q_row, head_dim, D, False)
    do = in_dtype_of(load_rows(DO + batch * do_batch + head * do_head, rows, queries, do_row, value_dim, DV, False), q)
    at = of_batch * queries + rows
    shift = tl.load(SHIFT + at, mask=in_rows, other=0.0)
    inverse = tl.load(INVERSE + at, mask=in_rows, other=0.0)
    of_mass = tl.load(OF_MASS + at, mask=in_rows, other=0.0)
    dq = tl.zeros([ROWS, D], tl.float32)
    sums = tl.zeros([ROWS, row_map.PADDED_PARAMETERS], tl.float32)

    first, whole, after, last = blocks_of_keys(begin, end, KEYS)
    if WINDOWED:
        dq, sums = add_to_queries(
            dq, sums, q, do, K, V, theta, scale, begin, end, shift, inverse, of_mass, first, whole, keys, k_row, v_row,
            head_dim, value_dim, D, DV, ROWS, KEYS, False, APART,
        )  # fmt: skip
    dq, sums = add_to_queries(
        dq, sums, q, do, K, V, theta, scale, begin, end, shift, inverse, of_mass, whole, after, keys, k_row, v_row,
        head_dim, value_dim, D, DV, ROWS, KEYS, True, APART,
    )  # fmt: skip
    dq, sums = add_to_queries(
        dq, sums, q, do, K, V, theta, scale, begin, end, shift, inverse, of_mass, after, last, keys, k_row, v_row,
        head_dim, value_dim, D, DV, ROWS, KEYS, False, APART,
    )  # fmt: skip
    store_rows(DQ + batch * dq_batch + head * dq_head, dq * scale, rows, queries, dq_row, head_dim, D)
    if not APART:
        tl.store(NOT_FINITE, 1 - tl.min(is_finite(dq).to(tl.int32)))
        each_scalar = tl.arange(0, row_map.PADDED_PARAMETERS)
        for p in tl.static_range(row_map.PARAMETERS):
            of_rows = tl.sum(tl.where(each_scalar[None, :] == p, sums, 0.0), 1)
            place = OF_SCALARS + p * (tl.num_programs(0) // tl.cdiv(queries, ROWS)).to(tl.int64) * queries + at
            tl.store(place, tl.load(place, mask=in_rows, other=0.0) + of_rows * inverse, mask=in_rows)


def add_to_keys(
    dk, dv, k, v, Q, DO, SHIFT, INVERSE, OF_MASS, theta, scale, columns, first_row, last_row, queries, there, first_of_batch, window, q_row, do_row,
    head_dim: tl.constexpr, value_dim: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, OF_KEYS: tl.constexpr, OF_VALUES: tl.constexpr,
    WHOLE: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys and values with the queries of these blocks; WHOLE: each row up to the last sees all keys of the block."""
    for first in range(first_row, last_row, ROWS):
        rows = first + tl.arange(0, ROWS)
        in_rows = rows < queries
        begin, end = ends_of_rows(rows, queries, there, first_of_batch, window, CAUSAL, WINDOWED)
        seen = (columns[:, None] >= begin[None, :]) & (columns[:, None] < end[None, :]) & in_rows[None, :]
        visible = (end - begin).to(tl.float32)
        q = load_rows(Q, rows, queries, q_row, head_dim, D, False)
        do = in_dtype_of(load_rows(DO, rows, queries, do_row, value_dim, DV, False), v)
        shift = tl.load(SHIFT + rows, mask=in_rows, other=0.0)
        inverse = tl.load(INVERSE + rows, mask=in_rows, other=0.0)
        of_mass = tl.load(OF_MASS + rows, mask=in_rows, other=0.0)
        s = product(k, tl.trans(q), tl.zeros([KEYS, ROWS], tl.float32)) * scale
        terms = row_map.terms_with_derivatives(s, shift[None, :], visible[None, :], theta)
        if OF_VALUES:
            weights = terms[0] * inverse[None, :]
            weights = tl.where(in_rows[None, :] if WHOLE else seen, weights, 0.0)
            if APART:
                dv = product_of_seen(weights, seen, DO, first, queries, do_row, value_dim, dv, ROWS, DV)
            else:
                dv = product(rounded(weights, do.dtype), do, dv)
        if OF_KEYS:
            of_weights = product(v, tl.trans(do), tl.zeros([KEYS, ROWS], tl.float32))
            ds = (terms[2] * of_weights - of_mass[None, :] * terms[3]) * inverse[None, :]
            ds = tl.where(in_rows[None, :] if WHOLE else seen, ds, 0.0)
            if APART:
                dk = product_of_seen(ds, seen, Q, first, queries, q_row, head_dim, dk, ROWS, D)
            else:
                dk = product(rounded(ds, q.dtype), q, dk)
    return dk, dv


def backward_keys(
    Q, K, V, DO, SHIFT, INVERSE, OF_MASS, NOT_FINITE, THETA, LENGTHS, FIRST, DK, DVALUE,
    scale, diagonal, window, heads, value_heads, sub_heads, queries, keys,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, do_batch, do_head, do_row,
    dk_batch, dk_head, dk_row, dv_batch, dv_head, dv_row,
    head_dim: tl.constexpr, value_dim: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, OF_KEYS: tl.constexpr, OF_VALUES: tl.constexpr,
    APART: tl.constexpr,
):  # fmt: skip
    """Of a head of keys (OF_KEYS), of values, or of both where they are as many: over the query heads that read it."""
    NOT_FINITE += tl.program_id(0)
    if APART:
        if tl.load(NOT_FINITE) == 0:
            return
    own_heads = value_heads * sub_heads if OF_KEYS else value_heads
    of_batch, batch, own_head, block = block_of_program(own_heads, keys, KEYS)
    value_head = own_head // sub_heads if OF_KEYS else own_head
    of_value_head = heads // value_heads
    first_head = value_head * of_value_head + (own_head % sub_heads if OF_KEYS else 0)
    step = sub_heads if OF_KEYS else 1
    first_key = block * KEYS
    columns = first_key + tl.arange(0, KEYS)
    v = load_rows(V + batch * v_batch + value_head * v_head, columns, keys, v_row, value_dim, DV, False)
    dk = tl.zeros([KEYS, D], tl.float32)
    dv = tl.zeros([KEYS, DV], tl.float32)
    there = length(LENGTHS, batch, keys)
    first_of_batch = first_position(FIRST, batch, diagonal)
    some, all, after, last = blocks_of_rows(first_key, queries, there, first_of_batch, window, CAUSAL, WINDOWED, ROWS, KEYS)
    for head in range(first_head, (value_head + 1) * of_value_head, step):
        theta = row_map.scalars_of_head(THETA, head)
        key_head = heads_read(head, heads, value_heads, sub_heads)[0]
        k = load_rows(K + batch * k_batch + key_head * k_head, columns, keys, k_row, head_dim, D, False)
        HEAD_Q = Q + batch * q_batch + head * q_head
        HEAD_DO = DO + batch * do_batch + head * do_head
        at = (batch * heads + head) * queries
        dk, dv = add_to_keys(
            dk, dv, k, v, HEAD_Q, HEAD_DO, SHIFT + at, INVERSE + at, OF_MASS + at, theta, scale, columns, some, all, queries, there,
            first_of_batch, window, q_row, do_row, head_dim, value_dim, CAUSAL, WINDOWED, D, DV, ROWS, KEYS, OF_KEYS, OF_VALUES, False, APART,
        )  # fmt: skip
        dk, dv = add_to_keys(
            dk, dv, k, v, HEAD_Q, HEAD_DO, SHIFT + at, INVERSE + at, OF_MASS + at, theta, scale, columns, all, after, queries, there,
            first_of_batch, window, q_row, do_row, head_dim, value_dim, CAUSAL, WINDOWED, D, DV, ROWS, KEYS, OF_KEYS, OF_VALUES, True, APART,
        )  # fmt: skip
        if WINDOWED:
            dk, dv = add_to_keys(
                dk, dv, k, v, HEAD_Q, HEAD_DO, SHIFT + at, INVERSE + at, OF_MASS + at, theta, scale, columns, after, last, queries, there,
                first_of_batch, window, q_row, do_row, head_dim, value_dim, CAUSAL, WINDOWED, D, DV, ROWS, KEYS, OF_KEYS, OF_VALUES, False, APART,
            )  # fmt: skip
    if not APART:
        tl.store(NOT_FINITE, 1 - tl.minimum(tl.min(is_finite(dk).to(tl.int32)), tl.min(is_finite(dv).to(tl.int32))))
    if OF_KEYS:
        store_rows(DK + batch * dk_batch + own_head * dk_head, dk * scale, columns, keys, dk_row, head_dim, D)
    if OF_VALUES:
        store_rows(DVALUE + batch * dv_batch + value_head * dv_head, dv, columns, keys, dv_row, value_dim, DV)
