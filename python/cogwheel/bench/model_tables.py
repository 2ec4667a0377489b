"""Tables of whole models: training, several ranks, texts and translations beside their peers."""

import argparse
from dataclasses import asdict

from cogwheel.bench import generation, operators, scale, training
from cogwheel.bench.options import check_mechanisms, executable, refuse
from cogwheel.bench.timing import Timing, row


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
            found = operators.times(steps, machine)
            print(f"\n{name} {precision}, minima of {len(steps)} steps", *operators.told(found), sep="\n", flush=True)
            results += [asdict(each) | {"mechanism": name, "precision": precision} for each in found]
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
