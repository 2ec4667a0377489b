

def gated_key_loop(query, key, value, state, scale, log_decay, gate):
    """A decay of each token, and a gate of what it writes."""
    S = nothing(query, value) if state is None else state
    outputs = []
    for q, k, v, a, g in tokens_of(query, key, value, log_decay, gate):
        S = a.exp()[..., None, None] * S + torch.sigmoid(g)[..., None, None] * k[..., None] * v[..., None, :]
        outputs.append(scale * recalled(q, S))
    return stacked(outputs, value), S


LOOPS["gated_keys"] = gated_key_loop
