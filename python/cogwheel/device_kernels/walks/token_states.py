"""The states of walks whose tokens do not read what they change, chunk by chunk: what each chunk begins with.

REVERSED goes from the last chunk to the first: S_{t−1} = A_t ∘ (S_t + k_t v_tᵀ), by which, of queries and gradients of outputs in the places of keys
and values, the derivatives by the states are what each chunk's last token leaves."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.lane import product_in_parts
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Gates, Span, States, Tile
from cogwheel.device_kernels.walks.tokens import gates_of_head, logs_of, places_of, rows_of, sequence_of, state_or_nothing, sums_of, whole_state


def token_states(
    rows: Heads, columns: Heads, gates: Gates, initial, states: States, last, span: Span, tile: Tile,
    REVERSED: tl.constexpr, STRICT: tl.constexpr,
):  # fmt: skip
    """A program for each block of a state. `last`: what is left in the end, [sequences, H, D, Dv] as `initial`. STRICT: a token reads what those before it
    left."""
    column_blocks = tl.cdiv(tile.column_width, tile.COLUMNS)
    row_blocks = tl.cdiv(tile.row_width, tile.ROWS)
    rest = tl.program_id(0)
    state_columns = (rest % column_blocks) * tile.COLUMNS + tl.arange(0, tile.COLUMNS)
    rest = rest // column_blocks
    state_rows = (rest % row_blocks) * tile.ROWS + tl.arange(0, tile.ROWS)
    rest = rest // row_blocks
    head = (rest % span.heads).to(tl.int64)
    number = (rest // span.heads).to(tl.int64)
    sequence = sequence_of(span, number, tile.CHUNK)
    rows = at_head(rows, sequence.batch, head)
    columns = at_head(columns, sequence.batch, head)
    gates = gates_of_head(gates, sequence.batch, head)
    inside = (state_rows < tile.row_width)[:, None] & (state_columns < tile.column_width)[None, :]
    whole = whole_state(number, head, span, state_rows, state_columns, tile)
    state = state_or_nothing(initial, whole, inside, tile)
    order = tl.arange(0, tile.CHUNK)
    for step in range(0, sequence.chunks):
        chunk = step
        if REVERSED:
            chunk = sequence.chunks - 1 - step
        tl.store(places_of(states, sequence.place + chunk, head, state_rows, state_columns), state, mask=inside)
        first = chunk * tile.CHUNK
        there = first + order < sequence.count
        left = rows_of(rows, sequence, first + order, there, state_rows, tile.row_width)
        right = rows_of(columns, sequence, first + order, there, state_columns, tile.column_width)
        if gates.token is not None:
            one = tl.arange(0, 1)
            left = left * tl.exp(sums_of(gates.token, sequence, first, one, 1, tile.CHUNK, REVERSED, STRICT))
            state = state * tl.exp(tl.sum(logs_of(gates.token, sequence, first, 0, one, 1, tile.CHUNK), 0))[None, :]
        if gates.row is not None:
            left = left * tl.exp(sums_of(gates.row, sequence, first, state_rows, tile.row_width, tile.CHUNK, REVERSED, STRICT))
            state = state * tl.exp(tl.sum(logs_of(gates.row, sequence, first, 0, state_rows, tile.row_width, tile.CHUNK), 0))[:, None]
        if gates.column is not None:
            right = right * tl.exp(sums_of(gates.column, sequence, first, state_columns, tile.column_width, tile.CHUNK, REVERSED, STRICT))
            state = state * tl.exp(tl.sum(logs_of(gates.column, sequence, first, 0, state_columns, tile.column_width, tile.CHUNK), 0))[None, :]
        state = product_in_parts(tl.trans(left), right, state)
    tl.store(last + whole, state, mask=inside)
    if not REVERSED:
        tl.store(places_of(states, sequence.place + sequence.chunks, head, state_rows, state_columns), state, mask=inside)
