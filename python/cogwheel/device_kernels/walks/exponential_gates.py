"""Gates of xLSTM's matrix memory (cogwheel/ops/recurrent/exponential_gates.h): m_t = max(log σ(f_t) + m_{t−1}, i_t, 0), by which weights are divided. Of a
block of tokens at once: max(m + a, b) after max(m + a′, b′) is such a function of m again."""

import triton
import triton.language as tl

from cogwheel.device_kernels.choice import jit
from cogwheel.device_kernels.lane import log1p
from cogwheel.device_kernels.walks.arguments import Span
from cogwheel.device_kernels.walks.tokens import sequence_of


@triton.jit
def after(a, b, a_next, b_next):
    return a + a_next, tl.maximum(b + a_next, b_next, propagate_nan=tl.PropagateNan.ALL)


@jit
def log_sigmoid(x):
    return tl.minimum(x, 0.0) - log1p(tl.exp(-tl.abs(x)))


def exponential_gates(given, kept, initial, log_decay, weight, least, last, forgotten, span: Span, TOKENS: tl.constexpr):
    """A program for each sequence and head. Tensors of tokens are [B, H, N], contiguous."""
    head = (tl.program_id(0) % span.heads).to(tl.int64)
    number = (tl.program_id(0) // span.heads).to(tl.int64)
    sequence = sequence_of(span, number, TOKENS)
    begin = (sequence.batch * span.heads + head) * span.tokens + sequence.begin
    order = tl.arange(0, TOKENS)
    highest = tl.full([1], 0, tl.float32)
    if initial is not None:
        highest += tl.load(initial + number * span.heads + head)
    for chunk in range(0, sequence.chunks):
        token = chunk * TOKENS + order
        there = token < sequence.count
        at = begin + token
        f = tl.load(kept + at, mask=there, other=0.0)
        i = tl.load(given + at, mask=there, other=0.0)
        # What has been before each token of the block: nothing, of the first.
        before = (order > 0) & there
        f_before = tl.load(kept + at - 1, mask=before, other=0.0)
        i_before = tl.load(given + at - 1, mask=before, other=0.0)
        a = tl.where(before, log_sigmoid(f_before), 0.0)
        b = tl.where(before, tl.maximum(i_before, 0.0), float("-inf"))
        a, b = tl.associative_scan((a, b), 0, after)
        carried = log_sigmoid(f) + tl.maximum(highest + a, b, propagate_nan=tl.PropagateNan.ALL)
        m = tl.maximum(carried, tl.maximum(i, 0.0), propagate_nan=tl.PropagateNan.ALL)
        small = tl.exp(-tl.abs(f))
        tl.store(log_decay + at, tl.minimum(carried - m, 0.0, propagate_nan=tl.PropagateNan.ALL), mask=there)
        tl.store(weight + at, tl.exp(i - m), mask=there)
        tl.store(least + at, tl.exp(-m), mask=there)
        tl.store(forgotten + at, tl.where(f < 0, 1.0, small) / (1.0 + small), mask=there)
        final = tl.minimum(sequence.count - chunk * TOKENS, TOKENS) - 1
        highest = tl.full([1], 0, tl.float32) + tl.sum(tl.where(order == final, m, 0.0), 0)
    tl.store(last + number * span.heads + head + tl.arange(0, 1), highest)
