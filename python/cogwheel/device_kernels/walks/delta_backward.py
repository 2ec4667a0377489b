"""Derivatives of walks by a delta rule (delta_forward.py), from the last token to the first; each chunk's states are made again from the one that it
begins with."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Gates, Parts, Span, States, Tile
from cogwheel.device_kernels.walks.delta_forward import decay_of
from cogwheel.device_kernels.walks.tokens import gates_of_head, kept_state, number_of, part_at, places_of, row_of, sequence_of, state_of_program, store_row, whole_state


def delta_backward(
    query: Heads, key: Heads, value: Heads, beta: Heads, gradient: Heads, gates: Gates, states: States, of_last, scratch,
    of_query: Parts, of_key: Parts, of_value: Heads, of_beta: Parts, of_token_gate: Parts, of_row_gate: Parts, of_initial, span: Span, tile: Tile,
):  # fmt: skip
    """A program for each block of columns of a state."""
    number, head, block = state_of_program(span, tile)
    sequence = sequence_of(span, number, tile.CHUNK)
    rows = tl.arange(0, tile.ROWS)
    own = tl.arange(0, tile.COLUMNS)
    columns = block * tile.COLUMNS + own
    inside = (rows < tile.row_width)[:, None] & (columns < tile.column_width)[None, :]
    whole = whole_state(number, head, span, rows, columns, tile)
    query = at_head(query, sequence.batch, head)
    key = at_head(key, sequence.batch, head)
    value = at_head(value, sequence.batch, head)
    beta = at_head(beta, sequence.batch, head)
    gates = gates_of_head(gates, sequence.batch, head)
    gradient = at_head(gradient, sequence.batch, head)
    of_query = part_at(of_query, block, sequence.batch, head)
    of_key = part_at(of_key, block, sequence.batch, head)
    of_value = at_head(of_value, sequence.batch, head)
    of_beta = part_at(of_beta, block, sequence.batch, head)
    of_state = tl.full([tile.ROWS, tile.COLUMNS], 0, tl.float32)
    if of_last is not None:
        of_state = tl.load(of_last + whole, mask=inside, other=0.0)
    for step in range(0, sequence.chunks):
        chunk = sequence.chunks - 1 - step
        first = chunk * tile.CHUNK
        count = tl.minimum(sequence.count - first, tile.CHUNK)
        state = tl.load(places_of(states, sequence.place + chunk, head, rows, columns), mask=inside, other=0.0)
        for each in range(0, count):
            state = state * decay_of(gates, sequence, first + each, rows, tile)
            tl.store(kept_state(scratch, each, rows, own, tile), state)
            k = row_of(key, sequence, first + each, True, rows, tile.row_width)
            v = row_of(value, sequence, first + each, True, columns, tile.column_width)
            state += k[:, None] * (number_of(beta, sequence, first + each) * (v - tl.sum(state * k[:, None], 0)))[None, :]
        tl.debug_barrier()  # what one thread has kept others read
        for back in range(0, count):
            each = count - 1 - back
            token = first + each
            decayed = tl.load(kept_state(scratch, each, rows, own, tile))
            q = row_of(query, sequence, token, True, rows, tile.row_width)
            k = row_of(key, sequence, token, True, rows, tile.row_width)
            v = row_of(value, sequence, token, True, columns, tile.column_width)
            g = row_of(gradient, sequence, token, True, columns, tile.column_width)
            b = number_of(beta, sequence, token)
            missing = v - tl.sum(decayed * k[:, None], 0)
            state = decayed + k[:, None] * (b * missing)[None, :]
            store_row(of_query, sequence, token, rows, tile.row_width, tl.sum(state * g[None, :], 1))
            of_state += q[:, None] * g[None, :]
            of_written = tl.sum(of_state * k[:, None], 0)
            of_missing = b * of_written
            tl.store(of_beta.data + (sequence.begin + token) * of_beta.row, tl.sum(of_written * missing, 0))
            store_row(of_value, sequence, token, columns, tile.column_width, of_missing)
            store_row(of_key, sequence, token, rows, tile.row_width, tl.sum(of_state * (b * missing)[None, :] - decayed * of_missing[None, :], 1))
            of_state = of_state - k[:, None] * of_missing[None, :]
            passed = tl.sum(of_state * decayed, 1)
            if of_token_gate is not None:
                out = part_at(of_token_gate, block, sequence.batch, head)
                tl.store(out.data + (sequence.begin + token) * out.row, tl.sum(passed, 0))
            if of_row_gate is not None:
                store_row(part_at(of_row_gate, block, sequence.batch, head), sequence, token, rows, tile.row_width, passed)
            of_state = of_state * decay_of(gates, sequence, token, rows, tile)
        tl.debug_barrier()  # before the next chunk keeps its own
    if of_initial is not None:
        tl.store(of_initial + whole, of_state, mask=inside)
