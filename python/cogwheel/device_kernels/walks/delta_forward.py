"""Walks by a delta rule whose rows have decays of their own, token by token (others are products: delta_inverse.py): S′_t = A_t ∘ S_{t−1}, S_t = S′_t + β_t k_t (v_t − S′_tᵀ k_t)ᵀ, o_t = S_tᵀ q_t."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Gates, Span, States, Tile
from cogwheel.device_kernels.walks.tokens import columns_of_program, gates_of_head, number_of, places_of, row_of, state_or_nothing, store_row


@jit
def decay_of(gates, sequence, token, rows, tile):
    """A_t as a column [ROWS, 1]."""
    return tl.exp(row_of(gates.row, sequence, token, True, rows, tile.row_width))[:, None]


@jit
def written_at(k, row, rows, tile):
    """What a token adds to the state."""
    return tl.where((rows < tile.row_width)[:, None], k[:, None] * row[None, :], 0.0)  # else 0·∞


def delta_forward(
    query: Heads, key: Heads, value: Heads, beta: Heads, output: Heads, gates: Gates, initial, states: States, last, span: Span, tile: Tile,
):  # fmt: skip
    """A program for each block of columns of a state; `output` or `states` may be None."""
    block = columns_of_program(span, tile)
    sequence = block.sequence
    head = block.head
    rows = block.rows
    columns = block.columns
    key = at_head(key, sequence.batch, head)
    value = at_head(value, sequence.batch, head)
    beta = at_head(beta, sequence.batch, head)
    gates = gates_of_head(gates, sequence.batch, head)
    state = state_or_nothing(initial, block.whole, block.inside, tile)
    for chunk in range(0, sequence.chunks):
        if states is not None:
            tl.store(places_of(states, sequence.place + chunk, head, rows, columns), state, mask=block.inside)
        for token in range(chunk * tile.CHUNK, tl.minimum((chunk + 1) * tile.CHUNK, sequence.count)):
            state = state * decay_of(gates, sequence, token, rows, tile)
            k = row_of(key, sequence, token, True, rows, tile.row_width)
            v = row_of(value, sequence, token, True, columns, tile.column_width)
            written = number_of(beta, sequence, token) * (v - tl.sum(state * k[:, None], 0))
            state += written_at(k, written, rows, tile)
            if output is not None:
                q = row_of(at_head(query, sequence.batch, head), sequence, token, True, rows, tile.row_width)
                store_row(at_head(output, sequence.batch, head), sequence, token, columns, tile.column_width, tl.sum(state * q[:, None], 0))
    tl.store(last + block.whole, state, mask=block.inside)
