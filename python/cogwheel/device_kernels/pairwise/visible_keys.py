"""Which keys a query sees (cogwheel/core/visibility.h): for each row one range, by a rule, whose ends never move back, or by a table. Positions
and windows may be any integers of 64 bits (positions beyond ±2^53 count as there), what is seen are keys that there are."""

from typing import Any, NamedTuple

import triton.language as tl

from cogwheel.device_kernels.choice import jit


class Head(NamedTuple):
    """`Visible` of one batch entry and head of the output."""

    keys: Any  # there are, up to the batch entry's length
    all_keys: Any
    queries: Any
    first: Any  # the key that the first query of a causal call stands at; None: not causal
    window: Any
    ranges: Any  # [N, 2]
    counts: Any  # [N]


class Rows(NamedTuple):
    numbers: Any  # those beyond the last query are the last
    begin: Any
    end: Any
    visible: Any  # how many keys each sees, in float32


@jit
def position(at):
    """One of first positions, which nobody checks on a device, within what adds without overflow (cogwheel/ops/pairwise/ranges.h)."""
    return tl.minimum(tl.maximum(tl.load(at), -(2**53)), 2**53)


@jit
def visible_of_head(visible, shape, batch, head):
    """`head` is one of the queries."""
    keys = shape.keys
    if visible.lengths is not None:
        keys = tl.minimum(tl.maximum(tl.load(visible.lengths + batch), 0), shape.keys).to(tl.int32)
    first = visible.diagonal
    if visible.diagonal is not None:
        if visible.first_positions is not None:
            first = position(visible.first_positions + batch)
    head = head // shape.sub_heads
    ranges = None
    if visible.ranges is not None:
        ranges = visible.ranges.data + batch * visible.ranges.batch + head * visible.ranges.head
    counts = None
    if visible.counts is not None:
        counts = visible.counts + (batch * (shape.heads // shape.sub_heads) + head) * shape.queries
    return Head(keys, shape.keys, shape.queries, first, visible.window, ranges, counts)


@jit
def rows_of_head(rows, head):
    rows = tl.minimum(rows, head.queries - 1)
    begin = rows * 0
    end = begin + head.keys
    if head.ranges is not None:
        # Beyond the keys they count as if they ended there.
        end = tl.minimum(tl.maximum(tl.load(head.ranges + 2 * rows.to(tl.int64) + 1), 0), head.all_keys).to(tl.int32)
        begin = tl.minimum(tl.maximum(tl.load(head.ranges + 2 * rows.to(tl.int64)), 0), end).to(tl.int32)
    elif head.first is not None:
        after = rows.to(tl.int64) + 1 + head.first
        end = tl.minimum(tl.maximum(after, 0), head.keys).to(tl.int32)
        if head.window is not None:
            begin = tl.minimum(tl.maximum(after - head.window, 0), end).to(tl.int32)
    if head.counts is not None:
        visible = tl.load(head.counts + rows).to(tl.float32)
    else:
        visible = (end - begin).to(tl.float32)
    return Rows(rows, begin, end, visible)


@jit
def blocks_of_keys(rows, KEYS: tl.constexpr):
    """Where three loops over blocks of keys begin, and where the last one ends: of blocks that some row sees in part, of those that all see
    whole, and of the rest. The first three are multiples of KEYS."""
    last = tl.max(rows.end)
    some = tl.min(tl.where(rows.begin < rows.end, rows.begin, last)) // KEYS * KEYS
    whole = tl.minimum(tl.max(rows.begin) + KEYS - 1, last + KEYS - 1) // KEYS * KEYS
    return some, whole, tl.maximum(tl.min(rows.end) // KEYS * KEYS, whole), last


@jit
def blocks_of_rows(key, head, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """Of the keys [key, key + KEYS), multiples of ROWS: from the first block with a row that sees one of them, from the first of which every
    row sees all, to one past the last row that does or, of a block that ends with a row beyond the last, would, and to one past the last row."""
    queries = head.queries
    some = key * 0
    all = key * 0
    last_of_all = key * 0 + queries
    last = key * 0 + queries
    if head.ranges is not None:
        some, last = rows_that_see(key, head, ROWS, KEYS)
        all = last
        last_of_all = last
    elif head.first is not None:
        before = key.to(tl.int64) - head.first
        some = tl.minimum(tl.maximum(before, 0), queries).to(tl.int32)
        all = tl.minimum(tl.maximum(before + KEYS - 1, 0), queries).to(tl.int32)
        if head.window is not None:
            last = tl.minimum(tl.maximum(before + KEYS - 1 + head.window, 0), queries).to(tl.int32)
            last_of_all = tl.minimum(tl.maximum(before + head.window, 0), queries).to(tl.int32) // ROWS * ROWS
    up = (last + ROWS - 1) // ROWS * ROWS
    some = tl.minimum(some, last) // ROWS * ROWS
    all = tl.where(key + KEYS <= head.keys, tl.minimum((all + ROWS - 1) // ROWS * ROWS, up), up)
    return some, all, tl.maximum(last_of_all, all), last


@jit
def rows_that_see(key, head, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """Of a table: from the first row that sees one of [key, key + KEYS) to one past the last."""
    first = key * 0 + head.queries
    last = key * 0
    for block in range(0, head.queries, ROWS):
        rows = block + tl.arange(0, ROWS)
        in_rows = rows < head.queries
        begin = tl.load(head.ranges + 2 * rows.to(tl.int64), mask=in_rows, other=0)
        end = tl.load(head.ranges + 2 * rows.to(tl.int64) + 1, mask=in_rows, other=0)
        sees = (tl.maximum(begin, key) < tl.minimum(end, key + KEYS)) & in_rows
        first = tl.minimum(first, tl.min(tl.where(sees, rows, head.queries)))
        last = tl.maximum(last, tl.max(tl.where(sees, rows + 1, 0)))
    return first, last


@jit
def is_seen(rows, key):
    """`rows` and numbers of keys, in shapes that broadcast."""
    return (key >= rows.begin) & (key < rows.end)


@jit
def down(rows):
    """Rows along the first dimension of pairs."""
    return Rows(rows.numbers[:, None], rows.begin[:, None], rows.end[:, None], rows.visible[:, None])


@jit
def across(rows):
    """Rows along the second dimension of pairs."""
    return Rows(rows.numbers[None, :], rows.begin[None, :], rows.end[None, :], rows.visible[None, :])
