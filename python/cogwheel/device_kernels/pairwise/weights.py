"""The weights themselves: the output where values are the identity."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.lane import rounded
from cogwheel.device_kernels.pairwise.arguments import Block, Modifiers, Score, Shape, Visible
from cogwheel.device_kernels.pairwise.modifiers import in_exponent, modified, modifiers_of_head, weighed
from cogwheel.device_kernels.pairwise.scores import load_side, score_of_head, scores
from cogwheel.device_kernels.pairwise.visible_keys import down, rows_of_head, visible_of_head
from cogwheel.device_kernels.tiles import at_head, block_of_program, heads_read

row_map = None  # each mechanism has a copy of these functions, with its own (row_maps.py)


def weights(
    query: Heads, key: Heads, output: Heads, shift, mass, theta,
    score: Score, modifiers: Modifiers, visible: Visible, shape: Shape, block: Block,
):  # fmt: skip
    """Of shifts and masses that `forward` found."""
    batch, head, number = block_of_program(shape.heads, shape.queries, block.ROWS)
    theta = row_map.scalars_of_head(theta, head)
    score = score_of_head(score, head, block)
    modifiers = modifiers_of_head(modifiers, visible, shape, batch, head)
    q = load_side(at_head(query, batch, head), number * block.ROWS, shape.queries, block, block.ROWS, False)
    key = at_head(key, batch, heads_read(head, shape)[0])
    output = at_head(output, batch, head)
    in_rows = q.rows < shape.queries
    rows = rows_of_head(q.rows, visible_of_head(visible, shape, batch, head))
    pair_rows = down(rows)
    at = (batch * shape.heads + head) * shape.queries + q.rows
    of_row = tl.load(shift + at, mask=in_rows, other=0.0)
    denominator = row_map.normalizer(tl.load(mass + at, mask=in_rows, other=1.0), of_row, rows.visible, theta)
    for first in range(0, shape.keys, block.KEYS):
        k = load_side(key, first, shape.keys, block, block.KEYS, False)
        columns = k.rows[None, :]
        pairs = modified(scores(q, k, score, block), modifiers, pair_rows, columns, row_map.HAS_ENERGY)
        found = row_map.terms(pairs.score, in_exponent(of_row[:, None], pairs), pair_rows.visible, theta)[0] / denominator[:, None]
        found = tl.where(pairs.seen, weighed(found, modifiers, pair_rows, columns), 0.0)
        places = output.data + q.rows[:, None].to(tl.int64) * output.row + columns
        tl.store(places, rounded(found, output.data.dtype.element_ty), mask=in_rows[:, None] & (columns < shape.keys))
