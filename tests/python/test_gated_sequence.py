"""LSTM and GRU as one operator over a sequence, against torch.nn's on packed sequences."""

import math

import emulated_device
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import cogwheel  # noqa: F401: loads the operators

OPERATOR, BACKWARD = torch.ops.cogwheel.gated_sequence, torch.ops.cogwheel.gated_sequence_backward
CELL, CELL_BACKWARD = torch.ops.cogwheel.gated_cell, torch.ops.cogwheel.gated_cell_backward
MODULES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}


def reference(cell, width, inputs, bidirectional=False):
    torch.manual_seed(3)
    return MODULES[cell](inputs, width, bidirectional=bidirectional).double()


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def by_operator(cell, x, weights, state, lengths, reverse):
    """Output and last states; weights in the order of torch.nn."""
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    states = [None, None] if state is None else [*state, None][:2]
    made = OPERATOR(torch.nn.functional.linear(x, weight_ih, bias_ih), weight_hh, bias_hh, *states, lengths, cell, reverse)
    return made[: 3 if cell == "lstm" else 2]


def by_torch(module, x, state, lengths):
    """The same for each direction: [(output, states…), …]."""
    hidden = None if state is None else state if isinstance(module, torch.nn.LSTM) else state[0]
    if lengths is None:
        output, last = module(x, hidden)
    else:
        packed, last = module(pack_padded_sequence(x, lengths, enforce_sorted=False), hidden)
        output = pad_packed_sequence(packed, total_length=x.shape[0])[0]
    last = last if isinstance(last, tuple) else (last,)
    width = module.hidden_size
    return [(output[..., d * width : (d + 1) * width], *(each[d] for each in last)) for d in range(1 + module.bidirectional)]


def weights_of(module, dtype, reverse=False):
    suffix = "_l0_reverse" if reverse else "_l0"
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(module, name + suffix).detach().to(dtype).requires_grad_() for name in names]


def expect_equal(ours, expected, bound, floor=1e-30):
    """Relative to the largest element, or to `floor` where that is larger."""
    for place, (a, b) in enumerate(zip(ours, expected, strict=True)):
        error = (a.double() - b).abs().max() / b.abs().max().clamp_min(floor)
        assert error <= bound, (place, float(error))


SHAPES = {  # tokens, batch, inputs, width: below, at and beyond whole vectors and tiles
    "one": (1, 1, 1, 1),
    "small": (5, 3, 4, 6),
    "single token": (1, 7, 9, 18),
    "tiles": (9, 13, 8, 33),
    "panels": (4, 2, 3, 80),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("with_state", [False, True], ids=["from zero", "from a state"])
@pytest.mark.parametrize("lengths", ["full", "ragged"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cell", MODULES)
@pytest.mark.diagonal("cell", "lengths", "with_state")
def test_equals_torch_in_values_and_gradients(cell, shape, lengths, with_state, dtype):
    tokens, batch, inputs, width = SHAPES[shape]
    module = reference(cell, width, inputs, bidirectional=True)
    of_entries = torch.arange(batch) * 5 % tokens + 1 if lengths == "ragged" else None
    x = draw(tokens, batch, inputs)
    state = [draw(2, batch, width, seed=s) for s in range(1, 3 if cell == "lstm" else 2)] if with_state else None
    expected = by_torch(module, x, state, of_entries)
    for direction, reverse in enumerate((False, True)):
        torch.manual_seed(direction)
        factors = [torch.randn_like(each) for each in expected[direction]]
        theirs = [x, *(getattr(module, f"{name}_l0{'_reverse' * reverse}") for name in NAMES), *(state or [])]
        wanted = torch.autograd.grad(
            sum((e * f).sum() for e, f in zip(expected[direction], factors, strict=True)), theirs, retain_graph=True
        )
        leaves = [x.detach().to(dtype).requires_grad_(), *weights_of(module, dtype, reverse)]
        first = None if state is None else [each[direction].detach().to(dtype).requires_grad_() for each in state]
        made = by_operator(cell, leaves[0], leaves[1:], first, of_entries, reverse)
        # A state is a sum of two terms, of up to 1, which may cancel.
        expect_equal(made, expected[direction], 1e-9 if dtype == torch.float64 else 2e-6, floor=0.1)
        found = torch.autograd.grad(
            sum((e * f.to(dtype)).sum() for e, f in zip(made, factors, strict=True)), [*leaves, *(first or [])]
        )
        wanted = [each[direction] if state and place >= 5 else each for place, each in enumerate(wanted)]
        expect_equal(found, wanted, 1e-9 if dtype == torch.float64 else 1e-5)


NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


@pytest.mark.parametrize("cell", MODULES)
def test_padding_is_zero_and_leaks_nothing(cell):
    module, lengths = reference(cell, 6, 4), torch.tensor([3, 0, 5])
    for reverse in (False, True):
        poisoned = draw(5, 3, 4).detach()
        poisoned[3:, 0], poisoned[:, 1] = math.nan, math.inf
        leaf, weights = poisoned.clone().requires_grad_(), weights_of(module, torch.float64)
        output, *last = by_operator(cell, leaf, weights, None, lengths, reverse)
        alone = by_operator(cell, poisoned[:3, :1], weights, None, None, reverse)
        torch.testing.assert_close(output[:3, :1], alone[0])
        torch.testing.assert_close(last[0][:1], alone[1])
        assert not output[3:, 0].any() and not output[:, 1].any() and not last[0][1].any()
        gates = OPERATOR(poisoned.new_ones(5, 3, weights[1].shape[0]), *weights[1:2], None, None, None, lengths, cell, reverse)
        gradients = torch.autograd.grad(gates[0].sum() + gates[1].sum(), weights[1])
        assert gradients[0].isfinite().all()


def by_cell(cell, x, weights, states):
    """One token, as by_operator."""
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    hidden = x.new_zeros(x.shape[1], weight_hh.shape[1]) if states is None else states[0]
    projected, products = (torch.nn.functional.linear(*each) for each in ((x[0], weight_ih, bias_ih), (hidden, weight_hh, bias_hh)))
    hidden, memory, _ = CELL(projected, products, None if states is None else hidden, None if states is None else states[1], cell)
    return hidden[None], hidden, memory if cell == "lstm" else None


@pytest.mark.parametrize("one_token", ["sequences", "cells"])
@pytest.mark.parametrize("cell", MODULES)
def test_step_by_step_is_the_same(cell, one_token):
    """Values, and the gradients of everything that the steps share."""
    weights, x = weights_of(reference(cell, 18, 4), torch.float64), draw(6, 3, 4)
    whole = by_operator(cell, x, weights, None, None, False)
    states, outputs = None, []
    for token in range(6):
        if one_token == "cells":
            output, *states = by_cell(cell, x[token : token + 1], weights, states)
        else:
            output, *states = by_operator(cell, x[token : token + 1], weights, states, None, False)
        outputs.append(output)
    stepped = (torch.cat(outputs), *states)[: len(whole)]
    expect_equal(stepped, whole, 1e-12)
    find = lambda made: torch.autograd.grad(sum(each.sin().sum() for each in made), [x, *weights])  # noqa: E731
    expect_equal(find(stepped), find(whole), 1e-11)


@pytest.mark.parametrize("cell", MODULES)
def test_bits_do_not_depend_on_threads_or_neighbours(cell):
    weights, x = [w.detach() for w in weights_of(reference(cell, 40, 40), torch.float32)], draw(7, 29, 40).detach().float()
    projected, before = torch.nn.functional.linear(x, weights[0], weights[2]), torch.get_num_threads()

    def run(chosen, lengths):
        leaf = projected[:, chosen].clone().requires_grad_()
        output = OPERATOR(leaf, weights[1], weights[3], None, None, lengths, cell)[0]
        return output, *torch.autograd.grad(output.square().sum(), leaf)

    try:
        found = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(run(slice(None), torch.arange(29) % 7 + 1))
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, *found))
    some = run(slice(3, 5), torch.tensor([4, 5]))
    assert all(torch.equal(a, b[:, 3:5]) for a, b in zip(some, found[0], strict=True))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", MODULES)
def test_derivatives_of_every_order(cell, reverse, fast_mode):
    x, weight, bias = draw(2, 2, 8 if cell == "lstm" else 6), draw(8 if cell == "lstm" else 6, 2), draw(6 + 2 * (cell == "lstm"))
    states, count = [draw(2, 2, seed=1), draw(2, 2, seed=2) if cell == "lstm" else None], 3 if cell == "lstm" else 2
    function = lambda *given: OPERATOR(*given, torch.tensor([2, 1]), cell, reverse)[:count]  # noqa: E731
    options = {"fast_mode": fast_mode}
    inputs = (x, weight, bias, *states)
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True, **options)
    assert torch.autograd.gradgradcheck(function, inputs, **options)


@pytest.mark.parametrize("cell", MODULES)
def test_registration(cell):
    gates = 4 if cell == "lstm" else 3
    x, weight, bias, hidden = draw(3, 2, 5 * gates), draw(5 * gates, 5), draw(5 * gates), draw(2, 5)
    memory, lengths = draw(2, 5) if cell == "lstm" else None, torch.tensor([2, 3])
    torch.library.opcheck(OPERATOR.default, (x, weight, bias, hidden, memory, lengths, cell, True, True))
    torch.library.opcheck(OPERATOR.default, (x.float().detach(), weight.float().detach(), None, None, None, None, cell))
    plain = [None if each is None else each.detach() for each in (x, weight, bias, hidden, memory)]
    output, last, _, saved, memories = OPERATOR(*plain, lengths, cell, True, True)
    arguments = (output, last, None, *plain, lengths, output, saved, memories, cell, True)
    torch.library.opcheck(BACKWARD.default, arguments)
    with pytest.raises(ValueError, match="gated_sequence: derivatives: expected those of gated_sequence, got"):
        BACKWARD(output, last, None, x, *arguments[4:])


@pytest.mark.parametrize("cell", MODULES)
def test_one_token_has_every_derivative(cell, fast_mode):
    gates, is_lstm = (4, True) if cell == "lstm" else (3, False)
    inputs = (draw(2, 3 * gates), draw(2, 3 * gates, seed=1), draw(2, 3, seed=2), draw(2, 3, seed=3) if is_lstm else None)
    torch.library.opcheck(CELL.default, (*inputs, cell))
    torch.library.opcheck(CELL.default, (inputs[0].detach().float(), inputs[1].detach().float(), None, None, cell))
    function = lambda *given: CELL(*given, cell)[: 1 + is_lstm]  # noqa: E731
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True, fast_mode=fast_mode)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=fast_mode)
    plain = [None if each is None else each.detach() for each in inputs]
    hidden, memory, saved = CELL(*plain, cell)
    torch.library.opcheck(CELL_BACKWARD.default, (hidden, None, *plain[2:], saved, memory, cell))


def test_compiles_as_one_graph():
    x, weight, lengths = draw(3, 2, 20), draw(20, 5), torch.tensor([2, 3])

    def step(x, weight):
        return OPERATOR(x, weight, None, None, None, lengths, "lstm")[0].sin().sum()

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    expected = torch.autograd.grad(step(x, weight), (x, weight))
    for a, b in zip(torch.autograd.grad(compiled(x, weight), (x, weight)), expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("cell", MODULES)
def test_a_device_without_kernels_has_a_composition(cell):
    gates, lengths = 4 if cell == "lstm" else 3, torch.tensor([2, 3])
    inputs = [draw(3, 2, 5 * gates).detach().float(), draw(5 * gates, 5).detach().float()]
    there = [emulated_device.on_device(each).requires_grad_() for each in inputs]
    here = [each.requires_grad_() for each in inputs]
    ours = OPERATOR(*there, None, None, None, emulated_device.on_device(lengths), cell, True)[:2]
    expected = OPERATOR(*here, None, None, None, lengths, cell, True)[:2]
    found = torch.autograd.grad(ours[0].sum() + ours[1].sum(), there)
    wanted = torch.autograd.grad(expected[0].sum() + expected[1].sum(), here)
    for a, b in zip((*ours, *found), (*expected, *wanted), strict=True):
        torch.testing.assert_close(emulated_device.behind(a), b.detach(), atol=1e-5, rtol=1e-5)
    emulated_device.forget()


def test_no_tokens_leave_the_state():
    hidden = draw(2, 5)
    output, last, *_ = OPERATOR(draw(0, 2, 15), draw(15, 5), None, hidden, None, None, "gru")
    assert output.shape == (0, 2, 5) and torch.equal(last, hidden)
    last.sum().backward()
    assert torch.equal(hidden.grad, torch.ones(2, 5))


X, WEIGHT = torch.ones(3, 2, 20), torch.ones(20, 5)
REFUSALS = {
    "gated_sequence: cell: expected lstm or gru, got rnn": (X, WEIGHT, None, None, None, None, "rnn"),
    "gated_sequence: weight: expected [3 · H, H], got [20, 5]": (X, WEIGHT, None, None, None, None, "gru"),
    "gated_sequence: x: expected [N, B, 20], got [3, 20]": (X[:, 0], WEIGHT, None, None, None, None, "lstm"),
    "gated_sequence: x dtype: expected float32 or float64, got BFloat16":
        (X.bfloat16(), WEIGHT, None, None, None, None, "lstm"),
    "gated_sequence: bias: expected [20], got [5]": (X, WEIGHT, torch.ones(5), None, None, None, "lstm"),
    "gated_sequence: hidden: expected [2, 5], got [3, 5]": (X, WEIGHT, None, torch.ones(3, 5), None, None, "lstm"),
    "gated_sequence: memory: expected none, of a gru, got [2, 5]":
        (X[..., :15], WEIGHT[:15], None, None, torch.ones(2, 5), None, "gru"),
    "gated_cell: x: expected [B, 3 · H], got [2, 20]": (X[0], X[0], None, None, "gru"),
    "gated_cell: products: expected [2, 20], got [3, 20]": (X[0], X[:, 0], None, None, "lstm"),
    "gated_sequence: lengths: expected 0 to 3, got 4": (X, WEIGHT, None, None, None, torch.tensor([4, 1]), "lstm"),
    "gated_sequence: lengths: expected [2], got [3]": (X, WEIGHT, None, None, None, torch.tensor([1, 1, 1]), "lstm"),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals_are_one_line(message):
    with pytest.raises(ValueError) as refused:
        (CELL if message.startswith("gated_cell") else OPERATOR)(*REFUSALS[message])
    assert str(refused.value) == message
