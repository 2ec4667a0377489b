"""The command line of the benchmarks: ``cogwheel bench attention``, ``decode``, ``alignment``, ``training``, ``scale``, ``generation``, ``beam``."""

import json
import os
import pathlib
import signal
import sys
from typing import NoReturn

if __name__ == "__main__":
    from cogwheel.bench.machine import start_with_kept_pages

    start_with_kept_pages()

import torch

from cogwheel.bench.chart import bars, page
from cogwheel.bench.kernel_tables import bench_alignment, bench_attention, bench_decode
from cogwheel.bench.machine import description
from cogwheel.bench.model_tables import bench_beam, bench_generation, bench_scale, bench_training
from cogwheel.bench.options import check_device, check_folder, check_numbers, parser, register_definitions

# What prints the table of a kind, and returns its rows.
BENCHES = {
    "attention": bench_attention,
    "decode": bench_decode,
    "alignment": bench_alignment,
    "training": bench_training,
    "scale": bench_scale,
    "generation": bench_generation,
    "beam": bench_beam,
}


def write(path: pathlib.Path, text: str) -> None:
    """Writes to a temporary name, syncs and renames: a reader finds the old file or the complete new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def main(words: list[str] | None = None) -> None:
    """`words` as on the command line, by default those of the process. Exits with status 2 if they are wrong."""
    arguments = parser().parse_args(words)
    check_numbers(arguments)
    register_definitions(arguments)
    if arguments.out is not None:
        check_folder(arguments.out)
    device = getattr(arguments, "device", "cpu")
    check_device(device)
    if torch.device(device).type == "cuda" and torch.device(device).index is not None:
        torch.cuda.set_device(device)  # whose events and memory are asked for
    machine = description(device)
    if "device" in machine:
        print(f"{machine['device_name']}, CUDA {machine['cuda'] or 'none'}")
    print(
        f"{machine['processor']}, {machine['threads']} threads, {' '.join(machine['instruction_sets'])}; "
        f"torch {machine['torch']}; every side keeps its pages (malloc settings in the results)"
    )
    results = BENCHES[arguments.kind](arguments)
    if arguments.out is not None:
        whole = {"schema": 1, "command": f"bench {arguments.kind}", "machine": machine, "results": results}
        write(arguments.out / "bench.json", json.dumps(whole, indent=1) + "\n")
        print(f"\n{arguments.out / 'bench.json'}")
        if arguments.kind == "attention" and not arguments.tune:
            for name, content in (("bench.html", page(whole)), ("bench.svg", bars(whole))):
                write(arguments.out / name, content)
                print(arguments.out / name)


def end_as_of_closed_pipe() -> NoReturn:
    """Ends this process as of SIGPIPE, which Python ignores: whoever read what it prints has left."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    sys.exit(128 + signal.SIGPIPE)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        end_as_of_closed_pipe()
