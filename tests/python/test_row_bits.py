"""A row of attention has the same bits whatever other queries a call has: a text that is read in parts, or cut over ranks, gives what the
whole gives."""

import pytest
import torch
from attention_cases import Shape, random_inputs

import cogwheel

# Not functions of a whole matrix, whose rows do not stand alone.
MECHANISMS = [entry["name"] for entry in cogwheel.mechanisms() if entry["family"] == "pairwise" and entry["level"] == "operator"]
SHAPE = Shape(batch=1, heads=2, key_heads=1, queries=700, keys=700, head_dim=20, value_dim=20)
# Parts of more than 16 queries, which are not split over the keys; their ends lie within blocks of queries and keys and at those.
CUTS = [0, 17, 190, 331, 512, 575, 600, 700]
OPTIONS = {"causal": {"causal": True}, "window": {"causal": True, "window": 300}, "all keys": {"causal": False}}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MECHANISMS)
def test_rows_do_not_depend_on_other_queries(name, dtype):
    inputs = random_inputs(name, SHAPE, spread=3).to(dtype)
    tensors = inputs.tensors()
    for said, options in OPTIONS.items():
        whole = cogwheel.attention(mechanism=name, **tensors, **options)
        for begin, end in zip(CUTS, CUTS[1:]):
            first = {"first_positions": torch.tensor([begin])} if options["causal"] else {}
            part = cogwheel.attention(mechanism=name, **(tensors | {"query": tensors["query"][:, :, begin:end]}), **options, **first)
            different = (part != whole[:, :, begin:end]).any(-1).any(1)[0].nonzero().flatten() + begin
            assert not len(different), f"{said}, queries {begin} to {end}: {different.tolist()}"
