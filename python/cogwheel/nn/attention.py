"""The layer of attention: projections around a mechanism."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cogwheel.functional import attention, attention_weights
from cogwheel.key_value_cache import KeyValueCache
from cogwheel.nn.cache import LayerCache, MemoryCache, check_batch, positions_after
from cogwheel.nn.layer import Layer, layer_of, seed_of_dropout
from cogwheel.nn.mechanism import OfMechanism
from cogwheel.nn.norm import normed_heads
from cogwheel.nn.products import Linear, product, product_dtype
from cogwheel.nn.rotary import Rotary, check_head_dim

MOST_WEIGHTS = 2**31 - 1


def _heads(x: Tensor, heads: int) -> Tensor:
    """[B, N, heads · width] → [B, heads, N, width], a view."""
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2)


class Attention(OfMechanism, Layer):
    """Attention of each token over those that it sees: projections, a mechanism of the catalogue, and a projection of what it gives.

        attention = cogwheel.nn.Attention(512, 8, "cog", causal=True)
        y = attention(x)  # [B, N, 512]

    A mechanism's own parameters are the layer's: a sink, β and γ, coefficients; of ``differential``, over any map, λ as its paper makes
    it, and the norm of each head. Mechanisms of level ``layer`` read their keys from their queries (``symmetric``).
    ``docs/python.md`` has the names of all parameters.

    Args:
        width: of a token, W.
        heads: query heads; of a difference of two maps half as many of the output, twice as wide.
        mechanism: a name from :func:`cogwheel.mechanisms`, but for those with a state, which :class:`RecurrentAttention` takes.
        key_value_heads: a divisor of ``heads``, counted alike, for grouped queries; as many as ``heads`` unless given.
        causal: whether a token sees only itself and those before it.
        head_dim: width of a query and a key; W / heads unless given, which then divide W.
        window: the last tokens that a causal one sees, itself included.
        rotary: a :class:`Rotary` for that head_dim, of which layers may share one; None for no rotary positions.
        alibi: whether causal scores fall with the distance, in each head by a slope of its own (Press et al., 2022).
        query_key_norm: whether each query and each key has an RMSNorm, before positions.
        norm_epsilon: of these norms; 1e-6 unless given.
        head_norm_epsilon: of the norms of heads of a difference of two maps; 1e-5 unless given.
        score: of a query and a key: ``"dot"``, ``"general"``, ``"cosine"``, ``"additive"`` or ``"concat"``, as for
            :func:`cogwheel.attention`, with weights that are the layer's.
        dropout: of weights, in training.
        bias: of the projections of queries, keys and values.
        output_bias: of the last projection; as ``bias`` unless given.
        depth: the number of the layer in its model, from 0, on which λ_init of ``differential`` depends.
        first_lambda_depth: 0 or 1, the depth of the first layer in λ_init = 0.8 − 0.6 exp(−0.3 · depth).

    Raises:
        ValueError: options that do not fit, each in one line.
    """

    kind, _prefix = "attention", "attn."

    def __init__(
        self,
        width: int,
        heads: int,
        mechanism: str = "cog",
        *,
        key_value_heads: int | None = None,
        head_dim: int | None = None,
        causal: bool = False,
        window: int | None = None,
        rotary: Rotary | None = None,
        alibi: bool = False,
        query_key_norm: bool = False,
        norm_epsilon: float | None = None,
        head_norm_epsilon: float | None = None,
        score: str = "dot",
        dropout: float = 0.0,
        bias: bool = True,
        output_bias: bool | None = None,
        depth: int = 0,
        first_lambda_depth: int = 0,
        device: object = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {
            "width": width,
            "heads": heads,
            "key_value_heads": key_value_heads or 0,
            "mechanism": mechanism,
            "layer": depth,
            "first_lambda_depth": first_lambda_depth,
            "projection_bias": bias,
            "output_bias": bias if output_bias is None else output_bias,
            "causal": causal,
            "window": window or 0,
            "score": score,
            "alibi": alibi,
            "query_key_norm": query_key_norm,
        }
        given = {"head_dim": head_dim, "norm_epsilon": norm_epsilon, "head_norm_epsilon": head_norm_epsilon}
        options |= {name: value for name, value in given.items() if value is not None}
        if window is not None and window < 1:
            raise ValueError(f"window: expected at least 1, got {window}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: expected 0 to below 1, got {dropout}")
        check_head_dim(rotary, width, heads, head_dim)
        super().__init__(options | ({"rotary": rotary.options()} if rotary is not None else {}))
        self._make(self._description, rotary, dropout, {"device": device, "dtype": dtype})
        self.reset_parameters()

    @classmethod
    def of(cls, description: Mapping[str, Any], rotary: Rotary | None, dropout: float, where: Mapping[str, Any]) -> Attention:
        """The layer that a model of C++ describes, with uninitialised parameters."""
        made = cls.__new__(cls)
        first_that_follows = list(description).index("sub_heads")
        Layer.__init__(made, dict(list(description.items())[:first_that_follows]) | ({"rotary": rotary.options()} if rotary is not None else {}))
        made._make(made._description, rotary, dropout, where)
        return made

    def _make(self, of: Mapping[str, Any], rotary: Rotary | None, dropout: float, where: Mapping[str, Any]) -> None:
        self.width, self.heads, self.key_value_heads = of["width"], of["heads"], of["key_value_heads"]
        self.head_dim: int = of["head_dim"]
        self.causal, self.window, self.score, self.dropout = of["causal"], of["window"] or None, of["score"], dropout
        self.ties_keys, self.is_dense = of["ties_keys"], of["is_dense"]
        self.rotary = rotary
        inner, shared = self.head_dim * self.heads, self.head_dim * self.key_value_heads
        self._widths = (inner, shared) if self.ties_keys else (inner, shared, shared)
        self.reads_memory = of["memory"]
        if self.reads_memory:
            self.query = Linear(self.width, inner, of["projection_bias"], **where)
            self.key_value = Linear(self.width, 2 * shared, of["projection_bias"], **where)
        else:
            name = "query_value" if self.ties_keys else "query_key_value"
            setattr(self, name, Linear(self.width, sum(self._widths), of["projection_bias"], **where))
        self.output = Linear(inner, self.width, of["output_bias"], **where)
        self._add_parameters_of_mechanism(of, where)
        # What operators take beside these, where the score is no product.
        self._of_score = () if self.score == "dot" else ("score", "score_weight", "score_projection")
        if self.score != "concat":
            self.score_projection = None
        if self.score not in ("general", "additive", "concat"):
            self.score_weight = None

        def add(parameter: str, *sizes: int) -> None:
            self.register_parameter(parameter, torch.nn.Parameter(torch.empty(sizes, **where)))

        self.alibi, self.query_key_norm, self.norm_epsilon = of["alibi"], of["query_key_norm"], of["norm_epsilon"]
        if self.query_key_norm:
            add("query_norm", self.head_dim)
            if not self.ties_keys:
                add("key_norm", self.head_dim)
        # No buffer, which a cast of the module would round.
        self._alibi = torch.tensor(of["alibi_slopes"], dtype=torch.float64, device="cpu") if self.alibi else None
        if self.score == "general":
            add("score_weight", self.heads, self.head_dim, self.head_dim)
        if self.score in ("additive", "concat"):
            add("score_weight", self.heads, self.head_dim)
        if self.score == "concat":
            add("score_projection", self.heads, self.head_dim, 2 * self.head_dim)

    @property
    def _projection(self) -> Linear:
        return self.query_value if self.ties_keys else self.query_key_value

    def _check(self, x: Tensor, memory: Tensor | None) -> None:
        for name, tensor in (("x", x), ("memory", memory)):
            if tensor is not None:
                self._check_tokens("attention", name, tensor)
        if self.reads_memory and memory is None:
            raise ValueError(f"attention: memory: expected [batch, tokens, {self.width}], got none")
        if memory is not None and self.ties_keys:
            raise ValueError(f"attention: memory: expected none for {self.mechanism}, whose keys are its queries, got one")

    def _split(self, x: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one sequence, [B, heads, N, width] each."""
        batch, tokens = x.shape[:2]
        parts = torch.split_with_sizes(self._projection(x), self._widths, -1)
        query = parts[0].view(batch, tokens, self.heads, self.head_dim)
        key = query if self.ties_keys else parts[1].view(batch, tokens, self.key_value_heads, self.head_dim)
        if self.query_key_norm:
            query = normed_heads(query, self.query_norm, self.norm_epsilon)
            key = query if self.ties_keys else normed_heads(key, self.key_norm, self.norm_epsilon)
        if self.rotary is not None:
            query = self.rotary(query, positions)
            key = query if self.ties_keys else self.rotary(key, positions)
        query = query.transpose(1, 2)
        key = query if self.ties_keys else key.transpose(1, 2)
        values = parts[-1].view(batch, tokens, self.key_value_heads // self.sub_heads, self.head_dim * self.sub_heads)
        return query, key, values.transpose(1, 2)

    def _query(self, x: Tensor) -> Tensor:
        """Queries of a memory: those of its layer, or the first rows of the projection of all three."""
        if self.reads_memory:
            made = self.query(x)
        else:
            projection = self._projection
            rows = slice(self._widths[0])
            made = product(x, projection.weight[rows], None if projection.bias is None else projection.bias[rows])
        return self._of_heads(made, self.heads, "query_norm")

    def _of_heads(self, made: Tensor, heads: int, norm: str) -> Tensor:
        split = made.unflatten(-1, (heads, self.head_dim))
        return (normed_heads(split, getattr(self, norm), self.norm_epsilon) if self.query_key_norm else split).transpose(1, 2)

    def _of_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        if self.reads_memory:
            made = self.key_value(memory)
        else:
            projection = self._projection
            rows = slice(self._widths[0], None)
            made = product(memory, projection.weight[rows], None if projection.bias is None else projection.bias[rows])
        key, value = made.chunk(2, -1)
        return self._of_heads(key, self.key_value_heads, "key_norm"), _heads(value, self.key_value_heads // self.sub_heads)

    def _keywords(self) -> dict[str, Any]:
        """What the operator takes of the layer and its mechanism."""
        keywords = self._keywords_of_mechanism(self.heads)
        if self._alibi is not None:
            keywords["alibi"] = self._alibi.to(self.output.weight.device)
        for name in self._of_score:
            keywords[name] = getattr(self, name)
        if self.training and self.dropout > 0 and not self.is_dense:
            keywords["dropout"], keywords["seed"] = self.dropout, seed_of_dropout()
        return keywords

    def _combined(self, attended: Tensor) -> Tensor:
        return self.output(self._normed(attended.transpose(1, 2)).flatten(2))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        key_lengths: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        positions: Tensor | None = None,
        bias: Tensor | None = None,
        energy_bias: Tensor | None = None,
        cache: LayerCache | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The outputs of the tokens x, [B, N, W].

        Args:
            x: [B, N, W].
            memory: [B, M, W], another sequence, to which keys and values belong: each token of x sees all of it.
            key_lengths: [B] int64. Tokens of x, or of the memory, at and beyond the length of their entry are padding, which no
                token sees.
            cu_seqlens: [S + 1], from 0 to N, for a batch of one: sequences one after another, each of which sees only itself.
            positions: [B, N] or [N] int64, where rotary positions put the tokens; 0 to N − 1 unless given, or after those in the cache.
            bias: broadcasts to [B, H, N, M]: added to the scores, −∞ hides the key.
            energy_bias: alike, added to the exponent of mechanisms that have one.
            cache: of :meth:`make_cache`: x holds the tokens after those in it, and is added to it.
            need_weights: also gives the weights that the values met, [B, H, N, M].

        Raises:
            ValueError: shapes that do not fit; a memory for a mechanism that reads keys from its queries; weights of 2³¹ numbers
                or more, or of a pass with a cache; and as :func:`cogwheel.attention`.
        """
        if self._outer is not None:
            return self._run_outer(
                (x, memory),
                {"key_lengths": key_lengths, "cu_seqlens": cu_seqlens, "positions": positions, "bias": bias, "energy_bias": energy_bias, "cache": cache, "need_weights": need_weights},
            )  # fmt: skip
        if memory is not None or not isinstance(cache, MemoryCache):
            self._check(x, memory)
        given = {"key_lengths": key_lengths, "cu_seqlens": cu_seqlens, "bias": bias, "energy_bias": energy_bias}
        keywords = self._keywords() | {name: each for name, each in given.items() if each is not None}
        if memory is not None or isinstance(cache, MemoryCache):
            if not isinstance(cache, MemoryCache | None):
                raise ValueError(f"attention: cache: expected that of make_cache(batch, of_memory=True) beside a memory, got a {type(cache).__name__}")
            query = self._query(x)
            if isinstance(cache, MemoryCache):
                key, value, lengths = cache.kept(memory, key_lengths, self._of_memory)
                if lengths is not None:
                    keywords["key_lengths"] = lengths
            else:
                key, value = self._of_memory(memory)
        else:
            if cache is not None:
                return self._decoded(x, positions, cache, keywords, need_weights)
            query, key, value = self._split(x, positions)
            keywords["causal"] = self.causal
            if self.window is not None:
                keywords["window"] = self.window
        out = self._combined(attention(query, key, value, self._operator, **keywords))
        return (out, self._weights(query, key, keywords)) if need_weights else out

    def _decoded(self, x: Tensor, positions: Tensor | None, cache: LayerCache, keywords: dict[str, Any], need_weights: bool) -> Tensor:
        if need_weights:
            raise ValueError("attention: need_weights: expected a pass without a cache, got one with")
        if not self.causal:
            raise ValueError("attention: cache: expected causal attention, got attention to later tokens too")
        for name in ("key_lengths", "cu_seqlens"):
            if name in keywords:
                raise ValueError(f"attention: {name}: expected none with a cache, which has its own lengths, got some")
        check_batch(cache, x, "attention")
        if positions is None and self.rotary is not None:
            positions = positions_after(cache, x)
        query, key, value = self._split(x, positions)
        if self.window is not None:
            keywords["window"] = self.window
        if isinstance(cache, KeyValueCache) and query.dtype != cache.dtype:  # within or without autocast, as the cache was made
            query, key, value = (each.to(cache.dtype) for each in (query, key, value))
        cache.append(key, value)
        try:
            attended = cache.attend(query, self._operator, **keywords)
        except (ValueError, TypeError):
            cache.crop(cache.lengths - x.shape[1])
            raise
        return self._combined(attended)

    def _weights(self, query: Tensor, key: Tensor, keywords: dict[str, Any]) -> Tensor:
        count = query.shape[0] * (self.heads // self.sub_heads) * query.shape[2] * key.shape[2]
        if count > MOST_WEIGHTS:
            raise ValueError(f"attention: need_weights: expected up to {MOST_WEIGHTS} weights, got {count}")
        return attention_weights(query, key, self._operator, **keywords)

    def make_cache(self, batch: int, capacity: int = 0, *, of_memory: bool = False, dtype: torch.dtype | None = None) -> LayerCache:
        """An empty cache for up to ``capacity`` tokens of ``batch`` texts, or ``of_memory`` for keys and values of a memory that is given
        once. ``dtype`` is that of keys: of the parameters unless given, or of autocast where that is on."""
        if of_memory:
            return MemoryCache()
        if self.is_dense or not self.causal:
            what = f"a mechanism whose rows stand alone, got {self.mechanism}" if self.is_dense else "causal attention, got attention to later tokens too"
            raise ValueError(f"attention: cache: expected {what}")
        values = self.key_value_heads // self.sub_heads
        weight = self.output.weight
        return KeyValueCache(
            batch, self.key_value_heads, capacity, self.head_dim, self.head_dim * self.sub_heads, value_heads=values,
            dtype=dtype or product_dtype(weight), device=weight.device,
        )  # fmt: skip

    def _pass(
        self,
        hooked: list[str],
        callback: int,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        key_lengths: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        positions: Tensor | None = None,
        need_weights: bool = False,
        **others: Any,
    ) -> Tensor:
        for name, value in (others | {"need_weights": need_weights or None}).items():
            if value is not None:
                raise ValueError(f"attention: hooks: expected a pass without {name}, got one with")
        self._check(x, memory)
        parameters, layer = self._parameters_now(), None
        inputs = {"x": x, "cu_seqlens": cu_seqlens, "positions": positions, "lengths": key_lengths}
        if memory is not None:
            layer = layer_of("attention", self._options_with_memory())
            places = set(layer.hook_names())
            hooked = [name for name in hooked if name in places]  # there are no rotary positions
            inputs |= {"memory": memory, "memory_lengths": key_lengths, "lengths": None}
            for ending in () if self.reads_memory else ("weight", "bias"):
                joint = parameters.pop(f"query_key_value.{ending}", None)
                if joint is not None:
                    inner = self._widths[0]
                    parameters |= {f"query.{ending}": joint[:inner], f"key_value.{ending}": joint[inner:]}
        if self.training and self.dropout > 0 and not self.is_dense:
            inputs |= {"dropout": torch.tensor(self.dropout, dtype=torch.float64), "seed": seed_of_dropout()}
        return self._hooked(parameters, inputs, hooked, callback, layer)

    def _options_with_memory(self) -> str:
        options = json.loads(self._options)
        options.pop("rotary", None)
        return json.dumps(options | {"memory": True, "window": 0, "alibi": False})

    def extra_repr(self) -> str:
        more = [f"{name}={getattr(self, name)!r}" for name in ("causal", "window", "alibi", "query_key_norm", "score", "dropout") if getattr(self, name) not in (False, None, "dot", 0.0)]
        return ", ".join([f"{self.width}, {self.heads}, {self.mechanism!r}", *more])


def from_multihead_attention(module: torch.nn.MultiheadAttention, mechanism: str = "softmax", **options: Any) -> Attention:
    """An :class:`Attention` with the weights of a ``torch.nn.MultiheadAttention``, which with ``softmax`` gives its numbers.

    ``options`` are those of :class:`Attention`. What takes [batch, tokens, width] takes that here whatever ``batch_first`` was.

    Raises ValueError for what the layer lacks: keys or values of a width of their own, ``add_bias_kv``, ``add_zero_attn``, and
    mechanisms that read keys from queries.
    """
    if not isinstance(module, torch.nn.MultiheadAttention):
        raise ValueError(f"from_multihead_attention: module: expected a torch.nn.MultiheadAttention, got a {type(module).__name__}")
    for name, is_there in {
        "kdim and vdim": not module._qkv_same_embed_dim,
        "add_bias_kv": module.bias_k is not None,
        "add_zero_attn": module.add_zero_attn,
    }.items():
        if is_there:
            raise ValueError(f"from_multihead_attention: expected a module without {name}, got one with")
    weight = module.in_proj_weight
    given = {"dropout": module.dropout, "bias": module.in_proj_bias is not None, "output_bias": module.out_proj.bias is not None}
    made = Attention(module.embed_dim, module.num_heads, mechanism, device=weight.device, dtype=weight.dtype, **(given | options))
    if made.ties_keys:
        raise ValueError(f"from_multihead_attention: mechanism: expected one with keys of its own, got {mechanism}")
    if made.key_value_heads != made.heads:
        raise ValueError(f"from_multihead_attention: key_value_heads: expected {made.heads}, as heads, got {made.key_value_heads}")
    with torch.no_grad():
        made.query_key_value.weight.copy_(weight)
        made.output.weight.copy_(module.out_proj.weight)
        if module.in_proj_bias is not None and made.query_key_value.bias is not None:
            made.query_key_value.bias.copy_(module.in_proj_bias)
        if module.out_proj.bias is not None and made.output.bias is not None:
            made.output.bias.copy_(module.out_proj.bias)
    return made.train(module.training)
