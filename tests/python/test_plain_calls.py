"""Calls without options go straight to the kernel where nothing would see the difference, and through the dispatcher where
something would."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import cogwheel
from attention_cases import assert_same_bits


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.names.append(str(operator))
        return operator(*args, **(kwargs or {}))


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(2, 4, 19, 16, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("mechanism", ["cog", "differential", "centered", "norm", "relu"])
def test_both_overloads_give_the_same_bits(tensors, mechanism, causal):
    query, key, value = tensors
    parameters = {}
    if mechanism == "differential":
        value, parameters = value[:, :2], {"lam": torch.tensor([0.3, 0.6])}
    whole = torch.ops.cogwheel.attention.default(
        query, key, value, mechanism, causal=causal,
        parameters=list(parameters.values()), parameter_names=list(parameters),
    )  # fmt: skip
    assert_same_bits(cogwheel.attention(query, key, value, mechanism, causal=causal, **parameters), whole)
    with Seen():  # so that the dispatcher is asked
        assert_same_bits(cogwheel.attention(query, key, value, mechanism, causal=causal, **parameters), whole)


def test_a_mode_sees_the_operator(tensors):
    with Seen() as seen, torch.no_grad():
        cogwheel.attention(*tensors, "cog")
    assert "cogwheel.pairwise.default" in seen.names


def test_a_profiler_sees_the_operator(tensors):
    with torch.no_grad(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        cogwheel.attention(*tensors, "cog")
    assert "cogwheel::pairwise" in {event.name for event in profile.events()}


def test_gradients_and_tangents_are_recorded(tensors):
    query, key, value = tensors
    for index in range(3):
        leaves = [tensor.clone().requires_grad_(i == index) for i, tensor in enumerate(tensors)]
        assert cogwheel.attention(*leaves).requires_grad
        with torch.no_grad():
            assert not cogwheel.attention(*leaves).requires_grad
    _, tangent = torch.func.jvp(lambda q: cogwheel.attention(q, key, value), (query,), (torch.ones_like(query),))
    assert tangent.abs().max() > 0


def test_transforms_and_tensors_without_numbers_pass_through(tensors):
    query, key, value = tensors
    batched = torch.func.vmap(lambda q: cogwheel.attention(q[None], key[:1], value[:1])[0])(query)
    torch.testing.assert_close(batched[0], cogwheel.attention(query[:1], key[:1], value[:1])[0])
    on_meta = cogwheel.attention(*(tensor.to("meta") for tensor in tensors), "cog")
    assert on_meta.shape == query.shape and on_meta.is_meta
    with torch._subclasses.FakeTensorMode() as fake:
        assert cogwheel.attention(*map(fake.from_tensor, tensors)).shape == query.shape


def test_autocast_changes_nothing(tensors):
    expected = cogwheel.attention(*tensors, "cog", causal=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same_bits(cogwheel.attention(*tensors, "cog", causal=True), expected)


def test_the_operator_without_options_is_registered_as_pytorch_demands(tensors):
    leaves = [tensor.requires_grad_() for tensor in tensors]
    torch.library.opcheck(torch.ops.cogwheel.attention.plain, (*leaves, "cog", True))


def test_bad_input_is_refused_in_the_same_line(tensors):
    query, key, value = tensors
    for bad, message in (((query, key[:1], value), "key"), ((query, key, value.double()), "dtype"), ((query[0], key, value), "query")):
        with pytest.raises(ValueError, match=f"^attention: .*{message}"):
            cogwheel.attention(*bad)
    with pytest.raises(ValueError, match="mechanism"):
        cogwheel.attention(query, key, value, "abacus")
