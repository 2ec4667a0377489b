"""The layer of a mechanism with a state: what its law takes, the law, and a projection of what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cogwheel.nn.cache import RecurrentLayerCache, check_batch
from cogwheel.nn.layer import Layer
from cogwheel.nn.norm import Norm
from cogwheel.nn.products import Linear

_RECURRENT = torch.ops.cogwheel.recurrent.default
TAPS = 4


def places_in_sequences(cu_seqlens: Tensor, tokens: int) -> Tensor:
    """[N]: how many tokens of its own sequence stand before each token."""
    token = torch.arange(tokens, device=cu_seqlens.device)
    begins = cu_seqlens.long()
    return token - begins[torch.searchsorted(begins[1:].contiguous(), token, right=True)]


class Convolution(torch.nn.Module):
    """y_t = b + Σ_j w_j x_{t−3+j}, j = 0…3, each channel by itself; 0 before the first token."""

    def __init__(self, channels: int, **where: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(TAPS, channels, **where))
        self.bias = torch.nn.Parameter(torch.empty(channels, **where))

    def forward(self, x: Tensor, before: Tensor | None, places: Tensor | None) -> Tensor:
        """x [B, N, channels]; ``before``, the inputs of up to three tokens before; ``places`` of the tokens in packed sequences."""
        joined = x if before is None else torch.cat([before, x], 1)
        padded = F.pad(joined, (0, 0, TAPS - 1 - (joined.shape[1] - x.shape[1]), 0))
        total = self.bias
        for tap in range(TAPS):
            part = padded.narrow(1, tap, x.shape[1])
            if places is not None:
                part = part * (places >= TAPS - 1 - tap).unsqueeze(-1).to(part.dtype)
            total = torch.addcmul(total, part, self.weight[tap])
        return total

    @staticmethod
    def tail(x: Tensor, before: Tensor | None) -> Tensor:
        joined = x if before is None else torch.cat([before, x], 1)
        return joined[:, -(TAPS - 1) :].clone()


class TokenShift(torch.nn.Module):
    """For each of several readers its own mixture of a token and the one before, as the token decides (Peng et al., 2024)."""

    def __init__(self, width: int, readers: int, **where: Any) -> None:
        super().__init__()
        rank = min(max(width // 16, 1), 32)
        self.shared = torch.nn.Parameter(torch.empty(width, **where))
        self.shares = torch.nn.Parameter(torch.empty(readers, width, **where))
        self.into_rank = torch.nn.Parameter(torch.empty(readers, width, rank, **where))
        self.from_rank = torch.nn.Parameter(torch.empty(readers, rank, width, **where))

    def forward(self, given: Tensor, last: Tensor | None, places: Tensor | None) -> list[Tensor]:
        x = given.to(self.shared.dtype)
        first = torch.zeros_like(x[:, :1]) if last is None else last.to(x.dtype)
        earlier = torch.cat([first, x[:, :-1]], 1)
        if places is not None:
            earlier = earlier * (places > 0).unsqueeze(-1).to(earlier.dtype)
        change = earlier - x
        mixed = torch.addcmul(x, change, self.shared)
        readers = []
        for reader in range(self.shares.shape[0]):
            share = self.shares[reader] + mixed.matmul(self.into_rank[reader]).tanh().matmul(self.from_rank[reader])
            readers.append(torch.addcmul(x, change, share).to(given.dtype))
        return readers


class Gate(torch.nn.Module):
    """One of a law's own tensors, made of the tokens or learned alone."""

    def __init__(self, of: Mapping[str, Any], inputs: int, **where: Any) -> None:
        super().__init__()
        self._of = dict(of)
        outputs = 1
        for size in of["sizes"]:
            outputs *= size
        if of["reads_tokens"]:
            if of["rank"]:
                self.into_rank = Linear(inputs, of["rank"], False, **where)
            self.projection = Linear(of["rank"] or inputs, outputs, False, **where)
        self.bias = torch.nn.Parameter(torch.empty(outputs, **where))
        if of["map"] == "step_times_constant":
            self.constant = torch.nn.Parameter(torch.empty(of["sizes"][0], **where))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """[B, H, N, …] or without B and N; and the step that values are multiplied by, where there is one."""
        y = self.bias
        if self._of["reads_tokens"]:
            read = x
            if self._of["rank"]:
                read = self.into_rank(x)
                if self._of["tanh"]:
                    read = read.tanh()
            y = self.projection(read).to(self.bias.dtype) + self.bias
        y = y.unflatten(-1, self._of["sizes"])
        if self._of["reads_tokens"]:
            y = y.transpose(1, 2)
        value, step = self._mapped(y)
        return (value * 2 if self._of["doubled"] else value), step

    def _mapped(self, y: Tensor) -> tuple[Tensor, Tensor | None]:
        match self._of["map"]:
            case "linear":
                return y, None
            case "sigmoid":
                return y.sigmoid(), None
            case "log_sigmoid":
                return F.logsigmoid(y), None
            case "log_sigmoid_16":
                return F.logsigmoid(y) / 16, None
            case "above_bound":
                bound = self._of["bound"]
                return (F.logsigmoid(y) if bound == 0 else (bound + (1 - bound) * y.sigmoid()).log()), None
            case "softplus":
                return F.softplus(y), None
            case "minus_exponential":
                return -y.exp(), None
            case "step_times_constant":
                step = F.softplus(y)
                return -step * self.constant.exp().unsqueeze(-1), step.unsqueeze(-1) if self._of["multiplies_value"] else None
        raise ValueError(f"gate: expected a map that this version knows, got {self._of['map']}")


def _of_length_one(x: Tensor) -> Tensor:
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


class RecurrentAttention(Layer):
    """Attention with a state over tokens, [B, N, W] → [B, N, W]: it always is causal, and has no use for positions.

        layer = cogwheel.nn.RecurrentAttention(512, 8, "gated_deltanet")

    Args:
        width: of a token, W.
        heads: how many there are; keys are as wide as ``head_dim``, values too, or twice where the paper's layer expands them.
        head_dim: W / heads unless given, which then divide W.
        mechanism: a name of the family ``recurrent`` from :func:`cogwheel.mechanisms`.
        layer: ``"paper"``, with what its paper puts around the law (a convolution, a token shift, norms, gates), or ``"plain"``,
            projections and gates alone. ``docs/recurrent.md`` has the table.
        bias: of the projections; gates have biases in any case.
        depth, layers: the number of the layer in its model, from 0, and how many there are: bounds of gates and initial values of some
            laws follow from it.
        context: the most tokens, of a law with a horizon (``cosformer``).
        **law_options: options of the law, as in configurations: ``negative_eigenvalues``.

    Raises:
        ValueError: options that do not fit, each in one line.
    """

    kind, _prefix = "recurrent", "attn."

    def __init__(
        self,
        width: int,
        heads: int,
        mechanism: str = "gated_deltanet",
        *,
        head_dim: int | None = None,
        layer: str = "paper",
        bias: bool = True,
        depth: int = 0,
        layers: int = 1,
        context: int = 1,
        device: object = None,
        dtype: torch.dtype | None = None,
        **law_options: bool,
    ) -> None:
        if layer not in ("paper", "plain"):
            raise ValueError(f"layer: expected paper or plain, got {layer}")
        super().__init__(
            {"width": width, "heads": heads, "mechanism": mechanism, "layer": depth, "layers": max(layers, depth + 1), "bias": bias, "plain": layer == "plain", "context": context}
            | ({} if head_dim is None else {"head_dim": head_dim})
            | law_options
        )  # fmt: skip
        self._make(self._description, {"device": device, "dtype": dtype})
        self.reset_parameters()

    @classmethod
    def of(cls, description: Mapping[str, Any], where: Mapping[str, Any]) -> RecurrentAttention:
        """The layer that a model of C++ describes, with uninitialised parameters."""
        made = cls.__new__(cls)
        first_of_recipe = list(description).index("reads_query")
        Layer.__init__(made, dict(list(description.items())[:first_of_recipe]))
        made._make(made._description, where)
        return made

    def _make(self, of: Mapping[str, Any], where: dict[str, Any]) -> None:
        self.width, self.heads, self.mechanism, self.head_dim = of["width"], of["heads"], of["mechanism"], of["head_dim"]
        self.value_dim = self.head_dim * of["expansion"]
        values, keys = self.heads * self.value_dim, self.head_dim * (1 if of["shared_keys"] else self.heads)
        read = values if of["inner"] else self.width

        def linear(name: str, inputs: int, outputs: int) -> None:
            self.add_module(name, Linear(inputs, outputs, of["bias"], **where))

        if of["inner"]:
            linear("inner", self.width, values)
        if of["reads_query"]:
            linear("query", read, keys)
        if of["reads_key"]:
            linear("key", read, keys)
        if not of["inner"]:
            linear("value", self.width, values)
        if of["output_gate"]:
            linear("output_gate", self.width, values)
        linear("output", values, self.width)
        if of["convolution"] or of["inner"]:
            self.convolution = Convolution(values if of["inner"] else values + (of["reads_key"] + of["reads_query"]) * keys, **where)
        self._gates = [gate["name"] for gate in of["gates"]]
        for gate in of["gates"]:
            self.add_module(gate["name"], Gate(gate, read, **where))
        if of["token_shift"]:
            self.shift = TokenShift(self.width, 4 + len(self._gates), **where)
        if of["head_norm"]:
            self.head_norm = Norm("rms", self.value_dim, False, of["head_norm_epsilon"], **where)
        if of["skip"]:
            self.skip = torch.nn.Parameter(torch.empty(values, **where))
        if of["features"] == "random_of_units":
            self.features = torch.nn.Parameter(torch.empty(self.heads, self.head_dim, self.head_dim, **where))
        if of["number"]:  # as the operator takes it
            self.register_buffer("_horizon", torch.tensor(float(of["context"]), dtype=torch.float64), persistent=False)

    def reset_buffers(self) -> None:
        """Writes anew what follows from the options, where its memory is."""
        if self._description["number"]:
            self._horizon = torch.full_like(self._horizon, float(self._description["context"]))

    def _readers(self, x: Tensor, before: Mapping[str, Tensor], after: dict[str, Tensor], places: Tensor | None) -> tuple[list[Tensor], list[Tensor]]:
        """What query, key, value and output gate read, and what each gate reads."""
        of = self._description
        if of["token_shift"]:
            readers = self.shift(x, before.get("last"), places)
            after["last"] = x[:, -1:].clone()
            return readers[:4], readers[4:]
        if not of["inner"]:
            return [x] * 4, [x] * len(self._gates)
        values = self.inner(x)
        convolved = F.silu(self.convolution(values, before.get("inputs"), places)).to(values.dtype)
        after["inputs"] = Convolution.tail(values, before.get("inputs"))
        return [convolved, convolved, values if of["values_before_convolution"] else convolved, x], [convolved] * len(self._gates)

    def _of_heads(self, part: Tensor) -> Tensor:
        heads = part.shape[-1] // self.head_dim
        return part.unflatten(-1, (heads, self.head_dim)).transpose(1, 2).expand(-1, self.heads, -1, -1)

    def _featured(self, x: Tensor, is_query: bool) -> Tensor:
        match self._description["features"]:
            case "silu_of_query":
                return F.silu(x) if is_query else x
            case "unit":
                return _of_length_one(x).to(x.dtype)
            case "positive":
                return (F.elu(x) + 1).to(x.dtype)
            case "random_of_units":
                return _of_length_one(x.to(self.features.dtype)).matmul(self.features.transpose(1, 2)).relu().to(x.dtype)
        return x

    def forward(self, x: Tensor, *, cu_seqlens: Tensor | None = None, cache: RecurrentLayerCache | None = None) -> Tensor:
        """The outputs of the tokens x, [B, N, W]. Padding at the end of a text is seen by no token of it.

        Args:
            x: [B, N, W].
            cu_seqlens: [S + 1], from 0 to N, for a batch of one: sequences one after another, each with a state of its own.
            cache: of :meth:`make_cache`: x holds the tokens after those in it, and is added to it.

        Raises:
            ValueError: shapes that do not fit, packed sequences with a cache, and as :func:`cogwheel.recurrent`.
        """
        if self._outer is not None:
            return self._run_outer((x,), {"cu_seqlens": cu_seqlens, "cache": cache})
        self._check_tokens("recurrent attention", "x", x)
        of = self._description
        if cu_seqlens is not None:
            if cache is not None:
                raise ValueError("recurrent attention: cu_seqlens: expected none with a cache, got some")
            if of["running_means"]:  # sums of logarithms that no mask ends
                ends = cu_seqlens.tolist()
                if x.shape[0] != 1 or ends[:1] != [0] or ends[-1] != x.shape[1] or sorted(ends) != ends:
                    raise ValueError(f"recurrent attention: cu_seqlens: expected numbers from 0 to {x.shape[1]} for a batch of one, got {ends} for {x.shape[0]}")
                return torch.cat([self(x[:, begin:end]) for begin, end in zip(ends, ends[1:], strict=False) if begin < end], 1)
        if cache is not None:
            check_batch(cache, x, "recurrent attention")
            if x.shape[1] == 0:
                return self.output(x.new_zeros(x.shape[0], 0, self.output.in_features))
        places = None if cu_seqlens is None else places_in_sequences(cu_seqlens, x.shape[1])
        before: dict[str, Tensor] = {} if cache is None else cache.carried
        after: dict[str, Tensor] = {}
        readers, gate_readers = self._readers(x, before, after, places)
        # Value, query, key, as far as there are.
        parts = [readers[2] if of["inner"] else self.value(readers[2])]
        if of["reads_query"]:
            parts.append(self.query(readers[0]))
        if of["reads_key"]:
            parts.append(self.key(readers[1]))
        dtype = parts[0].dtype
        if of["convolution"]:
            joined = torch.cat(parts, -1)
            after["inputs"] = Convolution.tail(joined, before.get("inputs"))
            parts = list(F.silu(self.convolution(joined, before.get("inputs"), places)).to(dtype).split([part.shape[-1] for part in parts], -1))
        query = self._featured(self._of_heads(parts[1]), True) if of["reads_query"] else None
        key = self._featured(self._of_heads(parts[-1]), False) if of["reads_key"] else None
        value = parts[0].unflatten(-1, (self.heads, self.value_dim)).transpose(1, 2)
        skipped = readers[0] if of["inner"] else parts[0]
        parameters: dict[str, Tensor] = {}
        for name, read in zip(self._gates, gate_readers, strict=True):
            parameters[name], step = getattr(self, name)(read)
            if step is not None:
                value = (value * step).to(dtype)
        if of["running_means"]:
            self._use_running_means(parameters, before.get("total"), after)
        if of["number"]:
            parameters[of["number"]] = self._horizon
        normalized = of["features"] == "elu_plus_one"
        output, state = _RECURRENT(
            query, key, value, self.mechanism,
            scale=None if of["scaled"] else 1.0, cu_seqlens=cu_seqlens,
            initial_state=[before[f"law.{part}"] for part in range(sum(name.startswith("law.") for name in before))],
            parameters=list(parameters.values()), parameter_names=list(parameters),
            feature_map="elu_plus_one" if normalized else "identity", normalize=normalized,
        )  # fmt: skip
        if cache is not None:
            cache.append(after | {f"law.{part}": tensor for part, tensor in enumerate(state)}, x.shape[1])
        by_token = output.transpose(1, 2)  # [B, N, heads, width]
        if of["skip"]:
            by_token = by_token + (skipped * self.skip).unflatten(-1, (self.heads, self.value_dim))
        if of["head_norm"]:
            by_token = self.head_norm(by_token.to(self.output.weight.dtype))
        joined = by_token.flatten(2)
        if of["output_gate"]:
            joined = joined * F.silu(self.output_gate(readers[3]))
        return self.output(joined)

    def _use_running_means(self, parameters: dict[str, Tensor], before: Tensor | None, after: dict[str, Tensor]) -> None:
        """Slots that hold means of what was written: the first tensor is the log of how much each token writes."""
        name = self._gates[0]
        phi = parameters[name]
        tokens = phi.shape[2]
        total = torch.logcumsumexp(phi if before is None else torch.cat([before, phi], 2), 2)
        # The first token of a text has no sum before it to decay.
        now = total if before is None else total[:, :, 1:]
        past = torch.cat([total[:, :, :1], total[:, :, : tokens - 1]], 2) if before is None else total[:, :, :tokens]
        parameters[name] = (phi - now).exp()
        parameters["log_decay"] = (past - now).clamp_max(0)
        after["total"] = now[:, :, -1:].clone()

    def make_cache(self, batch: int, capacity: int = 0, *, dtype: torch.dtype | None = None) -> RecurrentLayerCache:
        """An empty cache for ``batch`` texts; what else there is are arguments of :meth:`Attention.make_cache`."""
        return RecurrentLayerCache(batch)

    def _pass(
        self, hooked: list[str], callback: int, x: Tensor, *, cu_seqlens: Tensor | None = None, cache: RecurrentLayerCache | None = None
    ) -> Tensor:
        for name, value in {"cu_seqlens": cu_seqlens, "cache": cache}.items():
            if value is not None:
                raise ValueError(f"recurrent attention: hooks: expected a pass without {name}, got one with")
        self._check_tokens("recurrent attention", "x", x)
        return self._hooked(self._parameters_now(), {"x": x}, hooked, callback)

    def extra_repr(self) -> str:
        return f"{self.width}, {self.heads}, {self.mechanism!r}, layer={'plain' if self._description['plain'] else 'paper'!r}"
