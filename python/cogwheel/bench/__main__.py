"""The command line of the benchmarks: ``cogwheel bench attention``, ``decode``, ``alignment``, ``training``, ``scale``, ``generation``, ``beam``."""

import argparse
import json
import os
import pathlib
import signal
import sys
from dataclasses import asdict
from typing import NoReturn

if __name__ == "__main__":
    from cogwheel.bench.machine import start_with_kept_pages

    start_with_kept_pages()

import torch

import cogwheel
from cogwheel.bench import alignment, attention, decode, eager, generation, operators, recurrent, scale, training, tune
from cogwheel.bench.chart import bars, page
from cogwheel.bench.machine import description, memory_peak, product_peak
from cogwheel.bench.timing import Timing
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


def row(name: str, timing: Timing, base: Timing, **more: object) -> dict[str, object]:
    return {
        "name": name,
        "least_seconds": timing.min,
        "median_seconds": timing.median,
        "turns": timing.turns,
        "ratio": timing.min / base.min,
        "ratio_of_medians": timing.median / base.median,
        **more,
    }


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


def print_case(case: attention.Case) -> None:
    print(
        f"\n{case.length} tokens, batch {case.batch}, {case.heads} heads of {case.head_dim}, {case.dtype}, "
        f"{'causal' if case.causal else 'full'}, {'forward and backward' if case.backward else 'forward'}"
    )


def print_head(case: attention.Case, with_memory: bool) -> None:
    print_case(case)
    memory = "MB more" if with_memory else ""
    print(f"  {'':38}{'ms':>9}{'ratio':>8}{'of medians':>12}{'GF/s':>7}{'of peak':>9}{memory:>9}")


def print_row(found: dict) -> None:
    memory = found["peak_memory_bytes"]
    print(
        f"  {found['name']:38}{1e3 * found['least_seconds']:9.3f}{found['ratio']:8.2f}{found['ratio_of_medians']:12.2f}"
        f"{found['gflops']:7.0f}{found['share_of_peak']:9.0%}" + ("" if memory is None else f"{memory / 1e6:9.0f}"),
        flush=True,
    )


def bench_attention(arguments: argparse.Namespace) -> list[dict[str, object]]:
    check_mechanisms(arguments.mechanisms, {"operator"})
    check_heads(arguments)
    cases = [
        attention.Case(
            length=length,
            batch=arguments.batch,
            heads=arguments.heads,
            head_dim=arguments.head_dim,
            dtype=arguments.dtype,
            causal=not arguments.full,
            backward=arguments.backward,
            device=arguments.device,
        )
        for length in arguments.lengths
    ]
    if arguments.tune:
        return tune_attention(arguments.mechanisms, cases)
    peak = product_peak(attention.DTYPES[arguments.dtype], device=arguments.device)
    print(f"Matrix products reach {peak:.0f} GF/s in {arguments.dtype}. Ratio: of minimum times, over {next(iter(attention.baselines(cases[0])))}.")
    results = []
    for case in cases:
        try:
            timings = attention.measure(
                arguments.mechanisms,
                case,
                seconds=arguments.seconds,
                with_eager=not arguments.no_eager,
                with_flex=arguments.flex,
            )
        except ValueError as error:  # as of a law with a decay and --full
            refuse(f"bench: {error}")
        print_head(case, arguments.memory)
        for name, timing in timings.items():
            rate = attention.flops(name, case) / timing.min / 1e9
            more = {
                "case": asdict(case),
                "gflops": rate,
                "share_of_peak": rate / peak,
                "peak_memory_bytes": attention.peak_memory(name, case) if arguments.memory else None,
                "results_bytes": attention.results_bytes(case),
            }
            results.append(row(name, timing, next(iter(timings.values())), **more))
            print_row(results[-1])
    return results


def tune_attention(mechanisms: list[str], cases: list[attention.Case]) -> list[dict[str, object]]:
    if torch.device(cases[0].device).type != "cuda" and os.environ.get("COGWHEEL_ENGINE") != "interpreted":
        refuse(f"bench: tune: expected --device cuda, whose kernels have blocks, got {cases[0].device}")
    with_state = [name for name in mechanisms if recurrent.axes_of(name) is not None]
    if with_state:
        refuse(f"bench: tune: expected mechanisms without a state, got {with_state[0]}")
    print("Medians of whole calls, of each kernel with the best sizes of those before it. Ratio: over the sizes of the table.")
    results = []
    for case in cases:
        print_case(case)
        print(f"  {'':20}{'':18}{'':34}{'ms':>9}{'ratio':>8}")
        for trial in tune.trials(mechanisms, case):
            results.append(asdict(trial) | {"case": asdict(case)})
            sizes = "{} rows x {} keys, {} warps, {} stages".format(*trial.sizes)
            times = "    cannot be had" if trial.seconds is None else f"{1e3 * trial.seconds:9.3f}{trial.ratio:8.3f}"
            print(f"  {trial.mechanism:20}{trial.kernel:18}{sizes:34}{times}", flush=True)
    return results


def bench_decode(arguments: argparse.Namespace) -> list[dict[str, object]]:
    check_mechanisms(arguments.mechanisms, {"operator"})
    check_heads(arguments)
    grouped = [name for name in arguments.mechanisms if recurrent.axes_of(name) is not None and arguments.group > 1]
    if grouped:
        refuse(f"bench: group: expected 1 for {grouped[0]}, got {arguments.group}")
    print("One query of each query head. Ratios of minimum times: over reading the keys and values, and over torch.")
    if torch.device(arguments.device).type != "cpu":
        print(f"Copies move {memory_peak(device=arguments.device):.0f} GB/s, read and written.")
    results = []
    for length in arguments.lengths:
        case = decode.Case(
            length=length,
            batch=arguments.batch,
            heads=arguments.heads,
            group=arguments.group,
            head_dim=arguments.head_dim,
            dtype=arguments.dtype,
            device=arguments.device,
        )
        timings = decode.measure(arguments.mechanisms, case, seconds=arguments.seconds)
        print(
            f"\n{length} keys, batch {case.batch}, {case.heads * case.group} heads over {case.heads} of {case.head_dim}, "
            f"{case.dtype}: {case.cache_bytes / 1e6:.0f} MB a cache, {case.caches} of them in turn"
        )
        print(f"  {'':28}{'ms':>9}{'ratio':>8}{'of medians':>12}{'of torch':>10}{'GB/s':>7}")
        for name, timing in timings.items():
            more = {
                "case": asdict(case),
                "ratio_to_torch": timing.min / timings[decode.TORCH].min,
                "gigabytes_per_second": case.cache_bytes / timing.min / 1e9,
            }
            found = row(name, timing, timings[decode.READ], **more)
            results.append(found)
            print(
                f"  {name:28}{1e3 * timing.min:9.3f}{found['ratio']:8.2f}{found['ratio_of_medians']:12.2f}"
                f"{found['ratio_to_torch']:10.2f}{found['gigabytes_per_second']:7.1f}",
                flush=True,
            )
    return results


def bench_alignment(arguments: argparse.Namespace) -> list[dict[str, object]]:
    check_mechanisms(arguments.mechanisms, {"operator"})
    for name in arguments.mechanisms:
        if name not in eager.WEIGHTS:
            refuse(f"bench: mechanisms: expected {', '.join(eager.WEIGHTS)} (those of eager PyTorch), got {name}")
    print("Forward and backward of decoder steps. Faster: minimum time of eager PyTorch over Cogwheel's, both at the same work.")
    results = []
    for steps in arguments.steps:
        case = alignment.Case(steps=steps, batch=arguments.batch, source=arguments.source, width=arguments.width)
        timings = alignment.measure(arguments.alignments, arguments.mechanisms, case, seconds=arguments.seconds)
        print(
            f"\n{steps} step{'s' if steps > 1 else ''} at once, batch {case.batch}, sources of up to {case.source}, "
            f"states of {case.width}, fp32"
        )
        print(f"  {'':28}{'ms':>9}{'eager ms':>10}{'faster':>8}{'by medians':>12}")
        for name, (ours, peer) in timings.items():
            results.append(row(name, ours, peer, case=asdict(case)))
            results.append(row(f"eager {name}", peer, peer, case=asdict(case)))
            print(
                f"  {name:28}{1e3 * ours.min:9.2f}{1e3 * peer.min:10.2f}{peer.min / ours.min:8.2f}"
                f"{peer.median / ours.median:12.2f}",
                flush=True,
            )
    return results


def executable() -> pathlib.Path:
    path = pathlib.Path(os.environ.get("COGWHEEL_EXECUTABLE", pathlib.Path(sys.executable).parent / "cogwheel"))
    if not path.is_file():
        refuse(f"bench: executable: expected {path}, got none; build it with ./quickstart --setup-only")
    return path


def bench_training(arguments: argparse.Namespace) -> list[dict[str, object]]:
    shape = training.SHAPES[arguments.model]
    names = arguments.mechanisms or list(shape.mechanisms)
    if "softmax" in shape.mechanisms:  # alignments and windows are checked by the executable
        check_mechanisms(names, {"operator", "layer"})
    definitions = [f"--define={line}" for line in arguments.define] + [f"--mechanism-file={path}" for path in arguments.mechanism_file]
    if arguments.operators:
        if arguments.device != "cpu":
            refuse(f"bench: operators: expected the CPU, whose operators are timed, got {arguments.device}")
        return bench_operators(arguments, shape, names, definitions)
    print(f"{shape.describe()}. Ratio: {shape.counted} per second over those of {shape.peer}.")
    results = []
    for precision in arguments.precision:
        timings = training.measure(
            executable(), shape, names, precision, seconds=arguments.seconds, with_compile=arguments.compile, definitions=definitions, device=arguments.device
        )
        more = {"precision": precision, "shape": asdict(shape)}
        results += print_speeds(precision, shape, shape.items, timings, more)
    return results


def bench_scale(arguments: argparse.Namespace) -> list[dict[str, object]]:
    if arguments.mechanisms:
        refuse(f"bench: mechanisms: expected none, the model has softmax, got {' '.join(arguments.mechanisms)}")
    if arguments.ranks & (arguments.ranks - 1):
        refuse(f"bench: ranks: expected a power of two, got {arguments.ranks}")
    print(f"{arguments.ranks} ranks of {arguments.threads} thread{'s' if arguments.threads > 1 else ''}, fp32. Share: time of a step without exchange over that with it.")
    results = []
    for size in arguments.sizes:
        shape = scale.SHAPES[size]
        if shape.batch % arguments.ranks:
            refuse(f"bench: ranks: expected a divisor of the batch of {shape.batch}, got {arguments.ranks}")
        timings = scale.measure(shape, arguments.ranks, arguments.threads, seconds=arguments.seconds)
        print(f"\n{shape.describe()}\n  {'':28}{'ms':>9}{'medians':>10}{'share':>8}")
        for alone, together in scale.SIDES.items():
            for each in (alone, *together):
                more = {"size": size, "ranks": arguments.ranks, "threads": arguments.threads, "share": timings[alone].min / timings[each].min}
                results.append(row(each, timings[each], timings[scale.PEER], **more))
                print(f"  {each:28}{1e3 * timings[each].min:9.1f}{1e3 * timings[each].median:10.1f}{more['share']:8.3f}", flush=True)
    return results


def bench_operators(
    arguments: argparse.Namespace, shape: training.AnyShape, names: list[str], definitions: list[str]
) -> list[dict[str, object]]:
    machine = operators.measured_machine()
    rates = ", ".join(f"{rate / 1e9:.0f} GF/s in {dtype}" for dtype, rate in machine.rates.items())
    print(f"{shape.describe()}. Least: at {rates}, {machine.bandwidth / 1e9:.1f} GB/s.")
    results = []
    for name in names:
        for precision in arguments.precision:
            steps = training.operators_of_steps(
                executable(), shape, name, precision, seconds=arguments.seconds / 2, definitions=definitions
            )
            rows = operators.times(steps, machine)
            print(f"\n{name} {precision}, minima of {len(steps)} steps", *operators.told(rows), sep="\n", flush=True)
            results += [asdict(row) | {"mechanism": name, "precision": precision} for row in rows]
    return results


def bench_generation(arguments: argparse.Namespace) -> list[dict[str, object]]:
    if arguments.mechanisms:
        refuse(f"bench: mechanisms: expected none, the model has softmax, got {' '.join(arguments.mechanisms)}")
    shape, seconds = generation.SHAPES[arguments.model], arguments.seconds
    print(f"{shape.describe()}, {shape.read_weights / 1e6:.1f}M weights read by each token. Ratio: over transformers of the same kind.")
    if not generation.has_peer():
        print("transformers: expected PyPI's package beside cogwheel, got none: Cogwheel alone is timed")
    sides = generation.Sides(shape)
    results = []

    def told(head: str, speeds: list[generation.Speed], bandwidth: float | None = None) -> None:
        over = generation.ratios(speeds)
        print(f"\n{head:38}{'tokens/s':>10}{'ratio':>8}" + (f"{'of reading':>12}" if bandwidth else ""))
        for speed in speeds:
            share = generation.share_of_reading(shape, speed, bandwidth) if bandwidth else None
            ratio = f"{over[speed.name]:8.2f}" if speed.name in over else " " * 8
            print(f"  {speed.name:36}{speed.tokens_per_second:10.1f}{ratio}" + (f"{share:12.0%}" if share else ""), flush=True)
            results.append({"case": head, "name": speed.name, "tokens_per_second": speed.tokens_per_second, "ratio": over.get(speed.name), "share_of_reading": share, "shape": asdict(shape)})

    speeds, bandwidth = generation.step_speeds(sides, 1, (8, 40), seconds)
    print(f"The weights are read at {bandwidth / 1e9:.1f} GB/s.")
    told("after a short prompt", speeds, bandwidth)
    told(f"{generation.BATCH} texts side by side", generation.step_speeds(sides, generation.BATCH, (4, 16), seconds)[0])
    long = generation.LONG_PROMPT
    told(f"a prompt of {long} tokens", generation.whole_speeds(sides, long, 1, long, seconds, 3, generation.OURS))
    tokens = arguments.tokens
    told(f"{tokens} tokens", generation.whole_speeds(sides, generation.PROMPT, tokens, tokens, seconds, arguments.turns, ("fp32",)))
    return results


def bench_beam(arguments: argparse.Namespace) -> list[dict[str, object]]:
    shape = training.SHAPES["seq2seq"]
    if arguments.mechanisms != list(shape.mechanisms):
        refuse(f"bench: mechanisms: expected {' '.join(shape.mechanisms)}, got {' '.join(arguments.mechanisms)}")
    print(
        f"{shape.describe()}. No hypothesis ends: each search takes {training.most_steps(shape)} steps. "
        f"Ratio: {shape.counted} per second over those of {shape.peer}."
    )
    results = []
    for beam in arguments.beams:
        timings = training.measure_beam(executable(), shape, beam, seconds=arguments.seconds)
        results += print_speeds(f"beam {beam}", shape, shape.batch, timings, {"beam": beam, "shape": asdict(shape)})
    return results


def print_speeds(
    head: str, shape: training.AnyShape, items: int, timings: dict[str, Timing], more: dict[str, object]
) -> list[dict[str, object]]:
    """Of a step with so many items, beside the peer's."""
    base = timings[shape.peer]
    print(f"\n{head:28}{shape.counted + '/s':>12}{'ratio':>8}{'of medians':>12}")
    results = []
    for name, timing in timings.items():
        speed = {f"{shape.counted}_per_second": items / timing.min}
        results.append(row(name, timing, base, **more, **speed))
        print(
            f"  {name:26}{items / timing.min:12.0f}{base.min / timing.min:8.2f}{base.median / timing.median:12.2f}",
            flush=True,
        )
    return results


def check_folder(path: pathlib.Path) -> None:
    """Checks, before minutes of measuring, that the results can be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"bench: out: expected a folder, got {path} ({error.strerror})")


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
    benches = {
        "attention": bench_attention,
        "decode": bench_decode,
        "alignment": bench_alignment,
        "training": bench_training,
        "scale": bench_scale,
        "generation": bench_generation,
        "beam": bench_beam,
    }
    results = benches[arguments.kind](arguments)
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
