"""Tokens of a sequence in chunks, and what decays make of a number on its way from one token to another.

Decays are at most 1, and no number is ever divided by one: what passes several tokens is multiplied by all of theirs, by the exponential of a sum
of logarithms or factor by factor. Differences of such sums would lose what a decay of 0 between them hides."""

from typing import Any, NamedTuple

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Gates


class Sequence(NamedTuple):
    batch: Any
    begin: Any  # its first token within the batch entry
    count: Any
    chunks: Any
    place: Any  # of its first state; a sequence of n chunks has n + 1


class StateBlock(NamedTuple):
    number: Any  # of the sequence
    head: Any
    part: Any  # which of the blocks of columns
    sequence: Any
    rows: Any
    own: Any  # columns within the block,
    columns: Any  # and within the state
    inside: Any
    whole: Any  # places in a tensor [sequences, H, D, Dv]


@jit
def sequence_of(span, number, CHUNK: tl.constexpr):
    if span.first_tokens is not None:
        begin = tl.load(span.first_tokens + number)
        count = tl.load(span.first_tokens + number + 1) - begin
        batch = number * 0
        place = begin // CHUNK + 2 * number
    else:
        begin = number * 0
        count = begin + span.tokens
        batch = number
        place = number * (tl.cdiv(span.tokens, CHUNK) + 1)
    return Sequence(batch, begin, count, tl.cdiv(count, CHUNK), place)


@jit
def chunk_of_program(span, number, tile):
    """Of programs that are numbered by heads, chunks and sequences: the sequence, the head, and the number of the chunk, which a shorter sequence lacks."""
    rest = number // span.heads
    sequence = sequence_of(span, (rest // span.chunks).to(tl.int64), tile.CHUNK)
    return sequence, (number % span.heads).to(tl.int64), (rest % span.chunks).to(tl.int64)


@jit
def gates_of_head(gates, batch, head):
    token = None
    if gates.token is not None:
        token = at_head(gates.token, batch, head)
    row = None
    if gates.row is not None:
        row = at_head(gates.row, batch, head)
    column = None
    if gates.column is not None:
        column = at_head(gates.column, batch, head)
    return Gates(token, row, column)


@jit
def rows_of(head, sequence, tokens, there, columns, width):
    """Rows of tokens that are numbered within the sequence, [tokens, columns]; 0 where they are not `there`, or beyond the width."""
    at = head.data + (sequence.begin + tokens)[:, None] * head.row + columns[None, :]
    return tl.load(at, mask=there[:, None] & (columns < width)[None, :], other=0.0)


@jit
def row_of(head, sequence, token, there, columns, width):
    """The row of one token."""
    return tl.load(head.data + (sequence.begin + token) * head.row + columns, mask=columns < tl.where(there, width, 0), other=0.0)


@jit
def numbers_of(head, sequence, tokens, there):
    """One number for each token."""
    return tl.load(head.data + (sequence.begin + tokens) * head.row, mask=there, other=0.0)


@jit
def sums_to_end(logs):
    """Of each and all that follow."""
    return tl.cumsum(logs, 0, reverse=True)


@jit
def logs_of(gate, sequence, first, apart, columns, width, COUNT: tl.constexpr):
    """Of each of COUNT tokens the logarithms of the one so far apart, 0 where that is none of them."""
    order = tl.arange(0, COUNT) + apart
    return rows_of(gate, sequence, first + order, (order >= 0) & (order < COUNT) & (first + order < sequence.count), columns, width)


@jit
def sums_of(gate, sequence, first, columns, width, COUNT: tl.constexpr, FROM_FIRST: tl.constexpr, STRICT: tl.constexpr):
    """What passes between each of COUNT tokens and the edge before the first: of those that read up to there what comes from there, and the reverse, if they
    are walked in reverse. Else the edge after the last. STRICT: a token reads before it decays."""
    if FROM_FIRST:
        sums = tl.cumsum(logs_of(gate, sequence, first, -STRICT, columns, width, COUNT), 0)
    else:
        sums = sums_to_end(logs_of(gate, sequence, first, 1, columns, width, COUNT))
    return sums


@jit
def places_of(states, place, head, rows, columns):
    return states.data + place * states.place + head * states.head + rows[:, None] * states.row + columns[None, :] * states.column


@jit
def whole_state(number, head, span, rows, columns, tile):
    """Places in a tensor [sequences, H, D, Dv]."""
    return ((number * span.heads + head) * tile.row_width + rows)[:, None] * tile.column_width + columns[None, :]


@jit
def state_or_nothing(state, whole, inside, tile):
    """Of a tensor [sequences, H, D, Dv] a block, by its places (whole_state); 0 where there is none."""
    found = tl.full([tile.ROWS, tile.COLUMNS], 0, tl.float32)
    if state is not None:
        found = tl.load(state + whole, mask=inside, other=0.0)
    return found


@jit
def columns_of_program(span, tile):
    """Of a program for each block of columns of a state, all of whose rows it holds."""
    number = tl.program_id(0) // tl.cdiv(tile.column_width, tile.COLUMNS)
    part = (tl.program_id(0) % tl.cdiv(tile.column_width, tile.COLUMNS)).to(tl.int64)
    head = (number % span.heads).to(tl.int64)
    number = (number // span.heads).to(tl.int64)
    rows = tl.arange(0, tile.ROWS)
    own = tl.arange(0, tile.COLUMNS)
    columns = part * tile.COLUMNS + own
    inside = (rows < tile.row_width)[:, None] & (columns < tile.column_width)[None, :]
    return StateBlock(number, head, part, sequence_of(span, number, tile.CHUNK), rows, own, columns, inside, whole_state(number, head, span, rows, columns, tile))


@jit
def kept_state(scratch, token, rows, columns, tile):
    """Places in memory of this program, for as many states as a chunk has tokens."""
    at = (tl.program_id(0).to(tl.int64) * tile.CHUNK + token) * tile.ROWS
    return scratch + (at + rows)[:, None] * tile.COLUMNS + columns[None, :]


@jit
def part_at(parts, part, batch, head):
    return Heads(parts.data + part * parts.part + batch * parts.batch + head * parts.head, parts.batch, parts.head, parts.row)


@jit
def store_row(head, sequence, token, columns, width, numbers):
    tl.store(head.data + (sequence.begin + token) * head.row + columns, numbers, mask=columns < width)


@jit
def number_of(head, sequence, token):
    return tl.load(head.data + (sequence.begin + token) * head.row)
