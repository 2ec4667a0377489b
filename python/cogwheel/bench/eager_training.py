"""The training step of the peers of `bench training`: fused AdamW, clipping at 1, autocast for bf16."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class EagerTraining:
    """`batch` draws the arguments of the model, which returns the loss."""

    def __init__(self, model: nn.Module, batch: Callable[[], tuple[Tensor, ...]], precision: str, *, compiled: bool = False) -> None:
        self.batch, self.bf16 = batch, precision == "bf16"
        self.model = model
        self.forward = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=True)

    def step(self) -> float:
        """One step on random items; returns the loss."""
        batch = self.batch()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.forward(*batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()
