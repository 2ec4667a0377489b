"""Derivatives of state spaces (space_forward.py), from the last token to the first; each chunk's states are made again from the one that it begins with."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Parts, Span, States, Table, Tile
from cogwheel.device_kernels.walks.space_forward import columns_of, decay_at, fixed_decay, step_at, table_of, written_at
from cogwheel.device_kernels.walks.tokens import columns_of_program, kept_state, part_at, places_of, row_of, state_or_nothing, store_row


def space_backward(
    value: Heads, delta: Heads, key: Heads, query: Heads, step: Table, write: Table, read: Table, rate: Table, skip: Table, scale,
    gradient: Heads, states: States, of_last, scratch, of_value: Heads, of_delta: Heads, of_key: Parts, of_query: Parts,
    of_step, of_write, of_read, of_rate, of_skip, of_initial, span: Span, tile: Tile,
):  # fmt: skip
    """A program for each block of columns of a state. Of what a head has for all of its tokens: [sequences, H, …]."""
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
    nothing = tl.full([tile.ROWS, tile.COLUMNS], 0, tl.float32)
    none = tl.full([tile.COLUMNS], 0, tl.float32)
    if key is None:
        fixed_step = columns_of(step, head, columns, tile)
        fixed = fixed_decay(fixed_step, rates)
        writes = table_of(write, head, rows, columns, tile)
        reads = table_of(read, head, rows, columns, tile)
    sum_of_rate = nothing
    sum_of_write = nothing
    sum_of_read = nothing
    sum_of_step = none
    sum_of_skip = none
    of_state = state_or_nothing(of_last, block.whole, block.inside, tile)
    value = at_head(value, sequence.batch, head)
    gradient = at_head(gradient, sequence.batch, head)
    for back_chunk in range(0, sequence.chunks):
        chunk = sequence.chunks - 1 - back_chunk
        first = chunk * tile.CHUNK
        count = tl.minimum(sequence.count - first, tile.CHUNK)
        state = tl.load(places_of(states, sequence.place + chunk, head, rows, columns), mask=block.inside, other=0.0)
        for each in range(0, count):
            tl.store(kept_state(scratch, each, rows, block.own, tile), state)
            v = row_of(value, sequence, first + each, True, columns, tile.column_width)
            steps = step_at(delta, fixed_step, sequence, head, first + each, columns, tile)
            state = state * decay_at(fixed, rates, steps) + written_at(key, writes, sequence, head, first + each, steps, v, rows, tile)
        tl.debug_barrier()  # what one thread has kept others read
        for back in range(0, count):
            each = count - 1 - back
            token = first + each
            v = row_of(value, sequence, token, True, columns, tile.column_width)
            g = row_of(gradient, sequence, token, True, columns, tile.column_width)
            steps = step_at(delta, fixed_step, sequence, head, token, columns, tile)
            before = tl.load(kept_state(scratch, each, rows, block.own, tile))
            decay = decay_at(fixed, rates, steps)
            state = before * decay + written_at(key, writes, sequence, head, token, steps, v, rows, tile)
            if query is not None:
                q = row_of(at_head(query, sequence.batch, head), sequence, token, True, rows, tile.row_width)
                out = part_at(of_query, block.part, sequence.batch, head)
                store_row(out, sequence, token, rows, tile.row_width, tl.sum(state * g[None, :], 1) * scale)
                of_state += q[:, None] * (g * scale)[None, :]
            else:
                sum_of_read += state * (g * scale)[None, :]
                of_state += reads * (g * scale)[None, :]
            of_decay = of_state * before * decay
            sum_of_rate += of_decay * steps[None, :]
            of_steps = tl.sum(of_decay * rates, 0)
            if key is not None:
                k = row_of(at_head(key, sequence.batch, head), sequence, token, True, rows, tile.row_width)
                out = part_at(of_key, block.part, sequence.batch, head)
                store_row(out, sequence, token, rows, tile.row_width, tl.sum(of_state * (steps * v)[None, :], 1))
                of_written = tl.sum(of_state * k[:, None], 0)
                of_v = steps * of_written
                of_steps += v * of_written
                store_row(at_head(of_delta, sequence.batch, head), sequence, token, columns, tile.column_width, of_steps)
            else:
                sum_of_write += of_state * v[None, :]
                sum_of_step += of_steps
                of_v = tl.sum(of_state * writes, 0)
            if skip is not None:
                of_v += columns_of(skip, head, columns, tile) * g
                sum_of_skip += v * g
            store_row(at_head(of_value, sequence.batch, head), sequence, token, columns, tile.column_width, of_v)
            of_state = of_state * decay
        tl.debug_barrier()  # before the next chunk keeps its own
    of_columns = (block.number * span.heads + head) * tile.column_width + columns
    tl.store(of_rate + block.whole, sum_of_rate, mask=block.inside)
    if key is None:
        tl.store(of_write + block.whole, sum_of_write, mask=block.inside)
        tl.store(of_read + block.whole, sum_of_read, mask=block.inside)
        tl.store(of_step + of_columns, sum_of_step, mask=columns < tile.column_width)
    if skip is not None:
        tl.store(of_skip + of_columns, sum_of_skip, mask=columns < tile.column_width)
    if of_initial is not None:
        tl.store(of_initial + block.whole, of_state, mask=block.inside)
