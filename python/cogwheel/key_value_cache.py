"""Keys and values of the tokens so far, for decoding token by token."""

from operator import index

import torch
from torch import Tensor

from cogwheel._arguments import checked
from cogwheel.functional import attention, keywords_for_operator

_CACHE_ATTEND = torch.ops.cogwheel.cache_attend.default


class KeyValueCache:
    """Keys and values of the tokens so far, in memory that is used only as it is written to.

        cache = cogwheel.KeyValueCache(batch=1, key_heads=8, capacity=4096, head_dim=64)
        cache.append(prompt_key, prompt_value)  # [1, 8, N, 64]
        out = cache.attend(prompt_query, "cog")  # [1, 8, N, 64], the causal pass over the prompt
        cache.append(key, value)  # of the next token, [1, 8, 1, 64]
        out = cache.attend(query, "cog")  # [1, 8, 1, 64]: that token over all that it sees

    The results of ``attend`` equal the rows of :func:`cogwheel.attention` over the whole text with ``causal=True``, for
    every mechanism except those of level ``dense`` or ``layer``. Entries of a batch may differ in length. A refused call
    leaves the cache unchanged. It holds numbers, no graph: derivatives reach the query, biases and parameters of
    ``attend``, but not the appended keys and values.

    Args:
        batch: entries, each with its own length.
        key_heads: heads of the keys; a divisor of the query heads. For ``differential``, over any map, 2Hk.
        capacity: maximum number of tokens of an entry. Memory is used page by page, as tokens are written.
        head_dim: width of a key.
        value_dim: width of a value; as ``head_dim`` unless given.
        value_heads: heads of the values; as ``key_heads`` unless given. For ``differential`` Hk.
        dtype: of queries, keys and values: float32, float64, bfloat16 or float16.
        device: of queries, keys and values; the CPU unless given. On another device the memory is allocated at once. Lengths
            stay on the CPU, so that no call waits for a device to read them.

    Raises:
        ValueError: sizes below 1, or another dtype.
        TypeError: sizes that are not integers.
        RuntimeError: more memory than the machine can provide.
    """

    @checked("cache")
    def __init__(
        self,
        batch: int,
        key_heads: int,
        capacity: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        value_heads: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        self._tensors: tuple[Tensor, Tensor, Tensor] | None = torch.ops.cogwheel.make_cache.default(
            batch, key_heads, capacity, head_dim, value_dim, value_heads, dtype, device
        )

    def _used(self, call: str) -> tuple[Tensor, Tensor, Tensor]:
        if self._tensors is None:
            raise ValueError(f"cache: {call}: expected a cache in use, got one that was freed")
        return self._tensors

    @property
    def capacity(self) -> int:
        """Tokens that an entry can have."""
        return self._used("capacity")[1].shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """Of queries, keys and values."""
        return self._used("dtype")[0].dtype

    @property
    def lengths(self) -> Tensor:
        """[B] int64, the tokens of each entry: a copy."""
        return self._used("lengths")[2].clone()

    @property
    def key(self) -> Tensor:
        """[B, Hk, longest length, D], a copy; numbers beyond the length of an entry are unspecified."""
        key, _, lengths = self._used("key")
        return torch.ops.cogwheel.cache_keys.default(key, int(lengths.max()))

    @property
    def value(self) -> Tensor:
        """[B, Hv, longest length, Dv], a view; numbers beyond the length of an entry are unspecified."""
        _, value, lengths = self._used("value")
        return value[:, :, : int(lengths.max())]

    @checked("cache")
    def append(self, key: Tensor, value: Tensor, lengths: Tensor | None = None) -> None:
        """Adds the same number of tokens to each entry, or as many as ``lengths`` says.

        Args:
            key: [B, Hk, N, D], in the dtype of the cache.
            value: [B, Hv, N, Dv].
            lengths: [B] int64: of entry b only the first lengths[b] of the N tokens count, the others are padding.

        Raises:
            ValueError: an entry would outgrow the capacity, or shapes or dtypes do not fit.
            TypeError: an argument that is not a tensor.
        """
        torch.ops.cogwheel.cache_append.default(*self._used("append"), key, value, lengths)

    @checked("cache", options_of=attention)
    def attend(
        self,
        query: Tensor,
        mechanism: str = "softmax",
        *,
        query_lengths: Tensor | None = None,
        **options,
    ) -> Tensor:
        """Attention of the newest tokens, which were appended before, over all that they see.

        Args:
            query: [B, H, N, D], of the last N tokens of each entry.
            mechanism: a name from :func:`cogwheel.mechanisms` whose level is ``operator``.
            query_lengths: [B] int64: entry b has just query_lengths[b] queries, for its last tokens, in the first rows;
                the other rows of the result are unspecified. Usually the ``lengths`` of the preceding ``append``.
            **options: ``bias`` and ``energy_bias`` broadcast to [B, H, N, longest length]; ``window``, ``alibi`` and the
                others, and the mechanism's own parameters, as in :func:`cogwheel.attention`. There is no ``causal``:
                a cache always is.

        Returns:
            [B, H, N, Dv].

        Raises:
            ValueError: more queries than tokens; a mechanism whose rows cannot be computed alone; and as
                :func:`cogwheel.attention`.
            TypeError: a parameter that the mechanism does not have, an argument of another type, or ``causal``.
        """
        key, value, lengths = self._used("attend")
        if "causal" in options:
            raise TypeError("cache: causal: expected none (a cache is causal), got one")
        return _CACHE_ATTEND(
            query,
            key,
            value,
            lengths,
            query_lengths,
            mechanism,
            **keywords_for_operator("attention", mechanism, options),
        )

    @checked("cache")
    def crop(self, lengths: int | Tensor) -> None:
        """Forgets the newest tokens: each entry keeps its first ones.

        Args:
            lengths: how many, one number for all entries or [B] int64.

        Raises:
            ValueError: more than an entry has, or fewer than 0.
        """
        key, value, now = self._used("crop")
        kept = torch.full_like(now, lengths) if isinstance(lengths, int) else lengths
        torch.ops.cogwheel.cache_crop.default(key, value, now, kept)

    @checked("cache")
    def fork(self, entries: Tensor | list[int]) -> "KeyValueCache":
        """An independent cache with copies of the given entries, in that order, as for the beams of a beam search.

        It uses memory for the tokens that it copies, and has the same capacity.

        Args:
            entries: [B'] int64, or a list; an entry may be given several times.

        Raises:
            ValueError: an entry that does not exist, or a cache that was freed.
        """
        tensors = self._used("fork")
        forked = object.__new__(KeyValueCache)
        chosen = entries if isinstance(entries, Tensor) else torch.tensor([index(entry) for entry in entries], dtype=torch.int64)
        forked._tensors = torch.ops.cogwheel.cache_fork.default(*tensors, chosen)
        return forked

    def free(self) -> None:
        """Frees the memory. Every other call raises from then on."""
        self._tensors = None
