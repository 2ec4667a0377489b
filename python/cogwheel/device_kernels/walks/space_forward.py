"""State spaces, token by token (cogwheel/ops/recurrent/state_space.h): every number of a state decays by its own rate.
S_t = exp(Δ_t ∘ a) ∘ S_{t−1} + k_t (Δ_t ∘ v_t)ᵀ, o_t = scale · S_tᵀ q_t + skip ∘ v_t; or, with b and c of the head in the places of keys and queries,
and its Δ, S_t = exp(Δ ∘ a) ∘ S_{t−1} + b ∘ v_tᵀ, o_t = scale · Σ c ∘ S_t + skip ∘ v_t."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Span, States, Table, Tile
from cogwheel.device_kernels.walks.tokens import columns_of_program, places_of, row_of, state_or_nothing, store_row


@jit
def table_of(table, head, rows, columns, tile):
    """[ROWS, COLUMNS] of a head, 0 beyond."""
    inside = (rows < tile.row_width)[:, None] & (columns < tile.column_width)[None, :]
    return tl.load(table.data + head * table.head + rows[:, None] * tile.column_width + columns[None, :], mask=inside, other=0.0)


@jit
def columns_of(table, head, columns, tile):
    return tl.load(table.data + head * table.head + columns, mask=columns < tile.column_width, other=0.0)


@jit
def written_at(key, write, sequence, head, token, step, v, rows, tile):
    """What a token adds to the state."""
    if key is not None:
        k = row_of(at_head(key, sequence.batch, head), sequence, token, True, rows, tile.row_width)
        found = k[:, None] * (step * v)[None, :]
    else:
        found = write * v[None, :]
    return tl.where((rows < tile.row_width)[:, None], found, 0.0)  # else 0·∞


@jit
def step_at(delta, fixed, sequence, head, token, columns, tile):
    """Δ of each column."""
    if delta is not None:
        found = row_of(at_head(delta, sequence.batch, head), sequence, token, True, columns, tile.column_width)
    else:
        found = fixed
    return found


@jit
def decay_at(fixed, rates, steps):
    """What the state is multiplied by: `fixed` where it is that of every token."""
    if fixed is not None:
        found = fixed
    else:
        found = tl.exp(steps[None, :] * rates)
    return found


@jit
def fixed_decay(step, rates):
    """The error of a factor that every token has grows with their number: rounded once."""
    return tl.exp(step[None, :].to(tl.float64) * rates.to(tl.float64)).to(tl.float32)


def space_forward(
    value: Heads, delta: Heads, key: Heads, query: Heads, step: Table, write: Table, read: Table, rate: Table, skip: Table, scale,
    output: Heads, initial, states: States, last, span: Span, tile: Tile,
):  # fmt: skip
    """A program for each block of columns of a state; `output` or `states` may be None."""
    block = columns_of_program(span, tile)
    sequence = block.sequence
    head = block.head
    rows = block.rows
    columns = block.columns
    rates = table_of(rate, head, rows, columns, tile)
    fixed_step = None
    fixed = None
    writes = None
    reads = None
    if key is None:
        fixed_step = columns_of(step, head, columns, tile)
        fixed = fixed_decay(fixed_step, rates)
        writes = table_of(write, head, rows, columns, tile)
        reads = table_of(read, head, rows, columns, tile)
    state = state_or_nothing(initial, block.whole, block.inside, tile)
    value = at_head(value, sequence.batch, head)
    for chunk in range(0, sequence.chunks):
        if states is not None:
            tl.store(places_of(states, sequence.place + chunk, head, rows, columns), state, mask=block.inside)
        for token in range(chunk * tile.CHUNK, tl.minimum((chunk + 1) * tile.CHUNK, sequence.count)):
            v = row_of(value, sequence, token, True, columns, tile.column_width)
            steps = step_at(delta, fixed_step, sequence, head, token, columns, tile)
            state = state * decay_at(fixed, rates, steps) + written_at(key, writes, sequence, head, token, steps, v, rows, tile)
            if output is not None:
                if query is not None:
                    q = row_of(at_head(query, sequence.batch, head), sequence, token, True, rows, tile.row_width)
                    found = tl.sum(state * q[:, None], 0) * scale
                else:
                    found = tl.sum(state * reads, 0) * scale
                if skip is not None:
                    found += columns_of(skip, head, columns, tile) * v
                store_row(at_head(output, sequence.batch, head), sequence, token, columns, tile.column_width, found)
    tl.store(last + block.whole, state, mask=block.inside)
