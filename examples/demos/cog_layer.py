"""One causal layer of Cog attention, one head, no scale, as the post "Negative Weights Transformers" has it:
y = (A V) W_o with A = sign(p) softmax|p| over the tokens up to each, p = QKᵀ. Then four things to see in it."""

import torch
from waves import waves  # waves.py, beside this file

import cogwheel

tokens, width = 4, 8
x = waves(tokens, width, seed=0)
w_q, w_k, w_v, w_o = (waves(width, width, seed, scale=width**-0.5) for seed in (1, 2, 3, 4))


def heads(matrix):
    return matrix[None, None]  # [batch, heads, tokens, width]


def layer(x):
    out = cogwheel.attention(heads(x @ w_q), heads(x @ w_k), heads(x @ w_v), "cog", causal=True, scale=1.0)
    return out[0, 0] @ w_o


y = layer(x)
print(f"output: {y.shape[0]} x {y.shape[1]}, first row begins {y[0, 0]:.4f} {y[0, 1]:.4f} {y[0, 2]:.4f}")

# 1. Causal: changing the last token changes only the last row.
other = x.clone()
other[-1] = 1.0
change = (layer(other) - y).abs()
print(f"another last token changes earlier rows by {change[:-1].max():.4f}, the last by {change[-1].max():.4f}")

# 2. Some weights are negative, yet their magnitudes sum to 1.
a = cogwheel.attention_weights(heads(x @ w_q), heads(x @ w_k), "cog", causal=True, scale=1.0)[0, 0]
sums = a.abs().sum(-1)
print(f"{(a < 0).sum()} of 10 weights are negative; sums of |a|: {sums.min():.4f} to {sums.max():.4f}")

# 3. The kernel agrees with the formula.
p = (x @ w_q) @ (x @ w_k).T
hidden = torch.ones(tokens, tokens).triu(1).bool()
formula = p.sign() * torch.softmax(p.abs().masked_fill(hidden, -torch.inf), -1)
print(f"largest difference from sign(p) softmax|p|: {(a - formula).abs().max():.4f}")

# 4. A trap: the post's einsum("bld,dd->bld", x, W) repeats an index, which takes W's diagonal. The product is x @ W.
trap = torch.einsum("ld,d->ld", x, w_q.diagonal())
print(f"x times the diagonal of W differs from x W by up to {(trap - x @ w_q).abs().max():.4f}")
