"""Attention with a state: linear-time training, and decoding whose memory does not grow."""

import inspect
from operator import index

import torch
from torch import Tensor

from cogwheel._arguments import checked
from cogwheel.catalogue import entry, mechanisms
from cogwheel.functional import AttentionStatistics, statistics_of_rows

_RECURRENT = torch.ops.cogwheel.recurrent.default
_RECURRENT_WEIGHTS = torch.ops.cogwheel.recurrent_weights.default
_RECURRENT_STATISTICS = torch.ops.cogwheel.recurrent_statistics.default

State = Tensor | tuple[Tensor, ...]


def keywords_for_operator(given: dict[str, object]) -> dict[str, object]:
    """Converts keywords of :func:`recurrent` to those of the operators, which have the same defaults."""
    options = {name: value for name, value in given.items() if name in _OPTIONS}
    states = options.get("initial_state")
    options["initial_state"] = [] if states is None else [states] if isinstance(states, Tensor) else list(states)
    parameters = {name: value for name, value in given.items() if name not in _OPTIONS and value is not None}
    tensors = [
        value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
        for value in parameters.values()
    ]
    return options | {"parameters": tensors, "parameter_names": list(parameters)}


def state_of_parts(parts: list[Tensor]) -> State:
    """As users have it: a tensor, or a tuple of several."""
    return parts[0] if len(parts) == 1 else tuple(parts)


@checked("recurrent")
def recurrent(
    query: Tensor | None,
    key: Tensor | None,
    value: Tensor,
    mechanism: str,
    *,
    causal: bool = True,
    scale: float | None = None,
    cu_seqlens: Tensor | None = None,
    initial_state: Tensor | tuple[Tensor, ...] | None = None,
    return_state: bool = False,
    feature_map: str = "identity",
    normalize: bool = False,
    **parameters: Tensor | float,
) -> Tensor | tuple[Tensor, State]:
    r"""Attention of every token over those up to it, by a state that is updated token by token.

    Per head, with S [D, Dv] the state:

    .. math:: S' = A_t \circ S_{t-1}, \quad S_t = S' + k_t (w_t v_t - e_t S'^\top k_t)^\top, \quad
        o_t = \text{scale} \; S_t^\top q_t

    Normalised, the output is :math:`o_t / (z_t \cdot q_t)` with z by the same law for v = 1, and 0 where that product is
    0. The mechanism names A, w, e and k; ``docs/recurrent.md`` has the table.

    Args:
        query: [B, H, N, D], float32, float64, bfloat16 or float16, any strides; D ≤ 256. 16-bit numbers are computed
            with in float32, and the output and each gradient rounded once. None for ``s4``.
        key: as query; None for ``hgrn2``, whose keys are 1 − α, and for ``s4``.
        value: [B, H, N, Dv].
        mechanism: ``linear_attention``, ``cosformer``, ``retnet``, ``mamba2``, ``gla``, ``dfw``, ``rwkv6``, ``hgrn2``,
            ``gated_rfa``, ``mlstm``, ``abc``, ``s4``, ``mamba``, ``deltanet``, ``gated_deltanet``, or a law of your own
            (:func:`cogwheel.load_mechanism`), whose parameters are those that it lists.
        causal: whether a token sees only those up to it. Without, every token sees all: ``linear_attention`` and
            ``cosformer``.
        scale: multiplies the query after its feature map; 1/√D unless given, and 1 for ``s4`` and ``mamba``, whose
            papers have none. It cancels where the output is normalised.
        cu_seqlens: [S + 1] int32 or int64, from 0 to N, not decreasing, for a batch of one: sequence s is tokens
            cu_seqlens[s] to cu_seqlens[s + 1], and has a state of its own, so states have S in the place of B.
        initial_state: the state before the first token, as ``return_state`` gives it; 0 unless given.
        return_state: also gives the state after the last token, so that a text may be cut anywhere.
        feature_map: of ``linear_attention``, on query and key: ``identity``, ``elu_plus_one``, ``relu``,
            ``squared_relu``, ``exp``, ``unit`` ([1, x/|x|]) or ``random_fourier`` ([sin, cos] of x times ``projection``
            [H, D, R], over √R).
        normalize: of ``linear_attention``.
        **parameters: of the mechanism, by name.

            - ``retnet``: ``decay``, γ [H], in (0, 1].
            - ``mamba2``, ``gated_rfa``: ``log_decay`` [B, H, N].
            - ``gla``, ``hgrn2``: ``log_decay`` [B, H, N, D].
            - ``dfw``: ``log_decay`` [B, H, N, D] and ``log_value_decay`` [B, H, N, Dv].
            - ``rwkv6``: ``log_decay`` [B, H, N, D] and ``bonus`` [H, D].
            - ``mlstm``: ``input_gate`` and ``forget_gate`` [B, H, N], before exp and the sigmoid.
            - ``abc``: ``phi`` [B, H, N, slots], and ``log_decay`` of the same shape if wanted.
            - ``cosformer``: ``horizon``, a number.
            - ``deltanet``: ``beta`` [B, H, N], in 0…2. Keys are taken as they are; a delta rule wants them of length 1.
            - ``gated_deltanet``: ``beta``, and ``log_decay`` [B, H, N] or [B, H, N, D].
            - ``s4``: ``delta`` Δ [H, Dv], at least 0; ``a`` [H, D, Dv], below 0; ``b`` and ``c`` [H, D, Dv]; ``skip``
              [H, Dv] if wanted.
            - ``mamba``: ``delta`` Δ [B, H, N, Dv], at least 0; ``a`` [D, Dv] or [H, D, Dv], below 0; ``skip`` [Dv] or
              [H, Dv] if wanted.

            A log decay is at most 0; −∞ forgets everything. Tensors have the dtype of query, or the one that it is
            computed in.

    Returns:
        [B, H, N, Dv], or with ``return_state`` this and the state: S [B, H, D, Dv], or a tuple: (S, z) with z [B, H, D]
        where the output is normalised; (S, z, m) for ``mlstm``, whose S and z are kept times exp(−m), m [B, H]; (K, V),
        [B, H, D, slots] and [B, H, slots, Dv], for ``abc``. For ``cosformer`` 2 D stands in place of D. float32 for
        16-bit numbers. Differentiable once in every tensor that is given, the states too; same bits for any number of
        threads. m has no gradient: it is a choice of units.

    Raises:
        ValueError: names, shapes, dtypes, devices or values that do not fit, each in one line that says what was
            expected and what came.
        NotImplementedError: on second derivatives and tangents.
    """
    options = {
        "causal": causal,
        "scale": scale,
        "cu_seqlens": cu_seqlens,
        "initial_state": initial_state,
        "feature_map": feature_map,
        "normalize": normalize,
    }
    output, state = _RECURRENT(query, key, value, mechanism, **keywords_for_operator(options | parameters))
    if not return_state:
        return output
    return output, state_of_parts(state)


# The options of every mechanism, in recurrent's signature; other keywords are a mechanism's own parameters.
_OPTIONS = {
    name
    for name, parameter in inspect.signature(recurrent).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name != "return_state"
}


@checked("recurrent_weights", options_of=recurrent)
def recurrent_weights(query: Tensor, key: Tensor | None, mechanism: str, **options: Tensor | float) -> Tensor:
    """What :func:`recurrent` multiplies the values by: its output for the identity as values.

    Args:
        query, key, mechanism, **options: as in :func:`recurrent`, but for states and packed sequences, which are refused.

    Returns:
        [B, H, N, N], in the dtype of query, 0 above the diagonal where causal; [B, H, Dv, N, N] for ``dfw`` and ``mamba``,
        whose values decay each at its own rate. Not for ``s4``. Time and memory grow with N².

    Raises:
        ValueError: as :func:`recurrent`.
    """
    return _RECURRENT_WEIGHTS(query, key, mechanism, **keywords_for_operator(options))


@checked("recurrent_statistics", options_of=recurrent)
def recurrent_statistics(
    query: Tensor, key: Tensor | None, value: Tensor, mechanism: str, **options: Tensor | float
) -> tuple[Tensor, AttentionStatistics]:
    """:func:`recurrent` and statistics of its weights, those of :func:`recurrent_weights`, row by row.

    Args:
        query, key, value, mechanism, **options: as in :func:`recurrent_weights`.

    Returns:
        The output, differentiable as that of :func:`recurrent`, and the statistics, which have no gradient: [B, H, N] each,
        [B, H, Dv, N] for ``dfw`` and ``mamba``. Time and memory grow with N².

    Raises:
        ValueError: as :func:`recurrent`.
    """
    output, rows = _RECURRENT_STATISTICS(query, key, value, mechanism, **keywords_for_operator(options))
    return output, statistics_of_rows(rows)


_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class RecurrentCache:
    """The state of a mechanism for decoding: a step costs the same after any number of tokens.

        cache = cogwheel.RecurrentCache("gla", batch=1, heads=8, head_dim=64)
        out = cache.attend(prompt_query, prompt_key, prompt_value, log_decay=decays)  # [1, 8, N, 64]
        out = cache.attend(query, key, value, log_decay=decay)  # of the next token, [1, 8, 1, 64]

    The results equal the rows of :func:`recurrent` over the whole text. A refused call leaves the cache unchanged. It
    holds numbers, no graph: gradients reach what a call is given, but not earlier calls.

    Args:
        mechanism: a name that :func:`recurrent` takes.
        batch: entries, each with its own length.
        heads: of query, key and value.
        head_dim: width of queries and keys.
        value_dim: width of a value; as ``head_dim`` unless given.
        dtype: of queries, keys and values.
        device: of queries, keys and values; the CPU unless given.

    Raises:
        ValueError: sizes below 1, an unknown mechanism, or another dtype.
    """

    @checked("recurrent cache")
    def __init__(
        self,
        mechanism: str,
        batch: int,
        heads: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        laws = [each["name"] for each in mechanisms() if each["family"] == "recurrent"]
        if mechanism not in laws:
            raise ValueError(f"recurrent cache: mechanism: expected one of {', '.join(laws)}, got {mechanism}")
        if dtype not in _DTYPES:
            raise ValueError(f"recurrent cache: dtype: expected float32, float64, bfloat16 or float16, got {dtype}")
        value_dim = head_dim if value_dim is None else value_dim
        for name, size in {"batch": batch, "heads": heads, "head_dim": head_dim, "value_dim": value_dim}.items():
            if size < 1:
                raise ValueError(f"recurrent cache: {name}: expected 1 or more, got {size}")
        self._mechanism, self._dtype = mechanism, dtype
        self._sizes = {"query": (batch, heads, head_dim), "value": (batch, heads, value_dim)}
        # Of a tensor, whose device has an index where it was not named with one.
        self._device = torch.empty(0, device="cpu" if device is None else device).device
        self._state: tuple[Tensor, ...] | None = None
        self._lengths: Tensor | None = torch.zeros(batch, dtype=torch.int64)

    def _used(self, call: str) -> Tensor:
        if self._lengths is None:
            raise ValueError(f"recurrent cache: {call}: expected a cache in use, got one that was freed")
        return self._lengths

    @property
    def lengths(self) -> Tensor:
        """[B] int64, the tokens of each entry: a copy."""
        return self._used("lengths").clone()

    @property
    def state(self) -> State | None:
        """The state after the last token, as :func:`recurrent` returns it; None before the first call."""
        self._used("state")
        return self._state if self._state is None or len(self._state) > 1 else self._state[0]

    @checked("recurrent cache")
    def attend(
        self,
        query: Tensor | None,
        key: Tensor | None,
        value: Tensor,
        *,
        lengths: Tensor | None = None,
        scale: float | None = None,
        feature_map: str = "identity",
        normalize: bool = False,
        **parameters: Tensor | float,
    ) -> Tensor:
        """The outputs of the next tokens, [B, H, N, Dv], which the state then contains.

        Args:
            query, key, value, scale, feature_map, normalize, **parameters: as in :func:`recurrent`.
            lengths: [B] int64, how many of the N tokens each entry has; all of them unless given. Outputs of the others
                are 0.

        Raises:
            ValueError: as :func:`recurrent`, and tensors that are not those of this cache.
        """
        known = self._used("attend")
        for name, tensor in {"query": query, "value": value}.items():
            if tensor is None:
                continue
            batch, heads, width = self._sizes[name]
            if tensor.dim() != 4 or (tensor.shape[0], tensor.shape[1], tensor.shape[3]) != (batch, heads, width):
                raise ValueError(
                    f"recurrent cache: {name}: expected [{batch}, {heads}, tokens, {width}], got {list(tensor.shape)}"
                )
            if tensor.dtype != self._dtype:
                raise ValueError(f"recurrent cache: {name} dtype: expected {self._dtype}, got {tensor.dtype}")
            if tensor.device != self._device:
                raise ValueError(f"recurrent cache: {name} device: expected {self._device}, got {tensor.device}")
        options = {"scale": scale, "feature_map": feature_map, "normalize": normalize}
        tokens = value.shape[2]
        if lengths is None:
            output, state = self._call(query, key, value, options | parameters)
            added = torch.full_like(known, tokens)
        else:
            added = self._checked_lengths(lengths, tokens)
            output, state = self._packed(query, key, value, added, options, parameters)
        self._state, self._lengths = tuple(each.detach() for each in state), known + added
        return output

    def _call(self, query, key, value, given: dict[str, object]) -> tuple[Tensor, list[Tensor]]:
        keywords = keywords_for_operator(given | {"initial_state": self._state})
        return _RECURRENT(query, key, value, self._mechanism, **keywords)

    def _checked_lengths(self, lengths: Tensor, tokens: int) -> Tensor:
        batch = self._sizes["query"][0]
        if lengths.dtype != torch.int64 or lengths.shape != (batch,):
            raise ValueError(
                f"recurrent cache: lengths: expected [{batch}] of int64, got {list(lengths.shape)} of {lengths.dtype}"
            )
        lengths = lengths.cpu()
        for length in lengths.tolist():
            if not 0 <= length <= tokens:
                raise ValueError(f"recurrent cache: lengths: expected 0 to {tokens}, got {length}")
        return lengths

    def _packed(self, query, key, value, lengths, options, parameters) -> tuple[Tensor, list[Tensor]]:
        """The entries' tokens one after the other, as sequences of one entry."""
        batch, tokens = self._sizes["query"][0], value.shape[2]
        present = (torch.arange(tokens) < lengths[:, None]).flatten().nonzero()[:, 0].to(value.device)

        def packed(x: Tensor | float | None) -> Tensor | float | None:
            if not isinstance(x, Tensor) or x.dim() < 3 or (x.shape[0], x.shape[2]) != (batch, tokens):
                return x
            return x.transpose(1, 2).flatten(0, 1)[present].transpose(0, 1)[None]

        ends = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        axes = entry(self._mechanism)["parameter_axes"]  # others may have the sizes of what each token has, too
        gates = {name: packed(each) if "N" in axes.get(name, "") else each for name, each in parameters.items()}
        given = options | gates | {"cu_seqlens": ends}
        output, state = self._call(packed(query), packed(key), packed(value), given)
        rows = output.new_zeros(batch * tokens, output.shape[1], output.shape[3]).index_copy(
            0, present, output[0].transpose(0, 1)
        )
        return rows.unflatten(0, (batch, tokens)).transpose(1, 2), state

    @checked("recurrent cache")
    def fork(self, entries: Tensor | list[int]) -> "RecurrentCache":
        """A cache of its own whose entry i continues from entry ``entries[i]`` of this one.

        Raises:
            ValueError: an entry that there is not, or numbers that are not whole.
        """
        known = self._used("fork")
        if not isinstance(entries, Tensor):
            entries = torch.tensor([index(entry) for entry in entries], dtype=torch.int64)
        chosen = entries.cpu()
        if chosen.dim() != 1 or chosen.is_floating_point():
            raise ValueError(f"recurrent cache: entries: expected [entries] of int64, got {list(chosen.shape)} of {chosen.dtype}")
        batch, heads, head_dim = self._sizes["query"]
        for entry in chosen.tolist():
            if not 0 <= entry < batch:
                raise ValueError(f"recurrent cache: entries: expected 0 to {batch - 1}, got {entry}")
        made = RecurrentCache(
            self._mechanism,
            len(chosen),
            heads,
            head_dim,
            self._sizes["value"][2],
            dtype=self._dtype,
            device=self._device,
        )
        made._lengths = known[chosen]
        if self._state is not None:
            made._state = tuple(each[chosen.to(each.device)] for each in self._state)
        return made

    def free(self) -> None:
        """Gives the memory back; later calls are refused."""
        self._state, self._lengths = None, None
