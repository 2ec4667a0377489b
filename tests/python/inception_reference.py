"""The Inception-v3 of FID in PyTorch, float64, with weights and images from a formula, and the record of its features.

    python tests/python/inception_reference.py    # writes tests/cpp/tasks/images/inception_features.json

tests/cpp/tasks/images/inception_network_test.cpp makes the same weights and images and holds the C++ network to the record.
The network is written from the paper (Szegedy et al. 2016, figures 5, 6, 7 and 10) and pytorch-fid's description of its
differences, and shares nothing with the C++ table.
"""

import hashlib
import json
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional

RECORD = pathlib.Path(__file__).parents[1] / "cpp" / "evaluate" / "inception_features.json"
IMAGES = {"small images": (2, 3, 24, 40), "large image": (1, 3, 310, 330)}
POOLED_EVERY, SPATIAL_EVERY = 8, 10


def uniform(name, shape):
    """In [0, 1): the upper 24 bits of SplitMix64 at consecutive numbers from one that follows from the name."""
    start = int(hashlib.sha256(name.encode()).hexdigest()[:16], 16)
    count = int(numpy.prod(shape))
    with numpy.errstate(over="ignore"):
        x = numpy.uint64(start) + numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ x >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
    x = (x ^ x >> numpy.uint64(31)) >> numpy.uint64(40)
    return (x.astype(numpy.float64) * 2.0**-24).reshape(shape)


def drawn(name, shape):
    """A weight or a statistic, rounded to float32: kernels keep the size of rectified numbers, statistics vary."""
    u = uniform(name, shape)
    if name.endswith("conv.weight"):
        value = (2 * u - 1) * numpy.sqrt(6 / numpy.prod(shape[1:]))
    elif name.endswith(("bn.weight", "bn.running_var")):
        value = 0.5 + u
    else:
        value = u - 0.5
    return torch.from_numpy(value.astype(numpy.float32).astype(numpy.float64))


class Unit(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x):
        return functional.relu(self.bn(self.conv(x)))


def border_free_mean(x):
    """The mean of the neighbours that exist: sums over a 3×3 window, by how many of its places lie in the image."""
    window = torch.ones(x.shape[1], 1, 3, 3, dtype=x.dtype)
    there = torch.ones_like(x[:1])
    sums, counts = (functional.conv2d(each, window, padding=1, groups=x.shape[1]) for each in (x, there))
    return sums / counts


class Figure5(nn.Module):
    def __init__(self, inputs, pooled):
        super().__init__()
        self.branch1x1 = Unit(inputs, 64, 1)
        self.branch5x5_1, self.branch5x5_2 = Unit(inputs, 48, 1), Unit(48, 64, 5, padding=2)
        self.branch3x3dbl_1 = Unit(inputs, 64, 1)
        self.branch3x3dbl_2, self.branch3x3dbl_3 = Unit(64, 96, 3, padding=1), Unit(96, 96, 3, padding=1)
        self.branch_pool = Unit(inputs, pooled, 1)

    def forward(self, x):
        five = self.branch5x5_2(self.branch5x5_1(x))
        three = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch1x1(x), five, three, self.branch_pool(border_free_mean(x))], 1)


class Reduction35(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.branch3x3 = Unit(inputs, 384, 3, stride=2)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Unit(inputs, 64, 1), Unit(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Unit(96, 96, 3, stride=2)

    def forward(self, x):
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, functional.max_pool2d(x, 3, 2)], 1)


class Figure6(nn.Module):
    def __init__(self, inner):
        super().__init__()
        wide, tall = {"kernel": (1, 7), "padding": (0, 3)}, {"kernel": (7, 1), "padding": (3, 0)}
        self.branch1x1 = Unit(768, 192, 1)
        self.branch7x7_1, self.branch7x7_2 = Unit(768, inner, 1), Unit(inner, inner, **wide)
        self.branch7x7_3 = Unit(inner, 192, **tall)
        self.branch7x7dbl_1, self.branch7x7dbl_2 = Unit(768, inner, 1), Unit(inner, inner, **tall)
        self.branch7x7dbl_3, self.branch7x7dbl_4 = Unit(inner, inner, **wide), Unit(inner, inner, **tall)
        self.branch7x7dbl_5 = Unit(inner, 192, **wide)
        self.branch_pool = Unit(768, 192, 1)

    def forward(self, x):
        single = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return torch.cat([self.branch1x1(x), single, double, self.branch_pool(border_free_mean(x))], 1)


class Reduction17(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch3x3_1, self.branch3x3_2 = Unit(768, 192, 1), Unit(192, 320, 3, stride=2)
        self.branch7x7x3_1, self.branch7x7x3_2 = Unit(768, 192, 1), Unit(192, 192, (1, 7), padding=(0, 3))
        self.branch7x7x3_3 = Unit(192, 192, (7, 1), padding=(3, 0))
        self.branch7x7x3_4 = Unit(192, 192, 3, stride=2)

    def forward(self, x):
        seven = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return torch.cat([self.branch3x3_2(self.branch3x3_1(x)), seven, functional.max_pool2d(x, 3, 2)], 1)


class Figure7(nn.Module):
    def __init__(self, inputs, pool):
        super().__init__()
        wide, tall = {"kernel": (1, 3), "padding": (0, 1)}, {"kernel": (3, 1), "padding": (1, 0)}
        self.pool = pool
        self.branch1x1 = Unit(inputs, 320, 1)
        self.branch3x3_1 = Unit(inputs, 384, 1)
        self.branch3x3_2a, self.branch3x3_2b = Unit(384, 384, **wide), Unit(384, 384, **tall)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Unit(inputs, 448, 1), Unit(448, 384, 3, padding=1)
        self.branch3x3dbl_3a, self.branch3x3dbl_3b = Unit(384, 384, **wide), Unit(384, 384, **tall)
        self.branch_pool = Unit(inputs, 192, 1)

    def forward(self, x):
        single, double = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        single = [self.branch3x3_2a(single), self.branch3x3_2b(single)]
        double = [self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double)]
        return torch.cat([self.branch1x1(x), *single, *double, self.branch_pool(self.pool(x))], 1)


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.Conv2d_1a_3x3, self.Conv2d_2a_3x3 = Unit(3, 32, 3, stride=2), Unit(32, 32, 3)
        self.Conv2d_2b_3x3 = Unit(32, 64, 3, padding=1)
        self.Conv2d_3b_1x1, self.Conv2d_4a_3x3 = Unit(64, 80, 1), Unit(80, 192, 3)
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = Figure5(192, 32), Figure5(256, 64), Figure5(288, 64)
        self.Mixed_6a = Reduction35(288)
        self.Mixed_6b, self.Mixed_6c = Figure6(128), Figure6(160)
        self.Mixed_6d, self.Mixed_6e = Figure6(160), Figure6(192)
        self.Mixed_7a = Reduction17()
        self.Mixed_7b = Figure7(1280, border_free_mean)
        self.Mixed_7c = Figure7(2048, lambda x: functional.max_pool2d(x, 3, 1, 1))

    def forward(self, images):
        """Images in [0, 1]; the pooled features and the spatial ones, place by place."""
        x = 2 * functional.interpolate(images, (299, 299), mode="bilinear", align_corners=False) - 1
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(functional.max_pool2d(x, 3, 2)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(functional.max_pool2d(x, 3, 2))))
        x = self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))
        spatial = self.Mixed_6d.branch1x1(x)[:, :7]
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(self.Mixed_6e(self.Mixed_6d(x)))))
        return x.mean((2, 3)), spatial.permute(0, 2, 3, 1).flatten(1)


def drawn_network():
    network = Inception().double().eval()
    state = {name: drawn(name, tuple(tensor.shape)) for name, tensor in network.state_dict().items() if tensor.dim()}
    network.load_state_dict(state, strict=False)
    return network


@torch.no_grad()
def features():
    """What the record holds."""
    network, record = drawn_network(), {}
    for name, shape in IMAGES.items():
        pooled, spatial = network(torch.from_numpy(uniform(name, shape)))
        assert pooled.shape[1:] == (2048,) and spatial.shape[1:] == (2023,)
        record[name] = {"pooled": pooled[:, ::POOLED_EVERY].tolist(), "spatial": spatial[:, ::SPATIAL_EVERY].tolist()}
    return record


if __name__ == "__main__":
    rounded = {
        name: {kind: [[float(f"{x:.8g}") for x in row] for row in rows] for kind, rows in of_images.items()}
        for name, of_images in features().items()
    }
    RECORD.write_text(json.dumps(rounded) + "\n")
