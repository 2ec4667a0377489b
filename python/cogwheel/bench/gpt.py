"""The peer of `bench training`: a GPT in eager PyTorch, as nanoGPT builds it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cogwheel.bench.transformer import LayerForm, initialize, layers

FORM = LayerForm(causal=True, bias=False, projection_bias=False)


@dataclass(frozen=True)
class Shape:
    """The shape of a model and of a step: tokens = batch · context."""

    layers: int
    heads: int
    width: int
    context: int
    batch: int
    vocabulary: int

    peer, counted = "eager GPT", "tokens"
    mechanisms = ("softmax", "cog")  # without a choice

    @property
    def items(self) -> int:
        """Of a step, by which speeds are given."""
        return self.batch * self.context

    def describe(self) -> str:
        return (
            f"{self.layers} layers of {self.heads} heads, width {self.width}, context {self.context}, batch {self.batch}, "
            f"vocabulary {self.vocabulary}"
        )

    def words(self, mechanism: str) -> list[str]:
        """Of `cogwheel bench-steps`."""
        options = {"model.mechanism": mechanism, "training.batch": self.batch}
        options |= {f"model.{name}": getattr(self, name) for name in ("layers", "heads", "width", "context", "vocabulary")}
        return [f"--set={key}={value}" for key, value in options.items()]

    def model(self) -> nn.Module:
        return GPT(self)

    def random_batch(self) -> tuple[Tensor, ...]:
        tokens = torch.randint(self.vocabulary, (self.batch, self.context + 1))
        return tokens[:, :-1], tokens[:, 1:]


class GPT(nn.Module):
    """Learned positions, pre-norm layers, a head tied to the token embedding, no biases, no dropout."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.layers = nn.Sequential(*layers(shape.layers, shape.width, shape.heads, FORM))
        self.norm = FORM.norm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        initialize(self)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        logits = self.head(self.norm(self.layers(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
