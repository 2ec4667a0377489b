"""What each token of a chunk adds to the state by a delta rule (delta_forward.py), as a matrix of what all of them would add without it:
u_t = β_t (v_t − Σ_{s<t} Γ_ts (k_t·k_s) u_s − Γ_t0 S_0ᵀ k_t), with Γ_ts what passes from s to t, so U = (1 + L)⁻¹ β (V − Γ K S_0), L_ts = β_t Γ_ts k_t·k_s below the
diagonal. Yang et al., "Parallelizing Linear Transformers with the Delta Rule over Sequence Length" (2024), section 3."""

import triton.language as tl

from cogwheel.device_kernels.arguments import Heads
from cogwheel.device_kernels.tiles import at_head
from cogwheel.device_kernels.walks.arguments import Gates, Span, Tile
from cogwheel.device_kernels.walks.token_outputs import Call, own_products, passed_pairs
from cogwheel.device_kernels.walks.tokens import chunk_of_program, gates_of_head, numbers_of


def delta_inverse(key: Heads, beta: Heads, solved: Heads, gates: Gates, span: Span, tile: Tile):
    """A program for each chunk: rows of (1 + L)⁻¹ β, as many columns as a chunk has tokens. Row after row by those above it: powers of L would grow where keys are
    alike."""
    sequence, head, chunk = chunk_of_program(span, tl.program_id(0), tile)
    first = chunk * tile.CHUNK
    if first >= sequence.count:
        return
    order = tl.arange(0, tile.TOKENS)
    there = first + order < sequence.count
    key = at_head(key, sequence.batch, head)
    gates = gates_of_head(gates, sequence.batch, head)
    factors = numbers_of(at_head(beta, sequence.batch, head), sequence, first + order, there)
    products = own_products(Call(key, key, key, gates), sequence, first, tile)
    if gates.token is not None:
        products = products * tl.exp(passed_pairs(gates.token, sequence, first, tile, False))
    below = order[:, None] > order[None, :]
    system = tl.where(below, products * factors[:, None], 0.0)
    inverse = tl.where(order[:, None] == order[None, :], 1.0, 0.0)
    for row in range(1, tile.TOKENS):
        of_row = tl.sum(tl.where(order[:, None] == row, system, 0.0), 0)
        taken = tl.sum(of_row[:, None] * inverse, 0)
        inverse = tl.where(order[:, None] == row, inverse - taken[None, :], inverse)
    inverse = tl.where(order[:, None] >= order[None, :], inverse * factors[None, :], 0.0)  # 0·NaN stays at its token
    out = at_head(solved, sequence.batch, head)
    tl.store(out.data + (sequence.begin + first + order)[:, None] * out.row + order[None, :], inverse, mask=there[:, None])
