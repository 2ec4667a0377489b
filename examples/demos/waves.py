"""Numbers that look random, of mean 0 and variance 1; one_head.h makes the same."""

import math

import torch


def waves(rows, columns, seed, scale=1.0):
    sines = [math.sin(12.9898 * i + 78.233 * seed) * 43758.5453 for i in range(rows * columns)]
    values = [scale * math.sqrt(12.0) * (wave - math.floor(wave) - 0.5) for wave in sines]
    return torch.tensor(values, dtype=torch.float64).reshape(rows, columns)
