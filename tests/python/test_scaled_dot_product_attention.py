"""The drop-in against torch's own function: the same call gives the same numbers."""

import inspect

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as torch_attention

import cogwheel


def random(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, requires_grad=True)


CALLS = {
    "plain": ((2, 4, 50, 24), (2, 4, 60, 24), (2, 4, 60, 33), {}),
    "causal": ((2, 4, 60, 24), (2, 4, 60, 24), (2, 4, 60, 33), {"is_causal": True}),
    "causal, fewer queries": ((2, 4, 50, 24), (2, 4, 60, 24), (2, 4, 60, 33), {"is_causal": True}),
    "causal, fewer keys": ((2, 4, 60, 24), (2, 4, 50, 24), (2, 4, 50, 33), {"is_causal": True}),
    "scale": ((2, 4, 50, 24), (2, 4, 60, 24), (2, 4, 60, 24), {"scale": 0.5}),
    "scale and causal": ((2, 4, 50, 24), (2, 4, 60, 24), (2, 4, 60, 24), {"scale": 0.5, "is_causal": True}),
    "grouped": ((2, 6, 50, 24), (2, 2, 60, 24), (2, 2, 60, 33), {"enable_gqa": True}),
    "grouped, causal": ((2, 6, 60, 24), (2, 3, 60, 24), (2, 3, 60, 33), {"enable_gqa": True, "is_causal": True}),
    "grouped, one each": ((2, 4, 50, 24), (2, 4, 60, 24), (2, 4, 60, 33), {"enable_gqa": True}),
    "three dimensions": ((3, 50, 24), (3, 60, 24), (3, 60, 33), {"is_causal": True}),
}


@pytest.mark.parametrize("call", CALLS)
def test_same_numbers_as_torch(call):
    query_shape, key_shape, value_shape, options = CALLS[call]
    results = []
    for attend in (cogwheel.scaled_dot_product_attention, torch_attention):
        leaves = [
            random(*shape, seed=seed) for seed, shape in enumerate((query_shape, key_shape, value_shape))
        ]
        out = attend(*leaves, **options)
        results.append([out, *torch.autograd.grad(out.sin().sum(), leaves)])
    for ours, theirs in zip(*results):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_negative_scale_and_causal():
    """torch's fused kernel multiplies −∞ by the scale after masking, which gives NaN here; a hidden key has no score."""
    query, key, value = (random(1, 4, 60, 24, seed=seed) for seed in range(3))
    out = cogwheel.scaled_dot_product_attention(query, key, value, is_causal=True, scale=-0.5)
    expected = torch_attention(-query, key, value, is_causal=True, scale=0.5)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)


def test_same_signature_as_torch():
    ours = list(inspect.signature(cogwheel.scaled_dot_product_attention).parameters.values())
    names = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    assert [parameter.name for parameter in ours] == [*names, "mechanism"]
    assert [parameter.default for parameter in ours[3:8]] == [None, 0.0, False, None, False]


def test_grouped_heads_must_be_asked_for():
    query, key = random(1, 4, 5, 8, seed=0), random(1, 2, 5, 8, seed=1)
    with pytest.raises(RuntimeError):
        torch_attention(query, key, key)
    with pytest.raises(ValueError, match="key heads.*enable_gqa"):
        cogwheel.scaled_dot_product_attention(query, key, key)


def random_mask(*shape):
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(8)) < 0.7
    mask[..., 0] = True  # torch gives NaN where a query sees nothing
    return mask


MASKS = {
    "bool": random_mask(2, 4, 50, 60),
    "bool, broadcast": random_mask(50, 60),
    "numbers": torch.randn(2, 1, 50, 60, generator=torch.Generator().manual_seed(9), dtype=torch.float64),
    "numbers of keys": torch.randn(60, generator=torch.Generator().manual_seed(9), dtype=torch.float64).expand(50, 60),
}


@pytest.mark.parametrize("mask", MASKS)
def test_masks_as_torch(mask):
    results = []
    for attend in (cogwheel.scaled_dot_product_attention, torch_attention):
        leaves = [random(2, 4, length, 24, seed=length) for length in (50, 60, 60)]
        out = attend(*leaves, attn_mask=MASKS[mask])
        results.append([out, *torch.autograd.grad(out.sin().sum(), leaves)])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_mask_and_causal_exclude_each_other_as_in_torch():
    query = random(1, 2, 10, 8, seed=0)
    with pytest.raises(ValueError, match="attn_mask: expected none where is_causal"):
        cogwheel.scaled_dot_product_attention(query, query, query, torch.ones(10, 10, dtype=torch.bool), is_causal=True)


def test_dropout_drops_its_share_and_repeats_by_seed():
    query = random(1, 2, 100, 8, seed=0)
    identity = torch.eye(100, dtype=torch.float64).expand(1, 2, 100, 100)

    def weights(dropout):
        torch.manual_seed(4)
        return cogwheel.scaled_dot_product_attention(query, query, identity, dropout_p=dropout)

    dropped, plain = weights(0.5), weights(0.0)
    assert torch.equal(dropped, weights(0.5))
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])
    assert 0.47 < kept.double().mean() < 0.53


def test_another_mechanism_takes_the_place_of_softmax():
    query, key, value = (random(1, 4, 9, 8, seed=seed) for seed in range(3))
    out = cogwheel.scaled_dot_product_attention(query, key, value, is_causal=True, mechanism="cog")
    assert torch.equal(out, cogwheel.attention(query, key, value, "cog", causal=True))
    with pytest.raises(ValueError, match="lam: expected"):
        cogwheel.scaled_dot_product_attention(query, key, value[:, :2], mechanism="differential")
