"""Which keys a query sees (cogwheel/core/visibility.h): for each row one range, whose ends never move back. Positions and windows may be any
integers of 64 bits, what is seen are keys that there are."""

import triton
import triton.language as tl


@triton.jit
def first_position(FIRST, batch, diagonal):
    """The key that the first query of a causal call stands at."""
    if FIRST is not None:
        first = tl.load(FIRST + batch)
    else:
        first = diagonal
    return first


@triton.jit
def length(LENGTHS, batch, keys):
    """How many keys there are for a batch entry."""
    if LENGTHS is not None:
        there = tl.minimum(tl.maximum(tl.load(LENGTHS + batch), 0), keys).to(tl.int32)
    else:
        there = keys
    return there


@triton.jit
def ends_of_rows(rows, queries, keys, first, window, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr):
    """[begin, end) of each row; those beyond the last see what it sees. `keys` and `first` are `length` and `first_position`."""
    rows = tl.minimum(rows, queries - 1)
    begin = tl.zeros_like(rows)
    end = tl.zeros_like(rows) + keys
    if CAUSAL:
        after = rows.to(tl.int64) + 1 + first
        end = tl.minimum(tl.maximum(after, 0), keys).to(tl.int32)
        if WINDOWED:
            begin = tl.minimum(tl.maximum(after - window, 0), end).to(tl.int32)
    return begin, end


@triton.jit
def blocks_of_keys(begin, end, KEYS: tl.constexpr):
    """Of rows with these ends, multiples of KEYS: from the first block that one of them sees, from the first that all see whole, to the one
    after that, and to one past the last key."""
    first = tl.min(begin) // KEYS * KEYS
    whole = (tl.max(begin) + KEYS - 1) // KEYS * KEYS
    last = tl.max(end)
    whole = tl.minimum(whole, (last + KEYS - 1) // KEYS * KEYS)
    return first, whole, tl.maximum(tl.min(end) // KEYS * KEYS, whole), last


@triton.jit
def blocks_of_rows(key, queries, keys, first, window, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """Of the keys [key, key + KEYS), multiples of ROWS: from the first block with a row that sees one of them, from the first of which every
    row sees all, to one past the last row that does or, of a block that ends with a row beyond the last, would, and to one past the last row."""
    some = key * 0
    all = key * 0
    last_of_all = key * 0 + queries
    last = key * 0 + queries
    if CAUSAL:
        before = key.to(tl.int64) - first
        some = tl.minimum(tl.maximum(before, 0), queries).to(tl.int32)
        all = tl.minimum(tl.maximum(before + KEYS - 1, 0), queries).to(tl.int32)
        if WINDOWED:
            last = tl.minimum(tl.maximum(before + KEYS - 1 + window, 0), queries).to(tl.int32)
            last_of_all = tl.minimum(tl.maximum(before + window, 0), queries).to(tl.int32) // ROWS * ROWS
    up = (last + ROWS - 1) // ROWS * ROWS
    some = tl.minimum(some, last) // ROWS * ROWS
    all = tl.where(key + KEYS <= keys, tl.minimum((all + ROWS - 1) // ROWS * ROWS, up), up)
    return some, all, tl.maximum(last_of_all, all), last
