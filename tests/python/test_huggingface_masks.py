"""cogwheel.huggingface.masks: ranges say what transformers' own masks say, for every kind that leaves each query a range, and nothing of
N · M is made; the others are those of `sdpa`."""

import pytest
import torch

masking_utils = pytest.importorskip("transformers.masking_utils", reason="transformers is not installed")

from cogwheel.huggingface import masks  # noqa: E402

BATCH = 3


def packed(function, tokens):
    """Of documents of 4, 1 and the rest, of which the last entry is one."""
    positions = torch.stack([*[torch.cat([torch.arange(4), torch.arange(1), torch.arange(tokens - 5)])] * (BATCH - 1), torch.arange(tokens)])
    sequences = masking_utils.find_packed_sequence_indices(positions)
    within = lambda b, h, q, k: function(b, h, positions[b, q], positions[b, k])  # noqa: E731  by positions, which begin again
    return masking_utils.and_masks(masking_utils.packed_sequence_mask_function(sequences), within)


# By name, the function of indices for so many tokens in all.
RULES = {
    "causal": lambda tokens: masking_utils.causal_mask_function,
    "everything": lambda tokens: masking_utils.bidirectional_mask_function,
    "window": lambda tokens: masking_utils.sliding_window_causal_mask_function(3),
    "window of one": lambda tokens: masking_utils.sliding_window_causal_mask_function(1),
    "window on both sides": lambda tokens: masking_utils.sliding_window_bidirectional_mask_function(2),
    "chunks": lambda tokens: masking_utils.chunked_causal_mask_function(4, torch.tensor([0, 2, 5])),
    "packed": lambda tokens: packed(masking_utils.causal_mask_function, tokens),
    "packed windows": lambda tokens: packed(masking_utils.sliding_window_causal_mask_function(2), tokens),
}
# q_length, kv_length, q_offset, kv_offset: whole, a step, several steps, a step and a prefill of a static cache, a sliding cache.
PLACES = {
    "whole": (13, 13, 0, 0),
    "a step": (1, 13, 12, 0),
    "steps": (5, 13, 8, 0),
    "prefill of a static cache": (9, 16, 0, 0),
    "a step of a static cache": (1, 16, 6, 0),
    "a sliding cache": (2, 6, 11, 7),
    "a place that is a tensor": (1, 16, torch.tensor(6), 0),
}
PADDINGS = {"none": None, "left": [0, 3, 13], "right": [13, 10, 2], "whole": [13, 13, 13]}


def padding_mask(kind, tokens):
    if PADDINGS[kind] is None:
        return None
    position, ends = torch.arange(tokens), torch.tensor(PADDINGS[kind])[:, None]
    return position >= ends if kind == "left" else position < ends


def visible(made, queries, keys):
    """[BATCH, N, M], of what the attention function gets."""
    if made is None:  # as attention without a mask: causal or not
        return None
    if made.dtype == torch.bool:
        return made.expand(BATCH, 1, queries, keys)[:, 0]
    assert made.dtype == torch.int64 and made.shape[1:] == (1, queries, 2) and made.shape[0] in (1, BATCH)
    begin, end = made.expand(BATCH, 1, queries, 2)[:, 0].split(1, -1)
    assert (begin >= 0).all() and (begin <= end).all() and (end <= keys).all()
    key = torch.arange(keys)
    return (key >= begin) & (key < end)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(
    "rule, place",
    [(rule, place) for rule in RULES for place in PLACES if place == "whole" or rule not in ("packed", "packed windows", "window on both sides")],
)
def test_ranges_say_what_the_mask_says(rule, place, padding):
    queries, keys, q_offset, kv_offset = PLACES[place]
    function, mask = RULES[rule](keys), padding_mask(padding, int(q_offset) + queries if "static" not in place else 13)
    common = (BATCH, queries, keys, q_offset, kv_offset, function, mask)
    expected = masking_utils.sdpa_mask(*common, allow_is_causal_skip=False, allow_is_bidirectional_skip=False).expand(BATCH, -1, -1, -1)[:, 0]
    causal = rule not in ("everything", "window on both sides")
    made = masks.mask(*common, allow_is_causal_skip=causal, allow_is_bidirectional_skip=not causal)
    assert made is None or made.dtype == torch.int64
    found = visible(made, queries, keys)
    if found is None:  # then attention itself hides what there is to hide
        key, query = torch.arange(keys), torch.arange(queries)[:, None]
        found = (key <= query if causal and queries > 1 else torch.ones(queries, keys, dtype=torch.bool)).expand(BATCH, -1, -1)
    some = expected.any(-1)  # rows of padding may see nothing in either
    assert torch.equal(found[some], expected[some]) and not found[~some].any()


def test_plain_causality_needs_no_mask():
    assert masks.mask(2, 8, 8) is None
    assert masks.mask(2, 1, 9, 8) is None
    assert masks.mask(2, 8, 8, attention_mask=torch.ones(2, 8, dtype=torch.bool)) is None
    assert masks.mask(2, 8, 12, 4) is not None


GAPS = torch.tensor([[1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1]], dtype=torch.bool)


@pytest.mark.parametrize(
    "options",
    [
        {"attention_mask": GAPS},
        {"mask_function": masking_utils.or_masks(masking_utils.causal_mask_function, lambda b, h, q, k: k < 2), "use_vmap": True},
        {"mask_function": masking_utils.and_masks(masking_utils.causal_mask_function, lambda b, h, q, k: k != 2), "use_vmap": True},
        {
            "mask_function": masking_utils.or_masks(
                masking_utils.causal_mask_function, masking_utils.blockwise_overlay(torch.tensor([[-1, 0, 0, 0, 1, 1]] * 2))
            )
        },
        {"allow_is_causal_skip": False},  # for a caller that does more with it
    ],
    ids=["gaps", "a user's union", "a user's intersection", "images", "needed as it is"],
)
def test_other_masks_are_those_of_sdpa(options):
    made = masks.mask(2, 6, 6, **options)
    assert made.dtype == torch.bool
    assert torch.equal(made, masking_utils.sdpa_mask(2, 6, 6, **(options | {"allow_is_causal_skip": False})))


def test_masks_of_users_become_a_bias():
    query, key = torch.zeros(2, 4, 3, 8), torch.zeros(2, 2, 5, 8)
    seen = torch.rand(2, 1, 3, 5) < 0.5
    seen[..., 0] = True
    least = torch.zeros(2, 1, 3, 5).masked_fill(~seen, torch.finfo(torch.float32).min)
    forms = [seen, least + least]
    for least_number in (torch.finfo(torch.float32).min, -1e9, -1e4, -100.0):
        forms += [torch.zeros(2, 1, 3, 5, dtype=kind).masked_fill(~seen, least_number) for kind in (torch.float32, torch.float64)]
    for mask in forms:
        options = masks.options_of(mask, query, key)
        assert options.keys() == {"bias"} and options["bias"].dtype == torch.float32
        assert torch.equal(options["bias"] == 0, seen) and torch.equal(options["bias"] == -torch.inf, ~seen)
    for same in (0.5, -150.0):  # a number that all keys have hides none of them
        assert torch.equal(masks.options_of(torch.full((1, 1, 3, 5), same), query, key)["bias"], torch.full((1, 1, 3, 5), same))
    nothing = masks.options_of(torch.full((1, 1, 3, 5), torch.finfo(torch.float32).min), query, key)["bias"]
    assert (nothing == -torch.inf).all()
    with pytest.raises(ValueError, match="^huggingface: attention mask: expected bool or floating-point, got torch.int64$"):  # no ranges
        masks.options_of(torch.ones(2, 1, 3, 2, dtype=torch.int64), query, key[:, :, :2])
    with pytest.raises(ValueError, match="^huggingface: attention mask: expected bool or floating-point, got torch.int64$"):
        masks.options_of(torch.ones(2, 1, 3, 5, dtype=torch.int64), query, key)


def test_ranges_need_no_mask_in_between(monkeypatch):
    """Of 2^15 tokens each way, a mask would have 2^30 numbers."""
    monkeypatch.setattr(masks, "sdpa_mask", None)
    tokens = 2**15
    for rule in RULES.values():
        made = masks.mask(BATCH, tokens, tokens, mask_function=rule(tokens), allow_is_bidirectional_skip=True)
        assert made is None or made.numel() <= 2 * BATCH * tokens
