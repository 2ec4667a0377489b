"""Whether kernels are interpreted on the CPU, which COGWHEEL_ENGINE=interpreted asks for, or compiled for a device."""

import os

import triton.language as tl

INTERPRETED = tl.constexpr(os.environ.get("COGWHEEL_ENGINE") == "interpreted")
