"""The peer of `bench training --model vit`: a vision transformer in eager PyTorch.

Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021), section 3.1, with ε = 1e-12 as in its published weights.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cogwheel.bench.square_images import SquareImages
from cogwheel.bench.transformer import LayerForm, initialize, layers

FORM = LayerForm(epsilon=1e-12)


@dataclass(frozen=True, kw_only=True)
class ImageShape(SquareImages):
    """Images of one of `classes` each."""

    classes: int

    peer = "eager ViT"

    def describe(self) -> str:
        return (
            f"{self.layers} layers of {self.heads} heads, width {self.width}, {self.patches} patches of images of "
            f"{self.side} × {self.side}, {self.classes} classes, batch {self.batch}"
        )

    def options(self, mechanism: str) -> dict[str, object]:
        return {"task.name": "images", **super().options(mechanism), "model.vocabulary": self.classes}

    def model(self) -> nn.Module:
        return VisionTransformer(self)

    def random_batch(self) -> tuple[Tensor, ...]:
        images = torch.randn(self.batch, self.channels, self.side, self.side)
        return images, torch.randint(self.classes, (self.batch,))


class VisionTransformer(nn.Module):
    """Patches are projected by a convolution whose stride is its size; the class is read from a token of its own."""

    def __init__(self, shape: ImageShape) -> None:
        super().__init__()
        self.patch = nn.Conv2d(shape.channels, shape.width, shape.patch, stride=shape.patch)
        self.class_token = nn.Parameter(torch.zeros(shape.width))
        self.positions = nn.Parameter(torch.zeros(1 + shape.patches, shape.width))
        self.layers = nn.Sequential(*layers(shape.layers, shape.width, shape.heads, FORM))
        self.norm = FORM.norm(shape.width)
        self.head = nn.Linear(shape.width, shape.classes)
        initialize(self)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        patches = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(images), 1, -1), patches], 1) + self.positions
        return F.cross_entropy(self.head(self.norm(self.layers(x)[:, 0])), labels)
