"""Tables of calls of attention: whole texts, decoding and alignment, beside their peers."""

import argparse
import os
from dataclasses import asdict

import torch

from cogwheel.bench import alignment, attention, decode, eager, recurrent, tune
from cogwheel.bench.machine import memory_peak, product_peak
from cogwheel.bench.options import check_heads, check_mechanisms, refuse
from cogwheel.bench.timing import row


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
