"""Delta rules, against a loop over tokens in float64 that is written from the papers."""

import math
import os
import subprocess
import sys

import emulated_device
import pytest
import torch

import cogwheel


def token_loop(query, key, value, beta, log_decay=None, state=None, scale=None):
    """Outputs and the last state of S_t = A_t ∘ S (I − β k kᵀ) + β k vᵀ, token by token, each product as it stands."""
    tokens, width = query.shape[2:]
    S = query.new_zeros(*query.shape[:2], width, value.shape[3]) if state is None else state
    outputs = []
    # Unbound, because the gradient of each slice would be as large as the whole.
    log_decays = [None] * tokens if log_decay is None else log_decay.unbind(2)
    for q, k, v, b, a in zip(query.unbind(2), key.unbind(2), value.unbind(2), beta.unbind(2), log_decays):
        if a is not None:
            S = (a.exp()[..., None] if a.dim() == 3 else a.exp()[..., None, None]) * S
        recalled = torch.einsum("bhdv,bhd->bhv", S, k)
        S = S - b[..., None, None] * k[..., None] * recalled[..., None, :] + k[..., None] * (b[..., None] * v)[..., None, :]
        outputs.append((1 / math.sqrt(width) if scale is None else scale) * torch.einsum("bhd,bhdv->bhv", q, S))
    return torch.stack(outputs, 2) if outputs else value.new_zeros(value.shape), S


def fused(query, key, value, beta, log_decay=None, state=None, **options):
    gates = {"beta": beta} if log_decay is None else {"beta": beta, "log_decay": log_decay}
    law = "deltanet" if log_decay is None else "gated_deltanet"
    return cogwheel.recurrent(query, key, value, law, initial_state=state, return_state=True, **options, **gates)


CASES = ["deltanet", "gated_per_token", "gated_per_channel"]


def inputs_of(case, tokens, *, batch=2, heads=3, width=12, value_width=37, with_state=False, seed=0, max_decay=0.5):
    """Numbers of a call in float64, which a cast to float32 leaves as they are."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape, uniform=False):
        return (torch.rand if uniform else torch.randn)(*shape, generator=generator)

    numbers = {
        "query": drawn(batch, heads, tokens, width),
        "key": torch.nn.functional.normalize(drawn(batch, heads, tokens, width), dim=-1),
        "value": drawn(batch, heads, tokens, value_width),
        "beta": 2 * drawn(batch, heads, tokens, uniform=True),
    }
    if case == "gated_per_token":
        numbers["log_decay"] = -max_decay * drawn(batch, heads, tokens, uniform=True)
    elif case == "gated_per_channel":
        numbers["log_decay"] = -max_decay * drawn(batch, heads, tokens, width, uniform=True)
    if with_state:
        numbers["state"] = drawn(batch, heads, width, value_width)
    return {name: each.double() for name, each in numbers.items()}


def results(function, inputs, dtype):
    """Output, state and every gradient, by name."""
    inputs = {name: tensor.to(dtype, copy=True).requires_grad_() for name, tensor in inputs.items()}
    output, state = function(**inputs)
    generator = torch.Generator().manual_seed(1)
    total = sum((each * torch.randn(each.shape, generator=generator).to(dtype)).sum() for each in (output, state))
    gradients = torch.autograd.grad(total, list(inputs.values()), materialize_grads=True)
    found = {"output": output.detach(), "state": state.detach()}
    return found | {f"d{name}": each for name, each in zip(inputs, gradients)}


def expect_close(found, expected, forward, backward):
    """To a share of the largest element."""
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        bound = backward if name.startswith("d") else forward
        assert torch.isfinite(found[name]).all(), name
        error = (found[name].double() - right).abs().max().item() if right.numel() else 0
        scale = max(right.abs().max().item(), 1e-3) if right.numel() else 1
        assert error <= bound * scale, f"{name}: {error / scale:.2e} of the largest element"


def expect_as_the_loop(inputs):
    expected = results(token_loop, inputs, torch.float64)
    expect_close(results(fused, inputs, torch.float64), expected, 1e-9, 1e-9)
    expect_close(results(fused, inputs, torch.float32), expected, 2e-5, 1e-4)


@pytest.mark.diagonal("case")
@pytest.mark.parametrize("with_state", [False, True], ids=["from_nothing", "from_a_state"])
@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("case", CASES)
def test_outputs_states_and_gradients(case, tokens, with_state):
    expect_as_the_loop(inputs_of(case, tokens, with_state=with_state))


# Blocks of columns and rows of every kind: whole, cut, and single, of each instruction set.
@pytest.mark.diagonal("width", "value_width")
@pytest.mark.parametrize("width", [1, 7, 70])
@pytest.mark.parametrize("value_width", [1, 20, 33, 64, 150])
@pytest.mark.parametrize("case", CASES)
def test_widths(case, width, value_width):
    expect_as_the_loop(inputs_of(case, 34, heads=1, width=width, value_width=value_width, with_state=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_many_tokens(case):
    expect_as_the_loop(inputs_of(case, 1000, batch=1, width=24, max_decay=0.05, with_state=True))


@pytest.mark.parametrize("case", CASES)
def test_without_tokens(case):
    inputs = inputs_of(case, 0, with_state=True)
    found = results(fused, inputs, torch.float64)
    assert torch.equal(found["state"], inputs["state"]) and found["output"].shape == inputs["value"].shape
    assert found["dstate"].abs().sum() > 0  # the last state is the first


@pytest.mark.parametrize("case", CASES)
def test_any_split_with_its_state_gives_the_whole(case):
    inputs = {name: each.float() for name, each in inputs_of(case, 70).items()}
    whole, last = fused(**inputs)
    for cuts in ([1, 69], [33, 1, 36], [64, 6]):
        state, parts, begin = None, [], 0
        for length in cuts:
            part = {name: each[:, :, begin : begin + length] for name, each in inputs.items()}
            output, state = fused(**part, state=state)
            parts.append(output)
            begin += length
        assert torch.equal(torch.cat(parts, 2), whole) and torch.equal(state, last)


@pytest.mark.diagonal()
@pytest.mark.parametrize("case", ["gated_per_token", "gated_per_channel"])
@pytest.mark.parametrize("log_decay", [0.0, -50.0, -1e3, -math.inf])
def test_extreme_decays(case, log_decay):
    inputs = inputs_of(case, 70, with_state=True)
    inputs["log_decay"][:, :, ::3] = log_decay
    expect_close(results(fused, inputs, torch.float32), results(token_loop, inputs, torch.float64), 5e-5, 3e-4)
    inputs["log_decay"].fill_(log_decay)
    assert all(torch.isfinite(each).all() for each in results(fused, inputs, torch.float32).values())


@pytest.mark.diagonal()
@pytest.mark.parametrize("keys", ["zero", "equal", "random"])
@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("case", CASES)
def test_extreme_betas_and_keys(case, beta, keys):
    inputs = inputs_of(case, 70, with_state=True)
    inputs["beta"][:, :, 1:] = beta
    if keys == "zero":
        inputs["key"].zero_()
    elif keys == "equal":
        inputs["key"][:] = inputs["key"][:, :, :1]
    expect_close(results(fused, inputs, torch.float32), results(token_loop, inputs, torch.float64), 5e-5, 3e-4)


@pytest.mark.parametrize("case", CASES)
def test_a_change_at_a_token_changes_no_bit_before_it(case):
    inputs = {name: each.float() for name, each in inputs_of(case, 70).items()}
    before, _ = fused(**inputs)
    for name in ("query", "key", "value"):
        changed = inputs | {name: inputs[name].clone()}
        changed[name][:, :, 41] = math.nan
        after, _ = fused(**changed)
        assert torch.equal(after[:, :, :41], before[:, :, :41]) and after[:, :, 41].isnan().all()


@pytest.mark.parametrize("heads", [1, 3])  # one head has narrower blocks where there are more threads
@pytest.mark.parametrize("case", CASES)
def test_same_bits_for_any_number_of_threads(case, heads):
    inputs = inputs_of(case, 70, batch=1, heads=heads, width=70, value_width=150)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = results(fused, inputs, torch.float32)
        torch.set_num_threads(4)
        four = results(fused, inputs, torch.float32)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one[name], four[name]) for name in one)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits(dtype):
    half = {name: each.to(dtype).requires_grad_() for name, each in inputs_of("gated_per_channel", 65).items()}
    output, state = fused(**half)
    assert output.dtype == dtype and state.dtype == torch.float32
    exact, _ = token_loop(**{name: each.detach().double() for name, each in half.items()})
    torch.testing.assert_close(output.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-4)
    output.sum().backward()
    assert all(each.grad.dtype == dtype for each in half.values())


def test_any_strides():
    inputs = {name: each.float() for name, each in inputs_of("gated_per_channel", 40).items()}
    expected = results(fused, inputs, torch.float32)
    for first, second in ((1, 2), (2, -1)):
        others = {name: each if each.dim() == 3 and second == -1 else each.transpose(first, second).contiguous().transpose(first, second)
                  for name, each in inputs.items()}  # fmt: skip
        found = results(lambda **given: fused(**given), others, torch.float32)
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_beta_of_0_leaves_the_state():
    inputs = inputs_of("deltanet", 40, with_state=True)
    output, state = fused(**inputs | {"beta": torch.zeros_like(inputs["beta"])}, scale=1.0)
    assert torch.equal(state, inputs["state"])
    torch.testing.assert_close(output, inputs["query"] @ inputs["state"])


def test_without_decay_the_gated_rule_is_the_delta_rule():
    inputs = inputs_of("deltanet", 70, with_state=True)
    expected = results(fused, inputs, torch.float32)
    for shape in (inputs["beta"].shape, inputs["query"].shape):
        found = results(fused, inputs | {"log_decay": torch.zeros(shape)}, torch.float32)
        assert all(torch.equal(found[name], each) for name, each in expected.items())


def test_equal_decays_of_the_channels_are_one_of_the_token():
    inputs = inputs_of("gated_per_token", 70)
    alike = inputs["log_decay"][..., None].expand_as(inputs["query"])
    for found, expected in zip(fused(**inputs | {"log_decay": alike}), fused(**inputs)):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("case", CASES)
def test_packed_sequences_are_as_each_alone(case):
    """Of 1, 40, 0 and 33 tokens, each with a state of its own."""
    ends = torch.tensor([0, 1, 41, 41, 74])
    inputs = inputs_of(case, 74, batch=1) | {"state": torch.randn(4, 3, 12, 37).double()}

    def packed(**given):
        return fused(**given, cu_seqlens=ends)

    def alone(state, **given):
        parts = [
            fused(**{name: each[:, :, begin:end] for name, each in given.items()}, state=state[i : i + 1])
            for i, (begin, end) in enumerate(zip(ends[:-1], ends[1:]))
        ]
        outputs, states = zip(*parts)
        return torch.cat(outputs, 2), torch.cat(states)

    found, expected = results(packed, inputs, torch.float32), results(alone, inputs, torch.float32)
    assert all(torch.equal(found[name], each) for name, each in expected.items())


def test_weights_times_the_values_are_the_output():
    inputs = inputs_of("gated_per_token", 20)
    query, key, value, gates = inputs["query"], inputs["key"], inputs["value"], {name: inputs[name] for name in ("beta", "log_decay")}
    weights = cogwheel.recurrent_weights(query, key, "gated_deltanet", **gates)
    torch.testing.assert_close(weights @ value, fused(**inputs)[0])
    assert torch.equal(weights, weights.tril())


def test_decoding_by_a_cache_is_the_whole():
    inputs = inputs_of("gated_per_token", 9, batch=2)
    whole, _ = fused(**inputs)
    cache = cogwheel.RecurrentCache("gated_deltanet", 2, 3, 12, 37, dtype=torch.float64)
    for begin, end in ((0, 5), (5, 6), (6, 9)):
        part = {name: each[:, :, begin:end] for name, each in inputs.items()}
        assert torch.equal(cache.attend(**part), whole[:, :, begin:end])


def test_orthonormal_keys_store_and_overwrite():
    keys = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64))[0]
    stored, last = (torch.randn(8, 5, dtype=torch.float64) for _ in range(2))
    key, value = torch.cat([keys, keys[:3]])[None, None], torch.cat([stored, last[:3]])[None, None]
    output, state = fused(key, key, value, torch.ones(1, 1, 11, dtype=torch.float64), scale=1.0)
    torch.testing.assert_close(output, value)  # each token reads what it has written
    torch.testing.assert_close(keys @ state[0, 0], torch.cat([last[:3], stored[3:]]))


def test_a_key_that_is_stored_twice_with_beta_2_is_reflected():
    """S (I − 2 k kᵀ): an eigenvalue of −1 along k."""
    key = torch.nn.functional.normalize(torch.randn(1, 1, 1, 6, dtype=torch.float64), dim=-1)
    state = key.mT @ torch.ones(1, 1, 1, 4, dtype=torch.float64)
    output, after = fused(key, key, torch.zeros(1, 1, 1, 4).double(), torch.full((1, 1, 1), 2.0).double(), state=state, scale=1.0)
    torch.testing.assert_close(after, -state)
    torch.testing.assert_close(output, -torch.ones_like(output))


@pytest.mark.parametrize("case", ["deltanet", "gated_per_channel"])
def test_registration(case):
    inputs = inputs_of(case, 3, batch=1, heads=2, width=4, value_width=3, with_state=True)
    given = {name: each.requires_grad_() for name, each in inputs.items()}
    tensors = [given.get(name) for name in ("query", "key", "value", "beta", "log_decay", "state")]
    torch.library.opcheck(torch.ops.cogwheel.delta_walk.default, (*tensors, None, 0.5))
    walk = [torch.randn(1, 2, 3, 3, dtype=torch.float64), None, *(each if each is None else each.detach() for each in tensors)]
    torch.library.opcheck(torch.ops.cogwheel.delta_walk_backward.default, (*walk, None, 0.5))


@pytest.mark.parametrize("case", CASES)
def test_gradients_by_differences(case, fast_mode):
    inputs = inputs_of(case, 4, batch=1, heads=2, width=3, value_width=2, with_state=True)
    inputs["beta"].clamp_(0.1, 1.9)  # no difference leaves what is allowed
    if case != "deltanet":
        inputs["log_decay"] -= 0.1
    names = list(inputs)

    def outputs(*tensors):
        return fused(**dict(zip(names, tensors)))

    assert torch.autograd.gradcheck(outputs, [each.requires_grad_() for each in inputs.values()], fast_mode=fast_mode)


@pytest.mark.parametrize("case", ["deltanet", "gated_per_channel"])
def test_compiled(case):
    inputs = inputs_of(case, 5, batch=1, heads=2, width=4, value_width=3)
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    found, expected = results(compiled, inputs, torch.float64), results(fused, inputs, torch.float64)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_device_without_kernels():
    inputs = inputs_of("gated_per_token", 5, batch=1, heads=2, width=4, value_width=3, with_state=True)
    here = {name: each.clone().requires_grad_() for name, each in inputs.items()}
    there = {name: emulated_device.on_device(each).requires_grad_() for name, each in inputs.items()}
    pairs = []
    for given in (here, there):
        output, state = fused(**given)
        (output.sum() + state.sum()).backward()
        pairs.append([output.detach(), state.detach(), *(each.grad for each in given.values())])
    for right, ours in zip(*pairs):
        torch.testing.assert_close(emulated_device.behind(ours), right)
    emulated_device.forget()


def test_gradients_of_one_result_alone():
    inputs = {name: each.requires_grad_() for name, each in inputs_of("gated_per_channel", 5, with_state=True).items()}
    tensors = [inputs[name] for name in ("key", "value", "beta", "log_decay", "state")]
    for of in (0, 1):
        found = torch.autograd.grad(fused(**inputs)[of].sum(), tensors)
        for ours, right in zip(found, torch.autograd.grad(token_loop(**inputs)[of].sum(), tensors)):
            torch.testing.assert_close(ours, right)


def test_second_derivatives_and_tangents_are_refused():
    x, beta = torch.randn(1, 1, 4, 3, requires_grad=True), torch.ones(1, 1, 4)
    (first,) = torch.autograd.grad(fused(x, x, x, beta)[0].square().sum(), x, create_graph=True)
    expected = "recurrent: derivatives: expected first ones, by a backward pass, got "
    with pytest.raises(NotImplementedError, match=expected + "second ones"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match=expected + "a tangent"):
        torch.func.jvp(lambda y: fused(y, y, y, beta)[0], (x.detach(),), (x.detach(),))


def call(mechanism="deltanet", **gates):
    query, value = torch.ones(1, 2, 5, 4), torch.ones(1, 2, 5, 3)
    return cogwheel.recurrent(query, query, value, mechanism, **gates)


BETA = torch.ones(1, 2, 5)
REFUSALS = {
    "recurrent: beta: expected values in 0…2, got 5.5": lambda: call(beta=5.5 * BETA),
    "recurrent: beta: expected values in 0…2, got -0.5": lambda: call(beta=-0.5 * BETA),
    "recurrent: beta: expected values in 0…2, got nan": lambda: call(beta=math.nan * BETA),
    "recurrent: beta: expected a tensor (deltanet requires it), got nothing": lambda: call(),
    "recurrent: beta: expected [1, 2, 5], got [1, 2, 5, 1]": lambda: call(beta=BETA[..., None]),
    "recurrent: beta dtype: expected Float (as query), got Double": lambda: call(beta=BETA.double()),
    "recurrent: parameters of deltanet: expected beta, got log_decay": lambda: call(beta=BETA, log_decay=-BETA),
    "recurrent: causal: expected True for deltanet, got False": lambda: call(beta=BETA, causal=False),
    "recurrent: log_decay: expected a tensor (gated_deltanet requires it), got nothing":
        lambda: call("gated_deltanet", beta=BETA),
    "recurrent: log_decay: expected [1, 2, 5], got [1, 2, 4]":
        lambda: call("gated_deltanet", beta=BETA, log_decay=-BETA[..., :4]),
    "recurrent: log_decay: expected values of at most 0, got 1": lambda: call("gated_deltanet", beta=BETA, log_decay=BETA),
    "recurrent: log_decay: expected values of at most 0, got nan":
        lambda: call("gated_deltanet", beta=BETA, log_decay=math.nan * BETA),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals_are_one_line(message):
    with pytest.raises(ValueError) as refused:
        REFUSALS[message]()
    assert str(refused.value) == message


PORTABLE = """
import sys, torch, cogwheel
query, key, value, beta, log_decay = given = torch.load(sys.argv[1])
out, state = cogwheel.recurrent(query, key, value, "gated_deltanet", beta=beta, log_decay=log_decay, return_state=True)
(out.sum() + state.sum()).backward()
torch.save([out.detach(), state.detach(), *(each.grad for each in given)], sys.argv[1])
"""


def test_portable_kernels_agree(tmp_path):
    """Blocks of two and of four numbers, where this machine's may have sixteen."""
    given = [each.float().requires_grad_() for each in inputs_of("gated_per_channel", 40, width=20, value_width=21).values()]
    torch.save(given, tmp_path / "numbers")
    environment = {**os.environ, "COGWHEEL_ISA": "portable"}
    subprocess.run([sys.executable, "-c", PORTABLE, tmp_path / "numbers"], env=environment, check=True)
    out, state = fused(*given)
    (out.sum() + state.sum()).backward()
    for portable, here in zip(torch.load(tmp_path / "numbers"), [out, state, *(each.grad for each in given)], strict=True):
        torch.testing.assert_close(portable, here.detach(), rtol=1e-5, atol=1e-5)
