"""Two hooks in one pass: what one reads or writes beside the other's write, against each alone and against formulas."""

import itertools

import pytest
import torch
from plain_models import plain
from test_hooks import Hooked, kinds

JUDGED = ["learned", "grouped", "turned", "encoder", "vision", "u-vit"]  # of which plain_models.py has every formula


def written(value):
    return 0.5 * value + 0.03


def pairs_of(hooked, count):
    """Of all pairs of values that can be written, so many evenly drawn, half of them of one layer."""
    names = [name for name in hooked.writable if not hooked.is_dense_score(name)]
    within = [each for each in itertools.combinations(names, 2) if each[0].split(".")[:2] == each[1].split(".")[:2]]
    across = [each for each in itertools.combinations(names, 2) if each[0].split(".")[:2] != each[1].split(".")[:2]]
    draw = torch.Generator().manual_seed(1)
    return [some[i] for some in (within, across) for i in torch.randperm(len(some), generator=draw)[: count // 2].tolist()]


@kinds
def test_one_hook_beside_another(small_runs, kind):
    """The order of the list says nothing, in place is returned, and reading beside a write changes no bit of it."""
    hooked = Hooked(small_runs(kind), batch=1)

    def returned(value, hook):
        return written(value)

    def in_place(value, hook):
        value.copy_(written(value))

    with torch.no_grad():
        for one, two in pairs_of(hooked, 24):
            both = hooked([(one, returned), (two, returned)])
            assert torch.equal(hooked([(two, returned), (one, returned)]), both), (one, two)
            assert torch.equal(hooked([([one, two], in_place)]), both), (one, two)
            assert torch.equal(hooked([(one, in_place), (two, returned)]), both), (one, two)
            for write, read in ((one, two), (two, one)):
                alone, seen = hooked([(write, returned)]), []
                assert torch.equal(hooked([(write, returned), (read, lambda value, hook: seen.append(value.clone()))]), alone), (write, read)
                # What it then is, written back; and what that write makes of it.
                assert torch.equal(hooked([(write, in_place), (read, lambda value, hook: seen[0].clone())]), alone), (write, read)
                assert torch.equal(hooked([(write, in_place), (read, lambda value, hook: written(seen[0]))]), both), (write, read)


@pytest.mark.parametrize("kind", JUDGED)
def test_two_writes_are_what_the_formula_makes_of_them(small_runs, kind):
    """And their gradients, by the size of each write."""
    run = small_runs(kind)
    hooked, judge = Hooked(run, batch=2).double(), plain(run)
    judge.weights |= {name: parameter.detach() for name, parameter in hooked.model.named_parameters()}
    seen = {}
    judge.at = lambda name, value: seen.setdefault(name, value)
    torch.testing.assert_close(hooked(), judge(*hooked.inputs), rtol=0, atol=1e-9)
    for pair in pairs_of(hooked, 40):
        sizes = torch.ones(2, dtype=torch.float64, requires_grad=True)

        def other(name, value, pair=pair, sizes=sizes):
            hidden = value.isneginf()
            return torch.where(hidden, value, sizes[pair.index(name)] * written(value.masked_fill(hidden, 0)))

        def judged(name, value, pair=pair, other=other):
            if name not in pair:
                return value
            made = other(name, value)
            if name.endswith(("pattern", "pattern_members")):  # hidden keys stay so
                made = made.masked_fill(seen[name.rpartition(".")[0] + ".hook_attn_scores"][:, : made.shape[1]].isneginf(), 0)
            return made

        def in_place(value, hook, other=other):
            value.copy_(other(hook.name, value.clone()))

        judge.at = judged
        results = [
            hooked([(list(pair), lambda value, hook, other=other: other(hook.name, value))]),
            hooked([(list(pair), in_place)]),
            judge(*hooked.inputs),
        ]
        gradients = [torch.autograd.grad(each.square().sum(), sizes)[0] for each in results]
        for found, expected in ((results[0], results[2]), (results[1], results[0]), (gradients[0], gradients[2]), (gradients[1], gradients[2])):
            bound = 1e-8 * (1 + expected.abs().max().item())
            torch.testing.assert_close(found, expected, rtol=0, atol=bound, msg=lambda text, pair=pair: f"{pair}: {text}")
