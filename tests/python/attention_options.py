"""One call for each option of ``attention``, with a value that has an effect: for tests that must cover all options."""

import torch

BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, WIDTH, VALUE_WIDTH = 2, 4, 2, 5, 7, 8, 3


def drawn(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed + sum(size)), dtype=torch.float64)


def _hiding() -> torch.Tensor:
    """A bias that takes a key from one row and one from all."""
    bias = drawn(HEADS, QUERIES, KEYS)
    bias[:, 1, 2] = bias[1, :, 4] = -torch.inf
    return bias


CASES = {
    "nothing": {},
    "causal": {"causal": True},
    "scale": {"scale": 0.9},
    "softcap": {"softcap": 1.5, "causal": True},
    "window": {"causal": True, "window": 3},
    "key_lengths": {"key_lengths": torch.tensor([4, 0])},
    "first_positions": {"local_radius": 1.0, "first_positions": torch.tensor([1, 4])},
    "cu_seqlens": {"cu_seqlens": torch.tensor([0, 2, 5]), "causal": True},
    "ranges": {"ranges": torch.tensor([[0, 3], [2, 2], [1, 7], [4, 5], [0, 7]]).view(1, 1, QUERIES, 2)},
    "bias": {"bias": _hiding()},
    "bias of all rows": {"bias": drawn(HEADS, 1, KEYS)},
    "energy_bias": {"energy_bias": _hiding()},
    "alibi": {"alibi": torch.tensor([0.5, 0.1, 0.0, 0.2], dtype=torch.float64), "causal": True},
    "local_radius": {"local_radius": 2.0},
    "local_centers": {"local_radius": 2.0, "local_centers": 3 + drawn(BATCH, HEADS, QUERIES)},
    "dropout": {"dropout": 0.4, "seed": 5},
    "seed": {"dropout": 0.4, "seed": torch.tensor(6), "causal": True},
    "score": {"score": "cosine"},
    "score_weight": {"score": "additive", "score_weight": drawn(HEADS, WIDTH)},
    "general score": {"score": "general", "score_weight": drawn(HEADS, WIDTH, WIDTH)},
    "score_projection": {
        "score": "concat", "score_weight": drawn(HEADS, 9), "score_projection": drawn(HEADS, 9, 2 * WIDTH),
    },
}  # fmt: skip


def tensors_of(case: str, value_width: int = VALUE_WIDTH) -> dict[str, torch.Tensor]:
    """query, key and value that fit the case."""
    batch, keys = (1, QUERIES) if "cu_seqlens" in CASES[case] else (BATCH, KEYS)
    return {
        "query": drawn(batch, HEADS, QUERIES, WIDTH, seed=1),
        "key": drawn(batch, KEY_HEADS, keys, WIDTH, seed=2),
        "value": drawn(batch, KEY_HEADS, keys, value_width, seed=3),
    }
