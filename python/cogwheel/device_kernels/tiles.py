"""Blocks of rows of one head (arguments.Heads)."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.lane import in_dtype_of, is_finite, product, rounded


@jit
def block_of_program(heads, count, SIZE: tl.constexpr):
    """Of `count` rows of each of so many heads in blocks of SIZE, a program each: the batch entry, the head within that, and the number of its
    block."""
    blocks = tl.cdiv(count, SIZE)
    of_batch = (tl.program_id(0) // blocks).to(tl.int64)
    return of_batch // heads, of_batch % heads, tl.program_id(0) % blocks


@jit
def at_head(tensor, batch, head):
    return Heads(tensor.data + batch * tensor.batch + head * tensor.head, tensor.batch, tensor.head, tensor.row)


@jit
def heads_read(head, shape):
    """Which head of keys and which of values a query head reads (cogwheel/attention/kernels/pairwise/pairwise.h)."""
    value_head = head // (shape.heads // shape.value_heads)
    return value_head * shape.sub_heads + head % shape.sub_heads, value_head


@jit
def load_rows(head, rows, count, width: tl.constexpr, WIDTH: tl.constexpr, WHOLE: tl.constexpr):
    """Rows up to `count`, with 0 beyond, and in the columns from `width` to WIDTH, a power of two. WHOLE: no row is beyond."""
    columns = tl.arange(0, WIDTH)
    at = head.data + rows[:, None].to(tl.int64) * head.row + columns[None, :]
    if width != WIDTH:
        tile = tl.load(at, mask=(rows[:, None] < count) & (columns[None, :] < width), other=0.0)
    elif WHOLE:
        tile = tl.load(at)
    else:
        tile = tl.load(at, mask=rows[:, None] < count, other=0.0)
    return tile


@jit
def store_rows(head, numbers, rows, count, width: tl.constexpr, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    there = rows[:, None] < count
    if width != WIDTH:
        there = there & (columns[None, :] < width)
    at = head.data + rows[:, None].to(tl.int64) * head.row + columns[None, :]
    tl.store(at, rounded(numbers, head.data.dtype.element_ty), mask=there)


@jit
def load_pairs(head, rows, columns, seen):
    """Of rows as long as there are keys, such as weights: the numbers of pairs, 0 where not seen, in float32."""
    return tl.load(head.data + rows.to(tl.int64) * head.row + columns, mask=seen, other=0.0).to(tl.float32)


@jit
def product_of_seen(weights, seen, head, first, count, like, width: tl.constexpr, sum, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """sum + weights [n, ROWS] times the rows from `first` on, in the dtype of `like`, where one that is not finite reaches only what has seen it: such rows one by
    one, the others by a product."""
    order = tl.arange(0, ROWS)
    tile = in_dtype_of(load_rows(head, first + order, count, width, WIDTH, False), like)
    finite = is_finite(tile.to(tl.float32))
    sum = product(rounded(weights, tile.dtype), tl.where(finite, tile, 0.0), sum)
    columns = tl.arange(0, WIDTH)
    for each in range(ROWS):
        weight = tl.sum(tl.where(order[None, :] == each, weights, 0.0), 1)
        sees = tl.sum(tl.where(order[None, :] == each, seen.to(tl.int32), 0), 1) > 0
        number = columns * 0 + first + each
        there = (columns < width) & (number < count)
        row = tl.load(head.data + number.to(tl.int64) * head.row + columns, mask=there, other=0.0).to(tl.float32)
        sum += tl.where(sees[:, None] & (is_finite(row) == 0)[None, :], weight[:, None] * row[None, :], 0.0)
    return sum
