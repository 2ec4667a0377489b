"""What the command line of the benchmarks takes, and what it refuses."""

import argparse
import os
import pathlib
import sys
from typing import NoReturn

import torch

import cogwheel
from cogwheel.bench import alignment, attention, generation, recurrent, scale, training
from cogwheel.catalogue import refresh

# The mechanisms for which the project has goals.
MECHANISMS = ["softmax", "cog", "differential", "sigmoid", "softmax_off_by_one"]


# The allowed range of each numeric option.
RANGES = {
    "batch": (1, 2**16), "heads": (1, 2**12), "group": (1, 2**10), "lengths": (1, 2**24), "ranks": (1, 2**10), "threads": (1, 2**12), "steps": (1, 2**12),
    "tokens": (1, 2030), "turns": (1, 100), "source": (1, 2**16), "width": (8, 1024), "beams": (1, 1000),
}  # fmt: skip
MAX_SECONDS = 86_400


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        refuse(f"bench: {message}")


def parser() -> argparse.ArgumentParser:
    whole = Parser(
        prog="cogwheel bench",
        description="Times Cogwheel and its peers in one run, taking turns; prints ratios of minimum times.",
        epilog="`cogwheel bench network` is a command of its own: how fast ranks exchange (`cogwheel bench network --help`).",
    )
    kinds = whole.add_subparsers(dest="kind", required=True, metavar="attention|decode|alignment|training|scale|generation|beam")

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        kind = kinds.add_parser(
            name, help=summary, description=summary, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        kind.add_argument("--mechanisms", nargs="+", metavar="NAME", help="from `cogwheel list mechanisms`")
        kind.add_argument("--seconds", type=float, help="for the turns of one table row")
        kind.add_argument("--define", action="append", default=[], metavar="LINE", help="a mechanism of your own")
        kind.add_argument(
            "--mechanism-file", action="append", default=[], metavar="FILE", help="a header with one; its code runs"
        )
        kind.add_argument("--out", type=pathlib.Path, help="folder for bench.json and, of attention, bench.html")
        return kind

    of_attention = add("attention", "Fused attention against PyTorch's fused softmax and eager PyTorch.")
    of_attention.set_defaults(mechanisms=MECHANISMS, seconds=2.0)
    of_attention.add_argument("--lengths", nargs="+", type=int, default=[512, 1024, 2048, 4096], metavar="N")
    of_attention.add_argument("--dtype", choices=attention.DTYPES, default="fp32", help="of queries, keys and values")
    of_attention.add_argument("--backward", action="store_true", help="forward and backward instead of forward alone")
    of_attention.add_argument("--full", action="store_true", help="every query sees every key, instead of causal")
    of_attention.add_argument("--batch", type=int, default=1)
    of_attention.add_argument("--heads", type=int, default=12)
    of_attention.add_argument("--head-dim", type=int, default=64)
    of_attention.add_argument("--no-eager", action="store_true", help="without the same mechanism in eager PyTorch")
    of_attention.add_argument("--flex", action="store_true", help="with compiled FlexAttention, for softmax, forward; on CUDA with backward too")
    of_attention.add_argument("--memory", action="store_true", help="peak memory too, on the CPU in a process for each")
    of_attention.add_argument("--tune", action="store_true", help="instead: other sizes of blocks for a GPU's kernels, against those they have")

    of_decode = add("decode", "One query of each head over a long cache, against reading the cache and PyTorch.")
    of_decode.set_defaults(mechanisms=MECHANISMS, seconds=4.0)
    of_decode.add_argument("--lengths", nargs="+", type=int, default=[4096, 8192, 16384, 32768], metavar="M")
    of_decode.add_argument("--dtype", choices=attention.DTYPES, default="fp32", help="of queries, keys and values")
    of_decode.add_argument("--batch", type=int, default=1)
    of_decode.add_argument("--heads", type=int, default=8, help="key heads")
    of_decode.add_argument("--group", type=int, default=1, help="query heads that share a key head")
    of_decode.add_argument("--head-dim", type=int, default=64)

    of_alignment = add("alignment", "Steps of a decoder over encoded sources, forward and backward, against eager PyTorch.")
    of_alignment.set_defaults(mechanisms=["softmax"], seconds=4.0)
    of_alignment.add_argument(
        "--alignments", nargs="+", choices=alignment.ALIGNMENTS, default=alignment.DEFAULT, metavar="NAME",
        help="a score, or a score and a window, or that of Graves: " + ", ".join(alignment.ALIGNMENTS),
    )  # fmt: skip
    of_alignment.add_argument("--steps", nargs="+", type=int, default=[1, 30], metavar="T", help="of the decoder, in one call")
    of_alignment.add_argument("--batch", type=int, default=64)
    of_alignment.add_argument("--source", type=int, default=30, help="tokens of the longest source")
    of_alignment.add_argument("--width", type=int, default=512, help="of the states of decoder and encoder")

    of_training = add("training", "Training steps of a model against the same model in eager PyTorch.")
    of_training.set_defaults(seconds=30.0)
    of_training.add_argument("--model", choices=training.SHAPES, default="small")
    of_training.add_argument("--precision", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    for kind in (of_attention, of_decode, of_training):
        kind.add_argument("--device", default="cpu", help="of PyTorch, such as cuda: its events measure, and PyTorch's kernels there are peers")
    of_training.add_argument("--compile", action="store_true", help="with torch.compile as another peer (minutes)")
    of_training.add_argument("--operators", action="store_true", help="instead: each operator of Cogwheel's step beside what the machine allows")

    of_scale = add("scale", "What ranks add to a step, beside DistributedDataParallel with ZeroRedundancyOptimizer.")
    of_scale.set_defaults(seconds=60.0)
    of_scale.add_argument("--sizes", nargs="+", choices=scale.SHAPES, default=list(scale.SHAPES), metavar="SIZE", help="layers x width: " + ", ".join(scale.SHAPES))
    of_scale.add_argument("--ranks", type=int, default=2, help="processes, a power of two")
    of_scale.add_argument("--threads", type=int, default=1, help="of each process")

    of_generation = add("generation", "Texts of a model in Llama's form against `generate` of transformers on equal weights.")
    of_generation.set_defaults(seconds=60.0)
    of_generation.add_argument("--model", choices=generation.SHAPES, default="110m")
    of_generation.add_argument("--tokens", type=int, default=1900, metavar="N", help="of the long text")
    of_generation.add_argument("--turns", type=int, default=1, metavar="N", help="of the long text: minutes each")

    of_beam = add("beam", "Beam search of translations against the same in eager PyTorch.")
    of_beam.set_defaults(mechanisms=list(training.SHAPES["seq2seq"].mechanisms), seconds=20.0)
    of_beam.add_argument("--beams", nargs="+", type=int, default=[1, 5], metavar="N", help="hypotheses of a sentence")
    return whole


def refuse(message: str) -> NoReturn:
    print(f"cogwheel: {message}", file=sys.stderr)
    sys.exit(2)


def check_device(name: str) -> None:
    """Refuses what is no device, or not of this machine or build of PyTorch."""
    try:
        torch.get_device_module(torch.empty(1, device=name).device.type)
    except (RuntimeError, AssertionError) as error:
        refuse(f"bench: device: expected one of PyTorch's on this machine, got {name} ({str(error).splitlines()[0]})")


def register_definitions(arguments: argparse.Namespace) -> None:
    """Registers the user's own mechanisms, before names are looked up."""
    try:
        for line in arguments.define:
            torch.ops.cogwheel.define_mechanism_line(line)
        for path in arguments.mechanism_file:
            cogwheel.load_mechanism(path)
    except (ValueError, RuntimeError) as error:
        refuse(str(error))
    refresh()


def check_mechanisms(names: list[str], levels: set[str]) -> None:
    known = {entry["name"]: entry["level"] for entry in cogwheel.mechanisms()}
    for name in names:
        if known.get(name) not in levels:
            kinds = ", ".join(sorted(levels))
            refuse(f"bench: mechanisms: expected names from `cogwheel list mechanisms` ({kinds}), got {name}")


def check_numbers(arguments: argparse.Namespace) -> None:
    if not 0 < arguments.seconds <= MAX_SECONDS:  # also refuses nan
        refuse(f"bench: seconds: expected above 0, at most {MAX_SECONDS}, got {arguments.seconds}")
    for name, (minimum, maximum) in RANGES.items():
        given = getattr(arguments, name, [])
        for value in given if isinstance(given, list) else [given]:
            if value < minimum:
                refuse(f"bench: {name}: expected {minimum} or more, got {value}")
            if value > maximum:
                refuse(f"bench: {name}: expected at most {maximum}, got {value}")


def check_heads(arguments: argparse.Namespace) -> None:
    differences = [name for name in arguments.mechanisms if attention.is_difference(name)]
    if differences and arguments.heads % 2:
        refuse(f"bench: heads: expected an even number for {differences[0]}, got {arguments.heads}")
    with_state = any(recurrent.axes_of(name) is not None for name in arguments.mechanisms)
    largest = 256 if with_state else 1024
    if not 8 <= arguments.head_dim <= largest:
        refuse(f"bench: head_dim: expected 8 to {largest}, got {arguments.head_dim}")


def executable() -> pathlib.Path:
    path = pathlib.Path(os.environ.get("COGWHEEL_EXECUTABLE", pathlib.Path(sys.executable).parent / "cogwheel"))
    if not path.is_file():
        refuse(f"bench: executable: expected {path}, got none; build it with ./quickstart --setup-only")
    return path


def check_folder(path: pathlib.Path) -> None:
    """Checks, before minutes of measuring, that the results can be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"bench: out: expected a folder, got {path} ({error.strerror})")
