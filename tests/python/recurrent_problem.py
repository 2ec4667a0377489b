"""Numbers for every mechanism with a state, in every form that it has, and comparisons of what is made of them."""

from typing import NamedTuple

import torch
from recurrent_reference import token_loop

import cogwheel


def fused(query, key, value, law, state=None, **given):
    return cogwheel.recurrent(query, key, value, law, initial_state=state, return_state=True, **given)


class Law(NamedTuple):
    name: str
    # Of its own tensors: dimensions (batch B, heads H, tokens N, key width D, value width V, slots S), and how drawn.
    parameters: dict[str, tuple[str, str]] = {}
    options: dict[str, object] = {}
    queries: str | None = "any"
    keys: str | None = "any"
    state: tuple[str, ...] = ("S",)


# What is drawn for each kind of values that a parameter may have.
DRAWN = {"at_most_0": "log_decay", "above_0_to_1": "decay", "from_0_to_2": "beta", "at_least_0": "step", "below_0": "rate", "number": "gate"}


def law_of(name, *, axes=None, options=None, state=None, optional=()):
    """A law as the catalogue has it, without what may be left out but for `optional`; `axes` of tensors with several."""
    entry = next(entry for entry in cogwheel.mechanisms() if entry["name"] == name)
    options, parameters = dict(options or {}), {}
    for parameter, of_it in entry["parameter_axes"].items():
        if parameter in entry["optional_parameters"] and parameter not in optional:
            continue
        values = entry["parameter_values"][parameter]
        if of_it:
            parameters[parameter] = ((axes or {}).get(parameter, of_it.split("|")[0]), DRAWN.get(values, "any"))
        else:  # a number: 90, as the horizon of cosFormer
            options[parameter] = 90.0
    state = state or tuple(entry["state"])
    # Positive where it is divided by their products, so that no total comes near 0; of a delta rule keys of length 1.
    drawn = "positive" if "sum 1" in entry["range"] else "any"
    keys = "of_length_1" if "from_0_to_2" in entry["parameter_values"].values() else drawn
    return Law(name, parameters, options, drawn if "query" in entry["inputs"] else None, keys if "key" in entry["inputs"] else None, state)


def normalized(feature_map):
    return law_of("linear_attention", options={"feature_map": feature_map, "normalize": True}, state=("S", "z"))


LAWS = {
    "linear": law_of("linear_attention"),
    "linear_elu_normalized": normalized("elu_plus_one"),
    "linear_relu": law_of("linear_attention", options={"feature_map": "relu"}),
    "linear_squared_relu": law_of("linear_attention", options={"feature_map": "squared_relu"}),
    "linear_exp_normalized": normalized("exp"),
    "abc_decaying": law_of("abc", optional=["log_decay"]),
    "gated_deltanet_by_channel": law_of("gated_deltanet", axes={"log_decay": "BHND"}),
    "mamba": law_of("mamba", optional=["skip"]),
    "mamba_shared": law_of("mamba", axes={"a": "DV", "skip": "V"}, optional=["skip"]),
    "mamba_scaled": law_of("mamba", options={"scale": 0.375}),
    "s4": law_of("s4", optional=["skip"]),
    "s4_scaled": law_of("s4", options={"scale": 0.375}),
}
# Every other one, a new one too, as it is.
BUILT_IN = [entry["name"] for entry in cogwheel.mechanisms() if entry["family"] == "recurrent" and entry["definition"] is None]
LAWS |= {name: law_of(name) for name in BUILT_IN if name not in LAWS and name != "linear_attention"}
AXES = {"query": "BHND", "key": "BHND", "value": "BHNV"}
STATES = {entry["name"]: {"z": "D"} | entry["state"] for entry in cogwheel.mechanisms() if entry["family"] == "recurrent"}
SLOTS = 5

# Of normal numbers or uniform ones from 0 to 1.
HOW = {
    "any": lambda normal, uniform, problem: normal,
    "positive": lambda normal, uniform, problem: normal.abs() + 0.25,
    "of_length_1": lambda normal, uniform, problem: torch.nn.functional.normalize(normal, dim=-1),
    "gate": lambda normal, uniform, problem: 2 * normal,
    "decay": lambda normal, uniform, problem: 0.5 + 0.5 * uniform,
    "log_decay": lambda normal, uniform, problem: -problem.max_decay * uniform,
    "beta": lambda normal, uniform, problem: 2 * uniform,
    # Rates from about 1 to about D, as S4D and Mamba begin with, and steps up to 1.
    "rate": lambda normal, uniform, problem: -problem.sizes["D"] * uniform - 0.0625,
    "step": lambda normal, uniform, problem: uniform,
}


class Problem:
    """Numbers of a call in float64, which a cast to float32 leaves as they are."""

    def __init__(self, case, tokens, *, batch=2, heads=3, width=None, value_width=37, with_state=False, seed=0, max_decay=None):
        law = LAWS[case]
        self.case, self.law, self.state_names = case, law.name, law.state
        self.options = dict(law.options)
        # A weight is positive up to the horizon alone: beyond it totals come near 0, and no float32 can divide by them.
        if "horizon" in self.options:
            self.options["horizon"] = max(self.options["horizon"], 1.5 * tokens)
        self.elements, self.delta = law.name in ("mamba", "s4"), "beta" in law.parameters
        width = (5 if self.elements else 12) if width is None else width
        self.sizes = {"B": batch, "H": heads, "N": tokens, "D": width, "V": value_width, "S": SLOTS}
        self.max_decay = (0.5 if self.delta else 2.0) if max_decay is None else max_decay
        self.generator = torch.Generator().manual_seed(seed)
        self.axes = AXES | {name: axes for name, (axes, _) in law.parameters.items()}
        self.axes |= {name: "BH" + axes.replace("2", "") for name, axes in STATES[law.name].items()}
        self.how = {name: how for name, (_, how) in law.parameters.items()}
        self.how |= {"query": law.queries, "key": law.keys, "value": "any"}
        self.inputs = {name: self.drawn(name) for name in ("query", "value", "key", *law.parameters) if self.how[name]}
        self.normalized, self.with_state = "z" in law.state, with_state
        if with_state:
            self.inputs |= self.drawn_state()

    def drawn(self, name):
        sizes = [self.sizes[axis] for axis in self.axes[name]]
        normal, uniform = (draw(*sizes, generator=self.generator) for draw in (torch.randn, torch.rand))
        return HOW[self.how.get(name, "any")](normal, uniform, self).double()

    def drawn_state(self):
        state = {name: self.drawn(name) for name in self.state_names}
        if "z" in state:
            state["z"] = state["z"].abs() + 1
        if "m" in state:
            state["m"] = state["m"].abs()
        for name, axes in STATES[self.law].items():
            if axes.startswith("2") and name in state:  # of cosFormer, as much again that is a quarter turn away
                state[name] = torch.cat([state[name], -0.1 * state[name]], 2)
        return {name: each.float().double() for name, each in state.items()}

    def of_tokens(self):
        """The names of the inputs that have numbers for each token."""
        return [name for name in self.inputs if "N" in self.axes[name]]

    def cut(self, inputs, begin, end):
        """The inputs of some of the tokens."""
        return inputs | {name: inputs[name][:, :, begin:end] for name in self.of_tokens()}

    def call(self, function, inputs, **given):
        """The output and a tuple of states."""
        rest = dict(inputs)
        query, key, value = (rest.pop(name, None) for name in ("query", "key", "value"))
        state = tuple(rest.pop(name) for name in self.state_names if name in rest)
        initial = state if len(state) > 1 else state[0] if state else None
        output, last = function(query, key, value, self.law, initial, **rest, **self.options, **given)
        return output, last if isinstance(last, tuple) else (last,)

    def made(self, function, inputs, **given):
        """Output and states by name."""
        output, last = self.call(function, inputs, **given)
        return {"output": output} | {f"last {name}": each for name, each in zip(self.state_names, last, strict=True)}

    def results(self, function, dtype, *, rounded=None, **given):
        """Outputs, states and every gradient, by name; of numbers that are rounded to another type, if that is given."""
        rounded = rounded or dtype
        inputs = {name: tensor.to(rounded).to(dtype, copy=True).requires_grad_() for name, tensor in self.inputs.items()}
        made = self.made(function, inputs, **given)
        generator = torch.Generator().manual_seed(1)
        weights = {name: torch.randn(each.shape, generator=generator).to(rounded).to(each.dtype) for name, each in made.items()}
        total = sum((each * weights[name]).sum() for name, each in made.items() if name != "last m")
        gradients = torch.autograd.grad(total, list(inputs.values()), materialize_grads=True)
        found = {name: each.detach() for name, each in made.items()}
        return found | {f"d{name}": each for name, each in zip(inputs, gradients)}


def same_bits(found, expected):
    return found.keys() == expected.keys() and all(torch.equal(found[name], each) for name, each in expected.items())


def expect_close(found, expected, forward, backward, terms=1e-3):
    """To a share of the largest element, or of the terms of a sum that cancels."""
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        bound = backward if name.startswith("d") else forward
        assert found[name].shape == right.shape and torch.isfinite(found[name]).all(), name
        error = (found[name].double() - right).abs().max().item() if right.numel() else 0
        scale = max(right.abs().max().item(), terms) if right.numel() else 1
        assert error <= bound * scale, f"{name}: {error / scale:.2e} of the largest element"


def expect_as_the_loop(problem):
    expected = problem.results(token_loop, torch.float64)
    # The first token's output is its value where it is normalised: query and key change nothing.
    alone = problem.sizes["N"] == 1 and not problem.with_state
    terms = 1 if problem.normalized and alone else 1e-3
    expect_close(problem.results(fused, torch.float64), expected, 1e-9, 1e-9)
    bounds = (5e-5, 3e-4) if problem.normalized else (2e-5, 1e-4)
    expect_close(problem.results(fused, torch.float32), expected, *bounds, terms)


def results_of_every_law():
    return {case: Problem(case, 40, batch=1, heads=2, width=20, value_width=21).results(fused, torch.float32) for case in LAWS}
