"""Derivatives by the logarithms of decays (token_states.py), of gradients by all else: what multiplies a state has as derivative what all that is read of it
later brings, less what is written later, Σ_{u≥t} (q_u·q′_u − k_u·k′_u), and with it S·S′ at the end of the chunk for what comes after that."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Span, States, Tile
from cogwheel.device_kernels.walks.tokens import chunk_of_program, places_of, rows_of, sums_to_end


@jit
def product_of_states(states, of_states, sequence, chunk, head, state_rows, tile):
    """Of each row of the states at a chunk's end."""
    sums = tl.full([tile.ROWS], 0, tl.float32)
    for first in range(0, tile.column_width, tile.COLUMNS):
        columns = first + tl.arange(0, tile.COLUMNS)
        inside = (state_rows < tile.row_width)[:, None] & (columns < tile.column_width)[None, :]
        state = tl.load(places_of(states, sequence.place + chunk + 1, head, state_rows, columns), mask=inside, other=0.0)
        of_state = tl.load(places_of(of_states, sequence.place + chunk, head, state_rows, columns), mask=inside, other=0.0)
        sums += tl.sum(state * of_state, 1)
    return sums


@jit
def terms_of(query, of_query, key, of_key, sequence, first, state_rows, tile, STRICT: tl.constexpr):
    order = tl.arange(0, tile.CHUNK)
    there = first + order < sequence.count
    read = order
    if STRICT:
        read = order + 1
    read_there = (read < tile.CHUNK) & (first + read < sequence.count)
    width = tile.row_width
    gained = rows_of(query, sequence, first + read, read_there, state_rows, width) * rows_of(of_query, sequence, first + read, read_there, state_rows, width)
    return gained - rows_of(key, sequence, first + order, there, state_rows, width) * rows_of(of_key, sequence, first + order, there, state_rows, width)


def token_gates(
    query: Heads, of_query: Heads, key: Heads, of_key: Heads, states: States, of_states: States, of_gate: Heads, span: Span, tile: Tile,
    OF_TOKENS: tl.constexpr, STRICT: tl.constexpr, FROM_NOTHING: tl.constexpr,
):  # fmt: skip
    """A program for each chunk and, unless a decay is one number (OF_TOKENS), each block of rows of the state. FROM_NOTHING: the first token of a sequence has no
    state to decay, and its derivative is 0, not what is left of sums that cancel."""
    row_blocks = 1
    if not OF_TOKENS:
        row_blocks = tl.cdiv(tile.row_width, tile.ROWS)
    rest = tl.program_id(0)
    first_row = (rest % row_blocks) * tile.ROWS
    sequence, head, chunk = chunk_of_program(span, rest // row_blocks, tile)
    first = chunk * tile.CHUNK
    if first >= sequence.count:
        return
    query = at_head(query, sequence.batch, head)
    of_query = at_head(of_query, sequence.batch, head)
    key = at_head(key, sequence.batch, head)
    of_key = at_head(of_key, sequence.batch, head)
    out = at_head(of_gate, sequence.batch, head)
    order = tl.arange(0, tile.CHUNK)
    there = first + order < sequence.count
    at = out.data + (sequence.begin + first + order) * out.row
    if OF_TOKENS:
        terms = tl.full([tile.CHUNK], 0, tl.float32)
        later = tl.full([tile.ROWS], 0, tl.float32)
        for row in range(0, tile.row_width, tile.ROWS):
            state_rows = row + tl.arange(0, tile.ROWS)
            terms += tl.sum(terms_of(query, of_query, key, of_key, sequence, first, state_rows, tile, STRICT), 1)
            later += product_of_states(states, of_states, sequence, chunk, head, state_rows, tile)
        sums = sums_to_end(terms) + tl.sum(later, 0)
        if FROM_NOTHING:
            sums = tl.where(first + order == 0, 0.0, sums)
        tl.store(at, sums, mask=there)
    else:
        state_rows = first_row + tl.arange(0, tile.ROWS)
        sums = sums_to_end(terms_of(query, of_query, key, of_key, sequence, first, state_rows, tile, STRICT))
        sums += product_of_states(states, of_states, sequence, chunk, head, state_rows, tile)[None, :]
        if FROM_NOTHING:
            sums = tl.where((first + order == 0)[:, None], 0.0, sums)
        tl.store(at[:, None] + state_rows[None, :], sums, mask=there[:, None] & (state_rows < tile.row_width)[None, :])
