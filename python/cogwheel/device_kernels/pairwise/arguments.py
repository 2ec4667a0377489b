"""What kernels of attention take of a call (cogwheel/ops/pairwise/engines/triton)."""

from typing import Any, NamedTuple


class Pairs(NamedTuple):
    """A tensor broadcast to [B, H, N, M], in float32."""

    data: Any
    batch: Any
    head: Any
    row: Any
    key: Any


class Ranges(NamedTuple):
    """Tables [N, 2] of the keys [begin, end) that each query sees, contiguous int64; strides between tables are 0 where one serves all."""

    data: Any
    batch: Any
    head: Any


class Shape(NamedTuple):
    heads: Any  # of queries
    value_heads: Any
    sub_heads: Any
    queries: Any
    keys: Any


class Block(NamedTuple):
    """Constants: widths, and these as powers of two; how many rows and keys a program holds at once."""

    head_dim: Any
    D: Any
    value_dim: Any
    DV: Any
    ROWS: Any
    KEYS: Any


class Visible(NamedTuple):
    """Which keys queries see (cogwheel/core/visibility.h)."""

    diagonal: Any  # None: not causal
    window: Any
    lengths: Any  # [B] int64
    first_positions: Any  # [B] int64
    ranges: Ranges
    counts: Any  # [B, H, N] int32: how many keys a row sees, where biases hide some


class Modifiers(NamedTuple):
    """Of scores and weights (cogwheel/attention/kernels/pairwise/modifiers.h); heads are those of the output."""

    softcap: Any
    bias: Pairs
    energy_bias: Pairs
    slopes: Any  # [H] float32, of ALiBi
    diagonal: Any  # where the first query stands among the keys, unless Visible.first_positions says it
    centers: Any  # [B, H, N] float32
    precision: Any  # 1/σ² of the Gaussians
    seed: Any  # of dropout, int64 where the device has it,
    seed_number: Any  # or a number
    part: Any  # [4] int64: the seed, and dropout::Part
    kept_below: Any  # of words
    kept_factor: Any


class Score(NamedTuple):
    scale: Any
    weight: Any  # [Hq, D] float32: scores are weight·tanh(q + k), without it q·k
