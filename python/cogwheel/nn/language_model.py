"""The decoder-only language model, new or of a run."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cogwheel import _bindings
from cogwheel.generation import GeneratedText, generate, narrow, number, prompts_of, texts, whole
from cogwheel.nn.block import Block
from cogwheel.nn.cache import ModelCache, check_batch, positions_after
from cogwheel.nn.norm import Norm
from cogwheel.nn.products import Linear, product
from cogwheel.nn.rotary import Rotary
from cogwheel.trained import Compiled, Model


class LanguageModel(Model):
    """tokens [B, N] int64 → logits [B, N, vocabulary].

        model = cogwheel.nn.LanguageModel(12, 12, 768, 50304, "softmax+cog*10+softmax", context=1024)
        logits = model(tokens)

    :func:`cogwheel.load` gives one of a run. Parameters have the names of runs, and a pass the numbers of ``cogwheel train``.

    Args:
        layers, heads, width: of the layers.
        vocabulary: how many tokens there are.
        mechanism: of all layers, or one after another, ``"softmax+cog*10+softmax"``, repeated down the layers.
        dropout: of embeddings, weights and what is added to the stream, in training.
        context: the most tokens of a text.
        device, dtype: of the parameters.
        **options: other keys of ``[model]`` (``docs/configuration.md``): ``form``, ``position``, ``norm``, ``activation``,
            ``key_value_heads``, ``feed_forward``, ``tied_head``, ``bias``, ``recurrent_layer`` …

    Raises:
        ValueError: options that do not fit, each in one line.
    """

    def __init__(
        self,
        layers: int,
        heads: int,
        width: int,
        vocabulary: int,
        mechanism: str = "softmax",
        *,
        context: int = 1024,
        dropout: float = 0.0,
        device: object = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        given = {"layers": layers, "heads": heads, "width": width, "vocabulary": vocabulary, "mechanism": mechanism, "context": context, "dropout": float(dropout)}
        on = torch.device(device) if device is not None else torch.empty(0).device  # a context may say
        seed = int(torch.randint(2**62, (), device="cpu"))
        made = _bindings.classes().TrainedModel.language_model_of(json.dumps(given | options), torch.device("meta" if on.type == "meta" else "cpu"))
        self._build(made, dropout=dropout)
        if on.type != "meta":
            made.initialize(seed)
        if on.type not in ("cpu", "meta") or dtype is not None:
            self.to(device=on, dtype=dtype)

    @classmethod
    def _around(cls, made: Any) -> LanguageModel:
        model = cls.__new__(cls)
        model._build(made, dropout=0.0)
        return model

    def _build(self, made: Any, dropout: float) -> None:
        self._begin(made)
        options = self.options
        nowhere = {"device": "meta"}
        self.dropout, self.context = dropout, options["context"]
        self.token_embedding = torch.nn.Parameter(torch.empty(0, **nowhere))
        if options["position"] == "learned":
            self.position_embedding = torch.nn.Parameter(torch.empty(0, **nowhere))
        rotary = None
        if turns := json.loads(made.rotary()):
            on = {"device": "meta"} if any(tensor.is_meta for tensor in self._compiled.own.values()) else {"device": "cpu"}
            rotary = Rotary(**turns, **on)
        descriptions = json.loads(made.blocks())
        self.layers = torch.nn.ModuleList(Block.of(each, rotary, dropout, nowhere) for each in descriptions)
        norm = descriptions[0]["norm"]
        self.final_norm = Norm(norm["kind"], options["width"], norm["bias"], norm["epsilon"], **nowhere)
        if not options["tied_head"]:
            self.head = Linear(options["width"], options["vocabulary"], options["bias"] and options["head_bias"], **nowhere)
        self._hold_own()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return object.__reduce_ex__(self, protocol)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_compiled"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        made = _bindings.classes().TrainedModel.language_model_of(json.dumps(state["options"]), torch.device("meta"))
        super().__setstate__(state | {"_compiled": Compiled(made, {}, ({}, made))})

    def _with_tokenizer(self) -> Any:
        return self._compiled.made if self._compiled.own or self._folder is None else _of_run(self._folder)

    def tokens(self, text: str) -> Tensor:
        """A text as the run's tokenizer reads it, int64 [N], with the token that begins texts where there is one.

        Raises ValueError for a model without a tokenizer, and for what its tokenizer does not know.
        """
        return self._with_tokenizer().tokens(text)

    @property
    def beginning_token(self) -> int | None:
        """The token that begins texts, of the run's tokenizer; None where it has none, as a model without a tokenizer."""
        return self._with_tokenizer().beginning_token()

    @property
    def end_token(self) -> int | None:
        """The token that ends documents, in the same way."""
        return self._with_tokenizer().end_token()

    @property
    def token_before_texts(self) -> int | None:
        """What stands before a text where something must: the token that begins texts, else one that ends documents, else one that no text has."""
        return self._with_tokenizer().token_before_texts()

    def pieces(self, tokens: Tensor) -> list[str]:
        """What each of ``tokens``, int64 [N], says."""
        return self._with_tokenizer().pieces(tokens)

    def generate(
        self,
        prompts: str | Tensor | Sequence[str | Tensor],
        *,
        length: int = 200,
        repetition_penalty: float = 1.0,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        stop: str | Sequence[str] = (),
        end_token: int | None = None,
        log_probabilities: int | None = None,
        sink: int | None = None,
        weights: str | None = None,
        cache: str | None = None,
        beam: int = 1,
        count: int = 1,
        batch: int = 8,
        seed: int = 1337,
    ) -> list[GeneratedText]:
        """Texts that go on from prompts: of the same run, options and seed those of ``cogwheel sample`` (``docs/generation.md``).

        Args:
            prompts: a text, tokens int64 [N], or several of these, of any lengths.
            length: the most tokens of a text.
            repetition_penalty, temperature, top_k, top_p, min_p: change the probabilities in this order; temperature 0
                takes the likeliest token.
            stop: texts before which a text ends.
            end_token: the token that ends a text: that which ends documents of the run's tokenizer unless given; -1: none.
            log_probabilities: of each token, and of so many likeliest in its place.
            sink: past the context, keep the first ``sink`` tokens and the newest; else the newest are computed anew for
                each token.
            weights: "bf16" or "int8": as what the weights are kept meanwhile, which is made at each call.
            cache: "bf16" or "int8": as what keys and values are kept.
            beam: above 1, a search with so many hypotheses for the most probable text.
            count: texts of each prompt.
            batch: texts that are made side by side, which changes none of them.
            seed: the same seed gives the same texts.

        Returns:
            ``count`` texts of the first prompt, then of the second, and so on.
        """
        options = {
            "length": whole("length", length),
            "repetition_penalty": number("repetition_penalty", repetition_penalty),
            "temperature": number("temperature", temperature),
            "top_k": whole("top_k", top_k),
            "top_p": number("top_p", top_p),
            "min_p": number("min_p", min_p),
            "seed": whole("seed", seed, 2**64 - 1),
            "stop": texts("stop", [stop] if isinstance(stop, str) else stop),
            "end": None if end_token is None else whole("end_token", end_token, least=-1),
            "likeliest": -1 if log_probabilities is None else whole("log_probabilities", log_probabilities),
            "sink": -1 if sink is None else whole("sink", sink),
            "weights": "" if weights is None else narrow("weights", weights),
            "cache": "" if cache is None else narrow("cache", cache),
            "count": whole("count", count),
            "batch": whole("batch", batch),
            "beam": whole("beam", beam),
        }
        return generate(self._computing(), prompts_of(self, prompts), options)

    @property
    def keeps_tokens(self) -> bool:
        """Whether texts end with the context: not where no layer keeps keys and no table has positions."""
        return hasattr(self, "position_embedding") or any(not layer.is_recurrent or layer.attention._description["number"] for layer in self.layers)

    @property
    def _has_places(self) -> bool:
        """Whether a table says where tokens stand, in the stream or in queries and keys."""
        return self.keeps_tokens and self.options["position"] in ("learned", "rotary", "rotary_halves")

    def _embedded(self, tokens: Tensor, positions: Tensor | None) -> Tensor:
        if tokens.dim() != 2:
            raise ValueError(f"tokens: expected [batch, tokens], got {list(tokens.shape)}")
        if tokens.dtype != torch.int64:
            raise ValueError(f"tokens: expected int64, got {tokens.dtype}")
        if self.keeps_tokens and tokens.shape[1] > self.context:
            raise ValueError(f"tokens: expected [batch, up to {self.context}], got {list(tokens.shape)}")
        x = _rows(self.token_embedding, tokens.to(self.token_embedding.device))
        if not hasattr(self, "position_embedding"):
            return x
        if positions is not None:
            return x + _rows(self.position_embedding, positions.to(x.device))
        return x + self.position_embedding[: tokens.shape[1]]

    def forward(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        key_lengths: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cache: ModelCache | None = None,
        head: bool = True,
    ) -> Tensor:
        """The logits, [B, N, vocabulary].

        Args:
            tokens: [B, N] int64.
            positions: [B, N] int64; from 0 unless given, or after the tokens in the cache.
            key_lengths: [B] int64: tokens at and beyond the length of their entry are padding.
            cu_seqlens: [S + 1], from 0 to N, for a batch of one: texts one after another; ``positions`` are theirs to give.
            cache: of :meth:`make_cache`: the tokens follow those in it, and are added to it.
            head: False gives what the head reads, [B, N, width], of which :meth:`unembed` makes logits.
        """
        if self._outer is not None:
            if not head:
                raise ValueError("language model: hooks: expected a pass with its head, got one without")
            return self._run_outer((tokens,), {"positions": positions, "key_lengths": key_lengths, "cu_seqlens": cu_seqlens, "cache": cache})
        if not isinstance(tokens, Tensor):
            raise TypeError(f"tokens: expected a tensor, got {type(tokens).__name__}")
        if cache is not None:
            if len(cache) != len(self.layers):
                raise ValueError(f"cache: expected {len(self.layers)} layers, got {len(cache)}")
            check_batch(cache, tokens, "language model")
            before = cache.lengths
            room = self.context - max(before.tolist(), default=0)
            if positions is None and self._has_places and tokens.shape[-1] > room:
                raise ValueError(f"tokens: expected at most {max(room, 0)} after those in the cache (a context of {self.context}), got {tokens.shape[-1]}")
        try:
            hidden = self._normed(tokens, positions, key_lengths, cu_seqlens, cache)
        except (ValueError, TypeError):
            if cache is not None:  # of the layers that have the tokens already
                for layer in cache.layers:
                    if not torch.equal(layer.lengths, before):
                        layer.crop(before)
            raise
        return self.unembed(hidden) if head else hidden

    def unembed(self, hidden: Tensor) -> Tensor:
        """The logits of what a pass without the head gives, [..., vocabulary]."""
        logits = self.head(hidden) if hasattr(self, "head") else product(hidden, self.token_embedding)
        return logits.to(self.token_embedding.dtype)

    def _normed(
        self, tokens: Tensor, positions: Tensor | None, key_lengths: Tensor | None, cu_seqlens: Tensor | None, cache: ModelCache | None
    ) -> Tensor:
        """The stream after the last norm, [B, N, width]: what the logits are made of."""
        if cache is not None and positions is None:
            positions = positions_after(cache, tokens)
        x, delta = self._embedded(tokens, positions), None
        if self.training and self.dropout > 0:
            x = F.dropout(x, self.dropout)
        for index, layer in enumerate(self.layers):
            keywords: dict[str, Any] = {"cu_seqlens": cu_seqlens, "cache": None if cache is None else cache[index]}
            if not layer.is_recurrent:
                keywords |= {"key_lengths": key_lengths, "positions": positions}
            x, delta = layer(x, delta=delta, split=True, **keywords)
        return self.final_norm.of_sum(x, delta)[1]

    @property
    def can_decode(self) -> bool:
        """Whether tokens can follow those in a cache: not where a mechanism is a function of the whole matrix of scores."""
        return all(layer.is_recurrent or not layer.attention.is_dense for layer in self.layers)

    def make_cache(self, batch: int, capacity: int | None = None, *, dtype: torch.dtype | None = None) -> ModelCache:
        """An empty cache for up to ``capacity`` tokens, by default the context, of ``batch`` texts."""
        return ModelCache([layer.make_cache(batch, capacity or self.context, dtype=dtype) for layer in self.layers])

    def _pass(self, hooked: list[str], callback: int, tokens: Tensor, **others: Any) -> Tensor:
        for name, value in others.items():
            if value is not None:
                raise ValueError(f"language model: hooks: expected a pass without {name}, got one with")
        return super()._pass(hooked, callback, tokens)


@functools.lru_cache(maxsize=4)
def _of_run(folder: str) -> Any:
    return _bindings.classes().TrainedModel(folder)


def _rows(table: Tensor, rows: Tensor) -> Tensor:
    if torch.compiler.is_compiling():
        return F.embedding(rows, table)
    try:
        return F.embedding(rows, table)
    except IndexError:
        raise ValueError(f"tokens: expected numbers of rows that the model has, below {table.shape[0]}, got one beyond") from None
