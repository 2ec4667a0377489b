"""Blocks of rows of a tensor [B, H, N, width], of which the head is chosen already."""

import triton
import triton.language as tl

from cogwheel.device_kernels.lane import is_finite, product, rounded


@triton.jit
def block_of_program(heads, count, SIZE: tl.constexpr):
    """Of `count` rows of each of so many heads in blocks of SIZE, a program each: its head, counted through the batch, the batch entry, the head
    within that, and the number of its block."""
    blocks = tl.cdiv(count, SIZE)
    of_batch = (tl.program_id(0) // blocks).to(tl.int64)
    return of_batch, of_batch // heads, of_batch % heads, tl.program_id(0) % blocks


@triton.jit
def heads_read(head, heads, value_heads, sub_heads):
    """Which head of keys and which of values a query head reads (attention/kernels/pairwise/pairwise.h)."""
    value_head = head // (heads // value_heads)
    return value_head * sub_heads + head % sub_heads, value_head


@triton.jit
def load_rows(HEAD, rows, count, stride, width: tl.constexpr, WIDTH: tl.constexpr, WHOLE: tl.constexpr):
    """Rows up to `count`, with 0 beyond, and in the columns from `width` to WIDTH, a power of two. WHOLE: no row is beyond."""
    columns = tl.arange(0, WIDTH)
    at = HEAD + rows[:, None].to(tl.int64) * stride + columns[None, :]
    if width != WIDTH:
        tile = tl.load(at, mask=(rows[:, None] < count) & (columns[None, :] < width), other=0.0)
    elif WHOLE:
        tile = tl.load(at)
    else:
        tile = tl.load(at, mask=rows[:, None] < count, other=0.0)
    return tile


@triton.jit
def store_rows(HEAD, numbers, rows, count, stride, width: tl.constexpr, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    there = rows[:, None] < count
    if width != WIDTH:
        there = there & (columns[None, :] < width)
    at = HEAD + rows[:, None].to(tl.int64) * stride + columns[None, :]
    tl.store(at, rounded(numbers, HEAD.dtype.element_ty), mask=there)


@triton.jit
def product_of_seen(weights, seen, HEAD, first, count, stride, width: tl.constexpr, sum, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """sum + weights [n, ROWS] times the rows from `first` on, where one that is not finite reaches only what has seen it: such rows one by
    one, the others by a product."""
    order = tl.arange(0, ROWS)
    tile = load_rows(HEAD, first + order, count, stride, width, WIDTH, False)
    finite = is_finite(tile.to(tl.float32))
    sum = product(rounded(weights, tile.dtype), tl.where(finite, tile, 0.0), sum)
    columns = tl.arange(0, WIDTH)
    for each in range(ROWS):
        weight = tl.sum(tl.where(order[None, :] == each, weights, 0.0), 1)
        sees = tl.sum(tl.where(order[None, :] == each, seen.to(tl.int32), 0), 1) > 0
        number = columns * 0 + first + each
        there = (columns < width) & (number < count)
        row = tl.load(HEAD + number.to(tl.int64) * stride + columns, mask=there, other=0.0).to(tl.float32)
        sum += tl.where(sees[:, None] & (is_finite(row) == 0)[None, :], weight[:, None] * row[None, :], 0.0)
    return sum
