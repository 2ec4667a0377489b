"""Hooks over every kind of layer, against what holds whatever a layer computes: reading changes no bit, a write in place is
the same value returned, zeros have their effect, and gradients are differences of outputs."""

import pytest
import torch
from small_runs import KINDS, inputs_of

import cogwheel

QUICK = ["learned", "grouped", "turned", "dense", "states-0", "states-2", "u-vit"]


class Hooked:
    """A loaded model and its inputs."""

    def __init__(self, run, batch):
        draw = torch.Generator().manual_seed(5)
        self.model = cogwheel.load(run)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if not name.endswith(("a.bias", "delta.bias", "constant")) and "lambda" not in name:
                    parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw))
        self.inputs = inputs_of(self.model, batch)
        self.writable = [name for name in self.model.hook_names() if not name.endswith(("row_statistics", "hook_lambda"))]

    def double(self):
        self.model.double()
        self.inputs = [given.double() if given.is_floating_point() and given.dim() > 1 else given for given in self.inputs]
        return self

    def __call__(self, forward=(), backward=()):
        return self.model.run_with_hooks(*self.inputs, fwd_hooks=list(forward), bwd_hooks=list(backward))

    def is_dense_score(self, name):
        if not name.endswith("attn_scores"):
            return False
        mechanisms = self.model.options["mechanism"].split("+")
        return mechanisms[int(name.split(".")[1]) % len(mechanisms)] in ("polynomial", "matrix_exponential_by_row")


def kinds(test):
    return pytest.mark.parametrize(
        "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
    )(test)


@kinds
def test_reading_changes_no_bit(small_runs, kind):
    """Alone, together, with gradients and without; and so does every own value, returned or written back."""
    hooked = Hooked(small_runs(kind), batch=1)
    names = hooked.model.hook_names()
    expected = hooked()
    assert expected.abs().max() > 0.01
    ways = {
        "read": (names, lambda value, hook: None),
        "returned": (hooked.writable, lambda value, hook: value.clone()),
        "in place": (hooked.writable, lambda value, hook: value.copy_(value.clone())),
    }
    for way, (names, hook) in ways.items():
        assert torch.equal(hooked([(names, hook)]), expected), way
        with torch.no_grad():
            assert torch.equal(hooked([(names, hook)]), expected), way
    with torch.no_grad():
        for name in names:
            assert torch.equal(hooked([(name, ways["read"][1])]), expected), name
            if name in hooked.writable:
                assert torch.equal(hooked([(name, ways["returned"][1])]), expected), name


@kinds
def test_writes_in_place_are_returned_values(small_runs, kind):
    """They reach neither weights nor other values, whether these are read or not."""
    hooked = Hooked(small_runs(kind), batch=1)
    before = {name: parameter.clone() for name, parameter in hooked.model.named_parameters()}
    everything = [(hooked.model.hook_names(), lambda value, hook: None)]

    def other(value):
        return 0.5 * value + 0.03

    for name in hooked.writable:
        if hooked.is_dense_score(name):
            with pytest.raises(ValueError, match="expected scores as they are"):
                hooked([(name, lambda value, hook: value.mul_(0.5))])
            continue
        kept = {}

        def keep(value, hook, kept=kept):
            kept[hook.name] = (value, value.detach().clone())

        with torch.no_grad():
            returned = hooked([(name, lambda value, hook: other(value))])
            in_place = hooked([(hooked.model.hook_names(), keep), (name, lambda value, hook: value.copy_(other(value)))])
            assert torch.equal(hooked([*everything, (name, lambda value, hook: other(value))]), returned), name
        assert torch.equal(in_place, returned), name
        for at, (value, copy) in kept.items():
            torch.testing.assert_close(value, copy, rtol=0, atol=0, equal_nan=True, msg=f"{name} changed {at}")
        # With gradients a write is a part of the graph.
        with_gradients = hooked([(name, lambda value, hook: value.mul_(0.5).add_(0.03))])
        assert torch.equal(with_gradients, returned), name
        if with_gradients.requires_grad:
            with_gradients.sum().backward()
    for name, parameter in hooked.model.named_parameters():
        assert torch.equal(parameter, before[name]), name


@kinds
def test_a_write_is_what_the_pass_goes_on_with(small_runs, kind):
    """Zeros for what layers add leave the stream; of weights, values and heads they leave no output of heads."""
    hooked = Hooked(small_runs(kind), batch=2).double()
    zero = lambda value, hook: torch.zeros_like(value)  # noqa: E731
    skipping = ("mamba", "s4", "mlstm")  # their values reach the output beside the heads
    with torch.no_grad():
        for layer in range(hooked.model.options["layers"]):
            block = f"blocks.{layer}."
            seen = {}

            def see(value, hook, seen=seen):
                seen[hook.name.removeprefix(f"blocks.{hook.layer()}.")] = value

            stream = [block + place for place in ("hook_resid_pre", "hook_resid_mid", "hook_resid_post")]
            hooked([(block + "hook_attn_out", zero), (block + "hook_mlp_out", zero), (stream, see)])
            if block + "hook_normalized_resid_post" not in hooked.writable:  # where norms come before
                torch.testing.assert_close(seen["hook_resid_mid"], seen["hook_resid_pre"], rtol=0, atol=0)
                torch.testing.assert_close(seen["hook_resid_post"], seen["hook_resid_pre"], rtol=0, atol=0)
            for place in ("attn.hook_pattern", "attn.hook_v", "attn.hook_pattern_members"):
                mechanism = hooked.model.options["mechanism"].split("+")[layer]
                if block + place not in hooked.writable or (place.endswith("_v") and mechanism.startswith(skipping)):
                    continue
                hooked([(block + place, zero), (block + "attn.hook_z", see)])
                assert seen["attn.hook_z"].count_nonzero() == 0, (block, place, mechanism)


@kinds
def test_gradients_are_differences(small_runs, kind):
    """Of every value at once, along a direction, and with values read beside; hidden keys have none."""
    hooked = Hooked(small_runs(kind), batch=2).double()
    names = [name for name in hooked.writable if not hooked.is_dense_score(name)]
    draw = torch.Generator().manual_seed(11)
    with torch.no_grad():
        shape = hooked().shape
    weight = torch.randn(shape, generator=draw, dtype=torch.float64)
    loss = lambda out: (out * weight).sum()  # noqa: E731
    for name in set(hooked.writable) - set(names):
        with pytest.raises(ValueError, match="bwd_hooks: expected a value that the output is computed from"):
            hooked(backward=[(name, lambda gradient, hook: None)])
    gradients, values = {}, {}

    def keep(gradient, hook):
        gradients[hook.name] = gradient.clone()

    def see(value, hook):
        values[hook.name] = value.detach()

    loss(hooked([(names, see)], [(names, keep)])).backward()
    assert gradients.keys() == set(names)
    for name in names:
        value, gradient = values[name], gradients[name]
        if name.endswith("pattern") and kind.startswith(("states", "plain")):
            # Where channels forget apart, a pattern that is written is one for all of them.
            again = lambda value, hook: value * (1 + 1e-12)  # noqa: E731
            loss(hooked([(name, again)], [(name, keep)])).backward()
            gradient = gradients[name]
        direction = torch.randn(value.shape, generator=draw, dtype=torch.float64) * value.abs().where(value.isfinite(), 0).amax()
        if name.endswith(("hook_q", "hook_k")) and kind.startswith(("states", "plain")):
            # Features of 0 make the total of RFA 0, by which it divides: there is no derivative.
            direction = direction.where(value != 0, 0)
        if name.endswith(("attn_scores", "pattern", "pattern_members")):
            scores = values.get(name.rpartition(".")[0] + ".hook_attn_scores")
            # Which keys are hidden is what scores say, and of a state that it is causal.
            causal = torch.ones(value.shape[-2:], dtype=torch.bool).triu(1).expand_as(value)
            hidden = causal if scores is None else scores[:, : value.shape[1]].isneginf()
            assert gradient[hidden].count_nonzero() == 0, name
            direction = direction.where(~hidden, 0)
        with torch.no_grad():
            ends = [
                loss(hooked([(name, lambda value, hook, step=step: value + step * direction)])) for step in (1e-6, -1e-6)
            ]
        found, expected = float((gradient * direction).sum()), float(ends[0] - ends[1]) / 2e-6
        size = max(abs(expected), float((gradient.abs() * direction.abs()).sum()) * 1e-3)
        assert abs(found - expected) <= 2e-4 * size + 1e-9 * float(weight.abs().sum()), (name, found, expected)
