"""Devices that kernels are compiled for, by the names that compilers have for them."""

from triton.backends.compiler import GPUTarget


def target_named(name: str) -> GPUTarget:
    """sm_90 of NVIDIA's 9.0, gfx942 of AMD's."""
    if name.startswith("sm_"):
        return GPUTarget("cuda", int(name.removeprefix("sm_")), 32)
    return GPUTarget("hip", name, 64)


# What the command and the tests compile for.
TARGETS = {name: target_named(name) for name in ("sm_80", "sm_89", "sm_90", "sm_100", "gfx942")}
