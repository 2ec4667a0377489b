"""Attention over a text that ranks share, beside one rank with the whole text: time and memory, forward and backward.

    torchrun --nproc-per-node 2 bench/cut_texts.py [--mechanisms softmax cog gla deltanet] [--tokens 8192] [--layout zigzag] [--method auto]
    MALLOC_MMAP_THRESHOLD_=1048576 torchrun --nproc-per-node 2 bench/cut_texts.py --memory --mechanisms softmax cog --tokens 65536 --window 128 [--key-heads 1]

Eight heads of 64, causal, fp32; ranks of one thread over the loopback interface. Times are the least of the turns that one rank and all of
them take in the same processes. Memory is what the first rank holds at most beside inputs, outputs and gradients in its second call, in
multiples of its own keys and values: the peak of its resident memory less what it held before and what the call gives. With the
variable above, what is freed is not resident any more.
"""

import argparse
import os
import pathlib
import time

import torch
import torch.distributed as dist

import cogwheel.distributed

HEADS, WIDTH = 8, 64
# Of mechanisms with a state: what they take beside query, key and value, of the tokens [1, H, N] or [1, H, N, D].
TOKEN_INPUTS = {
    "gla": lambda draw: {"log_decay": torch.nn.functional.logsigmoid(draw(HEADS, WIDTH)) / 16},
    "deltanet": lambda draw: {"beta": draw(HEADS, 1).squeeze(-1).sigmoid()},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mechanisms", nargs="+", default=["softmax", "cog", "gla", "deltanet"], metavar="NAME")
    parser.add_argument("--tokens", type=int, default=8192, help="of the whole text")
    parser.add_argument("--key-heads", type=int, default=HEADS, help="of pairwise mechanisms")
    parser.add_argument("--window", type=int, help="keys that a query sees, of pairwise mechanisms")
    parser.add_argument("--layout", default="zigzag")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--memory", action="store_true", help="of pairwise mechanisms, instead of times")
    return parser.parse_args()


class Case:
    def __init__(self, mechanism, given):
        self.given, self.mechanism = given, mechanism
        self.recurrent = mechanism in TOKEN_INPUTS
        generator = torch.Generator().manual_seed(1)

        def draw(heads, width):
            return torch.randn(1, heads, given.tokens, width, generator=generator)

        key_heads = HEADS if self.recurrent else given.key_heads
        self.whole = {"query": draw(HEADS, WIDTH), "key": draw(key_heads, WIDTH), "value": draw(key_heads, WIDTH)}
        if self.recurrent:
            self.whole |= TOKEN_INPUTS[mechanism](draw)
        self.gradient = draw(HEADS, WIDTH)
        self.options = {"window": given.window} if given.window and not self.recurrent else {}

    def shared(self):
        """The case of the tokens of this rank alone; what all have is let go."""
        self.whole = {name: cogwheel.distributed.shard(tensor, 2, self.given.layout).clone() for name, tensor in self.whole.items()}
        self.gradient = cogwheel.distributed.shard(self.gradient, 2, self.given.layout).clone()
        return self

    def call(self, module, backward=True, **more):
        """The output, and the gradients of all inputs."""
        given = {name: tensor.requires_grad_(backward) for name, tensor in self.whole.items()}
        query, key, value = (given.pop(name) for name in ("query", "key", "value"))
        if self.recurrent:
            output = module.recurrent(query, key, value, self.mechanism, **given, **more)
        else:
            output = module.attention(query, key, value, self.mechanism, causal=True, **self.options, **more)
        return output, torch.autograd.grad(output, list(self.whole.values()), self.gradient) if backward else ()

    def call_shared(self, backward=True):
        return self.call(cogwheel.distributed, backward, layout=self.given.layout, method=self.given.method)


def seconds_of(work):
    dist.barrier()
    begin = time.perf_counter()
    work()
    dist.barrier()
    return time.perf_counter() - begin


def time_of(mechanism, given):
    first = dist.get_rank() == 0
    whole, own = Case(mechanism, given), Case(mechanism, given).shared()
    turns = [(seconds_of(lambda: whole.call(cogwheel) if first else None), seconds_of(own.call_shared)) for _ in range(given.turns + 1)]
    alone, together = (min(column) for column in zip(*turns[1:]))
    if first:
        print(f"| {mechanism} | {alone:.3g} s | {together:.3g} s | {alone / together:.2f} |", flush=True)


def resident(name):
    """Bytes, by the name that the system has for them."""
    lines = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


def memory_of(mechanism, given):
    own = Case(mechanism, given).shared()
    keys_and_values = sum(own.whole[name].nbytes for name in ("key", "value"))
    found = []
    for backward in (False, True):
        for _ in range(2):
            dist.barrier()
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            before = resident("VmRSS")
            output, gradients = own.call_shared(backward)
            given_back = sum(tensor.nbytes for tensor in (output, *gradients))
            found.append((resident("VmHWM") - before - given_back) / keys_and_values)
            del output, gradients
    if dist.get_rank() == 0:
        print(f"| {mechanism} | {keys_and_values / 2**20:.0f} MiB | {found[1]:.1f} | {found[3]:.1f} |", flush=True)


def main():
    given = arguments()
    if "RANK" not in os.environ:
        raise SystemExit("bench/cut_texts.py: expected to be started by torchrun, got no RANK in the environment")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        ranks = dist.get_world_size()
        header = ["own keys and values", "forward", "backward"] if given.memory else ["one rank", f"{ranks} ranks", "times as fast"]
        print(f"| | {' | '.join(header)} |\n|---|---|---|---|", flush=True)
    for mechanism in given.mechanisms:
        (memory_of if given.memory else time_of)(mechanism, given)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
