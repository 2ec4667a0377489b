"""Attention as a soft dictionary: a query finds the key most like it and returns that key's value. The lower
the temperature of the softmax, the sharper the look-up; the higher, the closer the result to the mean of all values."""

import torch

import cogwheel

words = ["zero", "one", "two", "three", "four", "five", "six", "seven"]
keys = torch.eye(8, dtype=torch.float64)[None, None]  # each word has its own direction
values = torch.arange(8, dtype=torch.float64).reshape(1, 1, 8, 1)

query = 0.7 * keys[:, :, 5:6] + 0.3 * keys[:, :, 2:3]  # mostly "five", with some "two"
print("temperature   found   weight of five   weight of two")
for temperature in (10.0, 1.0, 0.3, 0.1, 0.03, 0.01):
    found = cogwheel.attention(query, keys, values, "softmax", scale=1 / temperature).item()
    weights = cogwheel.attention_weights(query, keys, "softmax", scale=1 / temperature).flatten()
    print(f"{temperature:11.2f}   {found:5.3f}   {weights[5]:14.3f}   {weights[2]:13.3f}")
print(f"as in a dictionary: {words.index('five')}")
