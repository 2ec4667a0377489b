"""Learning in context: on text that repeats, an induction head copies what followed last time.

A token looks for an earlier position whose *previous* token equals it, and predicts the token found there. The previous
tokens are given here (a lower layer would provide them); the head has to learn to compare. Every text is new, so nothing
can be memorised: only the second half, which repeats the first, can be predicted."""

import math

import torch

import cogwheel

torch.manual_seed(0)
vocabulary, half, width = 16, 12, 32


def batch(size=64):
    text = torch.rand(size, vocabulary).argsort(1)[:, :half]  # no token twice, so that each determines its successor
    return torch.cat([text, text], 1)


class InductionHead(torch.nn.Module):
    def __init__(self, mechanism):
        super().__init__()
        self.mechanism = mechanism
        self.embed = torch.nn.Embedding(vocabulary, width)
        self.query, self.key, self.value = (torch.nn.Linear(width, width, bias=False) for _ in range(3))
        # Query and key start equal, so that a token matches itself; else softmax first learns only token frequencies.
        self.key.load_state_dict(self.query.state_dict())
        self.read = torch.nn.Linear(width, vocabulary)

    def forward(self, tokens):  # [batch, length] → logits of the next token
        x = self.embed(tokens)
        previous = torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]
        heads = [part.unsqueeze(1) for part in (self.query(x), self.key(previous), self.value(x))]
        return self.read(cogwheel.attention(*heads, self.mechanism, causal=True).squeeze(1))


def losses(model, tokens):
    """Mean loss of the first half and of the second."""
    logits = model(tokens[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
    return loss[:, : half - 1].mean(), loss[:, half:].mean()


print(f"guessing among {vocabulary} tokens costs {math.log(vocabulary):.2f}")
for mechanism in ("softmax", "cog"):
    model = InductionHead(mechanism)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(150):
        _, second = losses(model, batch())  # nothing can be learned from the first half
        optimizer.zero_grad()
        second.backward()
        optimizer.step()
    with torch.no_grad():
        first, second = losses(model, batch(256))
    print(f"{mechanism}: {first:.2f} on the first half, {second:.2f} on its repetition")
