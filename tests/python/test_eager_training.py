"""From equal weights and batches, our training and that of a model written in eager PyTorch have the same losses.

The models are the peers of `bench training`, written from the papers. So this holds models, gradients, clipping, AdamW
and learning rates to a reference that shares nothing with them.
"""

import math

import pytest
import torch
from tensor_files import read_tensors

from cogwheel.bench.eager_training import EagerTraining
from cogwheel.bench.encoder import WordShape
from cogwheel.bench.gpt import Shape
from cogwheel.bench.llama import LlamaShape
from cogwheel.bench.training import CogwheelSteps
from cogwheel.bench.u_vit import NoiseShape
from cogwheel.bench.vision_transformer import ImageShape

STEPS = 20
SCHEDULE = {"steps": 30, "warm_up": 4, "learning_rate": 6e-3, "final_learning_rate": 2e-4}


def learning_rate(step):
    """A line up to the largest rate, of which the first step has a part, then half a cosine."""
    whole, warm_up, most, least = SCHEDULE.values()
    if step < warm_up:
        return most * (step + 1) / (warm_up + 1)
    return least + (most - least) * (1 + math.cos(math.pi * (step - warm_up) / (whole - warm_up))) / 2


# Ours, and theirs where they differ.
LAYER = {"feed_forward.up": "feed_forward.0", "feed_forward.out": "feed_forward.2"}
NAMES = {
    "llama": {"token_embedding": "tokens.weight", "final_norm.weight": "norm.weight"}
    | {f"layers.{layer}.feed_forward.{ours}.weight": f"layers.{layer}.{theirs}.weight" for layer in range(2) for ours, theirs in (("0", "up"), ("2", "out"))},
    "gpt": {"token_embedding": "tokens.weight", "position_embedding": "positions.weight", "final_norm.weight": "norm.weight"},
    "encoder": {
        "token_embedding": "tokens.weight", "position_embedding": "positions.weight", "segment_embedding": "segments.weight",
        "embedding_norm.weight": "norm.weight", "embedding_norm.bias": "norm.bias",
        "word_transform.weight": "transform.weight", "word_transform.bias": "transform.bias",
        "word_norm.weight": "transform_norm.weight", "word_norm.bias": "transform_norm.bias", "word_bias": "output_bias",
    },
    "vit": {
        "position_embedding": "positions", "final_norm.weight": "norm.weight", "final_norm.bias": "norm.bias",
    },
    "u_vit": {
        "position_embedding": "positions", "final_norm.weight": "norm.weight", "final_norm.bias": "norm.bias",
        "convolution_weight": "convolution.weight", "convolution_bias": "convolution.bias",
    },
}  # fmt: skip
CASES = {
    "llama": (LlamaShape(layers=2, heads=2, width=32, context=12, batch=4, vocabulary=40, hidden=96), ["inputs", "targets"]),
    "gpt": (Shape(layers=2, heads=2, width=32, context=12, batch=4, vocabulary=40), ["inputs", "targets"]),
    "encoder": (
        WordShape(layers=2, heads=2, width=32, length=14, vocabulary=40, batch=6),
        ["inputs", "targets", "segments"],
    ),
    "vit": (
        ImageShape(layers=2, heads=2, width=32, side=12, patch=4, classes=5, batch=6, channels=2),
        ["inputs", "targets"],
    ),
    "u_vit": (
        NoiseShape(layers=5, heads=2, width=32, side=8, patch=2, batch=6, channels=2),
        ["inputs", "targets", "times"],
    ),
}


def load(model, tensors, names):
    """Copies each of our weights to the peer's of the same part; a projection of patches becomes a convolution."""
    left = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in tensors.items():
            part, _, name = name.partition(".")
            if part != "model":
                continue
            for ours, theirs in LAYER.items():
                name = name.replace(ours, theirs)
            target = left.pop(names.get(name, name))
            assert target.numel() == weight.numel() and len(target) == len(weight), name
            target.copy_(weight.view_as(target))
    assert not left
    return model


class Muon:
    """Muon of the matrices in blocks and AdamW of all else, as one optimiser."""

    def __init__(self, model):
        hidden = {name for name, weight in model.named_parameters() if name.startswith("layers.") and weight.dim() == 2}
        weights = dict(model.named_parameters())
        rest = [(weight, 0.1 if weight.dim() > 1 else 0.0) for name, weight in weights.items() if name not in hidden]
        groups = [{"params": [weight], "weight_decay": decay} for weight, decay in rest]
        self.parts = [
            torch.optim.Muon([weights[name] for name in hidden], lr=1e-3, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99)),
        ]
        assert hidden

    @property
    def param_groups(self):
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self, set_to_none):
        for part in self.parts:
            part.zero_grad(set_to_none=set_to_none)

    def step(self):
        for part in self.parts:
            part.step()


def losses_of_both(name, executable, tmp_path, more, optimizer=None):
    """Ours, those of eager PyTorch from the same start, and the last batch's before training."""
    shape, members = CASES[name]
    start = tmp_path / "start.safetensors"
    options = [f"--set=training.{key}={value}" for key, value in (SCHEDULE | more).items()]
    side = CogwheelSteps(executable, [*shape.words("softmax"), *options, f"--save={start}", f"--batches={STEPS}"])
    ours = [side.step() for _ in range(STEPS)]
    side.close()

    tensors = read_tensors(start)
    batches = [tuple(tensors[f"batch.{step}.{member}"] for member in members) for step in range(STEPS)]
    model = load(shape.model(), tensors, NAMES[name])
    with torch.no_grad():
        untrained = model(*batches[-1]).item()
    drawn = iter(batches)
    peer = EagerTraining(model, lambda: next(drawn), "fp32", learning_rate=learning_rate)
    if optimizer is not None:
        peer.optimizer = optimizer(model)
    return ours, [peer.step() for _ in range(STEPS)], untrained


@pytest.mark.parametrize("name", CASES)
def test_losses_are_those_of_eager_pytorch(name, cogwheel_executable, tmp_path, one_thread):
    ours, theirs, untrained = losses_of_both(name, cogwheel_executable, tmp_path, {})
    assert ours == pytest.approx(theirs, abs=1e-5)  # the order of sums makes 1e-6
    assert abs(ours[-1] - untrained) > 5e-3  # the steps between have moved it


def test_slices_and_blocks_made_again_change_nothing(cogwheel_executable, tmp_path, one_thread):
    ours, theirs, _ = losses_of_both("gpt", cogwheel_executable, tmp_path, {"micro_batches": 4, "recompute": 1})
    assert ours == pytest.approx(theirs, abs=1e-5)


def test_muon_is_that_of_torch(cogwheel_executable, tmp_path, one_thread):
    ours, theirs, untrained = losses_of_both("gpt", cogwheel_executable, tmp_path, {"optimizer": "muon"}, Muon)
    assert ours == pytest.approx(theirs, abs=1e-3)  # its steps are bfloat16, whose roundings differences of 1e-6 can turn
    assert abs(ours[-1] - untrained) > 5e-3
