"""What walks take of a call (cogwheel/ops/recurrent/triton)."""

from typing import Any, NamedTuple

from cogwheel.device_kernels.arguments import Heads


class Span(NamedTuple):
    """Sequences: of a batch entry each, or packed into one entry, then the tokens from first_tokens[i] up to first_tokens[i + 1]."""

    heads: Any
    tokens: Any  # of a batch entry
    chunks: Any  # of the longest sequence
    first_tokens: Any  # [sequences + 1] int64


class Gates(NamedTuple):
    """Logarithms of decays, at most 0, −∞ too: a number for each token, or for each row and column of the state."""

    token: Heads  # of width 1
    row: Heads
    column: Heads


class States(NamedTuple):
    """States [places, H, D, Dv] between chunks, of any strides; the places of a sequence are by tokens.Sequence."""

    data: Any
    place: Any
    head: Any
    row: Any
    column: Any


class Tile(NamedTuple):
    """Constants: the widths of a state, how much of it a program holds, powers of two, and how many tokens a chunk has and a program takes at once."""

    row_width: Any
    column_width: Any
    ROWS: Any
    COLUMNS: Any
    CHUNK: Any
    TOKENS: Any


class Table(NamedTuple):
    """Numbers of a head for each row and column of a state, or for each column."""

    data: Any
    head: Any  # stride; 0: of all heads


class Parts(NamedTuple):
    """Of each block of columns a tensor [B, H, N, width], all to be added."""

    data: Any
    part: Any
    batch: Any
    head: Any
    row: Any
