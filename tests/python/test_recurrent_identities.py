"""What mechanisms with a state are equal to: each other, and formulas of their papers."""

import math

import pytest
import torch
from recurrent_reference import FEATURES, cosine_weights

import cogwheel


def test_masked_cumulative_and_recurrent_linear_attention_agree():
    query, key, value = (torch.randn(2, 2, 50, 8, dtype=torch.float64) for _ in range(3))
    recurrent = cogwheel.recurrent(query, key, value, "linear_attention", scale=1.0)
    masked = torch.tril(query @ key.mT) @ value
    cumulative = torch.einsum("bhnd,bhndv->bhnv", query, torch.einsum("bhnd,bhnv->bhndv", key, value).cumsum(2))
    torch.testing.assert_close(recurrent, masked)
    torch.testing.assert_close(recurrent, cumulative)


def test_without_decay_every_law_is_linear_attention():
    query, key, value = (torch.randn(2, 2, 50, 8) for _ in range(3))
    linear = cogwheel.recurrent(query, key, value, "linear_attention")
    for law, gates in {
        "retnet": {"decay": torch.ones(2)},
        "mamba2": {"log_decay": torch.zeros(2, 2, 50)},
        "gla": {"log_decay": torch.zeros(2, 2, 50, 8)},
    }.items():
        torch.testing.assert_close(cogwheel.recurrent(query, key, value, law, **gates), linear)


def test_the_bonus_is_the_weight_of_the_token_itself():
    query, key, value = (torch.randn(2, 3, 20, 8, dtype=torch.float64) for _ in range(3))
    still = {"log_decay": torch.zeros(2, 3, 20, 8, dtype=torch.float64)}
    with_itself = cogwheel.recurrent(query, key, value, "rwkv6", bonus=torch.ones(3, 8, dtype=torch.float64), **still)
    torch.testing.assert_close(with_itself, cogwheel.recurrent(query, key, value, "linear_attention"))
    alone = cogwheel.recurrent(query, key, value, "rwkv6", bonus=torch.zeros(3, 8, dtype=torch.float64), **still)
    torch.testing.assert_close(alone[:, :, 1:] * math.sqrt(8), (torch.tril(query @ key.mT, -1) @ value)[:, :, 1:])


def test_cosformer_weights_are_cosines():
    query, key, value = (torch.randn(2, 3, 30, 8, dtype=torch.float64) for _ in range(3))
    weights = cosine_weights(query, key, 45.0)
    for causal in (True, False):
        seen = torch.tril(weights) if causal else weights
        total = seen.sum(-1, keepdim=True)
        expected = torch.where(total == 0, 0.0, seen / torch.where(total == 0, 1.0, total))
        found = cogwheel.recurrent(query, key, value, "cosformer", horizon=45, causal=causal)
        torch.testing.assert_close(found, expected @ value)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("feature_map", ["elu_plus_one", "unit", "random_fourier"])
def test_every_token_sees_all(feature_map, normalize):
    query, key, value = (torch.randn(2, 3, 30, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    own = {"projection": torch.randn(3, 8, 6, dtype=torch.float64, requires_grad=True)} if feature_map == "random_fourier" else {}
    options = {"feature_map": feature_map, "normalize": normalize, **own}

    def features(x):
        if feature_map == "unit":
            return torch.cat([torch.ones_like(x[..., :1]), x / x.norm(dim=-1, keepdim=True)], -1)
        if feature_map == "random_fourier":
            return torch.cat([torch.sin(x @ own["projection"]), torch.cos(x @ own["projection"])], -1) / math.sqrt(6)
        return FEATURES[feature_map](x)

    for causal in (False, True):
        weights = features(query) @ features(key).mT
        weights = torch.tril(weights) if causal else weights
        expected = (weights / weights.sum(-1, keepdim=True) if normalize else weights / math.sqrt(8)) @ value
        found = cogwheel.recurrent(query, key, value, "linear_attention", causal=causal, **options)
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)
        tensors = [query, key, value, *own.values()]
        for ours, right in zip(torch.autograd.grad(found.square().sum(), tensors), torch.autograd.grad(expected.square().sum(), tensors)):
            torch.testing.assert_close(ours, right, rtol=1e-6, atol=1e-6 * right.abs().max())


def test_unit_features_normalised_are_the_mechanism_norm():
    query, key, value = (torch.randn(2, 3, 30, 8, dtype=torch.float64) for _ in range(3))
    found = cogwheel.recurrent(query, key, value, "linear_attention", feature_map="unit", normalize=True)
    torch.testing.assert_close(found, cogwheel.attention(query, key, value, "norm", causal=True))
