"""The layers of cogwheel.nn as plain PyTorch in float64, dense formulas and loops over tokens, written from the papers: their judge.

Weights are those of a layer by name, in float64.
"""

import math

import reference
import torch
from recurrent_reference import token_loop
from test_dense_mechanisms import FORMS, expected_weights
from torch import Tensor
from torch.nn import functional as F


def linear(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))


def frequencies(head_dim: int, base: float, scaling: str, factor: float, low: float, high: float, original_context: int) -> Tensor:
    """ω of each plane, plane by plane, by wavelengths, as the code of Llama 3.1 has them."""
    made = []
    for plane in range(head_dim // 2):
        frequency = base ** (-2 * plane / head_dim)
        wavelength = 2 * math.pi / frequency
        if scaling == "linear" or scaling == "llama3" and wavelength > original_context / low:
            frequency /= factor
        elif scaling == "llama3" and wavelength >= original_context / high:
            smooth = (original_context / wavelength - low) / (high - low)
            frequency = (1 - smooth) * frequency / factor + smooth * frequency
        made.append(frequency)
    return torch.tensor(made, dtype=torch.float64)


def rotated(heads: Tensor, positions: Tensor, omega: Tensor, halves: bool) -> Tensor:
    """[B, N, heads, head_dim], token n of entry b at positions[b, n]."""
    angles = (positions.double()[..., None] * omega)[:, :, None]
    cosine, sine = angles.cos(), angles.sin()
    if halves:
        a, b = heads.chunk(2, -1)
        return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)
    a, b = heads[..., 0::2], heads[..., 1::2]
    return torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)


def slopes(heads: int) -> list[float]:
    """Of ALiBi, as its paper says in section 3 and its code does for other numbers than powers of two."""
    power = 1
    while 2 * power <= heads:
        power *= 2
    first = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    return first + [2 ** (-8 * (2 * head + 1) / (2 * power)) for head in range(heads - power)]


def score(kind: str, query: Tensor, key: Tensor, weight: Tensor | None, projection: Tensor | None) -> Tensor:
    """Of one head, query [B, N, D] and key [B, M, D] → [B, N, M]; weights are the head's."""
    if kind == "dot":
        return query @ key.mT / math.sqrt(query.shape[-1])
    if kind == "general":
        return query @ (key @ weight.T).mT / math.sqrt(query.shape[-1])
    if kind == "cosine":
        return F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT
    pairs = [each.expand(-1, query.shape[1], key.shape[1], -1) for each in (query[:, :, None], key[:, None])]
    inside = sum(pairs) if kind == "additive" else torch.cat(pairs, -1) @ projection.T
    return inside.tanh() @ weight


def attention(weights, x, of, memory=None, lengths=None, cu_seqlens=None, positions=None, bias=None) -> tuple[Tensor, Tensor]:
    """Output [B, N, W] and weights [B, heads, N, M] of a layer whose attributes are `of`'s."""
    other = x if memory is None else memory
    rows = weights["query_value.weight" if of.ties_keys else "query_key_value.weight"]
    shift = weights.get("query_value.bias" if of.ties_keys else "query_key_value.bias", torch.zeros(len(rows), dtype=rows.dtype))
    count, shared, width = of.heads, of.key_value_heads, of.heads * of.head_dim
    wide = shared * of.head_dim

    def projected(tokens, first, size, heads):
        return (tokens @ rows[first : first + size].T + shift[first : first + size]).unflatten(-1, (heads, -1))

    query = projected(x, 0, width, count)
    key = query if of.ties_keys else projected(other, width, wide, shared)
    value = projected(other, len(rows) - wide, wide, shared // of.sub_heads)
    if of.query_key_norm:
        gains = weights["query_norm"], weights["query_norm" if of.ties_keys else "key_norm"]
        query, key = (F.rms_norm(each, each.shape[-1:], gain, of.norm_epsilon) for each, gain in zip((query, key), gains, strict=True))
    if of.rotary is not None and memory is None:
        at = torch.arange(x.shape[1]).expand(x.shape[:2]) if positions is None else positions.expand(x.shape[:2])
        omega = frequencies(of.head_dim, of.rotary.base, *of.rotary.scaling.values())
        query, key = (rotated(each, at, omega, of.rotary.halves) for each in (query, key))
    query, key, value = (each.transpose(1, 2) for each in (query, key, value))
    tokens, others = query.shape[2], key.shape[2]
    i, j = torch.arange(tokens)[:, None], torch.arange(others)
    seen = torch.ones(tokens, others, dtype=torch.bool)
    if memory is None and of.causal:
        seen = seen & (j <= i)
        if of.window is not None:
            seen = seen & (j > i - of.window)
    if cu_seqlens is not None:
        number = torch.searchsorted(cu_seqlens[1:], torch.arange(tokens), right=True)
        seen = seen & (number[:, None] == number)
    seen = seen.expand(x.shape[0], 1, tokens, others)
    if lengths is not None:
        seen = seen & (j < lengths[:, None])[:, None, None]
    parameters = {"shift": None} | {name: weights[name] for name in ("sink", "shift", "beta", "gamma", "coefficients") if name in weights}
    name = of.mechanism
    if name in FORMS:
        scores = query @ key.repeat_interleave(count // shared, 1).mT / math.sqrt(of.head_dim)
        pattern = expected_weights(name, scores, of.causal, parameters)
    else:
        untied = name.replace("differential_symmetric", "differential").replace("symmetric_", "").replace("symmetric", "softmax")
        row = reference.row_of(untied)
        parts = []
        for head in range(count):
            # Sub-heads meet sub-heads of their number.
            group = head // row.sub_heads * (shared // row.sub_heads) // (count // row.sub_heads)
            one = key[:, group * row.sub_heads + head % row.sub_heads]
            of_head = {each: weights[each][head] for each in ("score_weight", "score_projection") if each in weights}
            kind = "cosine" if row.cosine else of.score
            parts.append(score(kind, query[:, head], one, of_head.get("score_weight"), of_head.get("score_projection")))
        scores = torch.stack(parts, 1)
        if bias is not None:
            scores = scores + bias
            seen = seen & (bias > -math.inf)
        members = torch.stack([scores[:, part :: row.sub_heads] for part in range(row.sub_heads)], 1)
        decay = torch.tensor(slopes(count // row.sub_heads))[:, None, None].double() * (i - j).abs() if of.alibi else 0.0
        if row.sub_heads == 2:
            first = 0.8 - 0.6 * math.exp(-0.3 * of.depth)
            exponents = [(weights[f"lambda_query{part}"] * weights[f"lambda_key{part}"]).sum() for part in (1, 2)]
            parameters["lam"] = (exponents[0].exp() - exponents[1].exp() + first).expand(count // 2)
        if of.alibi and untied.endswith("cog"):  # whose exponent is no score
            exponents = (members.abs() - decay).masked_fill(~seen, -math.inf)
            signed = members.sign() * exponents.softmax(-1)
            pattern = signed[:, 0] - parameters["lam"][:, None, None] * signed[:, 1] if row.sub_heads == 2 else signed[:, 0]
        else:
            pattern = row.weights(torch.where(seen[:, None], members - decay, 0.0), seen, parameters)
    z = (pattern @ value.repeat_interleave(pattern.shape[1] // value.shape[1], 1)).transpose(1, 2)
    if of.sub_heads == 2:
        z = z / (z.square().mean(-1, keepdim=True) + of.head_norm_epsilon).sqrt() * weights["head_norm"] * (1 - first)
    return linear(weights, "output", z.flatten(2)), pattern


EXPANDED, INNER = ("mamba2", "mlstm", "mamba"), ("mlstm", "mamba")
CONVOLVED, SKIPPED = ("mamba2", "deltanet", "gated_deltanet"), ("mamba2", "mlstm", "s4", "mamba")
HEAD_NORM = ("retnet", "mamba2", "gla", "rwkv6", "hgrn2", "mlstm", "deltanet", "gated_deltanet")
OUTPUT_GATE = ("retnet", "mamba2", "gla", "rwkv6", "mlstm", "mamba", "gated_deltanet")


def convolved(weights, x):
    taps = torch.stack([F.pad(x, (0, 0, 3 - tap, 0))[:, : x.shape[1]] for tap in range(4)])
    return torch.einsum("tbnc,tc->bnc", taps, weights["convolution.weight"]) + weights["convolution.bias"]


def recurrent(weights, x, of, paper: bool, depth: int, layers: int, context: int) -> Tensor:
    law, heads, width = of.mechanism, of.heads, of.width
    has = lambda laws: paper and law in laws  # noqa: E731
    readers = {name: x for name in ("query", "key", "value", "output_gate")}
    gate_reader = lambda index: x  # noqa: E731
    if has(("rwkv6",)):
        change = F.pad(x, (0, 0, 1, 0))[:, :-1] - x
        mixed = x + change * weights["shift.shared"]
        shares = [
            weights["shift.shares"][r] + (mixed @ weights["shift.into_rank"][r]).tanh() @ weights["shift.from_rank"][r]
            for r in range(len(weights["shift.shares"]))
        ]
        readers = {name: x + change * share for name, share in zip(readers, shares, strict=False)}
        gate_reader = lambda index: x + change * shares[4 + index]  # noqa: E731
    if has(INNER):
        inner = linear(weights, "inner", x)
        wide = F.silu(convolved(weights, inner))
        readers |= {"query": wide, "key": wide, "value": inner if law == "mlstm" else wide}
        gate_reader = lambda index: wide  # noqa: E731
    made = {"value": readers["value"] if has(INNER) else linear(weights, "value", readers["value"])}
    made |= {name: linear(weights, name, readers[name]) for name in ("query", "key") if f"{name}.weight" in weights}
    if has(CONVOLVED):
        joined = F.silu(convolved(weights, torch.cat(list(made.values()), -1)))
        made = dict(zip(made, joined.split([each.shape[-1] for each in made.values()], -1), strict=True))
    of_heads = lambda each: each.unflatten(-1, (-1, width // heads)).transpose(1, 2).expand(-1, heads, -1, -1)  # noqa: E731
    query, key = (of_heads(made[name]) if name in made else None for name in ("query", "key"))
    value = made["value"].unflatten(-1, (heads, -1)).transpose(1, 2)
    options = {}
    if has(("hgrn2",)):
        query = F.silu(query)
    if law in ("deltanet", "gated_deltanet"):
        query, key = (each / (each.square().sum(-1, keepdim=True) + 1e-6).sqrt() for each in (query, key))
    if has(("gated_rfa",)):
        query, key = (
            (each / (each.square().sum(-1, keepdim=True) + 1e-6).sqrt() @ weights["features"].mT).relu() for each in (query, key)
        )
    if law == "gated_rfa" and not paper:  # which divides by a sum of products that must not vanish
        query, key = F.elu(query) + 1, F.elu(key) + 1
    if has(("linear_attention",)):
        options = {"feature_map": "elu_plus_one", "normalize": True}

    def gate(index, name):
        y = weights[name + ".bias"]
        if name + ".projection.weight" in weights:
            read = gate_reader(index)
            if name + ".into_rank.weight" in weights:
                read = read @ weights[name + ".into_rank.weight"].T
            if has(("rwkv6",)):
                read = read.tanh()
            y = y + read @ weights[name + ".projection.weight"].T
            y = y.unflatten(-1, (heads, -1)).transpose(1, 2)
            return y if law not in ("mamba2", "gated_rfa", "deltanet", "gated_deltanet", "mlstm") else y.squeeze(-1)
        return y.unflatten(-1, (heads, -1)) if law != "retnet" else y

    def constant(name):
        return weights[name + ".constant"].exp()[:, None]

    given = {}
    match law:
        case "retnet":
            given["decay"] = gate(0, "decay").sigmoid()
        case "mamba2":
            step = F.softplus(gate(0, "log_decay"))
            given["log_decay"], value = -step * constant("log_decay"), value * step[..., None]
        case "gla":
            given["log_decay"] = F.logsigmoid(gate(0, "log_decay")) / 16
        case "dfw":
            given = {name: F.logsigmoid(gate(at, name)) / 16 for at, name in enumerate(("log_decay", "log_value_decay"))}
        case "hgrn2":
            bound = depth / layers
            given["log_decay"] = (bound + (1 - bound) * gate(0, "log_decay").sigmoid()).log()
        case "gated_rfa":
            given["log_decay"] = F.logsigmoid(gate(0, "log_decay"))
        case "rwkv6":
            given = {"log_decay": -gate(0, "log_decay").exp(), "bonus": gate(1, "bonus")}
        case "mlstm":
            given = {name: gate(at, name) for at, name in enumerate(("input_gate", "forget_gate"))}
        case "abc":
            phi = gate(0, "phi")
            if paper:
                total = phi.logcumsumexp(2)
                before = torch.cat([total[:, :, :1], total[:, :, :-1]], 2)
                given = {"phi": (phi - total).exp(), "log_decay": (before - total).clamp_max(0)}
            else:
                given["phi"] = phi
        case "deltanet" | "gated_deltanet":
            given["beta"] = gate(0, "beta").sigmoid()
            if law == "gated_deltanet":
                given["log_decay"] = -F.softplus(gate(1, "log_decay")) * constant("log_decay")
        case "s4" | "mamba":
            size = (heads, width // heads, value.shape[-1])
            given["delta"] = F.softplus(gate(0, "delta"))
            given["a"] = -weights["a.bias"].unflatten(0, size).exp()
            if law == "s4":
                given |= {name: weights[name + ".bias"].unflatten(0, size) for name in ("b", "c")}
        case "cosformer":
            given["horizon"] = context
    scale = 1.0 if has(("mamba2", "s4", "mamba")) else None
    output, _ = token_loop(query, key, value, law, scale=scale, **given, **options)
    by_token = output.transpose(1, 2)
    if has(SKIPPED):
        skipped = readers["query"] if has(INNER) else made["value"]
        by_token = by_token + (skipped * weights["skip"]).unflatten(-1, (heads, -1))
    if has(HEAD_NORM):
        by_token = by_token / (by_token.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weights["head_norm.weight"]
    joined = by_token.flatten(2)
    if has(OUTPUT_GATE):
        joined = joined * F.silu(linear(weights, "output_gate", readers["output_gate"]))
    return linear(weights, "output", joined)
