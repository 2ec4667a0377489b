"""`bench attention`: one call of each mechanism, Cogwheel and its peers, over lengths."""

import functools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import cogwheel
from cogwheel.bench import eager, recurrent
from cogwheel.bench.machine import ALLOCATOR, peak_bytes
from cogwheel.bench.timing import Timing, take_turns
from cogwheel.catalogue import PARAMETERS

BASELINE = "torch softmax"
# Eager peers store the matrix of weights several times: at greater lengths they would only measure memory.
LONGEST_EAGER = 4096
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def is_difference(mechanism: str) -> bool:
    return "lam" in PARAMETERS.get(mechanism, ())


@dataclass(frozen=True)
class Case:
    """Self-attention of `batch` sequences of `length` tokens."""

    length: int
    batch: int = 1
    heads: int = 12
    head_dim: int = 64
    dtype: str = "fp32"
    causal: bool = True
    backward: bool = False
    device: str = "cpu"

    @property
    def on_cuda(self) -> bool:
        return torch.device(self.device).type == "cuda"

    def flops(self, value_dim: int | None = None) -> float:
        """Of the products: scores and outputs; with backward, scores again, two more of that width and two of the values'."""
        scores = self.length * (self.length + 1) / 2 if self.causal else self.length**2
        of_keys, of_values = (4, 3) if self.backward else (1, 1)
        widths = of_keys * self.head_dim + of_values * (value_dim or self.head_dim)
        return 2 * self.batch * self.heads * scores * widths

    def sizes(self) -> dict[str, int]:
        """Of the axes of a mechanism with a state."""
        return {"B": self.batch, "H": self.heads, "N": self.length, "D": self.head_dim, "V": self.head_dim}

    def value_dim(self, mechanism: str) -> int:
        """A difference of two maps has half as many values, twice as wide."""
        return self.head_dim * (2 if is_difference(mechanism) else 1)


def inputs(mechanism: str, case: Case) -> dict[str, Tensor]:
    """Query, key, value, and required parameters. A difference of two maps has half as many values, twice as wide."""
    if recurrent.axes_of(mechanism) is not None:
        return recurrent.inputs(mechanism, case.sizes(), DTYPES[case.dtype], case.device)
    entry = next(entry for entry in cogwheel.mechanisms() if entry["name"] == mechanism)
    halves = 2 if is_difference(mechanism) else 1
    generator = torch.Generator().manual_seed(0)

    def normal(heads: int, width: int) -> Tensor:
        return torch.randn(case.batch, heads, case.length, width, generator=generator).to(case.device, DTYPES[case.dtype])

    tensors = {
        "query": normal(case.heads, case.head_dim),
        "key": normal(case.heads, case.head_dim),
        "value": normal(case.heads // halves, case.value_dim(mechanism)),
    }
    required = {"lam": case.heads // 2, "beta": case.heads, "gamma": case.heads}
    for name in set(entry["parameters"]) & set(required):
        tensors[name] = torch.full((required[name],), 0.5, device=case.device, dtype=DTYPES[case.dtype])
    return tensors


def flops(name: str, case: Case) -> float:
    """Of one call of a mechanism or of one of its peers."""
    mechanism = name.split(" ")[-1]
    if recurrent.axes_of(mechanism) is not None:
        return recurrent.flops(case.sizes(), case.backward)
    return case.flops(case.value_dim(mechanism))


def job(attend: Callable[..., Tensor], tensors: dict[str, Tensor], backward: bool, *, every: bool = True) -> Callable[[], object]:
    """A call whose results it returns: the output, or the gradients: of every tensor, or of those that the call gives one."""
    if not backward:

        def forward() -> Tensor:
            with torch.no_grad():
                return attend(**tensors)

        return forward
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items() if tensor.dim() > 0}
    numbers = {name: tensor for name, tensor in tensors.items() if tensor.dim() == 0}
    with torch.no_grad():
        gradient = torch.randn_like(attend(**tensors))
    return lambda: torch.autograd.grad(attend(**leaves, **numbers), list(leaves.values()), gradient, allow_unused=not every)


def flex_attention(case: Case) -> Callable[..., Tensor]:
    """Compiled FlexAttention. Its score_mod changes only scores, not normaliser or sign, so it is a peer only of softmax."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention, dynamic=False)
    mask = None
    if case.causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, case.length, case.length, device=case.device)
    return lambda query, key, value: compiled(query, key, value, block_mask=mask)


def peers(mechanism: str, case: Case, *, with_eager: bool, with_flex: bool) -> dict[str, Callable[..., Tensor]]:
    """Functions of the tensors of `inputs`, by name; the first is Cogwheel's."""
    if recurrent.axes_of(mechanism) is not None:
        return recurrent.peers(mechanism, case.length, causal=case.causal, with_eager=with_eager, on_cuda=case.on_cuda)

    def ours(query: Tensor, key: Tensor, value: Tensor, **parameters: Tensor) -> Tensor:
        return cogwheel.attention(query, key, value, mechanism, causal=case.causal, **parameters)

    found: dict[str, Callable[..., Tensor]] = {mechanism: ours}
    formula = eager.attention(mechanism)
    if with_eager and formula is not None and case.length <= LONGEST_EAGER:
        found[f"eager {mechanism}"] = lambda **tensors: formula(**tensors, causal=case.causal)
    if with_flex and mechanism == "softmax" and (not case.backward or case.on_cuda):
        found["flex softmax"] = flex_attention(case)
    return found


BACKENDS = {"torch FlashAttention-2": SDPBackend.FLASH_ATTENTION, "torch cuDNN": SDPBackend.CUDNN_ATTENTION}


def baselines(case: Case) -> dict[str, Callable[..., Tensor]]:
    """PyTorch's fused softmax, which it chooses; on CUDA, where it has several, those that can do this case, by name. Ratios are over the first."""
    named = {name: by_backend(name, case) for name in usable_backends(case)} if case.on_cuda else {}

    def chosen(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=case.causal)

    return named | {BASELINE: chosen}


def by_backend(name: str, case: Case) -> Callable[..., Tensor]:
    """PyTorch's softmax by one of the kernels that papers name."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        with sdpa_kernel(BACKENDS[name]):
            return F.scaled_dot_product_attention(query, key, value, is_causal=case.causal)

    return attend


@functools.cache
def usable_backends(case: Case) -> list[str]:
    """Those that can do this case, which a call of each tells."""
    tensors = inputs("softmax", case)
    found = []
    for name in BACKENDS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # which say why a backend cannot
                job(by_backend(name, case), tensors, case.backward)()
            found.append(name)
        except RuntimeError:
            continue
    return found


def deterministic(call: Callable[[], object]) -> Callable[[], object]:
    """The same call, whose backward pass adds in one order."""

    def run() -> object:
        before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        fills = torch.utils.deterministic.fill_uninitialized_memory
        torch.use_deterministic_algorithms(True)  # a warning alone would leave attention's kernel as it is
        torch.utils.deterministic.fill_uninitialized_memory = False
        try:
            return call()
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
            torch.utils.deterministic.fill_uninitialized_memory = fills

    return run


def jobs_of(mechanisms: list[str], case: Case, *, with_eager: bool, with_flex: bool) -> dict[str, Callable[[], object]]:
    """Calls by name, the baseline first. It has the heads of a plain mechanism."""
    plain = inputs("softmax", case)
    jobs = {name: job(attend, plain, case.backward) for name, attend in baselines(case).items()}
    if case.backward and "torch FlashAttention-2" in jobs:
        jobs["torch FlashAttention-2, deterministic"] = deterministic(jobs["torch FlashAttention-2"])
    for mechanism in mechanisms:
        tensors = inputs(mechanism, case)
        for name, attend in peers(mechanism, case, with_eager=with_eager, with_flex=with_flex).items():
            try:
                call = job(attend, tensors, case.backward, every=not name.startswith("fla "))
                if case.on_cuda and name != mechanism:
                    call()
            except Exception as error:  # of others' code: memory, a type that it does not take, its compiler
                if name == mechanism or not case.on_cuda:
                    raise
                print(f"  {name}: left out: {' '.join(str(error).split())[:120]}", file=sys.stderr)  # as eager ones that memory does not hold
                continue
            jobs[name] = call
    return jobs


def measure(
    mechanisms: list[str], case: Case, *, seconds: float, with_eager: bool, with_flex: bool
) -> dict[str, Timing]:
    """Times all of them in turn."""
    jobs = jobs_of(mechanisms, case, with_eager=with_eager, with_flex=with_flex)
    return take_turns(jobs, seconds=seconds, device=case.device)


# A process may keep freed memory, so only a fresh process shows the memory of a call.
_PEAK_OF_ONE = """
import sys
sys.path[:] = {path}
from cogwheel.bench.attention import Case, print_peak_memory
print_peak_memory(sys.argv[1], Case({case}))
"""


def print_peak_memory(peer: str, case: Case) -> None:
    """Bytes by which one call of `peer` raises the resident memory of this process, inputs not counted."""
    name = peer.split(" ", 1)[-1] if peer != BASELINE else "softmax"
    tensors = inputs(name, case)
    if peer == BASELINE:

        def attend(**given: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(**given, is_causal=case.causal)
    else:
        attend = peers(name, case, with_eager=True, with_flex=False)[peer]
    per_token = {name for name, tensor in tensors.items() if tensor.dim() > 2 and tensor.shape[2] == case.length}
    few = {name: tensor[:, :, :16] if name in per_token else tensor for name, tensor in tensors.items()}
    job(attend, few, case.backward)()  # loads and allocates everything that is needed once
    run = job(attend, tensors, case.backward)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts at what is resident now
    before = _status("VmRSS")
    run()
    print(_status("VmHWM") - before)


def _status(name: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))


def results_bytes(case: Case) -> int:
    """Of what a call gives: the output; with backward the gradients of query, key and value too. A difference of two maps has half as many
    values, twice as wide: as many numbers."""
    numbers = case.batch * case.heads * case.length * case.head_dim
    return DTYPES[case.dtype].itemsize * numbers * (4 if case.backward else 1)


def peak_memory(peer: str, case: Case) -> int | None:
    """`print_peak_memory` in a separate process; on a device what its tensors hold. None if the system cannot measure it, or for FlexAttention."""
    if peer.startswith("flex "):
        return None
    if torch.device(case.device).type != "cpu":
        known = {entry["name"] for entry in cogwheel.mechanisms()}
        jobs = jobs_of([name for name in peer.split(" ")[-1:] if name in known], case, with_eager=" " in peer, with_flex=False)
        return peak_bytes(jobs[peer], case.device)
    fields = ", ".join(f"{name}={value!r}" for name, value in vars(case).items())
    words = [sys.executable, "-c", _PEAK_OF_ONE.format(case=fields, path=sys.path), peer]
    # With the default allocator, which returns large blocks to the system.
    environment = {name: value for name, value in os.environ.items() if name not in ALLOCATOR}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    return int(done.stdout) if done.returncode == 0 else None
