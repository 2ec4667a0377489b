"""The peer of `bench training --model handwriting`: Graves' network in eager PyTorch."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class PenShape:
    """`batch` lines of `points` points to predict and `characters` characters; none is padded."""

    layers: int
    width: int
    mixtures: int
    curves: int
    alphabet: int
    batch: int
    points: int
    characters: int

    peer, counted = "eager handwriting", "points"
    mechanisms = ("graves_window",)

    @property
    def items(self) -> int:
        """Of a step, by which speeds are given."""
        return self.batch * self.points

    def describe(self) -> str:
        return (
            f"{self.layers} LSTM layers of {self.width}, {self.mixtures} Gaussians, {self.curves} curves of the window, "
            f"batch {self.batch}, {self.points} points, {self.characters} of {self.alphabet} characters"
        )

    def words(self, mechanism: str) -> list[str]:
        """Of `cogwheel bench-steps`."""
        options = {
            "task.name": "handwriting", "model.mechanism": mechanism, "model.layers": self.layers,
            "model.width": self.width, "model.mixtures": self.mixtures, "model.curves": self.curves,
            "model.vocabulary": self.alphabet, "training.batch": self.batch,
        }  # fmt: skip
        return [f"--set={key}={value}" for key, value in options.items()] + [
            f"--length={self.points}",
            f"--source={self.characters}",
        ]

    def model(self) -> nn.Module:
        return Handwriting(self)

    def random_batch(self) -> tuple[Tensor, ...]:
        points = torch.rand(self.batch, self.points + 1, 3) * 2 - 1
        points[..., 2] = (torch.rand(self.batch, self.points + 1) < 0.05).float()
        characters = F.one_hot(torch.randint(self.alphabet, (self.batch, self.characters)), self.alphabet).float()
        return points, characters, torch.full((self.batch,), self.characters)


class Handwriting(nn.Module):
    """The first layer reads the window that it makes, point by point; those above it are `nn.LSTM`."""

    def __init__(self, shape: PenShape) -> None:
        super().__init__()
        read = 3 + shape.alphabet
        self.first = nn.LSTMCell(read, shape.width)
        self.window = nn.Linear(shape.width, 3 * shape.curves)
        self.upper = nn.ModuleList(nn.LSTM(read + shape.width, shape.width, batch_first=True) for _ in range(shape.layers - 1))
        self.output = nn.Linear(shape.layers * shape.width, 1 + 6 * shape.mixtures)
        with torch.no_grad():
            self.window.bias[-shape.curves :] -= math.log(12)  # a twelfth of a character for each point

    def forward(self, points: Tensor, characters: Tensor, lengths: Tensor) -> Tensor:
        x = points[:, :-1]
        batch, longest, alphabet = characters.shape
        state = None
        kappa, window = x.new_zeros(batch, self.window.out_features // 3), x.new_zeros(batch, alphabet)
        places = torch.arange(1.0, longest + 1, device=x.device)
        present = (places <= lengths[:, None])[..., None]
        states, windows = [], []
        for point in x.unbind(1):
            state = self.first(torch.cat([point, window], -1), state)
            alpha, beta, step = self.window(state[0]).exp().chunk(3, -1)
            kappa = kappa + step
            phi = (alpha[:, None] * torch.exp(-beta[:, None] * (kappa[:, None] - places[:, None]) ** 2)).sum(-1, keepdim=True)
            window = (torch.where(present, phi, 0.0).mT @ characters).squeeze(1)
            states.append(state[0])
            windows.append(window)
        hidden = [torch.stack(states, 1)]
        read = torch.cat([x, torch.stack(windows, 1)], -1)
        for layer in self.upper:
            hidden.append(layer(torch.cat([read, hidden[-1]], -1))[0])
        return negative_log_likelihood(self.output(torch.cat(hidden, -1)), points[:, 1:])


def negative_log_likelihood(y: Tensor, points: Tensor) -> Tensor:
    """The mean over points of −log p: mixtures of Gaussians in two dimensions, and a coin for the end of a stroke."""
    weight, mean_x, mean_y, log_x, log_y, r = y[..., 1:].chunk(6, -1)
    rho = torch.tanh(r)
    x, y_ = (points[..., :1] - mean_x) * torch.exp(-log_x), (points[..., 1:2] - mean_y) * torch.exp(-log_y)
    rest = 1 - rho**2
    log_normal = -(x**2 + y_**2 - 2 * rho * x * y_) / (2 * rest) - log_x - log_y - math.log(2 * math.pi) - torch.log(rest) / 2
    offsets = -torch.logsumexp(weight.log_softmax(-1) + log_normal, -1)
    return (offsets + F.binary_cross_entropy_with_logits(y[..., 0], points[..., 2], reduction="none")).mean()
