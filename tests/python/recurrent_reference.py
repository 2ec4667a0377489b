"""Mechanisms with a state as loops over tokens, written from the papers, and numbers to compare with them."""

import math

import torch

import cogwheel

FEATURES = {
    "identity": lambda x: x,
    "elu_plus_one": lambda x: torch.where(x > 0, x + 1, torch.exp(torch.clamp(x, max=0))),
    "relu": torch.relu,
    "squared_relu": lambda x: torch.relu(x) ** 2,
    "exp": torch.exp,
}


def slot_loop(query, key, value, state, scale, phi, log_decay=None):
    """ABC: keys and values are written to slots, which are few."""
    K, V = state or (query.new_zeros(*query.shape[:2], query.shape[3], phi.shape[3]), query.new_zeros(*phi.shape[:2], phi.shape[3], value.shape[3]))
    outputs = []
    for t in range(query.shape[2]):
        if log_decay is not None:
            decay = log_decay[:, :, t].exp()
            K, V = K * decay[:, :, None, :], V * decay[..., None]
        K = K + key[:, :, t, :, None] * phi[:, :, t, None, :]
        V = V + phi[:, :, t, :, None] * value[:, :, t, None, :]
        scores = scale * torch.einsum("bhd,bhds->bhs", query[:, :, t], K)
        outputs.append(torch.einsum("bhs,bhsv->bhv", torch.softmax(scores, -1), V))
    return torch.stack(outputs, 2) if outputs else value.new_zeros(value.shape), (K, V)


def exponential_loop(query, key, value, state, scale, input_gate, forget_gate):
    """mLSTM, with the sums as they stand, which float64 can hold; the state in the units of the running maximum."""
    S, z, m = state or (query.new_zeros(*query.shape[:2], query.shape[3], value.shape[3]), torch.zeros_like(query[:, :, :0].sum(2)), query.new_zeros(query.shape[:2]))
    S, z = S * m.exp()[..., None, None], z * m.exp()[..., None]
    m, outputs = m.detach(), []
    for t in range(query.shape[2]):
        keep, write = torch.sigmoid(forget_gate[:, :, t]), input_gate[:, :, t].exp()
        S = keep[..., None, None] * S + (write[..., None] * key[:, :, t])[..., None] * value[:, :, t, None, :]
        z = keep[..., None] * z + write[..., None] * key[:, :, t]
        m = torch.maximum(torch.log(keep) + m, input_gate[:, :, t]).clamp_min(0).detach()
        total = scale * torch.einsum("bhd,bhd->bh", query[:, :, t], z).abs()
        outputs.append(scale * torch.einsum("bhd,bhdv->bhv", query[:, :, t], S) / total.clamp_min(1)[..., None])
    output = torch.stack(outputs, 2) if outputs else value.new_zeros(value.shape)
    return output, (S * (-m).exp()[..., None, None], z * (-m).exp()[..., None], m)


def cosine_weights(query, key, horizon):
    distance = torch.arange(query.shape[2])[:, None] - torch.arange(query.shape[2])
    return torch.cos(math.pi / 2 * distance / horizon) * (torch.relu(query) @ torch.relu(key).mT)


def cosine_loop(query, key, value, state, horizon):
    """cosFormer: each token's keys, as far away as they are; the state is what the next token's distances count from."""
    query, key, angle = torch.relu(query), torch.relu(key), math.pi / 2 / horizon
    tokens, heads = query.shape[2], query.shape[:2]
    near, far = query.new_zeros(*heads, query.shape[3], value.shape[3] + 1), query.new_zeros(*heads, query.shape[3], value.shape[3] + 1)
    if state is not None:
        given = torch.cat([state[0], state[1][..., None]], -1)
        near, far = given.chunk(2, 2)
    values = torch.cat([value, torch.ones_like(value[..., :1])], -1)
    outputs = []
    # Σ cos(angle · distance) k vᵀ and −Σ sin(angle · distance) k vᵀ, one token further away each time.
    for t in range(tokens):
        near, far = math.cos(angle) * near + math.sin(angle) * far, math.cos(angle) * far - math.sin(angle) * near
        near = near + key[:, :, t, :, None] * values[:, :, t, None, :]
        sums = torch.einsum("bhd,bhdv->bhv", query[:, :, t], near)
        total = sums[..., -1:]
        outputs.append(torch.where(total == 0, torch.zeros_like(total), sums[..., :-1] / torch.where(total == 0, torch.ones_like(total), total)))
    state = torch.cat([near, far], 2)
    return torch.stack(outputs, 2) if outputs else value.new_zeros(value.shape), (state[..., :-1], state[..., -1])


def token_loop(query, key, value, law, state=None, feature_map="identity", normalize=False, scale=None, **gates):
    """Outputs and (S, z) of one law, token by token, each sum as it stands."""
    tokens, width = query.shape[2:]
    scale = 1 / math.sqrt(width) if scale is None else scale
    if law == "abc":
        return slot_loop(query, key, value, state, scale, **gates)
    if law == "mlstm":
        return exponential_loop(query, key, value, state, scale, **gates)
    if law == "cosformer":
        return cosine_loop(query, key, value, state, **gates)
    normalize = normalize or law == "gated_rfa"
    z, S = query.new_zeros(*query.shape[:2], width), query.new_zeros(*query.shape[:2], width, value.shape[3])
    if state is not None:
        S, z = state if normalize else (state, z)
    # Unbound, because the gradient of each slice would be as large as the whole.
    queries, values = FEATURES[feature_map](query).unbind(2), value.unbind(2)
    keys = None if key is None else FEATURES[feature_map](key).unbind(2)
    log_decays = gates["log_decay"].unbind(2) if "log_decay" in gates else None
    outputs = []
    for t in range(tokens):
        q, v = queries[t], values[t]
        decay = torch.ones_like(q)
        if law == "retnet":
            decay = gates["decay"][None, :, None] * decay
        elif law in ("mamba2", "gated_rfa"):
            decay = log_decays[t][..., None].exp() * decay
        elif law in ("gla", "hgrn2", "dfw", "rwkv6"):
            decay = log_decays[t].exp()
        k = 1 - decay if law == "hgrn2" else keys[t]
        if law == "gated_rfa":
            k = (1 - decay) * k
        read = S + gates["bonus"][..., None] * k[..., None] * v[..., None, :] if law == "rwkv6" else None
        if law == "dfw":
            S = S * gates["log_value_decay"][:, :, t, None, :].exp()
        S = decay[..., None] * S + k[..., None] * v[..., None, :]
        z = decay * z + k
        o = torch.einsum("bhd,bhdv->bhv", q, S if read is None else read)
        if normalize:
            total = torch.einsum("bhd,bhd->bh", q, z)[..., None]
            o = torch.where(total == 0, torch.zeros_like(o), o / torch.where(total == 0, torch.ones_like(total), total))
        else:
            o = scale * o
        outputs.append(o)
    output = torch.stack(outputs, 2) if outputs else value.new_zeros(value.shape)
    return output, (S, z) if normalize else S


# name: the law, and what a call of it takes.
LAWS = {
    "linear": ("linear_attention", {}),
    "linear_elu_normalized": ("linear_attention", {"feature_map": "elu_plus_one", "normalize": True}),
    "linear_relu": ("linear_attention", {"feature_map": "relu"}),
    "linear_squared_relu": ("linear_attention", {"feature_map": "squared_relu"}),
    "linear_exp_normalized": ("linear_attention", {"feature_map": "exp", "normalize": True}),
    "retnet": ("retnet", {}),
    "mamba2": ("mamba2", {}),
    "gla": ("gla", {}),
    "hgrn2": ("hgrn2", {}),
    "gated_rfa": ("gated_rfa", {}),
    "dfw": ("dfw", {}),
    "rwkv6": ("rwkv6", {}),
    "mlstm": ("mlstm", {}),
    "abc": ("abc", {}),
    "abc_decaying": ("abc", {}),
    "cosformer": ("cosformer", {"horizon": 90.0}),
}
# What a state is made of, beside S.
STATES = {"gated_rfa": ("S", "z"), "mlstm": ("S", "z", "m"), "abc": ("K", "V"), "cosformer": ("S", "z")}
SLOTS = 5
WHOLE = ("decay", "bonus")  # not a tensor of tokens


def state_names(law, options):
    return ("S", "z") if options.get("normalize") else STATES.get(law, ("S",))


class Problem:
    """Numbers of a call in float64, which a cast to float32 leaves as they are."""

    def __init__(self, case, tokens, *, batch=2, heads=3, width=12, value_width=37, with_state=False, seed=0, max_decay=2.0):
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape, uniform=False):
            numbers = (torch.rand if uniform else torch.randn)(*shape, generator=generator)
            return numbers.double()

        self.law, self.options = LAWS[case]
        self.inputs = {"query": drawn(batch, heads, tokens, width), "value": drawn(batch, heads, tokens, value_width)}
        if self.law == "gated_rfa":  # its features are made by the caller, and positive here: no total comes near 0
            self.inputs["query"] = self.inputs["query"].abs() + 0.25
        if self.law != "hgrn2":
            self.inputs["key"] = drawn(batch, heads, tokens, width)
            if self.law == "gated_rfa":
                self.inputs["key"] = self.inputs["key"].abs() + 0.25
        if self.law == "retnet":
            self.inputs["decay"] = (0.5 + 0.5 * drawn(heads, uniform=True)).float().double()
        elif self.law in ("mamba2", "gated_rfa"):
            self.inputs["log_decay"] = (-max_decay * drawn(batch, heads, tokens, uniform=True)).float().double()
        elif self.law in ("gla", "hgrn2", "dfw", "rwkv6"):
            self.inputs["log_decay"] = (-max_decay * drawn(batch, heads, tokens, width, uniform=True)).float().double()
        if self.law == "dfw":
            self.inputs["log_value_decay"] = (-max_decay * drawn(batch, heads, tokens, value_width, uniform=True)).float().double()
        elif self.law == "rwkv6":
            self.inputs["bonus"] = drawn(heads, width)
        elif self.law == "mlstm":
            self.inputs |= {name: 2 * drawn(batch, heads, tokens) for name in ("input_gate", "forget_gate")}
        elif self.law == "abc":
            self.inputs["phi"] = drawn(batch, heads, tokens, SLOTS)
            if case == "abc_decaying":
                self.inputs["log_decay"] = (-max_decay * drawn(batch, heads, tokens, SLOTS, uniform=True)).float().double()
        elif self.law == "cosformer":  # no total near 0
            for name in ("query", "key"):
                self.inputs[name] = self.inputs[name].abs() + 0.25
        self.with_state, self.normalized = with_state, "z" in state_names(self.law, self.options)
        if with_state:
            shapes = {"S": (width, value_width), "z": (width,), "m": (), "K": (width, SLOTS), "V": (SLOTS, value_width)}
            for name in state_names(self.law, self.options):
                self.inputs[name] = drawn(batch, heads, *shapes[name])
            if "z" in self.inputs:
                self.inputs["z"] = self.inputs["z"].abs() + 1
            if "m" in self.inputs:
                self.inputs["m"] = self.inputs["m"].abs()
            if self.law == "cosformer":  # as much again that is a quarter turn away
                self.inputs |= {name: torch.cat([self.inputs[name], -0.1 * self.inputs[name]], 2) for name in ("S", "z")}

    def call(self, function, inputs):
        rest = dict(inputs)
        query, key, value = (rest.pop(name, None) for name in ("query", "key", "value"))
        names = state_names(self.law, self.options)
        state = tuple(rest.pop(name) for name in names if name in rest)
        return function(query, key, value, self.law, state if len(state) > 1 else state[0] if state else None, **rest, **self.options)

    def results(self, function, dtype):
        """Outputs, states and every gradient, by name."""
        inputs = {name: tensor.to(dtype, copy=True).requires_grad_() for name, tensor in self.inputs.items()}
        output, state = self.call(function, inputs)
        parts = state if isinstance(state, tuple) else (state,)
        made = {"output": output} | {f"last {name}": each for name, each in zip(state_names(self.law, self.options), parts)}
        generator = torch.Generator().manual_seed(1)
        weights = {name: torch.randn(each.shape, generator=generator).to(dtype) for name, each in made.items()}
        total = sum((each * weights[name]).sum() for name, each in made.items() if name != "last m")
        gradients = torch.autograd.grad(total, list(inputs.values()), materialize_grads=True)
        found = {name: each.detach() for name, each in made.items()}
        return found | {f"d{name}": each for name, each in zip(inputs, gradients)}


def fused(query, key, value, law, state=None, **given):
    return cogwheel.recurrent(query, key, value, law, initial_state=state, return_state=True, **given)


def expect_close(found, expected, forward, backward, terms=1e-3):
    """To a share of the largest element, or of the terms of a sum that cancels."""
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        bound = backward if name.startswith("d") else forward
        assert torch.isfinite(found[name]).all(), name
        error = (found[name].double() - right).abs().max().item() if right.numel() else 0
        scale = max(right.abs().max().item(), terms) if right.numel() else 1
        assert error <= bound * scale, f"{name}: {error / scale:.2e} of the largest element"


def expect_as_the_loop(problem):
    expected = problem.results(token_loop, torch.float64)
    # The first token's output is its value where it is normalised: query and key change nothing.
    alone = problem.inputs["query"].shape[2] == 1 and not problem.with_state
    terms = 1 if problem.normalized and alone else 1e-3
    expect_close(problem.results(fused, torch.float64), expected, 1e-9, 1e-9)
    bounds = (5e-5, 3e-4) if problem.normalized else (2e-5, 1e-4)
    expect_close(problem.results(fused, torch.float32), expected, *bounds, terms)
