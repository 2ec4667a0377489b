"""What autograd, torch.compile, torch.func and other devices make of mechanisms with a state."""

import emulated_device
import pytest
import torch
from recurrent_problem import LAWS, Problem, fused, same_bits
from recurrent_reference import token_loop

import cogwheel

# One of each walk over tokens, and of each kind of transition.
KINDS = ["linear_elu_normalized", "gla", "deltanet", "gated_deltanet_by_channel", "mamba", "s4"]


def small(case, **given):
    return Problem(case, 5, batch=1, heads=2, width=4, value_width=3, **given)


TRANSITIONS = {
    "linear": "none",
    "retnet": "constant",
    "mamba2": "per_token",
    "gla": "per_channel",
    "dfw": "per_channel",
    "rwkv6": "per_channel",
    "packed": "per_token",
}


def of_operator(case, given, ends):
    """The operator of a law, and its arguments by name."""
    state = {"initial_state": given.get("S"), "cu_seqlens": ends, "scale": 0.5}
    if case in ("mamba_shared", "s4"):
        names = ("value", "delta", "a", "query", "key", "b", "c", "skip")
        return "state_space", {name: given.get(name) for name in names} | state
    names = ("query", "key", "value")
    if case in TRANSITIONS:
        gates = {"gate": given.get("decay", given.get("log_decay")), "value_gate": given.get("log_value_decay")}
        settings = {"transition": TRANSITIONS[case], "reads_before": case == "rwkv6"}
        return "token_walk", {name: given.get(name) for name in names} | gates | state | settings
    return "delta_walk", {name: given.get(name) for name in (*names, "beta", "log_decay")} | state


@pytest.mark.parametrize("case", [*TRANSITIONS, "deltanet", "gated_deltanet_by_channel", "mamba_shared", "s4"])
def test_registration(case):
    problem = small("mamba2" if case == "packed" else case, with_state=True)
    given = {name: tensor.requires_grad_() for name, tensor in problem.inputs.items()}
    ends = None
    if case == "packed":
        ends, given["S"] = torch.tensor([0, 2, 2, 5]), torch.randn(3, 2, 4, 3, dtype=torch.float64, requires_grad=True)
    name, arguments = of_operator(case, given, ends)
    torch.library.opcheck(getattr(torch.ops.cogwheel, name).default, (), arguments)
    gradients = {"output_gradient": torch.randn(1, 2, 5, 3, dtype=torch.float64), "state_gradient": None}
    detached = {name: each.detach() if isinstance(each, torch.Tensor) else each for name, each in arguments.items()}
    torch.library.opcheck(getattr(torch.ops.cogwheel, f"{name}_backward").default, (), gradients | detached)


@pytest.mark.parametrize("case", LAWS)
def test_gradients_by_differences(case, fast_mode):
    problem = Problem(case, 4, batch=1, heads=2, width=3, value_width=2, with_state=True)
    names = list(problem.inputs)
    if "beta" in names:  # no difference leaves what is allowed
        problem.inputs["beta"].clamp_(0.1, 1.9)
    if "log_decay" in names:
        problem.inputs["log_decay"] -= 0.1

    def outputs(*tensors):
        output, state = problem.call(fused, dict(zip(names, tensors)))
        if case == "mlstm":  # m is a choice of units
            return output, state[0] * state[2].exp()[..., None, None], state[1] * state[2].exp()[..., None]
        return output, *state

    assert torch.autograd.gradcheck(outputs, [each.requires_grad_() for each in problem.inputs.values()], fast_mode=fast_mode)


@pytest.mark.parametrize("case", LAWS)
def test_gradients_of_one_result_alone(case):
    problem = small(case, with_state=True)
    inputs = {name: each.requires_grad_() for name, each in problem.inputs.items() if name != "m"}
    given = problem.inputs | inputs
    found, expected = (problem.made(function, given) for function in (fused, token_loop))
    for of in expected.keys() - {"last m"}:
        ours, right = (torch.autograd.grad(made[of].sum(), list(inputs.values()), retain_graph=True, materialize_grads=True)
                       for made in (found, expected))  # fmt: skip
        for name, each, wanted in zip(inputs, ours, right):
            torch.testing.assert_close(each, wanted, msg=lambda text: f"{of}: {name}: {text}")


@pytest.mark.parametrize("case", KINDS)
def test_compiled(case):
    problem = small(case)
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    assert same_bits(problem.results(compiled, torch.float64), problem.results(fused, torch.float64))


def test_vmap_and_grad_of_torch_func():
    problem = Problem("gla", 5, batch=3)
    query, key, value, log_decay = (problem.inputs[name] for name in ("query", "key", "value", "log_decay"))

    def output(*given):
        return cogwheel.recurrent(*(each[None] for each in given[:3]), "gla", log_decay=given[3][None])[0]

    expected = cogwheel.recurrent(query, key, value, "gla", log_decay=log_decay)
    assert torch.equal(torch.vmap(output)(query, key, value, log_decay), expected)
    found = torch.func.grad(lambda given: output(given, key[0], value[0], log_decay[0]).sum())(query[0])
    given = query.clone().requires_grad_()
    cogwheel.recurrent(given, key, value, "gla", log_decay=log_decay).sum().backward()
    torch.testing.assert_close(found, given.grad[0])


@pytest.mark.parametrize("case", LAWS)
def test_a_device_without_kernels(case):
    problem = small(case, with_state=True)
    made = []
    for place in (torch.clone, emulated_device.on_device):
        inputs = {name: place(each).requires_grad_() for name, each in problem.inputs.items()}
        results = problem.made(fused, inputs)
        sum(each.sum() for name, each in results.items() if name != "last m").backward()
        gradients = {f"d{name}": each.grad for name, each in inputs.items() if name != "m"}
        made.append({name: each.detach() for name, each in (results | gradients).items()})
    here, there = made
    for name, each in here.items():
        torch.testing.assert_close(emulated_device.behind(there[name]), each, msg=lambda text: f"{name}: {text}")
    emulated_device.forget()


@pytest.mark.parametrize("case", ["gla", "mlstm", "cosformer", "deltanet", "mamba"])
def test_packed_sequences_and_caches_on_a_device_without_kernels(case):
    problem = Problem(case, 5, batch=1, heads=2, width=4, value_width=3)
    ends = torch.tensor([0, 2, 5])  # on the host, as those of a cache are
    made = []
    for place in (torch.clone, emulated_device.on_device):
        inputs = {name: place(each).requires_grad_() for name, each in problem.inputs.items()}
        output = problem.made(fused, inputs, cu_seqlens=ends)["output"]
        output.sum().backward()
        made.append({"output": output.detach()} | {name: each.grad for name, each in inputs.items()})
    here, there = made
    for name, each in here.items():
        torch.testing.assert_close(emulated_device.behind(there[name]), each, msg=lambda text: f"{name}: {text}")

    # The device as users name it: without an index.
    cache = cogwheel.RecurrentCache(problem.law, 1, 2, 4, 3, dtype=torch.float64, device=emulated_device.NAME)
    rest = {name: emulated_device.on_device(each) for name, each in problem.inputs.items()}
    tensors = [rest.pop(name, None) for name in ("query", "key", "value")]
    found = cache.attend(*tensors, lengths=torch.tensor([4]), **rest, **problem.options)
    whole = problem.call(fused, problem.inputs)[0]
    torch.testing.assert_close(emulated_device.behind(found)[:, :, :4], whole[:, :, :4])
    emulated_device.forget()


@pytest.mark.parametrize("mechanism", ["linear_attention", "deltanet", "mlstm"])
def test_ends_beyond_the_tokens_are_refused_on_a_device(mechanism):
    """Where their numbers are read, before anything is written."""
    query = torch.ones(1, 1, 4, 2)
    gates = {"linear_attention": {}, "deltanet": {"beta": query[..., 0]}, "mlstm": {"input_gate": query[..., 0], "forget_gate": query[..., 0]}}[mechanism]
    there = {name: emulated_device.on_device(each) for name, each in gates.items()}
    ends = emulated_device.on_device(torch.tensor([0, 2, 9]))
    with pytest.raises(ValueError, match="recurrent: cu_seqlens: expected 4 last \\(as query\\), got 9"):
        cogwheel.recurrent(*(emulated_device.on_device(query) for _ in range(3)), mechanism, cu_seqlens=ends, **there)
    emulated_device.forget()


@pytest.mark.parametrize("case", LAWS)
def test_second_derivatives_and_tangents_are_refused(case):
    problem = small(case)
    value = problem.inputs["value"].requires_grad_()

    def output(x):
        return problem.call(fused, problem.inputs | {"value": x})[0]

    (first,) = torch.autograd.grad(output(value).square().sum(), value, create_graph=True)
    expected = "recurrent: derivatives: expected first ones, by a backward pass, got "
    with pytest.raises(NotImplementedError, match=expected + "second ones"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match=expected + "a tangent"):
        torch.func.jvp(output, (value.detach(),), (value.detach(),))
