"""How many keys each row sees, where biases of −∞ hide some: row maps ask for it before the first of them, and a row without any is 0."""

import triton.language as tl

from cogwheel.device_kernels.pairwise.arguments import Block, Modifiers, Shape, Visible
from cogwheel.device_kernels.pairwise.modifiers import modifiers_of_head, seen_with_biases
from cogwheel.device_kernels.pairwise.visible_keys import blocks_of_keys, down, rows_of_head, visible_of_head
from cogwheel.device_kernels.tiles import block_of_program


def count_keys(counts, modifiers: Modifiers, visible: Visible, shape: Shape, block: Block):
    """Of heads of the output: [B, H, N] int32."""
    heads = shape.heads // shape.sub_heads
    batch, head, number = block_of_program(heads, shape.queries, block.ROWS)
    order = number * block.ROWS + tl.arange(0, block.ROWS)
    of_modifiers = modifiers_of_head(modifiers, visible, shape, batch, head * shape.sub_heads)
    rows = rows_of_head(order, visible_of_head(visible, shape, batch, head * shape.sub_heads))
    some, _, _, last = blocks_of_keys(rows, block.KEYS)
    found = tl.full([block.ROWS], 0, tl.int32)
    for first in range(some, last, block.KEYS):
        columns = first + tl.arange(0, block.KEYS)
        found += tl.sum(seen_with_biases(of_modifiers, down(rows), columns[None, :]).to(tl.int32), 1)
    tl.store(counts + (batch * heads + head) * shape.queries + order, found, mask=order < shape.queries)
