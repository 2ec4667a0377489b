"""The peer of `bench training --model u_vit`: a U-ViT that learns to predict noise, in eager PyTorch.

Bao et al., "All are Worth Words: A ViT Backbone for Diffusion Models" (2023), section 3, without a condition.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cogwheel.bench.square_images import SquareImages
from cogwheel.bench.transformer import LayerForm, initialize, layers

FORM = LayerForm(projection_bias=False)


@dataclass(frozen=True, kw_only=True)
class NoiseShape(SquareImages):
    """Images with noise in them. An odd number of layers."""

    peer = "eager U-ViT"

    def describe(self) -> str:
        return (
            f"{self.layers} layers of {self.heads} heads, width {self.width}, the time and {self.patches} patches of "
            f"images of {self.side} × {self.side}, batch {self.batch}"
        )

    def options(self, mechanism: str) -> dict[str, object]:
        return {"task.name": "diffusion", **super().options(mechanism)}

    def model(self) -> nn.Module:
        return UViT(self)

    def random_batch(self) -> tuple[Tensor, ...]:
        """Noisy images, the noise in them, and times. α² + σ² = 1; at what rate α falls does not matter here."""
        images, noise = (torch.randn(self.batch, self.channels, self.side, self.side) for _ in range(2))
        angle = torch.rand(self.batch) * (math.pi / 2)
        alpha, sigma = (part.view(-1, 1, 1, 1) for part in (angle.cos(), angle.sin()))
        return alpha * images + sigma * noise, noise, 999 * angle / (math.pi / 2)


def time_embedding(time: Tensor, width: int) -> Tensor:
    """[B] → [B, width]: cos(t ω_i), then sin(t ω_i), ω_i = 10000^(−i/(width/2))."""
    omega = 10000 ** -(torch.arange(width // 2, device=time.device) / (width // 2))
    angles = time[:, None] * omega
    return torch.cat([angles.cos(), angles.sin()], -1)


class UViT(nn.Module):
    """The time is the first token. What the first half's layers made goes by long skips to those of the second half."""

    def __init__(self, shape: NoiseShape) -> None:
        super().__init__()
        self.shape, half = shape, shape.layers // 2
        self.patch = nn.Conv2d(shape.channels, shape.width, shape.patch, stride=shape.patch)
        self.positions = nn.Parameter(torch.zeros(1 + shape.patches, shape.width))
        self.layers = nn.ModuleList(layers(shape.layers, shape.width, shape.heads, FORM))
        self.skips = nn.ModuleList(nn.Linear(2 * shape.width, shape.width) for _ in range(half))
        self.norm = FORM.norm(shape.width)
        self.pixels = nn.Linear(shape.width, shape.patch**2 * shape.channels)
        self.convolution = nn.Conv2d(shape.channels, shape.channels, 3, padding=1)
        initialize(self)

    def forward(self, noisy: Tensor, noise: Tensor, time: Tensor) -> Tensor:
        """The mean squared error of the predicted noise."""
        patches = self.patch(noisy).flatten(2).transpose(1, 2)
        x = torch.cat([time_embedding(time, self.shape.width)[:, None], patches], 1) + self.positions
        half, kept = len(self.skips), []
        for layer in self.layers[:half]:
            x = layer(x)
            kept.append(x)
        x = self.layers[half](x)
        for layer, skip in zip(self.layers[half + 1 :], self.skips):
            x = layer(skip(torch.cat([x, kept.pop()], -1)))
        pixels = self.pixels(self.norm(x)[:, 1:])  # of a patch: row by row, each pixel with its channels
        rows, patch = self.shape.side // self.shape.patch, self.shape.patch
        image = pixels.unflatten(1, (rows, rows)).unflatten(-1, (patch, patch, -1)).permute(0, 5, 1, 3, 2, 4)
        return F.mse_loss(self.convolution(image.flatten(4).flatten(2, 3)).float(), noise)
