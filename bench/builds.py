"""Times the pairwise kernels of several builds and PyTorch's fused softmax, taking turns in one process.

    python bench/builds.py BUILD… [--mechanism cog] [--lengths 512 2048] [--dtype bf16] [--backward] [--full] [--rounds 3]

BUILD is a build folder of this or another checkout (`cmake --preset kernels-only -B DIR` and `ninja -C DIR` make one in
ten minutes), or NAME=FOLDER. Each build's kernels are linked into a library of their own, whose names nobody else sees. Numbers
are minimum times divided by those of scaled_dot_product_attention, a line for each round; what an operator adds around its kernel
does not count.
"""

import argparse
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import torch

from cogwheel.bench.attention import BASELINE, Case, inputs, job
from cogwheel.bench.machine import description, start_with_kept_pages
from cogwheel.bench.timing import take_turns

SOURCE = pathlib.Path(__file__).with_name("kernels_of_build.cpp")


class Tensors(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in "query key value output output_gradient query_gradient key_gradient value_gradient shift mass bias".split()
    ]


class Sizes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in "batch heads length head_dim causal is_bfloat16".split()] + [
        ("dropout", ctypes.c_double)
    ]


@dataclass(frozen=True)
class Build:
    name: str
    attend: Callable

    def job(
        self, mechanism: str, case: Case, tensors: dict[str, torch.Tensor], bias: bool = False, dropout: float = 0.0
    ) -> Callable[[], object]:
        like = tensors["query"]
        kept = tensors | {
            name: torch.randn_like(like)
            for name in "output output_gradient query_gradient key_gradient value_gradient".split()
        }
        kept |= {name: torch.empty(like.shape[:3]) for name in ("shift", "mass")}
        if bias:
            kept["bias"] = torch.zeros(case.length, case.length)
        pointers = Tensors(**{name: tensor.data_ptr() for name, tensor in kept.items()})
        sizes = Sizes(*like.shape, case.causal, case.dtype == "bf16", dropout)

        def run(kept=kept) -> None:  # which owns what the pointers point to
            error = self.attend(mechanism.encode(), ctypes.byref(sizes), ctypes.byref(pointers), case.backward)
            if error:
                sys.exit(f"{self.name}: {error.decode()}")

        return run


def openmp() -> str:
    """The one OpenMP runtime of this process: the wheel's, or the system's."""
    here = pathlib.Path(torch.__file__).parent
    found = [*here.glob("lib/libgomp*.so*"), *here.parent.glob("torch.libs/libgomp*.so*")]
    return str(found[0]) if found else "-lgomp"


def load(word: str, folder: pathlib.Path) -> Build:
    name, _, place = word.rpartition("=")
    build = pathlib.Path(place).resolve()
    cache = build / "CMakeCache.txt"
    if not cache.exists():
        sys.exit(f"bench/builds.py: BUILD: expected a build folder, got {place}")
    text = cache.read_text()
    source = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", text, re.M)[1]
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", text, re.M)[1]
    library = folder / f"{name or build.name}.so"
    words = [
        compiler, "-std=c++20", "-O2", "-fopenmp", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{source}", str(SOURCE),
        *map(str, sorted(build.glob("cogwheel/attention/*/libcogwheel_*.a"), reverse=True)),
        *map(str, build.glob("cogwheel/core/libcogwheel_core.a")),
        "-nodefaultlibs", "-lstdc++", "-lm", "-lgcc_s", "-lc", "-lhwy", "-lcrypto", openmp(),
        "-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic", "-o", str(library),
    ]
    subprocess.run(words, check=True)
    attend = ctypes.CDLL(str(library)).attend
    attend.restype = ctypes.c_char_p
    return Build(name or str(place), attend)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs="+", metavar="BUILD")
    parser.add_argument("--mechanism", default="cog")
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 1024, 2048, 4096])
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--full", action="store_true", help="every query sees every key")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--bias", action="store_true", help="one of zeros is added to the scores; the peer has none")
    parser.add_argument("--dropout", type=float, default=0.0, metavar="P", help="of weights; the peer has none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of the turns of a length in a round")
    options = parser.parse_args()
    start_with_kept_pages()
    machine = description()
    print(f"{machine['processor']} ({', '.join(machine['instruction_sets'])}), {machine['threads']} threads, {options.dtype}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        builds = [load(word, pathlib.Path(folder)) for word in options.builds]
    for length in options.lengths:
        case = Case(length, options.batch, options.heads, options.head_dim, options.dtype, not options.full, options.backward)
        tensors = inputs("softmax", case)

        def fused(query, key, value):
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=case.causal)

        jobs = {BASELINE: job(fused, tensors, case.backward)}
        jobs |= {build.name: build.job(options.mechanism, case, tensors, options.bias, options.dropout) for build in builds}
        for _ in range(options.rounds):
            timings = take_turns(jobs, seconds=options.seconds)
            base = timings[BASELINE].min
            ratios = "  ".join(f"{build.name} {timings[build.name].min / base:.3f}" for build in builds)
            print(f"N {length:6}  {BASELINE} {1e3 * base:8.2f} ms  {ratios}", flush=True)


if __name__ == "__main__":
    main()
