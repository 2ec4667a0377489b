"""Kernels for GPUs in Triton's language, made around row maps that are printed from their headers (``triton_text``).

    COGWHEEL_ENGINE=interpreted python …

runs them on the CPU by Triton's interpreter, which shows what a GPU would compute, slowly. Everything else of attention, checks,
gradients, what these kernels lack, stays as it is (docs/architecture.md, Devices).
"""

import os
import sys


def implement() -> None:
    """Lets attention on the CPU run these kernels."""
    if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
        raise ImportError("COGWHEEL_ENGINE=interpreted: expected cogwheel to be imported before triton, or TRITON_INTERPRET=1, got triton imported")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise ImportError("COGWHEEL_ENGINE=interpreted: expected the package triton, got none; pip install triton") from error
    import torch

    from cogwheel.device_kernels import interpreted

    library = torch.library.Library("cogwheel", "IMPL")
    library.impl("interpret", interpreted.launch, "CPU")
    implement.library = library  # which lives as long as this
    print("cogwheel: attention on cpu: kernels for GPUs, interpreted (COGWHEEL_ENGINE=interpreted), slow", file=sys.stderr)
