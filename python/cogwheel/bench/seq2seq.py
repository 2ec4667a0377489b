"""The peer of `bench training --model seq2seq` and `bench beam`: Bahdanau's model in eager PyTorch."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FIRST_TOKEN = 4  # those before it are padding, unknown, begin and end
BEGIN, END = 2, 3


@dataclass(frozen=True)
class SequenceShape:
    """`batch` pairs of sentences of `source` and `target` tokens, their ends included; none is padded."""

    width: int
    vocabulary: int
    batch: int
    source: int
    target: int

    peer, counted = "eager seq2seq", "sentences"
    mechanisms = ("bahdanau",)

    @property
    def items(self) -> int:
        """Of a step, by which speeds are given."""
        return self.batch

    def describe(self) -> str:
        return (
            f"GRUs of {self.width}, {self.vocabulary} pieces, batch {self.batch}, {self.source} tokens of a source and "
            f"{self.target} of a target"
        )

    def words(self, mechanism: str) -> list[str]:
        """Of `cogwheel bench-steps`."""
        options = {
            "task.name": "translation", "model.mechanism": mechanism, "model.width": self.width,
            "model.vocabulary": self.vocabulary, "training.batch": self.batch,
        }  # fmt: skip
        return [f"--set={key}={value}" for key, value in options.items()] + [
            f"--length={self.target}",
            f"--source={self.source}",
        ]

    def model(self) -> nn.Module:
        return SequenceToSequence(self)

    def sentences(self, length: int) -> Tensor:
        return torch.randint(FIRST_TOKEN, self.vocabulary, (self.batch, length))

    def random_batch(self) -> tuple[Tensor, ...]:
        source, target = self.sentences(self.source), self.sentences(self.target)
        source[:, -1] = target[:, -1] = END
        inputs = torch.cat([torch.full((self.batch, 1), BEGIN), target[:, :-1]], 1)
        return source, torch.full((self.batch,), self.source), inputs, target


class SequenceToSequence(nn.Module):
    """A bidirectional GRU reads, a GRU with additive attention writes; the logits of all steps are one product."""

    def __init__(self, shape: SequenceShape) -> None:
        super().__init__()
        width = shape.width
        self.embedding = nn.Embedding(shape.vocabulary, width)
        self.encoder = nn.GRU(width, width // 2, bidirectional=True, batch_first=True)
        self.first = nn.Linear(width, width)
        self.decoder = nn.GRUCell(2 * width, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.readout = nn.Linear(3 * width, width)
        self.output_bias = nn.Parameter(torch.zeros(shape.vocabulary))
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def read(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The states of the source, their keys, where there is padding, and the first state of the decoder."""
        encoded, last = self.encoder(self.embedding(source))
        padding = torch.arange(source.shape[1], device=source.device) >= lengths[:, None]
        return encoded, self.key(encoded), padding, torch.tanh(self.first(torch.cat([last[0], last[1]], -1)))

    def step(
        self, embedded: Tensor, state: Tensor, encoded: Tensor, key: Tensor, padding: Tensor
    ) -> tuple[Tensor, Tensor]:
        scores = self.score(torch.tanh(self.query(state)[:, None] + key)).squeeze(-1)
        weights = scores.masked_fill(padding, -torch.inf).softmax(-1)
        context = (weights[:, None] @ encoded).squeeze(1)
        return self.decoder(torch.cat([embedded, context], -1), state), context

    def logits(self, states: Tensor, contexts: Tensor, embedded: Tensor) -> Tensor:
        read = torch.tanh(self.readout(torch.cat([states, contexts, embedded], -1)))
        return F.linear(read, self.embedding.weight, self.output_bias)

    def forward(self, source: Tensor, lengths: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        encoded, key, padding, state = self.read(source, lengths)
        embedded = self.embedding(inputs)
        states, contexts = [], []
        for token in embedded.unbind(1):
            state, context = self.step(token, state, encoded, key, padding)
            states.append(state)
            contexts.append(context)
        logits = self.logits(torch.stack(states, 1), torch.stack(contexts, 1), embedded)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)


@torch.no_grad()
def beam_search(model: SequenceToSequence, source: Tensor, lengths: Tensor, beam: int, steps: int) -> Tensor:
    """The most probable sequences of `steps` tokens found, [B, steps]: no hypothesis ends. All sources together."""
    batch, vocabulary = source.shape[0], model.embedding.num_embeddings
    encoded, key, padding, state = (each.repeat_interleave(beam, 0) for each in model.read(source, lengths))
    scores = torch.full((batch, beam), -torch.inf)
    scores[:, 0] = 0
    token = torch.full((batch * beam,), BEGIN)
    first_row = beam * torch.arange(batch)[:, None]
    found = torch.empty((batch * beam, 0), dtype=torch.long)
    for _ in range(steps):
        embedded = model.embedding(token)
        state, context = model.step(embedded, state, encoded, key, padding)
        more = model.logits(state, context, embedded).log_softmax(-1)
        more[:, END] = -torch.inf
        scores, chosen = (scores[..., None] + more.view(batch, beam, -1)).flatten(1).topk(beam)
        rows = (first_row + chosen // vocabulary).flatten()
        token = (chosen % vocabulary).flatten()
        state = state[rows]
        found = torch.cat([found[rows], token[:, None]], 1)
    return found.view(batch, beam, steps)[:, 0]
