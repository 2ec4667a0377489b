"""The training step of the peers of `bench training`: fused AdamW, clipping at 1, autocast for bf16."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class EagerTraining:
    """`batch` draws the arguments of the model, which returns the loss; decay is of matrices.

    `learning_rate`: of a step, counted from 0; the same for all unless given.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Callable[[], tuple[Tensor, ...]],
        precision: str,
        *,
        compiled: bool = False,
        learning_rate: Callable[[int], float] | None = None,
        device: str = "cpu",
    ) -> None:
        self.batch, self.bf16, self.device = batch, precision == "bf16", device
        self.model = model = model.to(device)
        self.forward = torch.compile(model) if compiled else model
        matrices = [weight for weight in model.parameters() if weight.dim() > 1]
        vectors = [weight for weight in model.parameters() if weight.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.99), fused=True)
        self.learning_rate, self.steps_done = learning_rate, 0

    def step(self) -> float:
        """One step on what `batch` draws; returns the loss."""
        batch = tuple(tensor.to(self.device) for tensor in self.batch())
        if self.learning_rate is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate(self.steps_done)
        self.steps_done += 1
        with torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.forward(*batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()
