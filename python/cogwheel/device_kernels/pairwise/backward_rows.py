"""Of gradients, what every key of a row has in common."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.pairwise.arguments import Block, Shape, Visible
from cogwheel.device_kernels.pairwise.visible_keys import rows_of_head, visible_of_head
from cogwheel.device_kernels.tiles import at_head, block_of_program

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)


def backward_rows(
    output: Heads, gradient: Heads, shift, mass, theta, inverse, of_mass, of_scalars, visible: Visible, shape: Shape, block: Block,
):  # fmt: skip
    """1/N and (do·o) N′ of each row, and −(do·o) N_θ/N for each scalar: [B, Hq, N, scalars]."""
    batch, head, number = block_of_program(shape.heads, shape.queries, block.ROWS)
    order = number * block.ROWS + tl.arange(0, block.ROWS)
    in_rows = order < shape.queries
    output = at_head(output, batch, head)
    gradient = at_head(gradient, batch, head)
    along_output = tl.full([block.ROWS], 0, tl.float32)
    for first in range(0, block.value_dim, block.DV):
        columns = first + tl.arange(0, block.DV)
        there = in_rows[:, None] & (columns[None, :] < block.value_dim)
        row = order[:, None].to(tl.int64)
        o = tl.load(output.data + row * output.row + columns[None, :], mask=there, other=0.0).to(tl.float32)
        do = tl.load(gradient.data + row * gradient.row + columns[None, :], mask=there, other=0.0).to(tl.float32)
        along_output += tl.sum(o * do, 1)
    rows = rows_of_head(order, visible_of_head(visible, shape, batch, head))
    sees = rows.visible > 0
    at = (batch * shape.heads + head) * shape.queries + order
    of_row = tl.load(shift + at, mask=in_rows, other=0.0)
    of_keys = tl.load(mass + at, mask=in_rows, other=1.0)
    denominator = row_map.normalizer_with_derivatives(of_keys, of_row, rows.visible, row_map.scalars_of_head(theta, head))
    part = tl.where(sees, 1.0 / denominator[0], 0.0)
    tl.store(inverse + at, part, mask=in_rows)
    tl.store(of_mass + at, tl.where(sees, along_output * denominator[1], 0.0), mask=in_rows)
    for p in tl.static_range(row_map.PARAMETERS):
        of_scalar = tl.where(sees, -along_output * denominator[2 + p] * part, 0.0)
        tl.store(of_scalars + at * row_map.PARAMETERS + p, of_scalar, mask=in_rows)
