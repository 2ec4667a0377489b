"""What a mechanism learns in a layer, by the names that its paper gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cogwheel.nn.norm import normed_heads


class OfMechanism(torch.nn.Module):
    """A module with the parameters of a mechanism: its own, such as a sink, β and γ; of a difference of two maps λ as its paper makes it,
    and the norm of each head."""

    sub_heads: int  # of a head: 2 for a difference of two maps, else 1
    mechanism: str  # by its name in the catalogue
    _operator: str  # the name that operators take

    def _add_parameters_of_mechanism(self, of: Mapping[str, Any], where: Mapping[str, Any]) -> None:
        """Uninitialised ones, for the ``of`` of a layer of attention: ``cogwheel/bindings/layer_description.h``."""
        self.mechanism, self.sub_heads, self._operator = of["mechanism"], of["sub_heads"], of["operator"]
        self._own: tuple[str, ...] = tuple(each["name"] for each in of["parameters"])

        def add(parameter: str, *sizes: int) -> None:
            self.register_parameter(parameter, torch.nn.Parameter(torch.empty(sizes, **where)))

        for each in of["parameters"]:
            add(each["name"], *each["sizes"])
        if self.sub_heads == 2:
            self.lambda_init: float = of["lambda_init"]
            self.head_norm_epsilon: float = of["head_norm_epsilon"]
            for parameter in ("lambda_query1", "lambda_key1", "lambda_query2", "lambda_key2"):
                add(parameter, of["head_dim"])
            add("head_norm", 2 * of["head_dim"])

    def effective_lambda(self) -> Tensor | None:
        """λ = exp(λq₁·λk₁) − exp(λq₂·λk₂) + λ_init of a difference of two maps, a number; None for others."""
        if self.sub_heads != 2:
            return None
        first, second = self.lambda_query1, self.lambda_query2
        if first.is_meta:  # where torch.dot has no shape
            products = (first * self.lambda_key1).sum(), (second * self.lambda_key2).sum()
        else:
            products = torch.dot(first, self.lambda_key1), torch.dot(second, self.lambda_key2)
        return products[0].exp() - products[1].exp() + self.lambda_init

    def _keywords_of_mechanism(self, heads: int) -> dict[str, Any]:
        """What operators over so many query heads take of it."""
        keywords: dict[str, Any] = {name: getattr(self, name) for name in self._own}
        if self.sub_heads == 2:
            keywords["lam"] = self.effective_lambda().expand(heads // 2)
        return keywords

    def _normed(self, by_token: Tensor) -> Tensor:
        """[B, N, heads, width] with each head of a difference of two maps normed, in the dtype of its weight; else as it is."""
        if self.sub_heads != 2:
            return by_token
        # The factor cancels the scale of the norm, so that training starts with the gradients of plain attention.
        return normed_heads(by_token, self.head_norm * (1 - self.lambda_init), self.head_norm_epsilon)
