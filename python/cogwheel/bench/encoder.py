"""The peer of `bench training --model encoder`: an encoder that learns to tell hidden words, in eager PyTorch.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding" (2019), sections 3 and
A.2, without the prediction of a next sentence, with ε = 1e-12 as in its published code.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cogwheel.bench.transformer import LayerForm, initialize, layers

FORM = LayerForm(norms_after=True, epsilon=1e-12)
SPECIAL = 5  # tokens before the first piece of a word
NOT_HIDDEN = -100  # as a target


@dataclass(frozen=True)
class WordShape:
    """`batch` sentences of `length` tokens; none is padded."""

    layers: int
    heads: int
    width: int
    length: int
    vocabulary: int
    batch: int

    peer, counted = "eager encoder", "sentences"
    mechanisms = ("softmax", "cog")

    @property
    def items(self) -> int:
        """Of a step, by which speeds are given."""
        return self.batch

    def describe(self) -> str:
        return (
            f"{self.layers} layers of {self.heads} heads, width {self.width}, {self.vocabulary} pieces, "
            f"{self.length} tokens of a sentence, batch {self.batch}"
        )

    def words(self, mechanism: str) -> list[str]:
        """Of `cogwheel bench-steps`."""
        options = {
            "task.name": "masked_words", "model.mechanism": mechanism, "model.layers": self.layers,
            "model.heads": self.heads, "model.width": self.width, "model.context": self.length,
            "model.vocabulary": self.vocabulary, "training.batch": self.batch,
        }  # fmt: skip
        return [f"--set={key}={value}" for key, value in options.items()] + [f"--length={self.length}"]

    def model(self) -> nn.Module:
        return Encoder(self)

    def random_batch(self) -> tuple[Tensor, ...]:
        tokens = torch.randint(SPECIAL, self.vocabulary, (self.batch, self.length))
        hidden = torch.rand(self.batch, self.length) < 0.15
        targets = tokens.where(hidden, NOT_HIDDEN)
        return tokens.masked_fill(hidden, SPECIAL - 1), targets, torch.zeros_like(tokens)


class Encoder(nn.Module):
    """Only hidden words have logits, by a head tied to the token embedding."""

    def __init__(self, shape: WordShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.length, shape.width)
        self.segments = nn.Embedding(2, shape.width)
        self.norm = FORM.norm(shape.width)
        self.layers = nn.Sequential(*layers(shape.layers, shape.width, shape.heads, FORM))
        self.transform = nn.Linear(shape.width, shape.width)
        self.transform_norm = FORM.norm(shape.width)
        self.output_bias = nn.Parameter(torch.zeros(shape.vocabulary))
        initialize(self)

    def forward(self, tokens: Tensor, targets: Tensor, segments: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device)) + self.segments(segments)
        states = self.layers(self.norm(x)).flatten(0, 1)
        targets = targets.flatten()
        (places,) = torch.nonzero(targets != NOT_HIDDEN, as_tuple=True)
        read = self.transform_norm(F.gelu(self.transform(states[places])))
        return F.cross_entropy(F.linear(read, self.tokens.weight, self.output_bias), targets[places])
