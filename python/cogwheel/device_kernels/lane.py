"""The vocabulary of row maps (cogwheel/attention/mechanisms/lane.h) in Triton's language, of its core functions alone, so
that kernels run interpreted too, and how kernels multiply and round."""

import triton.language as tl

from cogwheel.device_kernels.choice import INTERPRETED, jit


@jit
def filled(x, like):
    """x in the shape of `like`: a number, or a number for each row."""
    return tl.zeros_like(like) + x


@jit
def sign(x):
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, x))


@jit
def copysign(magnitude, of):
    sign = of.to(tl.int32, bitcast=True) & -0x80000000
    return ((tl.zeros_like(of) + magnitude).to(tl.int32, bitcast=True) & 0x7FFFFFFF | sign).to(tl.float32, bitcast=True)


@jit
def times_sign(magnitude, s):
    return tl.where(s == 0, 0.0, copysign(magnitude, s))


@jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@jit
def sigmoid_with_odds(x, odds):
    return 1.0 / (1.0 + odds * tl.exp(-x))


@jit
def log1p(x):
    # Kahan: what rounding 1 + x loses is made good by the quotient.
    u = 1.0 + x
    near = tl.where(u == 1.0, 2.0, u)
    return tl.where(u == 1.0, x, tl.where(u == float("inf"), u, tl.log(near) * (x / (near - 1.0))))


@jit
def softplus(x):
    return tl.where(x > 0, x, tl.where(x == x, 0.0, x)) + log1p(tl.exp(-tl.abs(x)))


@jit
def tanh(x):
    # Near 0 by the quotient of e⁻²ˣ − 1, whose digits cancel, as a polynomial: its next term is below 1e-8.
    square = x * x
    near = x * (1.0 + square * (-1.0 / 3 + square * (2.0 / 15 + square * (-17.0 / 315 + square * (62.0 / 2835)))))
    e = tl.exp(-2.0 * tl.abs(x))
    return tl.where(tl.abs(x) < 0.25, near, copysign((1.0 - e) / (1.0 + e), x))


@jit
def is_finite(x):
    return tl.abs(x) < float("inf")


@jit
def product(a, b, sum):
    """sum + a·b in float32; no operand is rounded to TF32. Interpreted, operands of 16 bits are widened first, because the interpreter
    multiplies their bits."""
    if INTERPRETED:
        sum = tl.dot(a.to(tl.float32), b.to(tl.float32), sum, input_precision="ieee")
    else:
        sum = tl.dot(a, b, sum, input_precision="ieee")
    return sum


@tl.core.builtin
def _float32_precision(_semantic=None) -> tl.constexpr:
    """Of a product by tensor cores, as Triton names it: AMD's take float32 as it is."""
    return tl.constexpr("tf32x3" if "tf32x3" in _semantic.builder.options.allowed_dot_input_precisions else "ieee")


@jit
def product_in_parts(a, b, sum):
    """sum + a·b of float32 by tensor cores: each number is the sum of two that TF32 holds, whose smallest product is left out, 2⁻²² of the largest, where they know
    no float32. What is not finite becomes NaN."""
    if INTERPRETED:
        sum = tl.dot(a, b, sum, input_precision="ieee")
    else:
        sum = tl.dot(a, b, sum, input_precision=_float32_precision())
    return sum


@jit
def rounded(x, dtype: tl.constexpr):
    """float32 in another dtype. Interpreted, to nearest even by its bits where that is bfloat16, because the interpreter truncates."""
    if INTERPRETED and dtype == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        nearest = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16
        y = tl.where(x == x, nearest, 0x7FC0).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        y = x.to(dtype)
    return y


@jit
def in_dtype_of(x, like):
    """Forms combine outputs in float32, and so do their gradients come; products take operands of one dtype."""
    if x.dtype != like.dtype:
        y = rounded(x, like.dtype)
    else:
        y = x
    return y
