"""Of parts of the keys of a row (decode.py), what the row gets of all: one after another, so that it has the same bits from run to run."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.lane import rounded
from cogwheel.device_kernels.pairwise.arguments import Block, Shape, Visible
from cogwheel.device_kernels.pairwise.visible_keys import rows_of_head, visible_of_head
from cogwheel.device_kernels.tiles import at_head

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)


def merge(of_shift, of_mass, of_output, output: Heads, shift, mass, theta, parts, visible: Visible, shape: Shape, block: Block):
    """A program for each row."""
    row = tl.program_id(0).to(tl.int64)
    of_batch = row // shape.queries
    head = of_batch % shape.heads
    batch = of_batch // shape.heads
    number = tl.arange(0, 1) + (row % shape.queries).to(tl.int32)
    at = row + tl.arange(0, 1)
    between = tl.num_programs(0).to(tl.int64)  # one part and the next
    theta = row_map.scalars_of_head(theta, head)
    used = tl.full([1], 0, tl.float32)
    if row_map.HAS_ENERGY:
        highest = tl.full([1], float("-inf"), tl.float32)
        for part in range(0, parts):
            highest = tl.maximum(highest, tl.load(of_shift + part * between + at))
        used = tl.where(highest == float("-inf"), 0.0, highest)
    columns = tl.arange(0, block.DV)
    in_row = columns[None, :] < block.value_dim
    total = tl.full([1], 0, tl.float32)
    sums = tl.full([1, block.DV], 0, tl.float32)
    for part in range(0, parts):
        place = part * between + at
        of_keys = tl.load(of_mass + place)
        values = tl.load(of_output + place[:, None] * block.value_dim + columns[None, :], mask=in_row, other=0.0)
        if row_map.HAS_ENERGY:
            factor = tl.exp(tl.load(of_shift + place) - used)  # 0 of a part without keys, whose shift is −∞
            of_keys = of_keys * factor
            values = values * factor[:, None]
        total += of_keys
        sums += values
    rows = rows_of_head(number, visible_of_head(visible, shape, batch, head))
    denominator = row_map.normalizer(total, used, rows.visible, theta)
    numbers = tl.where(rows.visible[:, None] > 0, sums / denominator[:, None], 0.0)
    output = at_head(output, batch, head)
    places = output.data + number[:, None].to(tl.int64) * output.row + columns[None, :]
    tl.store(places, rounded(numbers, output.data.dtype.element_ty), mask=in_row)
    tl.store(shift + at, used)
    tl.store(mass + at, total)
