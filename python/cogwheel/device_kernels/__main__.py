"""``python -m cogwheel.device_kernels``: what a compiler makes of kernels for GPUs, on a machine that need not have one."""

import argparse
import os
import sys


def fill(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    import torch

    if not arguments.target.startswith("sm_"):
        parser.error(f"--for: expected a device of NVIDIA with --fill, got {arguments.target}")
    from cogwheel.device_kernels import laws

    if arguments.mechanism in laws.names():
        made = laws.fill(arguments.mechanism, arguments.head_dim, arguments.target)
        print(f"{made} kernels of {arguments.mechanism} for {arguments.target} in the cache")
        return 0
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[arguments.dtype]
    try:
        made = torch.ops.cogwheel.fill_kernel_cache(arguments.mechanism, dtype, arguments.head_dim, arguments.target)
    except (ValueError, RuntimeError) as error:
        parser.error(str(error).splitlines()[0])
    print(f"{made} kernels of {arguments.mechanism} for {arguments.target} in the cache")
    return 0


def show(found) -> None:
    print(f"{found.kernel:18}{found.shared_bytes / 1024:10.1f} KiB{found.stack_bytes:17} B{found.products:10}")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cogwheel.device_kernels", description=__doc__)
    parser.add_argument("--mechanism", default="softmax", help="a mechanism that is a function of scores, or has a state (softmax)")
    parser.add_argument("--for", dest="target", default="sm_90", help="sm_80, sm_89, sm_90, sm_100 or gfx942 (sm_90)")
    parser.add_argument("--head-dim", type=int, default=64, help="width of queries, keys and values, up to 256 (64)")
    parser.add_argument("--dtype", choices=["bf16", "fp16", "fp32"], default="bf16")
    parser.add_argument("--fill", action="store_true", help="compile what full and causal calls, or training and a step of decoding, launch into the cache, as the first calls on that device would")
    parser.add_argument("--assembly", metavar="KERNEL", help="print the assembly of that kernel instead")
    arguments = parser.parse_args(words)
    if os.environ.get("TRITON_INTERPRET") == "1":
        parser.error("COGWHEEL_ENGINE: expected nothing, as interpreted kernels are not compiled, got interpreted")
    try:
        from cogwheel.device_kernels.compiled import KERNELS, TARGETS, compiled
    except ModuleNotFoundError:
        parser.error("expected the package triton, got none; pip install triton")
    if arguments.target not in TARGETS:
        parser.error(f"--for: expected {', '.join(TARGETS)}, got {arguments.target}")
    if arguments.assembly is not None and arguments.assembly not in KERNELS:
        parser.error(f"--assembly: expected {', '.join(KERNELS)}, got {arguments.assembly}")
    if not 8 <= arguments.head_dim <= 256:
        parser.error(f"--head-dim: expected 8 to 256, got {arguments.head_dim}")
    if arguments.fill:
        return fill(parser, arguments)
    from cogwheel.device_kernels import laws

    kernels = KERNELS if arguments.assembly is None else [arguments.assembly]
    if arguments.assembly is None:
        print(f"{'kernel':18}{'shared memory':>14}{'stack of a thread':>19}{'products':>10}")
    if arguments.mechanism in laws.names():
        for found in laws.compiled(arguments.mechanism, arguments.head_dim, arguments.target):
            show(found)
        return 0
    for kernel in kernels:
        try:
            found = compiled(arguments.mechanism, kernel, arguments.target, dtype=arguments.dtype, head_dim=arguments.head_dim)
        except ValueError as error:
            parser.error(str(error))
        if arguments.assembly is not None:
            print(found.assembly)
        else:
            show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
