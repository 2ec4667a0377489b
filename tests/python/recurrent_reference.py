"""Mechanisms with a state as loops over tokens, each sum as it stands, written from the papers."""

import functools
import math

import torch

FEATURES = {
    "identity": lambda x: x,
    "elu_plus_one": lambda x: torch.where(x > 0, x + 1, torch.exp(torch.clamp(x, max=0))),
    "relu": torch.relu,
    "squared_relu": lambda x: torch.relu(x) ** 2,
    "exp": torch.exp,
}


def nothing(rows, columns):
    """A state with the widths of these, before the first token."""
    return columns.new_zeros(*columns.shape[:2], rows.shape[3], columns.shape[3])


def tokens_of(*tensors):
    """The tensors token by token; None of None."""
    # Unbound, because the gradient of each slice would be as large as the whole.
    count = next(each.shape[2] for each in tensors if each is not None)
    return zip(*([None] * count if each is None else each.unbind(2) for each in tensors))


def recalled(query, state):
    """Sᵀq."""
    return (query[..., None, :] @ state)[..., 0, :]


def stacked(outputs, value):
    return torch.stack(outputs, 2) if outputs else value.new_zeros(value.shape)


def divided(sums, total):
    return torch.where(total == 0, torch.zeros_like(sums), sums / torch.where(total == 0, torch.ones_like(total), total))


def slot_loop(query, key, value, state, scale, phi, log_decay=None):
    """ABC: keys and values are written to slots, which are few."""
    K, V = state or (nothing(query, phi), nothing(phi, value))
    outputs = []
    for q, k, v, p, a in tokens_of(query, key, value, phi, log_decay):
        if a is not None:
            K, V = K * a.exp()[:, :, None, :], V * a.exp()[..., None]
        K = K + k[..., None] * p[..., None, :]
        V = V + p[..., None] * v[..., None, :]
        scores = scale * recalled(q, K)
        outputs.append(recalled(torch.softmax(scores, -1), V))
    return stacked(outputs, value), (K, V)


def exponential_loop(query, key, value, state, scale, input_gate, forget_gate):
    """mLSTM, with the sums as they stand, which float64 can hold; the state in the units of the running maximum."""
    S, z, m = state or (nothing(query, value), query.new_zeros(*query.shape[:2], query.shape[3]), query.new_zeros(query.shape[:2]))
    S, z = S * m.exp()[..., None, None], z * m.exp()[..., None]
    m, outputs = m.detach(), []
    for q, k, v, i, f in tokens_of(query, key, value, input_gate, forget_gate):
        keep, write = torch.sigmoid(f), i.exp()
        S = keep[..., None, None] * S + (write[..., None] * k)[..., None] * v[..., None, :]
        z = keep[..., None] * z + write[..., None] * k
        m = torch.maximum(torch.log(keep) + m, i).clamp_min(0).detach()
        total = scale * (q * z).sum(-1).abs()
        outputs.append(scale * recalled(q, S) / total.clamp_min(1)[..., None])
    return stacked(outputs, value), (S * (-m).exp()[..., None, None], z * (-m).exp()[..., None], m)


def cosine_weights(query, key, horizon):
    distance = torch.arange(query.shape[2])[:, None] - torch.arange(query.shape[2])
    return torch.cos(math.pi / 2 * distance / horizon) * (torch.relu(query) @ torch.relu(key).mT)


def cosine_loop(query, key, value, state, scale, horizon):
    """cosFormer: each token's keys, as far away as they are; the state is what the next token's distances count from."""
    query, key, angle = torch.relu(query), torch.relu(key), math.pi / 2 / horizon
    values = torch.cat([value, torch.ones_like(value[..., :1])], -1)
    near, far = nothing(query, values), nothing(query, values)
    if state is not None:
        near, far = torch.cat([state[0], state[1][..., None]], -1).chunk(2, 2)
    outputs = []
    # Σ cos(angle · distance) k vᵀ and −Σ sin(angle · distance) k vᵀ, one token further away each time.
    for q, k, v in tokens_of(query, key, values):
        near, far = math.cos(angle) * near + math.sin(angle) * far, math.cos(angle) * far - math.sin(angle) * near
        near = near + k[..., None] * v[..., None, :]
        sums = recalled(q, near)
        outputs.append(divided(sums[..., :-1], sums[..., -1:]))
    state = torch.cat([near, far], 2)
    return stacked(outputs, value), (state[..., :-1], state[..., -1])


def linear_loop(query, key, value, state, scale, *, law, feature_map="identity", normalize=False, **gates):
    """S (and z) by A_t of the law, plus k vᵀ."""
    normalize = normalize or law == "gated_rfa"
    z, S = query.new_zeros(*query.shape[:2], query.shape[3]), nothing(query, value)
    if state is not None:
        S, z = state if normalize else (state, z)
    query, key = (None if each is None else FEATURES[feature_map](each) for each in (query, key))
    outputs = []
    for q, k, v, log_decay, log_value_decay in tokens_of(query, key, value, gates.get("log_decay"), gates.get("log_value_decay")):
        decay = gates["decay"][None, :, None] if law == "retnet" else None
        if log_decay is not None:
            decay = (log_decay[..., None] if log_decay.dim() == 2 else log_decay).exp()
        if law == "hgrn2":
            k = 1 - decay
        elif law == "gated_rfa":
            k = (1 - decay) * k
        read = S + gates["bonus"][..., None] * k[..., None] * v[..., None, :] if law == "rwkv6" else None
        if law == "dfw":
            S = S * log_value_decay[..., None, :].exp()
        S = (S if decay is None else decay[..., None] * S) + k[..., None] * v[..., None, :]
        o = recalled(q, S if read is None else read)
        if normalize:
            z = (z if decay is None else decay * z) + k
            o = divided(o, (q * z).sum(-1, keepdim=True))
        else:
            o = scale * o
        outputs.append(o)
    return stacked(outputs, value), (S, z) if normalize else S


def delta_loop(query, key, value, state, scale, beta, log_decay=None):
    """A_t ∘ S (I − β k kᵀ) + β k vᵀ, each product as it stands."""
    S = nothing(query, value) if state is None else state
    outputs = []
    for q, k, v, b, a in tokens_of(query, key, value, beta, log_decay):
        if a is not None:
            S = (a.exp()[..., None] if a.dim() == 3 else a.exp()[..., None, None]) * S
        S = S - b[..., None, None] * k[..., None] * recalled(k, S)[..., None, :] + k[..., None] * (b[..., None] * v)[..., None, :]
        outputs.append(scale * recalled(q, S))
    return stacked(outputs, value), S


def element_loop(query, key, value, state, scale, *, delta, a, b=None, c=None, skip=None):
    """S4 and Mamba, whose every element of S decays by itself."""
    state = value.new_zeros(*value.shape[:2], a.shape[-2], value.shape[3]) if state is None else state
    outputs = []
    for q, k, v, step in tokens_of(query, key, value, None if query is None else delta):
        if query is None:
            state = torch.exp(delta[:, None, :] * a) * state + b * v[:, :, None, :]
            o = (c * state).sum(2)
        else:
            state = torch.exp(step[:, :, None, :] * a) * state + k[..., None] * (step * v)[:, :, None, :]
            o = recalled(q, state)
        outputs.append(scale * o + (0 if skip is None else skip * v))
    return stacked(outputs, value), state


# Of every mechanism with a state: (query, key, value, state, scale, **its own tensors) → outputs and last states.
LOOPS = {
    law: functools.partial(linear_loop, law=law)
    for law in ("linear_attention", "retnet", "mamba2", "gla", "dfw", "rwkv6", "hgrn2", "gated_rfa")
} | {
    "abc": slot_loop,
    "mlstm": exponential_loop,
    "cosformer": cosine_loop,
    "deltanet": delta_loop,
    "gated_deltanet": delta_loop,
    "mamba": element_loop,
    "s4": element_loop,
}


def token_loop(query, key, value, law, state=None, scale=None, **given):
    """Outputs and last states of a law, as the operator gives them."""
    if scale is None:
        scale = 1.0 if law in ("mamba", "s4") else 1 / math.sqrt(query.shape[3])
    return LOOPS[law](query, key, value, state=state, scale=scale, **given)
