"""Invalid modifiers raise one line that says why."""

import pytest
import torch
from attention_cases import random_inputs
from modified_attention import SHAPE, SQUARE

import cogwheel

REFUSED = {
    "window without causal": ({"window": 3}, "window: expected causal=True beside it, got causal=False"),
    "window of nothing": ({"window": 0, "causal": True}, "window: expected 1 or more, got 0"),
    "lengths of floats": ({"key_lengths": torch.tensor([1.0, 2.0])}, "key_lengths dtype: expected int64, got Float"),
    "too many lengths": (
        {"key_lengths": torch.tensor([1, 2, 3])},
        r"key_lengths: expected \[2\], one for each batch entry, got \[3\]",
    ),
    "a length too long": ({"key_lengths": torch.tensor([1, 84])}, r"key_lengths: expected 0 to 83 \(the keys\), got 84"),
    "a negative length": ({"key_lengths": torch.tensor([-1, 8])}, r"key_lengths: expected 0 to 83 \(the keys\), got -1"),
    "positions of nothing": (
        {"first_positions": torch.tensor([1, 2])},
        "first_positions: expected causal, alibi, or local_radius without local_centers beside them, got none of these",
    ),
    "positions beside given centers": (
        {"first_positions": torch.tensor([1, 2]), "local_radius": 3.0, "local_centers": torch.zeros(2, 4, 70)},
        "first_positions: expected causal, alibi, or local_radius without local_centers beside them, got none of these",
    ),
    "too few positions": (
        {"first_positions": torch.tensor([1]), "causal": True},
        r"first_positions: expected \[2\], one for each batch entry, got \[1\]",
    ),
    "positions of floats": (
        {"first_positions": torch.tensor([1.0, 2.0]), "causal": True},
        "first_positions dtype: expected int64, got Float",
    ),
    "a position too far": (
        {"first_positions": torch.tensor([1, 2**53 + 1]), "causal": True},
        r"first_positions: expected numbers from -2\^53 to 2\^53, got 9007199254740993",
    ),
    "the least position": (
        {"first_positions": torch.tensor([-(2**63), 2]), "causal": True, "local_radius": 3.0},
        r"first_positions: expected numbers from -2\^53 to 2\^53, got -9223372036854775808",
    ),
    "positions of packed sequences": (
        {"first_positions": torch.tensor([1, 2]), "causal": True, "cu_seqlens": torch.tensor([0, 70])},
        r"cu_seqlens: expected none beside first_positions, got \[2\]",
    ),
    "packed batch": ({"cu_seqlens": torch.tensor([0, 70])}, "query batch: expected 1 beside cu_seqlens, got 2"),
    "bias of another shape": (
        {"bias": torch.zeros(3, 70, 83)},
        r"bias: expected broadcastable to \[2, 4, 70, 83\], got \[3, 70, 83\]",
    ),
    "bias of another dtype": (
        {"bias": torch.zeros(70, 83, dtype=torch.float64)},
        r"bias dtype: expected Float \(as query\), got Double",
    ),
    "energy_bias without an exponent": (
        {"mechanism": "relu", "energy_bias": torch.zeros(70, 83)},
        r"energy_bias: expected none \(relu has no exponent\), got \[70, 83\]",
    ),
    "ranges beside causal": (
        {"ranges": torch.zeros(1, 1, 70, 2, dtype=torch.int64), "causal": True},
        r"ranges: expected none beside causal, got \[1, 1, 70, 2\]",
    ),
    "ranges of other rows": (
        {"ranges": torch.zeros(1, 1, 83, 2, dtype=torch.int64)},
        r"ranges: expected \[2, 4, 70, 2\], or 1 for batch or heads, got \[1, 1, 83, 2\]",
    ),
    "ranges of other heads": (
        {"ranges": torch.zeros(1, 3, 70, 2, dtype=torch.int64)},
        r"ranges: expected \[2, 4, 70, 2\], or 1 for batch or heads, got \[1, 3, 70, 2\]",
    ),
    "ranges that are no integers": (
        {"ranges": torch.zeros(1, 1, 70, 2)}, "ranges dtype: expected int64, got Float",
    ),
    "ranges beyond the keys": (
        {"ranges": torch.tensor([3, 84]).expand(1, 1, 70, 2)},
        r"ranges: expected keys \[begin, end\) of 83, got \[3, 84\)",
    ),
    "softcap of 0": ({"softcap": 0.0}, "softcap: expected a number above 0, got 0"),
    "softcap that is no number": ({"softcap": float("nan")}, "softcap: expected a number above 0, got nan"),
    "softcap of a cosine": (
        {"mechanism": "norm", "softcap": 2.0},
        r"softcap: expected none \(the score of norm is a cosine\), got 2",
    ),
    "bias of a cosine": (
        {"mechanism": "norm", "bias": torch.zeros(70, 83)},
        r"bias: expected none \(the score of norm is a cosine\), got \[70, 83\]",
    ),
    "slopes of other heads": ({"alibi": torch.zeros(3)}, r"alibi: expected \[4\], one slope for each head, got \[3\]"),
    "slopes that learn": (
        {"alibi": torch.zeros(4, requires_grad=True)},
        "alibi: expected slopes that need no gradient, got slopes that need one",
    ),
    "centers without a radius": (
        {"local_centers": torch.zeros(2, 4, 70)},
        r"local_centers: expected local_radius beside them, got \[2, 4, 70\]",
    ),
    "centers of other queries": (
        {"local_centers": torch.zeros(2, 4, 83), "local_radius": 3.0},
        r"local_centers: expected \[2, 4, 70\], got \[2, 4, 83\]",
    ),
    "a radius of nothing": ({"local_radius": 0.0}, "local_radius: expected a number above 0, got 0"),
    "a radius beside a window": (
        {"local_radius": 2.0, "window": 3, "causal": True},
        "local_radius: expected none beside window, got 2",
    ),
    "dropout of everything": ({"dropout": 1.0}, "dropout: expected a probability from 0 to below 1, got 1"),
    "negative dropout": ({"dropout": -0.1}, "dropout: expected a probability from 0 to below 1, got -0.1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_gets_one_line(name):
    options, message = REFUSED[name]
    inputs = random_inputs("softmax", SHAPE)
    with pytest.raises(ValueError, match=f"^attention: {message}$"):
        cogwheel.attention(inputs.query, inputs.key, inputs.value, **options)


@pytest.mark.parametrize(
    "ends, message",
    [
        ([1, 83], "expected 0 first, got 1"),
        ([0, 40, 30, 83], "expected numbers that do not decrease, got 30 after 40"),
        ([0, 40], r"expected 83 last \(as queries\), got 40"),
        ([0], r"expected \[sequences \+ 1\], at least 2 numbers, got \[1\]"),
    ],
)
def test_bad_sequences_get_one_line(ends, message):
    inputs = random_inputs("softmax", SQUARE)
    with pytest.raises(ValueError, match=f"^attention: cu_seqlens: {message}$"):
        cogwheel.attention(inputs.query, inputs.key, inputs.value, cu_seqlens=torch.tensor(ends))
