"""`bench decode`: one query of each head over a long cache, against merely reading the cache, and against PyTorch."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

import cogwheel
from cogwheel.bench import recurrent
from cogwheel.bench.attention import DTYPES, is_difference
from cogwheel.bench.timing import Timing, take_turns

READ = "reading K and V"
TORCH = "torch softmax"
T = TypeVar("T")
# Turns alternate between several caches, or their numbers in tensors, which together are larger than any last-level cache of a processor.
MIN_BYTES = 256 << 20


@dataclass(frozen=True)
class Case:
    """One new token of `batch` texts of `length` tokens; each of `heads` key heads serves `group` query heads."""

    length: int
    batch: int = 1
    heads: int = 8
    group: int = 1
    head_dim: int = 64
    dtype: str = "fp32"
    device: str = "cpu"

    @property
    def cache_bytes(self) -> int:
        """Of keys and values; a difference of two maps has half as many values, twice as wide."""
        return 2 * self.batch * self.heads * self.length * self.head_dim * DTYPES[self.dtype].itemsize

    @property
    def caches(self) -> int:
        return math.ceil(MIN_BYTES / self.cache_bytes)


def numbers_of(case: Case, halves: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Keys and values; `halves` is 2 for a difference of two maps."""
    heads, width, dtype = case.heads // halves, halves * case.head_dim, DTYPES[case.dtype]
    key = torch.randn(case.batch, case.heads, case.length, case.head_dim, generator=generator).to(case.device, dtype)
    value = torch.randn(case.batch, heads, case.length, width, generator=generator).to(case.device, dtype)
    return key, value


def filled_caches(case: Case, key: Tensor, value: Tensor) -> list[cogwheel.KeyValueCache]:
    """Each with the same numbers."""
    (batch, heads, length, head_dim), (_, value_heads, _, width) = key.shape, value.shape
    caches = [
        cogwheel.KeyValueCache(batch, heads, length, head_dim, width, value_heads=value_heads, dtype=key.dtype, device=key.device)
        for _ in range(case.caches)
    ]
    for cache in caches:
        cache.append(key, value)
    return caches


def read(key: Tensor, value: Tensor) -> None:
    """Reads every byte once, with all threads of a processor: two sums, with 16-bit numbers read in pairs."""
    key.view(torch.float32).sum()
    value.view(torch.float32).sum()


def ours(mechanism: str, case: Case, query: Tensor) -> Callable[[cogwheel.KeyValueCache], object]:
    query_heads = case.heads * case.group
    required = {"lam": query_heads // 2, "beta": query_heads, "gamma": query_heads}
    entry = next(entry for entry in cogwheel.mechanisms() if entry["name"] == mechanism)
    parameters = {name: torch.full((required[name],), 0.5, device=case.device) for name in set(entry["parameters"]) & set(required)}
    return lambda cache: cache.attend(query, mechanism, **parameters)


def step_of_state(mechanism: str, case: Case) -> Callable[[], object]:
    """One more token after `case.length` tokens, by a state, which no turn makes longer to read."""
    sizes = {"B": case.batch, "H": case.heads, "N": case.length, "D": case.head_dim, "V": case.head_dim}
    dtype = DTYPES[case.dtype]

    def arguments(tokens: int) -> dict[str, Tensor | None]:
        return {"query": None, "key": None} | recurrent.inputs(mechanism, {**sizes, "N": tokens}, dtype, case.device)

    cache = cogwheel.RecurrentCache(mechanism, case.batch, case.heads, case.head_dim, dtype=dtype, device=case.device)
    token = arguments(1)
    with torch.no_grad():
        cache.attend(**arguments(case.length))

    def next_turn() -> None:
        with torch.no_grad():
            cache.attend(**token)

    return next_turn


def measure(mechanisms: list[str], case: Case, *, seconds: float) -> dict[str, Timing]:
    """Times all of them in turn, each on the next of the caches."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(case.batch, case.heads * case.group, 1, case.head_dim, generator=generator).to(case.device, DTYPES[case.dtype])
    key, value = numbers_of(case, 1, generator)
    plain = filled_caches(case, key, value)
    tensors = [(key.clone(), value.clone()) for _ in range(case.caches)]
    differences = filled_caches(case, *numbers_of(case, 2, generator)) if any(map(is_difference, mechanisms)) else []
    turn = dict.fromkeys([READ, TORCH, *mechanisms], 0)

    def job(name: str, caches: list[T], call: Callable[[T], object]):
        def next_turn() -> None:
            with torch.no_grad():
                call(caches[turn[name] % len(caches)])
            turn[name] += 1

        return next_turn

    jobs = {
        READ: job(READ, tensors, lambda both: read(*both)),
        TORCH: job(
            TORCH,
            tensors,
            lambda both: F.scaled_dot_product_attention(query, *both, enable_gqa=case.group > 1),
        ),
    }
    for name in mechanisms:
        if recurrent.axes_of(name) is not None:
            jobs[name] = step_of_state(name, case)
            continue
        jobs[name] = job(name, differences if is_difference(name) else plain, ours(name, case, query))
    return take_turns(jobs, seconds=seconds, min_turns=3, device=case.device)
