"""Whether kernels are interpreted on the CPU, which COGWHEEL_ENGINE=interpreted asks for, or compiled for a device."""

import os
from collections.abc import Callable

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(os.environ.get("COGWHEEL_ENGINE") == "interpreted")


def jit(function: Callable) -> Callable:
    """What kernels call. Interpreted it stays a function of Python, because Triton would adapt its whole language again at each call."""
    return function if INTERPRETED.value else triton.jit(function)
