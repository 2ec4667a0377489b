"""Calls with modifiers of scores and weights, by name, and which mechanisms take them."""

import torch
from attention_cases import grid_inputs
from modified_attention import MECHANISMS, SHAPE, SQUARE, Case, even_bias, takes
from torch import Tensor


def drawn_ranges(generator: torch.Generator, batch: int, heads: int, queries: int, keys: int) -> Tensor:
    """Ends in any order, some of them equal: rows that see nothing."""
    return torch.randint(0, keys + 1, (batch, heads, queries, 2), generator=generator).sort(-1).values


def modified_case(mechanism: str, name: str, dtype: torch.dtype) -> Case:
    shape = SQUARE if name.startswith("packed") else SHAPE
    inputs = grid_inputs(mechanism, shape, largest_score=5.0).to(dtype)
    batch, heads, queries, keys = shape.batch, shape.heads, shape.queries, shape.keys
    lengths = torch.tensor([47, 83])
    packed = torch.tensor([0, 1, 20, 20, 64, 83], dtype=torch.int32)
    generator = torch.Generator().manual_seed(9)
    centers = (keys * torch.rand(batch, heads, queries, generator=generator)).round(decimals=2).to(dtype)
    hiding = even_bias(inputs, batch, 1, queries, keys)
    hiding[torch.rand(hiding.shape, generator=generator) < 0.3] = -torch.inf
    hiding[0, 0, 33] = -torch.inf  # a row that sees nothing
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    return {
        "softcap": lambda: Case(inputs, True, {"softcap": 2.5}),
        "window": lambda: Case(inputs, True, {"window": 9}),
        "window of one": lambda: Case(inputs, True, {"window": 1}),
        "lengths": lambda: Case(inputs, False, {"key_lengths": lengths}),
        "causal lengths": lambda: Case(inputs, True, {"key_lengths": torch.tensor([0, 60])}),
        "window and lengths": lambda: Case(inputs, True, {"key_lengths": lengths, "window": 20}),
        "packed": lambda: Case(inputs, False, {"cu_seqlens": packed}),
        "packed causal": lambda: Case(inputs, True, {"cu_seqlens": packed.long()}),
        "packed window": lambda: Case(inputs, True, {"cu_seqlens": packed, "window": 7}),
        "ranges": lambda: Case(inputs, False, {"ranges": drawn_ranges(generator, batch, heads, queries, keys)}),
        "ranges of entries": lambda: Case(
            inputs, False, {"ranges": drawn_ranges(generator, batch, 1, queries, keys), "dropout": 0.2, "seed": 3}
        ),
        "bias": lambda: Case(inputs, True, {"bias": even_bias(inputs, batch, heads, queries, keys)}, ("bias",)),
        "bias of heads": lambda: Case(inputs, False, {"bias": even_bias(inputs, heads, 1, keys)}, ("bias",)),
        "bias of rows": lambda: Case(inputs, False, {"bias": even_bias(inputs, batch, 1, queries, 1)}, ("bias",)),
        "bias that hides": lambda: Case(inputs, False, {"bias": hiding}, ("bias",)),
        "energy_bias": lambda: Case(
            inputs, True, {"energy_bias": even_bias(inputs, batch, heads, queries, keys)}, ("energy_bias",)
        ),
        "energy_bias of heads": lambda: Case(
            inputs, False, {"energy_bias": even_bias(inputs, 1, heads, queries, keys)}, ("energy_bias",)
        ),
        "alibi": lambda: Case(inputs, True, {"alibi": slopes}),
        "local-m": lambda: Case(inputs, False, {"local_radius": 6}),
        "local-m causal": lambda: Case(inputs, True, {"local_radius": 6}),
        "local-m of steps": lambda: Case(
            inputs, False, {"local_radius": 6, "first_positions": torch.tensor([11, 60]), "key_lengths": lengths}
        ),
        "local-m causal of steps": lambda: Case(inputs, True, {"local_radius": 6, "first_positions": torch.tensor([-3, 13])}),
        "positions": lambda: Case(
            inputs, True, {"first_positions": torch.tensor([-3, 40]), "window": 30, "alibi": slopes}
        ),
        "positions of alibi": lambda: Case(inputs, False, {"first_positions": torch.tensor([2, 60]), "alibi": slopes}),
        "local-p": lambda: Case(
            inputs, False, {"local_radius": 8.5, "local_centers": centers}, ("local_centers",)
        ),
        "local-p, lengths": lambda: Case(
            inputs,
            True,
            {"local_radius": 8.5, "local_centers": centers, "key_lengths": lengths},
            ("local_centers",),
        ),
        "dropout": lambda: Case(inputs, True, {"dropout": 0.3, "seed": 2**40 + 17}),
        "bias, local-p and dropout": lambda: Case(
            inputs,
            False,
            {"bias": hiding, "local_radius": 20.0, "local_centers": centers, "dropout": 0.25, "seed": 3},
            ("bias", "local_centers"),
        ),
        "everything on an exponent": lambda: Case(
            inputs,
            True,
            {
                "energy_bias": hiding,
                "bias": even_bias(inputs, keys),
                "softcap": 4.0,
                "alibi": slopes,
                "window": 40,
                "key_lengths": lengths,
                "dropout": 0.1,
                "seed": 0,
            },
            ("energy_bias", "bias"),
        ),
    }[name]()


NAMES = {
    "softcap": ("softcap",),
    "window": (),
    "window of one": (),
    "lengths": (),
    "causal lengths": (),
    "window and lengths": (),
    "packed": (),
    "packed causal": (),
    "packed window": (),
    "ranges": (),
    "ranges of entries": (),
    "bias": ("bias",),
    "bias of heads": ("bias",),
    "bias of rows": ("bias",),
    "bias that hides": ("bias",),
    "energy_bias": ("energy_bias",),
    "energy_bias of heads": ("energy_bias",),
    "alibi": ("alibi",),
    "local-m": (),
    "local-m causal": (),
    "local-m of steps": (),
    "local-m causal of steps": (),
    "positions": ("alibi",),
    "positions of alibi": ("alibi",),
    "local-p": (),
    "local-p, lengths": (),
    "dropout": (),
    "bias, local-p and dropout": ("bias",),
    "everything on an exponent": ("energy_bias", "bias", "alibi"),
}
CASES = [
    (mechanism, name) for mechanism in MECHANISMS for name, needed in NAMES.items() if all(takes(mechanism, n) for n in needed)
]
