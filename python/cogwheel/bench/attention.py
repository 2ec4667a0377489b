"""`bench attention`: one call of each mechanism, Cogwheel and its peers, over lengths."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

import cogwheel
from cogwheel.bench import eager, recurrent
from cogwheel.bench.machine import ALLOCATOR
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
        return recurrent.inputs(mechanism, case.sizes(), DTYPES[case.dtype])
    entry = next(entry for entry in cogwheel.mechanisms() if entry["name"] == mechanism)
    halves = 2 if is_difference(mechanism) else 1
    generator = torch.Generator().manual_seed(0)

    def normal(heads: int, width: int) -> Tensor:
        return torch.randn(case.batch, heads, case.length, width, generator=generator).to(DTYPES[case.dtype])

    tensors = {
        "query": normal(case.heads, case.head_dim),
        "key": normal(case.heads, case.head_dim),
        "value": normal(case.heads // halves, case.value_dim(mechanism)),
    }
    required = {"lam": case.heads // 2, "beta": case.heads, "gamma": case.heads}
    for name in set(entry["parameters"]) & set(required):
        tensors[name] = torch.full((required[name],), 0.5).to(DTYPES[case.dtype])
    return tensors


def flops(name: str, case: Case) -> float:
    """Of one call of a mechanism or of one of its peers."""
    mechanism = name.split(" ")[-1]
    if recurrent.axes_of(mechanism) is not None:
        return recurrent.flops(case.sizes(), case.backward)
    return case.flops(case.value_dim(mechanism))


def job(attend: Callable[..., Tensor], tensors: dict[str, Tensor], backward: bool) -> Callable[[], object]:
    if not backward:

        def forward() -> None:
            with torch.no_grad():
                attend(**tensors)

        return forward
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items() if tensor.dim() > 0}
    numbers = {name: tensor for name, tensor in tensors.items() if tensor.dim() == 0}
    with torch.no_grad():
        gradient = torch.randn_like(attend(**tensors))
    return lambda: torch.autograd.grad(attend(**leaves, **numbers), list(leaves.values()), gradient)


def flex_attention(case: Case) -> Callable[..., Tensor]:
    """Compiled FlexAttention. Its score_mod changes only scores, not normaliser or sign, so it is a peer only of softmax."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention, dynamic=False)
    mask = None
    if case.causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, case.length, case.length, device="cpu")
    return lambda query, key, value: compiled(query, key, value, block_mask=mask)


def peers(mechanism: str, case: Case, *, with_eager: bool, with_flex: bool) -> dict[str, Callable[..., Tensor]]:
    """Functions of the tensors of `inputs`, by name; the first is Cogwheel's."""
    if recurrent.axes_of(mechanism) is not None:
        return recurrent.peers(mechanism, case.length, causal=case.causal, with_eager=with_eager)

    def ours(query: Tensor, key: Tensor, value: Tensor, **parameters: Tensor) -> Tensor:
        return cogwheel.attention(query, key, value, mechanism, causal=case.causal, **parameters)

    found: dict[str, Callable[..., Tensor]] = {mechanism: ours}
    formula = eager.attention(mechanism)
    if with_eager and formula is not None and case.length <= LONGEST_EAGER:
        found[f"eager {mechanism}"] = lambda **tensors: formula(**tensors, causal=case.causal)
    if with_flex and mechanism == "softmax" and not case.backward:
        found["flex softmax"] = flex_attention(case)
    return found


def measure(
    mechanisms: list[str], case: Case, *, seconds: float, with_eager: bool, with_flex: bool
) -> dict[str, Timing]:
    """Times all of them in turn. The baseline, PyTorch's softmax, has the heads of a plain mechanism."""
    plain = inputs("softmax", case)
    jobs = {
        BASELINE: job(
            lambda query, key, value: F.scaled_dot_product_attention(query, key, value, is_causal=case.causal),
            plain,
            case.backward,
        )
    }
    for mechanism in mechanisms:
        tensors = inputs(mechanism, case)
        for name, attend in peers(mechanism, case, with_eager=with_eager, with_flex=with_flex).items():
            jobs[name] = job(attend, tensors, case.backward)
    return take_turns(jobs, seconds=seconds)


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


def peak_memory(peer: str, case: Case) -> int | None:
    """`print_peak_memory` in a separate process; None if the system cannot measure it, or for FlexAttention."""
    if peer.startswith("flex "):
        return None
    fields = ", ".join(f"{name}={value!r}" for name, value in vars(case).items())
    words = [sys.executable, "-c", _PEAK_OF_ONE.format(case=fields, path=sys.path), peer]
    # With the default allocator, which returns large blocks to the system.
    environment = {name: value for name, value in os.environ.items() if name not in ALLOCATOR}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    return int(done.stdout) if done.returncode == 0 else None
