"""The machine of a benchmark, the peak rate of its matrix products, and the process settings for fair timing."""

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from cogwheel.bench.timing import take_turns

# Returning large blocks after each call would cost more in page faults than any difference: all sides keep their pages.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "1073741824",
}


def start_with_kept_pages() -> None:
    """Restarts this process, by the words that started it, if its allocator returns pages: it reads its settings only at the start."""
    if any(name not in os.environ for name in ALLOCATOR):
        os.environ.update(ALLOCATOR)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def instruction_sets() -> list[str]:
    known = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "").split()
    return [name for name in known if name in flags]


def product_peak(dtype: torch.dtype, seconds: float = 1.0, device: str = "cpu") -> float:
    """The best rate of PyTorch's matrix products, on the CPU with MKL or oneDNN, in GF/s."""
    size = 8192 if torch.device(device).type == "cuda" else 2048
    a, b = (torch.randn(size, size).to(device, dtype) for _ in range(2))

    def onednn() -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")

    jobs = {"matmul": lambda: a @ b.t()}
    if a.device.type != "cpu":
        return 2 * size**3 / take_turns(jobs, seconds=seconds, device=device)["matmul"].min / 1e9
    with torch.no_grad():
        try:
            onednn()
            jobs["oneDNN"] = onednn
        except (RuntimeError, AttributeError):
            pass  # not for this dtype, or not in this build
        timings = take_turns(jobs, seconds=seconds, min_turns=3)
    return 2 * size**3 / min(timing.min for timing in timings.values()) / 1e9


def memory_peak(seconds: float = 1.5, device: str = "cpu") -> float:
    """The best rate of PyTorch's passes over memory, read and written, in GB/s."""
    numbers, others = (torch.ones(64 << 20, device=device) for _ in range(2))
    bytes_of = {"copy": 2 * numbers.nbytes, "scale": 2 * numbers.nbytes, "add": 3 * numbers.nbytes}
    jobs = {"copy": lambda: numbers.copy_(others), "scale": lambda: numbers.mul_(1), "add": lambda: numbers.add_(others)}
    timings = take_turns(jobs, seconds=seconds, min_turns=3, device=device)
    return max(count / timings[name].min for name, count in bytes_of.items()) / 1e9


def device_name(device: str) -> str:
    """What the maker calls it; what PyTorch does where no maker is asked."""
    module = torch.get_device_module(torch.device(device).type)
    return module.get_device_name(torch.device(device)) if hasattr(module, "get_device_name") else device


def peak_bytes(job: Callable[[], object], device: str) -> int | None:
    """By how much a call raises what a device's tensors hold; None where the device does not count it."""
    module = torch.get_device_module(torch.device(device).type)
    if not hasattr(module, "max_memory_allocated"):
        return None
    job()
    module.synchronize()
    module.reset_peak_memory_stats()
    before = module.memory_allocated()
    job()
    module.synchronize()
    return module.max_memory_allocated() - before


def description(device: str = "cpu") -> dict[str, object]:
    """`device` is there where it is not the CPU."""
    there = {} if torch.device(device).type == "cpu" else {"device": device, "device_name": device_name(device), "cuda": torch.version.cuda}
    return there | {
        "processor": processor(),
        "instruction_sets": instruction_sets(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "isa": os.environ.get("COGWHEEL_ISA", "best"),
        "allocator": {name: os.environ.get(name, "") for name in ALLOCATOR},
    }
