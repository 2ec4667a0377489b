"""What tokens read of walks (token_states.py): o_t = S_tᵀ q_t, chunk by chunk from the states that those begin with.

Every pass of a walk is one of these, with other tensors in the places of q, k and v: of gradients o′ of outputs, q′ reads o′ of v kᵀ; reversed, v′ reads
k of q o′ᵀ, and k′ reads v of o′ qᵀ."""

from typing import Any, NamedTuple

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.lane import is_finite, product_in_parts
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Gates, Span, States, Tile
from cogwheel.device_kernels.walks.tokens import gates_of_head, logs_of, numbers_of, places_of, row_of, rows_of, sequence_of, sums_of


class Call(NamedTuple):
    """Tensors of one head."""

    reading: Any
    rows: Any
    columns: Any
    gates: Any


@jit
def sees(tile, REVERSED: tl.constexpr, APART: tl.constexpr):
    """Which tokens of its block each reads: those at least so far from it."""
    mine = tl.arange(0, tile.TOKENS)[:, None]
    other = tl.arange(0, tile.TOKENS)[None, :]
    if REVERSED:
        seen = other >= mine + APART
    else:
        seen = mine >= other + APART
    return seen


@jit
def own_products(call, sequence, first, tile):
    """q·k of a block's pairs of tokens."""
    order = tl.arange(0, tile.TOKENS)
    there = first + order < sequence.count
    weights = tl.full([tile.TOKENS, tile.TOKENS], 0, tl.float32)
    for row in range(0, tile.row_width, tile.ROWS):
        state_rows = row + tl.arange(0, tile.ROWS)
        read = rows_of(call.reading, sequence, first + order, there, state_rows, tile.row_width)
        left = rows_of(call.rows, sequence, first + order, there, state_rows, tile.row_width)
        weights = product_in_parts(read, tl.trans(left), weights)
    return weights


@jit
def passed_pairs(gate, sequence, first, tile, REVERSED: tl.constexpr):
    """Logarithms of what passes between the tokens of each pair, where decays are of tokens."""
    order = tl.arange(0, tile.TOKENS)
    logs = numbers_of(gate, sequence, first + order, first + order < sequence.count)
    mine = order[:, None]
    other = order[None, :]
    if REVERSED:
        sums = tl.cumsum(tl.where(other > mine, logs[None, :], 0.0), 1)
    else:
        sums = tl.cumsum(tl.where(mine > other, logs[:, None], 0.0), 0)
    return sums


@jit
def step_of(step, tile, REVERSED: tl.constexpr, STRICT: tl.constexpr):
    """Of a loop from the nearest to the furthest: the token whose decay is passed first, by which of those that read, and the token that is read then."""
    order = tl.arange(0, tile.TOKENS)
    if REVERSED:
        passed = step
        written = step + STRICT
        passed_by = order < passed
    else:
        written = tile.TOKENS - 1 - step
        passed = written + 1
        passed_by = order >= passed + STRICT
    return passed, passed_by, written


@jit
def end_of_block(sequence, first, tile):
    return tl.minimum(first + tile.TOKENS, sequence.count)


@jit
def passed_on(decays, passed_by, gate, sequence, first, passed, columns, width, tile):
    """Decays up to each token, times those of one more."""
    there = first + passed < end_of_block(sequence, first, tile)
    factor = tl.exp(row_of(gate, sequence, first + passed, there, columns, width))
    return tl.where(passed_by[:, None], decays * factor[None, :], decays)


@jit
def own_products_decayed(call, sequence, first, tile, REVERSED: tl.constexpr, STRICT: tl.constexpr):
    """Σ q ∘ decays ∘ k of a block's pairs, one token after another, where each row of the state has a decay."""
    order = tl.arange(0, tile.TOKENS)
    there = first + order < sequence.count
    weights = tl.full([tile.TOKENS, tile.TOKENS], 0, tl.float32)
    for row in range(0, tile.row_width, tile.ROWS):
        state_rows = row + tl.arange(0, tile.ROWS)
        read = rows_of(call.reading, sequence, first + order, there, state_rows, tile.row_width)
        for step in range(0, tile.TOKENS):
            passed, passed_by, written = step_of(step, tile, REVERSED, STRICT)
            read = passed_on(read, passed_by, call.gates.row, sequence, first, passed, state_rows, tile.row_width, tile)
            is_there = first + written < end_of_block(sequence, first, tile)
            left = row_of(call.rows, sequence, first + written, is_there, state_rows, tile.row_width)
            weights += tl.where(order[None, :] == written, tl.sum(read * left[None, :], 1)[:, None], 0.0)
    return weights


@jit
def own_columns(weights, call, sequence, first, state_columns, tile):
    """weights times the columns of a block's tokens; what is not finite among those reaches only tokens that read it."""
    order = tl.arange(0, tile.TOKENS)
    right = rows_of(call.columns, sequence, first + order, first + order < sequence.count, state_columns, tile.column_width)
    return product_in_parts(weights, tl.where(is_finite(right), right, 0.0), tl.full([tile.TOKENS, tile.COLUMNS], 0, tl.float32))


@jit
def own_columns_not_finite(weights, seen, call, sequence, first, state_columns, tile, sum):
    """What own_columns leaves out."""
    order = tl.arange(0, tile.TOKENS)
    right = rows_of(call.columns, sequence, first + order, first + order < sequence.count, state_columns, tile.column_width)
    count = tl.where(tl.min(is_finite(right).to(tl.int32)) == 0, tile.TOKENS, 0)
    for each in range(0, count):
        weight = tl.sum(tl.where(order[None, :] == each, weights, 0.0), 1)
        reads = tl.sum(tl.where(order[None, :] == each, seen.to(tl.int32), 0), 1) > 0
        row = row_of(call.columns, sequence, first + each, first + each < sequence.count, state_columns, tile.column_width)
        sum += tl.where(reads[:, None] & (is_finite(row) == 0)[None, :], weight[:, None] * row[None, :], 0.0)
    return sum


@jit
def own_columns_decayed(weights, seen, call, sequence, first, state_columns, tile, REVERSED: tl.constexpr, STRICT: tl.constexpr):
    """The same where each column of the state has a decay, one token after another."""
    order = tl.arange(0, tile.TOKENS)
    sums = tl.full([tile.TOKENS, tile.COLUMNS], 0, tl.float32)
    decays = tl.full([tile.TOKENS, tile.COLUMNS], 1, tl.float32)
    for step in range(0, tile.TOKENS):
        passed, passed_by, written = step_of(step, tile, REVERSED, STRICT)
        decays = passed_on(decays, passed_by, call.gates.column, sequence, first, passed, state_columns, tile.column_width, tile)
        is_there = first + written < end_of_block(sequence, first, tile)
        right = row_of(call.columns, sequence, first + written, is_there, state_columns, tile.column_width)
        weight = tl.sum(tl.where(order[None, :] == written, weights, 0.0), 1)
        reads = tl.sum(tl.where(order[None, :] == written, seen.to(tl.int32), 0), 1) > 0
        sums += tl.where(reads[:, None], weight[:, None] * decays * right[None, :], 0.0)
    return sums


@jit
def sums_between(gate, sequence, first, other, columns, width, tile):
    """Logarithms of what passes the blocks that lie between two, of which none need be."""
    begin = tl.minimum(first, other) + tile.TOKENS
    total = tl.full([columns.shape[0]], 0, tl.float32)
    for block in range(begin, tl.maximum(first, other), tile.TOKENS):
        total += tl.sum(logs_of(gate, sequence, block, 0, columns, width, tile.TOKENS), 0)
    return total


@jit
def read_block(call, sequence, first, other, passed_columns, state_columns, tile, REVERSED: tl.constexpr, STRICT: tl.constexpr, sum):
    """sum + what is read of another block of the chunk. `passed_columns`: logarithms of what passes the blocks between."""
    order = tl.arange(0, tile.TOKENS)
    there = first + order < sequence.count
    other_there = other + order < sequence.count
    weights = tl.full([tile.TOKENS, tile.TOKENS], 0, tl.float32)
    for row in range(0, tile.row_width, tile.ROWS):
        state_rows = row + tl.arange(0, tile.ROWS)
        read = rows_of(call.reading, sequence, first + order, there, state_rows, tile.row_width)
        left = rows_of(call.rows, sequence, other + order, other_there, state_rows, tile.row_width)
        if call.gates.row is not None:
            read = read * tl.exp(sums_of(call.gates.row, sequence, first, state_rows, tile.row_width, tile.TOKENS, 1 - REVERSED, STRICT))
            logs = sums_of(call.gates.row, sequence, other, state_rows, tile.row_width, tile.TOKENS, REVERSED, STRICT)
            left = left * tl.exp(logs + sums_between(call.gates.row, sequence, first, other, state_rows, tile.row_width, tile)[None, :])
        weights = product_in_parts(read, tl.trans(left), weights)
    right = rows_of(call.columns, sequence, other + order, other_there, state_columns, tile.column_width)
    whole = passed_columns
    if call.gates.column is not None:
        logs = sums_of(call.gates.column, sequence, other, state_columns, tile.column_width, tile.TOKENS, REVERSED, STRICT)
        right = right * tl.exp(logs + passed_columns[None, :])
        whole = passed_columns + tl.sum(logs_of(call.gates.column, sequence, other, 0, state_columns, tile.column_width, tile.TOKENS), 0)
    return product_in_parts(weights, right, sum), whole


@jit
def read_state(call, states, place, head, sequence, first, edge, state_columns, tile, REVERSED: tl.constexpr, STRICT: tl.constexpr, sum):
    """sum + what is read of the state at the edge of the chunk. `edge`: the block that would lie beyond it."""
    order = tl.arange(0, tile.TOKENS)
    there = first + order < sequence.count
    for row in range(0, tile.row_width, tile.ROWS):
        state_rows = row + tl.arange(0, tile.ROWS)
        read = rows_of(call.reading, sequence, first + order, there, state_rows, tile.row_width)
        inside = (state_rows < tile.row_width)[:, None] & (state_columns < tile.column_width)[None, :]
        state = tl.load(places_of(states, place, head, state_rows, state_columns), mask=inside, other=0.0)
        if call.gates.row is not None:
            read = read * tl.exp(sums_of(call.gates.row, sequence, first, state_rows, tile.row_width, tile.TOKENS, 1 - REVERSED, STRICT))
            state = state * tl.exp(sums_between(call.gates.row, sequence, first, edge, state_rows, tile.row_width, tile))[:, None]
        sum = product_in_parts(read, state, sum)
    return sum


def token_outputs(
    reading: Heads, rows: Heads, columns: Heads, output: Heads, gates: Gates, states: States, span: Span, tile: Tile,
    REVERSED: tl.constexpr, STRICT: tl.constexpr, OF_OTHERS: tl.constexpr,
):  # fmt: skip
    """A program for each block of tokens and of columns; a chunk is one block unless rows or columns have decays of their own. `states` may be None. OF_OTHERS: without
    what the token itself writes, as for STRICT, but with its decay; of decays of tokens alone."""
    OF_CHUNK: tl.constexpr = tile.CHUNK // tile.TOKENS
    column_blocks = tl.cdiv(tile.column_width, tile.COLUMNS)
    rest = tl.program_id(0)
    state_columns = (rest % column_blocks) * tile.COLUMNS + tl.arange(0, tile.COLUMNS)
    rest = rest // column_blocks
    head = (rest % span.heads).to(tl.int64)
    rest = rest // span.heads
    block = (rest % OF_CHUNK).to(tl.int64)
    rest = rest // OF_CHUNK
    chunk = (rest % span.chunks).to(tl.int64)
    number = (rest // span.chunks).to(tl.int64)
    sequence = sequence_of(span, number, tile.CHUNK)
    first_of_chunk = chunk * tile.CHUNK
    first = first_of_chunk + block * tile.TOKENS
    if first >= sequence.count:
        return
    order = tl.arange(0, tile.TOKENS)
    there = first + order < sequence.count
    batch = sequence.batch
    call = Call(at_head(reading, batch, head), at_head(rows, batch, head), at_head(columns, batch, head), gates_of_head(gates, batch, head))
    gates = call.gates
    seen = sees(tile, REVERSED, STRICT + OF_OTHERS)
    total = tl.full([tile.TOKENS, tile.COLUMNS], 0, tl.float32)
    passed_columns = tl.full([tile.COLUMNS], 0, tl.float32)
    edge = first_of_chunk - tile.TOKENS
    if REVERSED:
        edge = first_of_chunk + tile.CHUNK
    if OF_CHUNK > 1:
        others = block
        if REVERSED:
            others = tl.cdiv(tl.minimum(sequence.count - first_of_chunk, tile.CHUNK), tile.TOKENS) - 1 - block
        for step in range(0, others):
            other = first - (step + 1) * tile.TOKENS
            if REVERSED:
                other = first + (step + 1) * tile.TOKENS
            total, passed_columns = read_block(call, sequence, first, other, passed_columns, state_columns, tile, REVERSED, STRICT, total)
    if states is not None:
        of_state = tl.full([tile.TOKENS, tile.COLUMNS], 0, tl.float32)
        of_state = read_state(call, states, sequence.place + chunk, head, sequence, first, edge, state_columns, tile, REVERSED, STRICT, of_state)
        if gates.token is not None:
            of_state = of_state * tl.exp(sums_of(gates.token, sequence, first, tl.arange(0, 1), 1, tile.TOKENS, 1 - REVERSED, STRICT))
        if gates.column is not None:
            of_state = of_state * tl.exp(passed_columns)[None, :]
        total += of_state
    if gates.column is not None:
        total = total * tl.exp(sums_of(gates.column, sequence, first, state_columns, tile.column_width, tile.TOKENS, 1 - REVERSED, STRICT))
    if gates.row is not None:
        weights = own_products_decayed(call, sequence, first, tile, REVERSED, STRICT)
    else:
        weights = own_products(call, sequence, first, tile)
    if gates.token is not None:
        weights = weights * tl.exp(passed_pairs(gates.token, sequence, first, tile, REVERSED))
    weights = tl.where(seen, weights, 0.0)
    if gates.column is not None:
        total += own_columns_decayed(weights, seen, call, sequence, first, state_columns, tile, REVERSED, STRICT)
    else:
        total += own_columns(weights, call, sequence, first, state_columns, tile)
        total = own_columns_not_finite(weights, seen, call, sequence, first, state_columns, tile, total)
    out = at_head(output, batch, head)
    at = out.data + (sequence.begin + first + order)[:, None] * out.row + state_columns[None, :]
    tl.store(at, total, mask=there[:, None] & (state_columns < tile.column_width)[None, :])
