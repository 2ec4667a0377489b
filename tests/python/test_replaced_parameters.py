"""Loaded models compute with what stands in the place of their parameters, whoever put it there, and differentiate it."""

import copy
import pickle
import threading

import pytest
import torch
from small_runs import inputs_of
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

import cogwheel

KINDS = ["mixed", "grouped", "encoder", "vision", "u-vit"]


@pytest.fixture
def model(small_runs):
    return cogwheel.load(small_runs("mixed"))


def scaled(model, factor):
    """What the model gives whose own parameters are multiplied, in place."""
    own = [parameter.detach().clone() for parameter in model.parameters()]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)
        out = model(*inputs_of(model))
        for parameter, before in zip(model.parameters(), own, strict=True):
            parameter.copy_(before)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_functional_call_computes_with_what_it_is_given(small_runs, kind):
    model = cogwheel.load(small_runs(kind))
    given = inputs_of(model)
    expected, as_it_was = scaled(model, 1.25), model(*given)
    other = {name: (1.25 * parameter).detach().requires_grad_() for name, parameter in model.named_parameters()}
    out = torch.func.functional_call(model, other, given)
    assert torch.equal(out, expected) and not torch.equal(out, as_it_was)
    out.square().mean().backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    # The same gradients as of the model's own, at these values.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.25)
    model(*given).square().mean().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(other[name].grad, parameter.grad, rtol=0, atol=0, msg=name)


def test_derivatives_of_functions_of_parameters(small_runs):
    """Reverse and forward, of one parameter among frozen ones."""
    model = cogwheel.load(small_runs("grouped")).double()
    (tokens,) = inputs_of(model)
    name = "layers.0.attention.output.weight"
    own = {key: parameter.detach() for key, parameter in model.named_parameters()}

    def loss(weight):
        return torch.func.functional_call(model, {**own, name: weight}, (tokens,)).square().mean()

    direction = torch.randn(own[name].shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    expected = (loss(own[name] + 1e-6 * direction) - loss(own[name] - 1e-6 * direction)) / 2e-6
    gradient = torch.func.grad(loss)(own[name])
    torch.testing.assert_close((gradient * direction).sum(), expected, rtol=1e-6, atol=1e-9)
    _, tangent = torch.func.jvp(loss, (own[name],), (direction,))
    torch.testing.assert_close(tangent, expected, rtol=1e-6, atol=1e-9)
    of_all = torch.func.grad(lambda all_of_them: torch.func.functional_call(model, all_of_them, (tokens,)).square().mean())(own)
    torch.testing.assert_close(of_all[name], gradient, rtol=1e-9, atol=1e-12)
    assert all(gradient.abs().max() > 0 for gradient in of_all.values())
    assert not loss(own[name]).requires_grad  # nothing asked for it


@pytest.mark.parametrize("kind", KINDS)
def test_vmap_is_over_each_parameter_alone_and_over_all(small_runs, kind):
    model = cogwheel.load(small_runs(kind))
    given = inputs_of(model)
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    stacked = {name: torch.stack([tensor, 0.5 * tensor + 0.01]) for name, tensor in own.items()}

    def call(some):
        return torch.func.functional_call(model, {**own, **some}, given)

    for some in ({name: tensor} for name, tensor in stacked.items()):
        found = torch.func.vmap(call)(some)
        expected = torch.stack([call({name: tensor[i] for name, tensor in some.items()}) for i in range(2)])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, msg=str(list(some)))
    gradient = torch.func.grad(lambda some: call(some).square().mean())
    found = torch.func.vmap(gradient)(stacked)
    for i in range(2):
        expected = gradient({name: tensor[i] for name, tensor in stacked.items()})
        for name, right in expected.items():
            torch.testing.assert_close(found[name][i], right, rtol=1e-3, atol=1e-5 * (1 + right.abs().max().item()), msg=name)


def test_parametrizations(model):
    (tokens,) = inputs_of(model)
    part = model.get_submodule("layers.0.attention.output")

    class Halved(torch.nn.Module):
        def forward(self, weight):
            return weight / 2

    before = model(tokens)
    with torch.no_grad():
        part.weight.div_(2)
        expected = model(tokens)
        part.weight.mul_(2)
    parametrize.register_parametrization(part, "weight", Halved())
    out = model(tokens)
    assert torch.equal(out, expected) and not torch.equal(out, before)
    out.sum().backward()
    assert part.parametrizations.weight.original.grad.abs().max() > 0
    assert torch.equal(model.run_with_hooks(tokens), expected)
    assert torch.equal(model.run_with_cache(tokens)[0], expected)
    parametrize.remove_parametrizations(part, "weight", leave_parametrized=False)
    assert torch.equal(model(tokens), before)
    parametrizations.orthogonal(part, "weight")
    assert not torch.equal(model(tokens), before)


@pytest.mark.parametrize("way", ["prune", "weight_norm", "spectral_norm"])
def test_weights_that_modules_recompute(model, way):
    """They change as what they are computed from is trained, though no pass calls the module."""
    (tokens,) = inputs_of(model)
    part = model.get_submodule("layers.0.feed_forward.up")
    before = model(tokens)
    if way == "prune":
        prune.l1_unstructured(part, "weight", amount=0.5)
        changed = part.weight_orig
    elif way == "weight_norm":
        weight_norm(part, "weight")
        changed = part.weight_g
    else:
        spectral_norm(part, "weight")
        model.eval()  # which does not go on with the power iteration
        changed = part.weight_orig
    after = model(tokens)
    assert torch.allclose(after, before, rtol=1e-3, atol=1e-3) == (way == "weight_norm")  # which is another way to say it
    after.square().sum().backward()
    assert changed.grad.abs().max() > 0
    with torch.no_grad():
        changed.mul_(3)
    assert not torch.equal(model(tokens), after)


def test_assigned_parameters(model):
    (tokens,) = inputs_of(model)
    expected = scaled(model, 0.5)
    state = {name: 0.5 * tensor for name, tensor in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    assert torch.equal(model(tokens), expected)
    part = model.get_submodule("layers.0.attention.output")
    part.weight = torch.nn.Parameter(torch.zeros_like(part.weight))
    out = model(tokens)
    assert not torch.equal(out, expected)
    out.sum().backward()
    assert part.weight.grad.abs().max() > 0
    # As the model learns on, and in another type.
    with torch.no_grad():
        part.weight.add_(0.1)
    assert not torch.equal(model(tokens), out)
    torch.testing.assert_close(model.double()(tokens).float(), model.float()(tokens), rtol=1e-3, atol=1e-3)


def test_frozen_parameters_stay_frozen(model):
    (tokens,) = inputs_of(model)
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    assert not torch.func.functional_call(model, own, (tokens,)).requires_grad
    assert not any(tensor.requires_grad for tensor in own.values())


def test_tensors_in_the_place_of_parameters_are_only_read(model):
    """Never made to want a gradient for a moment, which another thread would see and might keep."""
    (tokens,) = inputs_of(model)
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    expected, seen = model(tokens), []

    def passes(copied):  # functional_call is for one thread at a time
        for _ in range(25):
            out = torch.func.functional_call(copied, own, (tokens,))
            seen.append(torch.equal(out, expected) and not out.requires_grad and not any(each.requires_grad for each in own.values()))

    threads = [threading.Thread(target=passes, args=(copy.deepcopy(model),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 100 and all(seen)
    with torch.inference_mode():
        fixed = {name: tensor.clone() for name, tensor in own.items()}
        assert torch.equal(torch.func.functional_call(model, fixed, (tokens,)), expected)
    with torch.no_grad():
        assert torch.equal(torch.func.functional_call(model, fixed, (tokens,)), expected)


def test_copies_are_models_of_their_own(small_runs):
    model = cogwheel.load(small_runs("mixed"))
    (tokens,) = inputs_of(model)
    before = model(tokens)
    copied = copy.deepcopy(model)
    assert torch.equal(copied(tokens), before) and type(copied) is type(model)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.mul_(0.5)
    assert torch.equal(model(tokens), before) and not torch.equal(copied(tokens), before)
    copied(tokens).sum().backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.grad is not None for parameter in copied.parameters())
    assert torch.equal(copy.deepcopy(copied)(tokens), copied(tokens))
    unpickled = pickle.loads(pickle.dumps(copied))
    assert torch.equal(unpickled(tokens), copied(tokens)) and type(unpickled) is type(model)
    assert torch.equal(unpickled.run_with_hooks(tokens), copied(tokens)), "hooks are of its parameters"
    with pytest.raises(TypeError, match="expected to be loaded from its run"):
        pickle.dumps(cogwheel.load(small_runs("encoder")))


def test_interpretation_reads_what_is_there(model):
    (tokens,) = inputs_of(model)
    other = {name: 1.5 * parameter.detach() for name, parameter in model.named_parameters()}
    before = model.effective_attention(tokens)
    model.load_state_dict(other, assign=True)
    after = model.effective_attention(tokens)
    assert not all(torch.allclose(one, two) for one, two in zip(before, after, strict=True))


def test_plain_passes_call_the_modules(small_runs):
    """As in any module of PyTorch: those of a language model may be replaced, and have hooks of their own."""
    model = cogwheel.load(small_runs("mixed"))
    (tokens,) = inputs_of(model)
    before, seen = model(tokens), []
    for path in ("layers.0", "layers.0.attention", "layers.0.attention.output"):
        model.get_submodule(path).register_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    assert torch.equal(model(tokens), before) and seen == ["Linear", "Attention", "Block"]
    attention, own = model.layers[0].attention, model.layers[0].attention.output
    attention.output = torch.nn.Linear(32, 32, bias=False)
    attention.output.weight = own.weight
    torch.testing.assert_close(model(tokens), before)
    attention.output.weight = torch.nn.Parameter(torch.zeros(32, 32))
    assert not torch.equal(model(tokens), before)


def test_what_no_pass_would_see_is_refused(small_runs):
    fresh = lambda: cogwheel.load(small_runs("mixed"))  # noqa: E731
    tokens = inputs_of(fresh())
    part = "layers.0.attention.output"

    def refused(change, message):
        model = fresh()
        change(model, model.get_submodule(part))
        with pytest.raises(ValueError, match=message):
            model.run_with_hooks(*tokens)

    refused(lambda model, own: setattr(model.get_submodule("layers.0.attention"), "output", torch.nn.Linear(32, 32)), "expected the model's own modules.*, got Linear")
    refused(lambda model, own: own.register_forward_hook(lambda *_: None), f"{part}: expected hooks of run_with_hooks")
    refused(lambda model, own: own.register_forward_pre_hook(lambda *_: None), f"{part}: expected hooks of run_with_hooks")
    refused(lambda model, own: model.get_submodule("layers.0").register_forward_hook(lambda *_: None), "layers.0: expected hooks of run_with_hooks")
    refused(lambda model, own: own.register_parameter("scale", torch.nn.Parameter(torch.ones(1))), "expected the parameters of the run, got another, scale")
    refused(lambda model, own: setattr(own, "weight", None), f"{part}.weight: expected a tensor, got NoneType")
    wrong = torch.nn.Parameter(torch.zeros(3, 32))
    refused(lambda model, own: setattr(own, "weight", wrong), f"{part}.weight: expected floating-point numbers of shape \\[32, 32\\], got Float \\[3, 32\\]")
