"""Mechanisms with a state for `bench`: their inputs, and the same laws in plain PyTorch and in flash-linear-attention."""

import importlib
import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor

import cogwheel

# A loop over tokens in Python: beyond this it would only measure Python.
LONGEST_LOOP = 2048
CHUNK = 64


def _entry_of(mechanism: str) -> dict | None:
    """Of the catalogue; None for a mechanism without a state."""
    for entry in cogwheel.mechanisms():
        if entry["name"] == mechanism and entry["family"] == "recurrent":
            return entry
    return None


def axes_of(mechanism: str) -> dict[str, str] | None:
    """The dimensions of each of the law's own tensors, a letter each; None for a mechanism without a state."""
    entry = _entry_of(mechanism)
    return entry and entry["parameter_axes"]


def inputs(mechanism: str, sizes: dict[str, int], dtype: torch.dtype, device: str = "cpu") -> dict[str, Tensor]:
    """Query, key, value and the law's required tensors, for `sizes` of B, H, N, D and V; numbers without axes stay on the CPU.

    On another device they lie as layers have them, the heads of a token beside each other, which is what fla reads.
    """
    generator = torch.Generator().manual_seed(0)
    entry = _entry_of(mechanism)
    axes = entry["parameter_axes"]

    def normal(names: str) -> Tensor:
        return torch.randn([{**sizes, "S": sizes["D"]}[name] for name in names], generator=generator)

    tensors = {"value": normal("BHNV").to(dtype)}
    if "query" in entry["inputs"]:
        tensors["query"] = normal("BHND").to(dtype)
    if "key" in entry["inputs"]:
        # Of length 1, as delta rules need them to be stable.
        tensors["key"] = torch.nn.functional.normalize(normal("BHND"), dim=-1).to(dtype)
    kinds: dict[str, Callable[[Tensor], Tensor]] = {
        "above_0_to_1": lambda x: 1 - 0.1 * torch.sigmoid(x),
        "at_most_0": lambda x: -0.1 * torch.sigmoid(x),
        "from_0_to_2": torch.sigmoid,
        "at_least_0": lambda x: 0.1 * torch.sigmoid(x),
        "below_0": lambda x: -torch.exp(x),
    }
    for name, shape in axes.items():
        values = entry["parameter_values"][name]
        if not shape:  # a number, of which a layer gives the context
            tensors[name] = torch.tensor(2.0 * sizes["N"], dtype=torch.float64)
        elif name not in entry["optional_parameters"] or name == "skip":
            tensors[name] = kinds.get(values, lambda x: x)(normal(shape.split("|")[0])).to(dtype)
    if torch.device(device).type == "cpu":
        return tensors

    def there(tensor: Tensor, axes: str) -> Tensor:
        if axes.startswith("BHN"):
            return tensor.transpose(1, 2).contiguous().to(device).transpose(1, 2)
        return tensor.to(device) if tensor.dim() > 0 else tensor

    return {name: there(tensor, axes.get(name, "BHND")) for name, tensor in tensors.items()}


def flops(sizes: dict[str, int], backward: bool) -> float:
    """Of the products with the state: a write and a read a token; with backward the write again, and four more."""
    return 2 * sizes["B"] * sizes["H"] * sizes["N"] * sizes["D"] * sizes["V"] * (7 if backward else 2)


def _decays(mechanism: str, query: Tensor, own: dict[str, Tensor]) -> Tensor:
    """log A of every token, [B, H, N, D or 1]."""
    if mechanism == "retnet":
        return own["decay"].log()[None, :, None, None].expand(*query.shape[:3], 1)
    decay = own.get("log_decay")
    if decay is None:
        return torch.zeros_like(query[..., :1])
    return decay if decay.dim() == 4 else decay[..., None]


# Those that are S ← A ∘ S + k (v − S'k)ᵀ, with or without what is subtracted.
EAGER = ("linear_attention", "retnet", "mamba2", "gla", "deltanet", "gated_deltanet")


def token_loop(mechanism: str) -> Callable[..., Tensor]:
    """The law as it stands, token by token."""

    def attend(query: Tensor, key: Tensor, value: Tensor, **own: Tensor) -> Tensor:
        decays = _decays(mechanism, query, own).exp().unbind(2)
        queries, keys, values = (query / query.shape[-1] ** 0.5).unbind(2), key.unbind(2), value.unbind(2)
        beta = own["beta"].unbind(2) if "beta" in own else None
        state = query.new_zeros(*query.shape[:2], query.shape[3], value.shape[3])
        outputs = []
        for t in range(query.shape[2]):
            state = decays[t][..., None] * state
            written = values[t]
            if beta is not None:
                written = beta[t][..., None] * (written - (keys[t][..., None, :] @ state)[..., 0, :])
            state = state + keys[t][..., None] * written[..., None, :]
            outputs.append((queries[t][..., None, :] @ state)[..., 0, :])
        return torch.stack(outputs, 2)

    return attend


def _states_before(written: Tensor, ends: Tensor | None) -> Tensor:
    """The state before each chunk, of what every chunk adds [B, H, chunks, D, V], as one product with the decays between
    chunks: the minimal form of Dao and Gu, "Transformers are SSMs" (2024). It is faster than a cumulative sum.

    ends: log decays over whole chunks, [B, H, chunks, D or 1]; None without a decay. What a chunk adds has yet to decay to
    the chunk's end.
    """
    chunks = written.shape[2]
    if ends is None:
        between = written.new_ones(chunks, chunks).tril(-1)
    else:
        before = (ends.cumsum(2) - ends).transpose(2, 3)  # [B, H, D or 1, chunks]
        between = (before[..., None] - before[..., None, :]).exp().tril(-1)
        if ends.shape[-1] > 1:
            return (between @ written.transpose(2, 3)).transpose(2, 3)
        between = between[:, :, 0]
    return (between @ written.flatten(3)).unflatten(3, written.shape[3:])


def chunked(mechanism: str, chunk: int = CHUNK) -> Callable[..., Tensor]:
    """The law by chunks: batched products within, and between them all states at once, but for delta rules.

    A delta rule's states follow one another, and its chunks take a triangular solve: Yang et al., "Parallelizing Linear
    Transformers with the Delta Rule over Sequence Length" (2024). For mild decays: exp(c) and exp(-c) are taken apart.
    """

    def attend(query: Tensor, key: Tensor, value: Tensor, **own: Tensor) -> Tensor:
        tokens = query.shape[2]
        padding = -tokens % chunk

        def cut(x: Tensor) -> Tensor:
            padded = torch.nn.functional.pad(x, (0, 0, 0, padding)) if padding else x
            return padded.unflatten(2, (-1, chunk))

        def whole(x: Tensor) -> Tensor:
            joined = x.flatten(2, 3)
            return joined[:, :, :tokens] if padding else joined

        q, k, v = cut(query / query.shape[-1] ** 0.5), cut(key), cut(value)
        causal = q.new_ones(chunk, chunk).tril()
        solved_in = q.dtype if q.dtype.itemsize >= 4 else torch.float32
        if mechanism == "linear_attention":
            return whole(q @ _states_before(k.mT @ v, None) + (q @ k.mT * causal) @ v)
        total = cut(_decays(mechanism, query, own)).cumsum(3)
        end = total[..., -1:, :]
        q, outward = q * total.exp(), k * (-total).exp()
        scores = q @ outward.mT * causal
        if "beta" not in own:
            states = _states_before(outward.mT @ v, end[..., 0, :])
            return whole(q @ states + scores @ v)
        beta = cut(own["beta"][..., None])
        keys = k * total.exp()
        system = (beta * (keys @ outward.mT)).tril(-1) + torch.eye(chunk, dtype=q.dtype, device=q.device)
        right = beta * torch.cat([v, keys], -1)  # which is not solved in 16 bits
        both = torch.linalg.solve_triangular(system.to(solved_in), right.to(solved_in), upper=False, unitriangular=True).to(q.dtype)
        inner, erased = both.split([v.shape[-1], k.shape[-1]], -1)
        kept, written = end.exp().mT, (outward * end.exp()).mT
        state = query.new_zeros(*query.shape[:2], query.shape[3], value.shape[3])
        outputs = []
        # Unbound, because the gradient of each slice would be as large as the whole.
        for q_, scores_, inner_, erased_, kept_, written_ in zip(*(x.unbind(2) for x in (q, scores, inner, erased, kept, written))):
            new = inner_ - erased_ @ state
            outputs.append(q_ @ state + scores_ @ new)
            state = kept_ * state + written_ @ new
        return whole(torch.stack(outputs, 2))

    return attend


# By law, the function of flash-linear-attention (0.6) that computes it, and its names for the law's own
# tensors. Its tensors are [B, N, H, …]; those of a head alone [H].
FLA: dict[str, tuple[str, str, dict[str, str]]] = {
    "linear_attention": ("linear_attn", "chunk_linear_attn", {}),
    "retnet": ("simple_gla", "chunk_simple_gla", {"decay": "g_gamma"}),
    "mamba2": ("simple_gla", "chunk_simple_gla", {"log_decay": "g"}),
    "gla": ("gla", "chunk_gla", {"log_decay": "g"}),
    "deltanet": ("delta_rule", "chunk_delta_rule", {"beta": "beta"}),
    "gated_deltanet": ("gated_delta_rule", "chunk_gated_delta_rule", {"log_decay": "g", "beta": "beta"}),
}


def by_fla(mechanism: str) -> Callable[..., Tensor] | None:
    """The law by the package fla, whose scale is ours too; None where it is not installed or has no such law."""
    if mechanism not in FLA or importlib.util.find_spec("fla") is None:
        return None
    module, function, names = FLA[mechanism]

    def attend(query: Tensor, key: Tensor, value: Tensor, **own: Tensor) -> Tensor:
        law = getattr(importlib.import_module(f"fla.ops.{module}"), function)
        given = {names[name]: tensor.float().log() if name == "decay" else tensor.transpose(1, 2) for name, tensor in own.items() if name in names}
        if mechanism == "linear_attention":
            given["normalize"] = False
        output, _ = law(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), **given)
        return output.transpose(1, 2)

    return attend


def peers(mechanism: str, tokens: int, *, causal: bool, with_eager: bool, on_cuda: bool = False) -> dict[str, Callable[..., Tensor]]:
    """Functions of the tensors of `inputs`, by name; the first is Cogwheel's. fla's kernels are for GPUs alone."""

    def ours(value: Tensor, query: Tensor | None = None, key: Tensor | None = None, **own: Tensor) -> Tensor:
        return cogwheel.recurrent(query, key, value, mechanism, causal=causal, **own)

    found: dict[str, Callable[..., Tensor]] = {mechanism: ours}
    if on_cuda and causal and (law := by_fla(mechanism)) is not None:
        found[f"fla {mechanism}"] = law
    if with_eager and causal and mechanism in EAGER:
        found[f"chunked {mechanism}"] = chunked(mechanism)
        if tokens <= LONGEST_LOOP:
            found[f"loop {mechanism}"] = token_loop(mechanism)
    return found
