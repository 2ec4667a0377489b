"""Derivatives of walks by a delta rule (delta_forward.py), from the last token to the first; each chunk's states are made again from the one that it
begins with."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Gates, Parts, Span, States, Tile
from cogwheel.device_kernels.walks.delta_forward import decay_of, written_at
from cogwheel.device_kernels.walks.tokens import columns_of_program, gates_of_head, kept_state, number_of, part_at, places_of, row_of, state_or_nothing, store_row


def delta_backward(
    query: Heads, key: Heads, value: Heads, beta: Heads, gradient: Heads, gates: Gates, states: States, of_last, scratch,
    of_query: Parts, of_key: Parts, of_value: Heads, of_beta: Parts, of_row_gate: Parts, of_initial, span: Span, tile: Tile,
):  # fmt: skip
    """A program for each block of columns of a state."""
    block = columns_of_program(span, tile)
    sequence = block.sequence
    head = block.head
    rows = block.rows
    columns = block.columns
    query = at_head(query, sequence.batch, head)
    key = at_head(key, sequence.batch, head)
    value = at_head(value, sequence.batch, head)
    beta = at_head(beta, sequence.batch, head)
    gates = gates_of_head(gates, sequence.batch, head)
    gradient = at_head(gradient, sequence.batch, head)
    of_query = part_at(of_query, block.part, sequence.batch, head)
    of_key = part_at(of_key, block.part, sequence.batch, head)
    of_value = at_head(of_value, sequence.batch, head)
    of_beta = part_at(of_beta, block.part, sequence.batch, head)
    of_state = state_or_nothing(of_last, block.whole, block.inside, tile)
    for step in range(0, sequence.chunks):
        chunk = sequence.chunks - 1 - step
        first = chunk * tile.CHUNK
        count = tl.minimum(sequence.count - first, tile.CHUNK)
        state = tl.load(places_of(states, sequence.place + chunk, head, rows, columns), mask=block.inside, other=0.0)
        for each in range(0, count):
            state = state * decay_of(gates, sequence, first + each, rows, tile)
            tl.store(kept_state(scratch, each, rows, block.own, tile), state)
            k = row_of(key, sequence, first + each, True, rows, tile.row_width)
            v = row_of(value, sequence, first + each, True, columns, tile.column_width)
            state += written_at(k, number_of(beta, sequence, first + each) * (v - tl.sum(state * k[:, None], 0)), rows, tile)
        tl.debug_barrier()  # what one thread has kept others read
        for back in range(0, count):
            each = count - 1 - back
            token = first + each
            decayed = tl.load(kept_state(scratch, each, rows, block.own, tile))
            q = row_of(query, sequence, token, True, rows, tile.row_width)
            k = row_of(key, sequence, token, True, rows, tile.row_width)
            v = row_of(value, sequence, token, True, columns, tile.column_width)
            g = row_of(gradient, sequence, token, True, columns, tile.column_width)
            b = number_of(beta, sequence, token)
            missing = v - tl.sum(decayed * k[:, None], 0)
            state = decayed + written_at(k, b * missing, rows, tile)
            store_row(of_query, sequence, token, rows, tile.row_width, tl.sum(state * g[None, :], 1))
            of_state += q[:, None] * g[None, :]
            of_written = tl.sum(of_state * k[:, None], 0)
            of_missing = b * of_written
            tl.store(of_beta.data + (sequence.begin + token) * of_beta.row, tl.sum(of_written * missing, 0))
            store_row(of_value, sequence, token, columns, tile.column_width, of_missing)
            store_row(of_key, sequence, token, rows, tile.row_width, tl.sum(of_state * (b * missing)[None, :] - decayed * of_missing[None, :], 1))
            of_state = of_state - k[:, None] * of_missing[None, :]
            store_row(part_at(of_row_gate, block.part, sequence.batch, head), sequence, token, rows, tile.row_width, tl.sum(of_state * decayed, 1))
            of_state = of_state * decay_of(gates, sequence, token, rows, tile)
        tl.debug_barrier()  # before the next chunk keeps its own
    if of_initial is not None:
        tl.store(of_initial + block.whole, of_state, mask=block.inside)
