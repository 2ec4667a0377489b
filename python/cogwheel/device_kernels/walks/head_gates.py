"""The derivative by the one decay γ that a head has (token_states.py), not by its logarithm, of which a γ near 0 would leave nothing but rounding: γⁿ has the
derivative n·γⁿ⁻¹, between two tokens of a chunk, from its first state to a token, from a token to what follows, and from the one to the other."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.lane import product_in_parts
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Span, States, Tile
from cogwheel.device_kernels.walks.tokens import chunk_of_program, places_of, rows_of


@jit
def of_power(log_decay, tokens):
    """n·γⁿ⁻¹ for n tokens, 0 for none."""
    power = tl.where(tokens > 1, tl.exp((tokens - 1) * log_decay), 1.0)  # γ may be 0, which nobody checks on a device
    return tl.where(tokens > 0, tokens * power, 0.0)


def head_gates(
    query: Heads, key: Heads, value: Heads, gradient: Heads, log_decay, states: States, of_states: States, of_gate, span: Span, tile: Tile,
):  # fmt: skip
    """A program for each chunk, with a number of [sequences, chunks, H] each, 0 of chunks that a sequence lacks."""
    sequence, head, chunk = chunk_of_program(span, tl.program_id(0), tile)
    first = chunk * tile.CHUNK
    order = tl.arange(0, tile.CHUNK)
    there = first + order < sequence.count
    count = tl.sum(there.to(tl.float32), 0)
    log_decay = tl.load(log_decay + head)
    query = at_head(query, sequence.batch, head)
    key = at_head(key, sequence.batch, head)
    value = at_head(value, sequence.batch, head)
    gradient = at_head(gradient, sequence.batch, head)
    nothing = tl.full([tile.CHUNK, tile.CHUNK], 0, tl.float32)
    none = tl.full([tile.CHUNK, tile.COLUMNS], 0, tl.float32)
    weights = nothing
    of_weights = nothing
    of_read = tl.full([tile.CHUNK], 0, tl.float32)
    of_written = tl.full([tile.CHUNK], 0, tl.float32)
    of_state = tl.full([tile.ROWS], 0, tl.float32)
    width = tl.where(first < sequence.count, tile.column_width, 0)
    for row in range(0, tile.row_width, tile.ROWS):
        state_rows = row + tl.arange(0, tile.ROWS)
        q = rows_of(query, sequence, first + order, there, state_rows, tile.row_width)
        k = rows_of(key, sequence, first + order, there, state_rows, tile.row_width)
        weights = product_in_parts(q, tl.trans(k), weights)
        for column in range(0, tile.column_width, tile.COLUMNS):
            columns = column + tl.arange(0, tile.COLUMNS)
            v = rows_of(value, sequence, first + order, there, columns, tile.column_width)
            g = rows_of(gradient, sequence, first + order, there, columns, tile.column_width)
            inside = (state_rows < tile.row_width)[:, None] & (columns < width)[None, :]
            before = tl.load(places_of(states, sequence.place + chunk, head, state_rows, columns), mask=inside, other=0.0)
            after = tl.load(places_of(of_states, sequence.place + chunk, head, state_rows, columns), mask=inside, other=0.0)
            of_read += tl.sum(product_in_parts(q, before, none) * g, 1)
            of_written += tl.sum(product_in_parts(k, after, none) * v, 1)
            of_state += tl.sum(before * after, 1)
    for column in range(0, tile.column_width, tile.COLUMNS):
        columns = column + tl.arange(0, tile.COLUMNS)
        v = rows_of(value, sequence, first + order, there, columns, tile.column_width)
        g = rows_of(gradient, sequence, first + order, there, columns, tile.column_width)
        of_weights = product_in_parts(g, tl.trans(v), of_weights)
    apart = (order[:, None] - order[None, :]).to(tl.float32)
    place = order.to(tl.float32)
    found = tl.sum(tl.sum(of_power(log_decay, apart) * weights * of_weights, 1), 0)
    found += tl.sum(of_power(log_decay, place + 1) * of_read, 0)
    found += tl.sum(of_power(log_decay, count - 1 - place) * of_written, 0)
    found += tl.sum(of_state, 0) * of_power(log_decay, count)
    tl.store(of_gate + tl.program_id(0), found)
