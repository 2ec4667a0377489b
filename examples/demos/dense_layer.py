"""The dense layer of the post "Vanilla/Dense Transformers": 50 tokens of width 128, one head of width 256, softmax over
all of them, before and after. Its weights are not scaled down, which makes the softmax almost a choice of one key."""

import torch
from waves import waves  # waves.py, beside this file

import cogwheel

tokens, width, hidden = 50, 128, 256
x = waves(tokens, width, seed=0)
w_q, w_k, w_v = (waves(width, hidden, seed) for seed in (1, 2, 3))
w_o = waves(hidden, width, seed=4)


def heads(matrix):
    return matrix[None, None]  # [batch, heads, tokens, width]


def weights(x, scale=None):
    return cogwheel.attention_weights(heads(x @ w_q), heads(x @ w_k), "softmax", scale=scale)[0, 0]


def layer(x):
    return cogwheel.attention(heads(x @ w_q), heads(x @ w_k), heads(x @ w_v), "softmax")[0, 0] @ w_o


y, a = layer(x), weights(x)
print(f"output: {y.shape[0]} x {y.shape[1]}")
print(f"rows of weights sum to {a.sum(-1).min():.4f} at least and {a.sum(-1).max():.4f} at most")
print(f"the largest weight of a row, on average: {a.amax(-1).mean():.4f}")
fitting = weights(x, scale=1 / (width * hidden**0.5)).amax(-1).mean()
print(f"the same with W scaled by 1/√{width}: {fitting:.4f}")

# The layer does not know positions: permuting the tokens permutes the rows.
order = torch.arange(tokens) * 7 % tokens
print(f"permuted tokens permute the output, to within {(layer(x[order]) - y[order]).abs().max() / y.abs().max():.4f}")
