"""Times reading weights as float32 against the package safetensors, taking turns in one process.

    python bench/weights.py [--gigabytes 1] [--rounds 7] [--dtype bf16] [--shards 1]

Matrices of [4096, 2048] are made and saved by `safetensors`. Its `load_file`, each tensor then made float32, stands against what
`cogwheel import` does: open, check, read each tensor into its parameter, and look for numbers that are not finite; also with rows in
another order and of transposed matrices. All with as many threads as torch has. Numbers are of the minimum times. Peaks are of
processes of their own: by how much they have grown, in parts of the float32 parameters.
"""

import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import safetensors.torch
import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = [
    "bench/weights.cpp",
    *(f"cogwheel/interchange/{name}.cpp" for name in ("foreign_config", "foreign_weights", "row_order", "tensor_conversion", "tensor_layout", "tensor_table")),
    *(f"cogwheel/runs/{name}.cpp" for name in ("foreign_file", "safetensors", "safetensors_header")),
    *(f"cogwheel/core/{name}.cpp" for name in ("encoding/sha256", "error", "files/atomic_file", "files/random_access_file", "range", "wording/nearest_names")),
]
SHAPE = (4096, 2048)


def compiled(folder):
    target, torch_root = folder / "weights.so", pathlib.Path(torch.__file__).parent
    sources = [str(ROOT / source) for source in SOURCES if (ROOT / source).exists()]
    subprocess.run(
        ["c++", "-std=c++20", "-O1", "-fopenmp", "-shared", "-fPIC", "-DFMT_HEADER_ONLY", f"-I{ROOT}", "-isystem", f"{torch_root}/include",
         "-isystem", f"{torch_root}/include/torch/csrc/api/include", *sources, "-o", target, f"-L{torch_root}/lib", "-ltorch_cpu", "-lc10",
         f"-Wl,-rpath,{torch_root}/lib", "-Wl,--no-undefined", "-lcrypto"], check=True)  # fmt: skip
    return target


def loaded(path):
    library = ctypes.CDLL(str(path))
    library.read_weights.restype = ctypes.c_int64
    return library


def of_package(folder):
    index = folder / "model.safetensors.index.json"
    files = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.exists() else ["model.safetensors"]
    tensors = {}
    for file in files:
        tensors |= {name: tensor.float() for name, tensor in safetensors.torch.load_file(folder / file).items()}
    return sum(tensor.nbytes for tensor in tensors.values())


def peak_bytes():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def make(folder, arguments):
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[arguments.dtype]
    count = round(arguments.gigabytes * 1e9 / (SHAPE[0] * SHAPE[1] * dtype.itemsize))
    names = [f"layers.{number:03}.weight" for number in range(count)]
    shards = [names[shard :: arguments.shards] for shard in range(arguments.shards)]
    map, size = {}, 0
    for number, shard in enumerate(shards, 1):
        file = "model.safetensors" if len(shards) == 1 else f"model-{number:05}-of-{len(shards):05}.safetensors"
        tensors = {name: torch.randn(SHAPE).to(dtype) for name in shard}
        safetensors.torch.save_file(tensors, folder / file, {"format": "pt"})
        map |= dict.fromkeys(shard, file)
        size += sum(tensor.nbytes for tensor in tensors.values())
    if len(shards) > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": map}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dtype", choices=["bf16", "fp16", "fp32"], default="bf16")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--library", help="bench/weights.cpp, compiled before")
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    def ways(folder, library):
        place = str(folder).encode()
        return {
            "safetensors": lambda: of_package(folder),
            "as they are": lambda: library.read_weights(place, 0, 0),
            "rows in another order": lambda: library.read_weights(place, 1, 0),
            "transposed": lambda: library.read_weights(place, 0, 1),
        }

    if arguments.peak_of:
        way = ways(arguments.folder, loaded(arguments.library))[arguments.peak_of]
        torch.ones(1 << 20).to(torch.bfloat16).sum()  # threads
        before = peak_bytes()
        bytes_made = way()
        print((peak_bytes() - before) / bytes_made)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        make(folder, arguments)
        library = arguments.library or compiled(folder)
        all_ways, times = ways(folder, loaded(library)), {}
        for round_number in range(arguments.rounds + 1):
            for name, way in all_ways.items():
                start = time.perf_counter()
                if way() < 0:
                    sys.exit(1)
                if round_number > 0:
                    times.setdefault(name, []).append(time.perf_counter() - start)
        print(f"{torch.get_num_threads()} threads, {arguments.gigabytes} GB of {arguments.dtype} in {arguments.shards} files")
        for name in all_ways:
            words = [sys.executable, __file__, "--folder", folder, "--library", library, "--peak-of", name]
            peak = float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            print(f"{name:24} {min(times[name]):6.2f} s  {min(times[name]) / min(times['safetensors']):5.2f}  peak {peak:.2f}")


if __name__ == "__main__":
    main()
