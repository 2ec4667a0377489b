"""Attention with every option of the kernels' operators (pairwise_options.def), by one dense formula in float64, and a case of each option."""

import pytest
import torch
from torch import Tensor

import cogwheel

BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, WIDTH, VALUE_WIDTH = 2, 4, 2, 5, 7, 8, 3
OPERATOR = torch.ops.cogwheel.pairwise.default
# The inputs of an operator besides its options.
TENSORS = {"query", "key", "value", "parameters", "mechanism"}
UNMODIFIED = {
    "scale": 0.4, "softcap": 0.0, "mask": "full", "window": 0, "sub_heads": 1, "key_lengths": None, "ranges": None, "bias": None,
    "energy_bias": None, "alibi": None, "centers": None, "sigma": 1.0, "dropout": 0.0, "seed": None, "score_weight": None,
    "wide_output": False, "first_positions": None, "statistics": False, "argmax": False,
}  # fmt: skip
DIFFERENTIABLE = ("bias", "energy_bias", "centers", "score_weight")
# Options of forward only: for its output and for statistics.
OF_FORWARD = {"wide_output", "statistics", "argmax"}


def with_maps(every: list[str], also: set[str]) -> pytest.MarkDecorator:
    """Each case with a map without scalars, some also with one that has scalars and a sink."""
    return pytest.mark.parametrize(
        "case, mechanism",
        [(case, mechanism) for case in every for mechanism in ("cog", "softmax_off_by_one") if mechanism == "cog" or case in also],
    )


def random(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed + sum(size)), dtype=torch.float64)


def bias_that_hides() -> Tensor:
    """A key from one row, one from all of them."""
    bias = random(HEADS, QUERIES, KEYS)
    bias[:, 1, 2] = bias[1, :, 4] = -torch.inf
    return bias


def table_of_ranges() -> Tensor:
    begin = torch.tensor([0, 2, 1, 3, 3])
    return torch.stack([begin, torch.tensor([3, 5, 7, 3, 6])], -1).expand(1, 1, QUERIES, 2).contiguous()


# Each option with a value that has an effect, and the options it needs.
CASES = {
    "scale": {"scale": 0.9},
    "softcap": {"softcap": 1.5},
    "mask": {"mask": "causal"},
    "mask of the drop-in": {"mask": "causal_first"},
    "window": {"mask": "causal", "window": 3},
    "sub_heads": {"sub_heads": 2},
    "key_lengths": {"key_lengths": torch.tensor([4, 6])},
    "first_positions": {"mask": "causal", "first_positions": torch.tensor([0, 4])},
    "all that a cache says": {
        "mask": "causal", "first_positions": torch.tensor([0, 1]), "key_lengths": torch.tensor([4, 6]), "window": 3,
        "alibi": torch.tensor([0.5, 0.1, 0.0, 0.2], dtype=torch.float64),
    },
    "ranges": {"ranges": table_of_ranges()},
    "bias": {"bias": bias_that_hides()},
    "energy_bias": {"energy_bias": bias_that_hides()},
    "alibi": {"alibi": torch.tensor([0.5, 0.1, 0.0, 0.2], dtype=torch.float64)},
    "centers": {"centers": 3 + random(BATCH, HEADS, QUERIES)},
    "sigma": {"centers": 3 + random(BATCH, HEADS, QUERIES), "sigma": 2.5},
    "dropout": {"dropout": 0.4, "seed": torch.tensor(5)},
    "seed": {"dropout": 0.4, "seed": torch.tensor(6)},
    "score_weight": {"score_weight": random(HEADS, WIDTH)},
    "two sub-heads of everything": {
        "sub_heads": 2, "mask": "causal", "first_positions": torch.tensor([0, 1]), "key_lengths": torch.tensor([4, 6]),
        "bias": bias_that_hides()[:2], "energy_bias": random(QUERIES, KEYS), "dropout": 0.3, "seed": torch.tensor(1),
        "centers": 3 + random(BATCH, 2, QUERIES), "sigma": 3.0, "score_weight": random(HEADS, WIDTH), "window": 5, "softcap": 0.8,
        "alibi": torch.tensor([0.5, 0.1], dtype=torch.float64),
    },
}  # fmt: skip
each_case = with_maps(list(CASES), {"all that a cache says", "two sub-heads of everything"})


def inputs_of(mechanism: str, sub_heads: int) -> dict[str, Tensor]:
    value_heads = KEY_HEADS // sub_heads
    return {
        "query": random(BATCH, HEADS, QUERIES, WIDTH, seed=1),
        "key": random(BATCH, KEY_HEADS, KEYS, WIDTH, seed=2),
        "value": random(BATCH, value_heads, KEYS, VALUE_WIDTH, seed=3),
        "parameters": random(HEADS, 1 if mechanism == "softmax_off_by_one" else 0, seed=4),
    }


def for_query_heads(tensor: Tensor, sub_heads: int) -> Tensor:
    """Of key heads, for each query head: sub-heads are adjacent, and heads that share a key neighbours."""
    groups = tensor.unflatten(1, (-1, sub_heads))
    sharing = HEADS // tensor.shape[1]
    return groups.repeat_interleave(sharing, 1).flatten(1, 2)


def visibility_mask(options: dict[str, object]) -> Tensor:
    """[BATCH, HEADS, QUERIES, KEYS]"""
    key, query = torch.arange(KEYS), torch.arange(QUERIES)[:, None]
    seen = torch.ones(BATCH, 1, QUERIES, KEYS, dtype=torch.bool)
    if options["ranges"] is not None:
        seen = (key >= options["ranges"][..., :1]) & (key < options["ranges"][..., 1:])
    else:
        if options["mask"] != "full":
            last = query + (KEYS - QUERIES if options["mask"] == "causal" else 0)
            if options["first_positions"] is not None:
                last = query + options["first_positions"][:, None, None, None]
            seen = seen & (key <= last)
            if options["window"]:
                seen = seen & (key > last - options["window"])
        if options["key_lengths"] is not None:
            seen = seen & (key < options["key_lengths"][:, None, None, None])
    for name in ("bias", "energy_bias"):
        if options[name] is not None:
            seen = seen & for_sub_heads(options[name].detach() != -torch.inf, options["sub_heads"])
    return seen.expand(BATCH, HEADS, QUERIES, KEYS)


def for_sub_heads(tensor: Tensor, sub_heads: int) -> Tensor:
    """Of output heads, for each query head."""
    return tensor if tensor.dim() < 3 else tensor.repeat_interleave(sub_heads, -3)


def dense_weights(mechanism: str, query: Tensor, key: Tensor, parameters: Tensor, options: dict[str, object]) -> Tensor:
    """w f(s)/N, with e beside the score in the exponent: exp(s + e)/(exp(sink) + Σ), or sign(s) exp(|s| + e)/Σ."""
    sub_heads, seen = options["sub_heads"], visibility_mask(options)
    key = for_query_heads(key, sub_heads)
    if options["score_weight"] is None:
        score = options["scale"] * query @ key.mT
    else:
        pairs = torch.tanh(query[:, :, :, None] + key[:, :, None])
        score = options["scale"] * (pairs * options["score_weight"][:, None, None]).sum(-1)
    if options["softcap"]:
        score = options["softcap"] * torch.tanh(score / options["softcap"])
    exponent = torch.zeros_like(score)
    if options["bias"] is not None:
        score = score + for_sub_heads(options["bias"], sub_heads)
    if options["energy_bias"] is not None:
        exponent = exponent + for_sub_heads(options["energy_bias"], sub_heads)
    if options["alibi"] is not None:
        first = options["first_positions"]
        first = KEYS - QUERIES if first is None else first[:, None, None, None]
        distance = (torch.arange(QUERIES)[:, None] + first - torch.arange(KEYS)).abs()
        exponent = exponent - options["alibi"].repeat_interleave(sub_heads)[:, None, None] * distance
    if mechanism == "cog":
        size = torch.exp(torch.where(seen, score.abs() + exponent, -torch.inf))
        weights, total = size * score.sign().detach(), size.sum(-1, keepdim=True)
        total = total.where(seen.any(-1, keepdim=True), 1.0)
    else:
        weights = torch.exp(torch.where(seen, score + exponent, -torch.inf))
        total = parameters[:, 0, None, None].exp() + weights.sum(-1, keepdim=True)
    weights = weights / total
    if options["centers"] is not None:
        distance = torch.arange(KEYS) - options["centers"].repeat_interleave(sub_heads, 1)[..., None]
        weights = weights * torch.exp(-distance.square() / (2 * options["sigma"] ** 2))
    if options["dropout"]:
        weights = weights * kept_by_dropout(options) / (1 - options["dropout"])
    return weights


def kept_by_dropout(options: dict[str, object]) -> Tensor:
    """As the kernel of another map draws them."""
    heads = HEADS // options["sub_heads"]
    nothing = torch.zeros(BATCH, heads, max(QUERIES, KEYS), 8, dtype=torch.float64)
    identity = torch.eye(KEYS, dtype=torch.float64).expand(BATCH, heads, KEYS, KEYS)
    only = UNMODIFIED | {"dropout": options["dropout"], "seed": options["seed"]}
    none = torch.empty(heads, 0, dtype=torch.float64)
    drawn = OPERATOR(nothing[:, :, :QUERIES], nothing[:, :, :KEYS], identity, none, "uniform", **only)[0] > 0
    return drawn.repeat_interleave(options["sub_heads"], 1)


def called(mechanism: str, names: list[str], options: dict[str, object]):
    """The operator and the formula, as functions of tensors by these names."""

    def split(tensors):
        given = dict(zip(names, tensors))
        return [given[name] for name in ("query", "key", "value", "parameters")], options | {
            name: given[name] for name in DIFFERENTIABLE if name in given
        }

    def ours(*tensors):
        inputs, modified = split(tensors)
        return OPERATOR(*inputs, mechanism, **modified)[0]

    def dense(*tensors):
        (query, key, value, parameters), modified = split(tensors)
        weights = dense_weights(mechanism, query, key, parameters, modified)
        return weights @ value.repeat_interleave(HEADS // value.shape[1], 1)

    return ours, dense


def statistics_of(weights: Tensor, seen: Tensor) -> dict[str, Tensor]:
    sizes, keys = weights.abs(), seen.sum(-1).double()
    total = sizes.sum(-1)
    share = sizes / total.where(total > 0, 1.0)[..., None]
    away = torch.where(seen, weights - weights.sum(-1, keepdim=True) / keys[..., None], 0.0)
    variance = away.square().sum(-1) / keys
    differ = variance.sqrt() > 1e-12 * sizes.amax(-1)
    return {
        "sum": weights.sum(-1),
        "abs_sum": total,
        "negative_mass": weights.clamp_max(0).abs().sum(-1),
        "entropy": -torch.xlogy(share, share).sum(-1),
        "sink": weights[..., 0],
        "largest": sizes.amax(-1),
        "keys": keys,
        "positive": (weights > 0).sum(-1) / keys.clamp_min(1),
        "negative": (weights < 0).sum(-1) / keys.clamp_min(1),
        "kurtosis": (away.pow(4).sum(-1) / keys / variance.square()).where(differ, torch.nan),
    }


def assert_statistics(rows: Tensor, weights: Tensor, seen: Tensor, error: float = 1e-11) -> None:
    """`error` relative to a number of ordinary size; powers of differences have a larger one."""
    found = cogwheel.AttentionStatistics(*rows.double())
    for name, expected in statistics_of(weights, seen).items():
        tolerance = {"rtol": 1e3 * error if name == "kurtosis" else error, "atol": error / 10, "equal_nan": name == "kurtosis"}
        report = lambda text, name=name: f"{name}: {text}"
        torch.testing.assert_close(getattr(found, name), expected, msg=report, **tolerance)
    sizes, largest_at = weights.abs(), found.argmax.long()
    assert torch.equal(largest_at < 0, sizes.sum(-1) == 0)
    chosen = sizes.gather(-1, largest_at.clamp_min(0)[..., None])[..., 0]  # another may be as large
    torch.testing.assert_close(chosen, sizes.amax(-1), rtol=error, atol=error / 10)


def mixture_of(weights: Tensor, options: dict[str, object]) -> tuple[Tensor | None, Tensor, Tensor]:
    """A coefficient, and weights and seen keys of the mixture: a₁ + c a₂ of two sub-heads, or a less the mean over what is seen."""
    seen = visibility_mask(options)
    if options["sub_heads"] == 2:
        coefficient = -0.3 - random(1, 2, 1).abs()
        return coefficient, weights[:, ::2] + coefficient[..., None] * weights[:, 1::2], seen[:, ::2]
    mean = seen.double() / seen.sum(-1, keepdim=True).clamp_min(1)
    if options["centers"] is not None or options["dropout"]:
        mean = mean * multiplier(options)
    return None, weights - mean, seen


def multiplier(options: dict[str, object]) -> Tensor:
    """The factor of the weights after the map."""
    factor = torch.ones(BATCH, HEADS, QUERIES, KEYS, dtype=torch.float64)
    if options["centers"] is not None:
        distance = torch.arange(KEYS) - options["centers"].repeat_interleave(options["sub_heads"], 1)[..., None]
        factor = factor * torch.exp(-distance.square() / (2 * options["sigma"] ** 2))
    if options["dropout"]:
        factor = factor * kept_by_dropout(options) / (1 - options["dropout"])
    return factor
