"""The states of walks by a delta rule, chunk by chunk, and what each token adds to them (delta_inverse.py).

REVERSED goes from the last chunk to the first: derivatives by the states are left by each token's q_t o′_tᵀ − k_t m_tᵀ, with m_t the derivative by what v_t lacks,
M = ((1 + L)⁻¹ β)ᵀ R, R_t what k_t reads of the state from the end and, in `read`, of its chunk's q_s o′_sᵀ."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.lane import is_finite, product_in_parts
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Gates, Span, States, Tile
from cogwheel.device_kernels.walks.tokens import columns_of_program, gates_of_head, logs_of, places_of, rows_of, state_or_nothing, sums_of, whole_state


@jit
def product_of_seen(weights, seen, right, tile):
    """weights times rows, of which what is not finite reaches only tokens that see it."""
    order = tl.arange(0, tile.TOKENS)
    finite = is_finite(right)
    sum = product_in_parts(weights, tl.where(finite, right, 0.0), tl.full([tile.TOKENS, tile.COLUMNS], 0, tl.float32))
    for each in range(0, tl.where(tl.min(finite.to(tl.int32)) == 0, tile.TOKENS, 0)):
        weight = tl.sum(tl.where(order[None, :] == each, weights, 0.0), 1)
        sees = tl.sum(tl.where(order[None, :] == each, seen.to(tl.int32), 0), 1) > 0
        row = tl.sum(tl.where(order[:, None] == each, right, 0.0), 0)
        sum += tl.where(sees[:, None] & (is_finite(row) == 0)[None, :], weight[:, None] * row[None, :], 0.0)
    return sum


@jit
def keep_part(states, last, sequence, chunk, block, left, right, gates, FIRST: tl.constexpr, span, tile, REVERSED: tl.constexpr):
    """The state beyond the chunk, part by part: of the one that it has, decayed, or if not FIRST of what is there, with leftᵀ right."""
    order = tl.arange(0, tile.TOKENS)
    one = tl.arange(0, 1)
    first = chunk * tile.CHUNK
    there = first + order < sequence.count
    from_here = sequence.place + chunk
    beyond = from_here + 1 - 2 * REVERSED
    is_last = chunk == sequence.chunks - 1
    if REVERSED:
        is_last = chunk == 0
    if gates.token is not None:
        passed = tl.exp(sums_of(gates.token, sequence, first, one, 1, tile.TOKENS, REVERSED, False))
        whole_passed = tl.exp(tl.sum(logs_of(gates.token, sequence, first, 0, one, 1, tile.TOKENS), 0))
    for row in range(0, tile.row_width, tile.ROWS):
        rows = row + tl.arange(0, tile.ROWS)
        inside = (rows < tile.row_width)[:, None] & (block.columns < tile.column_width)[None, :]
        whole = last + whole_state(block.number, block.head, span, rows, block.columns, tile)
        if FIRST:
            state = tl.load(places_of(states, from_here, block.head, rows, block.columns), mask=inside, other=0.0)
            if gates.token is not None:
                state = state * whole_passed[None, :]
        else:
            if is_last:
                state = tl.load(whole, mask=inside, other=0.0)
            else:
                state = tl.load(places_of(states, beyond, block.head, rows, block.columns), mask=inside, other=0.0)
        added = rows_of(left, sequence, first + order, there, rows, tile.row_width)
        if gates.token is not None:
            added = added * passed
        state = product_in_parts(tl.trans(added), right, state)
        if is_last:
            tl.store(whole, state, mask=inside)
        if beyond >= sequence.place:  # of the first chunk, walked in reverse, there is no place before
            tl.store(places_of(states, beyond, block.head, rows, block.columns), state, mask=inside)


def delta_states(
    query: Heads, key: Heads, gradient: Heads, read: Heads, solved: Heads, added: Heads, gates: Gates, initial, states: States, last, span: Span, tile: Tile,
    REVERSED: tl.constexpr,
):  # fmt: skip
    """A program for each block of columns of a state, whose rows it takes part by part from the memory of states. `read`: values; `query` and `gradient` are None unless
    REVERSED. `added`: U, or M, which is the derivative by the values."""
    block = columns_of_program(span, tile)
    sequence = block.sequence
    head = block.head
    columns = block.columns
    within = (columns < tile.column_width)[None, :]
    key = at_head(key, sequence.batch, head)
    read = at_head(read, sequence.batch, head)
    solved = at_head(solved, sequence.batch, head)
    added = at_head(added, sequence.batch, head)
    gates = gates_of_head(gates, sequence.batch, head)
    order = tl.arange(0, tile.TOKENS)
    one = tl.arange(0, 1)
    width = tile.row_width
    begin = sequence.place
    if REVERSED:
        begin = sequence.place + tl.maximum(sequence.chunks - 1, 0)
    for row in range(0, width, tile.ROWS):
        rows = row + tl.arange(0, tile.ROWS)
        inside = (rows < width)[:, None] & within
        whole = whole_state(block.number, head, span, rows, columns, tile)
        state = state_or_nothing(initial, whole, inside, tile)
        tl.store(places_of(states, begin, head, rows, columns), state, mask=inside)
        if sequence.chunks == 0:
            tl.store(last + whole, state, mask=inside)
    for step in range(0, sequence.chunks):
        tl.debug_barrier()  # what one thread has kept others read
        chunk = step
        if REVERSED:
            chunk = sequence.chunks - 1 - step
        first = chunk * tile.CHUNK
        tokens = first + order
        there = tokens < sequence.count
        of_state = tl.full([tile.TOKENS, tile.COLUMNS], 0, tl.float32)
        for row in range(0, width, tile.ROWS):
            rows = row + tl.arange(0, tile.ROWS)
            state = tl.load(places_of(states, sequence.place + chunk, head, rows, columns), mask=(rows < width)[:, None] & within, other=0.0)
            of_state = product_in_parts(rows_of(key, sequence, tokens, there, rows, width), state, of_state)
        if gates.token is not None:
            of_state = of_state * tl.exp(sums_of(gates.token, sequence, first, one, 1, tile.TOKENS, 1 - REVERSED, False))
        here = rows_of(read, sequence, tokens, there, columns, tile.column_width)
        mine = tokens[:, None]
        other = order[None, :]
        if REVERSED:
            mine = tokens[None, :]
            other = order[:, None]
        weights = tl.load(solved.data + (sequence.begin + mine) * solved.row + other, mask=mine < sequence.count, other=0.0)
        if REVERSED:
            new = product_of_seen(weights, order[None, :] >= order[:, None], here + of_state, tile)
        else:
            new = product_of_seen(weights, order[:, None] >= order[None, :], here - of_state, tile)
        at = added.data + (sequence.begin + tokens)[:, None] * added.row + columns[None, :]
        tl.store(at, new, mask=there[:, None] & within)
        new = tl.where(there[:, None], new, 0.0)
        if REVERSED:
            new = -new
            g = rows_of(at_head(gradient, sequence.batch, head), sequence, tokens, there, columns, tile.column_width)
            keep_part(states, last, sequence, chunk, block, at_head(query, sequence.batch, head), g, gates, True, span, tile, REVERSED)
            tl.debug_barrier()
            keep_part(states, last, sequence, chunk, block, key, new, gates, False, span, tile, REVERSED)
        else:
            keep_part(states, last, sequence, chunk, block, key, new, gates, True, span, tile, REVERSED)
