"""The engine for devices without kernels: compositions in blocks of queries, here on an emulated device, on the CPU with
COGWHEEL_ENGINE=composed, and without data on ``meta``."""

import inspect
import json
import os
import subprocess
import sys

import attention_options
import emulated_device
import pytest
import reference
import torch
from attention_options import CASES, HEADS, KEY_HEADS, WIDTH, drawn, tensors_of
from emulated_device import behind, is_there, on_device

import cogwheel

COMPOSED = {**os.environ, "COGWHEEL_ENGINE": "composed", "OMP_NUM_THREADS": "1"}
each_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture(autouse=True)
def forgetful():
    yield
    emulated_device.forget()


def moved(value):
    return on_device(value) if isinstance(value, torch.Tensor) else value


def gradients(function, leaves: dict, there: bool) -> list[torch.Tensor]:
    """Of some function of the output, after the output."""
    leaves = {name: moved(tensor) if there else tensor.clone() for name, tensor in leaves.items()}
    leaves = {name: tensor.requires_grad_() for name, tensor in leaves.items()}
    output = function(**leaves)
    weights = drawn(*output.shape, seed=9).to(behind(output).dtype if there else output.dtype)
    output.backward(on_device(weights) if there else weights)
    return [behind(each.detach()) if there else each for each in (output, *(leaf.grad for leaf in leaves.values()))]


def assert_all_close(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-9, atol=1e-11, equal_nan=True)


def leaves_of(case: str) -> dict:
    differentiable = {"bias", "energy_bias", "local_centers", "score_weight", "score_projection"}
    return tensors_of(case) | {name: each for name, each in CASES[case].items() if name in differentiable}


def test_every_option_has_a_case():
    keywords = {
        name for name, each in inspect.signature(cogwheel.attention).parameters.items() if each.kind is each.KEYWORD_ONLY
    }
    assert keywords <= set(CASES)


@each_case
@pytest.mark.parametrize("mechanism", ["cog", "centered"])
def test_a_device_without_kernels_gives_what_the_cpu_gives(case, mechanism):
    """Output and every gradient; code that reads a pointer would find no memory."""
    leaves = leaves_of(case)
    options = {name: each for name, each in CASES[case].items() if name not in leaves}

    def attend(there):
        given = {name: moved(each) if there and name != "seed" else each for name, each in options.items()}
        return lambda **tensors: cogwheel.attention(mechanism=mechanism, **tensors, **given)

    assert_all_close(gradients(attend(True), leaves, True), gradients(attend(False), leaves, False))


@pytest.mark.parametrize("mechanism", sorted(reference.TABLE))
def test_every_row_map_and_form_is_served(mechanism):
    row = reference.TABLE[mechanism]
    heads = row.sub_heads * HEADS
    generator = torch.Generator().manual_seed(0)
    leaves = {
        "query": drawn(2, heads, 5, WIDTH, seed=1),
        "key": drawn(2, row.sub_heads * KEY_HEADS, 7, WIDTH, seed=2),
        "value": drawn(2, KEY_HEADS, 7, 3, seed=3),
        **{name: draw(generator, HEADS).double() for name, draw in (row.parameters or {}).items()},
    }
    attend = lambda **tensors: cogwheel.attention(mechanism=mechanism, causal=True, **tensors)
    assert_all_close(gradients(attend, leaves, True), gradients(attend, leaves, False))


def test_scores_and_draws_stay_on_their_device(monkeypatch):
    """What goes to the host or comes from there is a few numbers: never as many as there are scores."""
    copies = []
    copy = emulated_device._copy_from

    def counted(source, target, non_blocking=False):
        if is_there(source) != is_there(target):
            copies.append(source.numel())
        return copy(source, target, non_blocking)

    monkeypatch.setitem(emulated_device._OF_THE_DEVICE, torch.ops.aten._copy_from.default, counted)
    leaves = {name: on_device(each).requires_grad_() for name, each in tensors_of("nothing").items()}
    output = cogwheel.attention(mechanism="cog", **leaves, causal=True, dropout=0.3, seed=7)
    output.backward(torch.ones_like(output))
    assert copies and max(copies) <= 4


@each_case
@pytest.mark.parametrize("mechanism", ["softmax_off_by_one", "differential_cog", "centered"])
def test_statistics_of_a_device_without_kernels(case, mechanism):
    tensors, options = tensors_of(case), dict(CASES[case])
    if mechanism == "differential_cog":  # two sub-heads each of half as many heads
        tensors["value"] = tensors["value"][:, :1]
        options |= {"lam": torch.tensor([0.3, 0.6], dtype=torch.float64)}
        for name, each in CASES[case].items():
            if isinstance(each, torch.Tensor) and name in ("bias", "energy_bias", "alibi"):
                options[name] = each[:2]
            if name == "local_centers":
                options[name] = each[:, :2]
    results = []
    for there in (True, False):
        given = {name: moved(each) if there and name != "seed" else each for name, each in (tensors | options).items()}
        # Of two keys, centered weights are equal but for the sign: either may be the largest.
        output, rows = cogwheel.attention_statistics(mechanism=mechanism, argmax=mechanism != "centered", **given)
        rows = [each for each in rows if each is not None]
        results.append([behind(each) if there else each for each in (output, *rows)])
    assert_all_close(*results)


def test_weights_and_the_drop_in_are_served():
    query, key, value = tensors_of("nothing").values()
    there = [on_device(each) for each in (query, key, value)]
    weights = cogwheel.attention_weights(*there[:2], "cog", causal=True)
    torch.testing.assert_close(behind(weights), cogwheel.attention_weights(query, key, "cog", causal=True))
    mask = torch.rand(5, 7, generator=torch.Generator().manual_seed(1)) > 0.4
    drop_in = cogwheel.scaled_dot_product_attention(*there, on_device(mask), enable_gqa=True, mechanism="cog")
    expected = cogwheel.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True, mechanism="cog")
    torch.testing.assert_close(behind(drop_in), expected)


def test_a_cache_lives_on_its_device():
    query, key, value = (drawn(2, heads, 6, WIDTH, seed=heads) for heads in (HEADS, KEY_HEADS, KEY_HEADS))
    caches = [
        cogwheel.KeyValueCache(2, KEY_HEADS, 9, WIDTH, dtype=torch.float64, device=device)
        for device in ("cpu", emulated_device.NAME)
    ]
    results = []
    for cache, move in zip(caches, (lambda x: x, on_device)):
        cache.append(move(key[:, :, :4]), move(value[:, :, :4]), torch.tensor([4, 2]))
        found = [cache.attend(move(query[:, :, :2]), "cog", alibi=move(torch.tensor([0.1, 0.2, 0.0, 0.3])))]
        forked = cache.fork([1, 1, 0])
        forked.append(*(move(each[[0, 1, 0], :, 4:5]) for each in (key, value)))
        forked.crop(torch.tensor([3, 2, 5]))
        found.append(forked.attend(move(query[[0, 1, 0], :, :1]), "softmax", window=3))
        assert not cache.lengths.device.type == emulated_device.NAME
        results.append(found)
    assert_all_close([behind(each) for each in results[1]], results[0])


def test_sixteen_bits_are_summed_in_thirty_two():
    leaves = {name: tensor.bfloat16() for name, tensor in tensors_of("nothing").items()}
    attend = lambda **tensors: cogwheel.attention(mechanism="cog", causal=True, **tensors)
    for ours, theirs in zip(gradients(attend, leaves, True), gradients(attend, leaves, False)):
        assert ours.dtype == torch.bfloat16
        torch.testing.assert_close(ours, theirs.detach(), rtol=2e-2, atol=2e-2)


@each_case
def test_without_data_there_are_shapes_and_types(case):
    """On ``meta``: forward, backward, weights, statistics and the cache read no pointer."""
    leaves = {name: tensor.to("meta") for name, tensor in leaves_of(case).items()}
    options = {
        name: each.to("meta") if isinstance(each, torch.Tensor) else each
        for name, each in CASES[case].items()
        if name not in leaves
    }
    if "dropout" in options:
        options["seed"] = torch.tensor(3, device="meta")
    for mechanism in ("cog", "centered"):
        tensors = {name: tensor.requires_grad_() for name, tensor in leaves.items()}
        output = cogwheel.attention(mechanism=mechanism, **tensors, **options)
        assert output.is_meta and output.shape == (*leaves["query"].shape[:3], attention_options.VALUE_WIDTH)
        for tensor, gradient in zip(tensors.values(), torch.autograd.grad(output.sum(), list(tensors.values()))):
            assert gradient.is_meta and gradient.shape == tensor.shape and gradient.dtype == tensor.dtype
        of_statistics, rows = cogwheel.attention_statistics(mechanism=mechanism, **tensors, **options)
        assert of_statistics.shape == output.shape and all(each.shape == output.shape[:3] for each in rows)
        del tensors["value"]
        weights = cogwheel.attention_weights(mechanism=mechanism, **tensors, **options)
        assert weights.shape == (*output.shape[:3], leaves["key"].shape[2])


def test_a_cache_without_data_keeps_its_lengths():
    cache = cogwheel.KeyValueCache(2, KEY_HEADS, 9, WIDTH, dtype=torch.bfloat16, device="meta")
    part = torch.empty(2, KEY_HEADS, 3, WIDTH, dtype=torch.bfloat16, device="meta")
    cache.append(part, part, torch.tensor([3, 1]))
    output = cache.attend(torch.empty(2, HEADS, 1, WIDTH, dtype=torch.bfloat16, device="meta"), "cog")
    assert output.is_meta and output.shape == (2, HEADS, 1, WIDTH) and output.dtype == torch.bfloat16
    assert cache.lengths.tolist() == [3, 1] and cache.fork([1]).lengths.tolist() == [1]


PARTS_OF_TABLES = ["test_attention.py", "test_attention_isolation.py", "-k"]
PARTS_OF_TABLES += ["test_equals_reference or any_strides or (non_finite and cog and not differential)"]
FILES = ("attention", "pairwise_options", "statistics", "attention_modifiers", "scores", "second_derivatives", "attention_properties")
WHOLE_TABLES = {file: [f"test_{file}.py"] for file in FILES} | {
    "isolation": ["test_attention_isolation.py", "-k", "non_finite"],
    "cache": ["test_decode.py"],
}


def run_tests(repository, *arguments: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=repository / "tests/python", env=COMPOSED, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-4000:]


def test_the_tables_hold_on_the_cpu(repository):
    run_tests(repository, *PARTS_OF_TABLES)


@pytest.mark.slow
@pytest.mark.parametrize("table", WHOLE_TABLES)
def test_whole_tables_hold_on_the_cpu(table, repository):
    run_tests(repository, *WHOLE_TABLES[table])


FACTS = """
import json, torch, cogwheel
N = 2100

def step(length, heads):
    torch.manual_seed(0)
    leaves = [torch.randn(1, heads, length, 16, requires_grad=True) for _ in range(3)]
    scalars = {name: torch.ones(heads, requires_grad=True) for name in ("beta", "gamma")}
    out = cogwheel.attention(*leaves, "consmax", causal=True, **scalars)
    return [out, *torch.autograd.grad(out.square().sum(), [*leaves, *scalars.values()])]

sizes = set()
with torch.profiler.profile(record_shapes=True) as profile:
    step(N, 1)
    cogwheel.attention_statistics(*torch.ones(3, 1, 1, N, 16), "centered", causal=True)
for event in profile.events():
    for shape in event.input_shapes:
        if all(isinstance(size, int) for size in shape):
            sizes.add(torch.Size(shape).numel())
results = []
for threads in (1, 2):
    torch.set_num_threads(threads)
    results.append(step(700, 1))
print(json.dumps({"largest": max(sizes), "whole": N * N,
                  "same_bits": [torch.equal(*each) for each in zip(*results)]}))
"""


def test_memory_grows_with_the_block_and_a_note_is_made_once():
    run = subprocess.run([sys.executable, "-c", FACTS], env=COMPOSED, capture_output=True, text=True, check=True)
    facts = json.loads(run.stdout)
    block = 256 * 2100 * 6  # queries and keys, and derivatives of f and g along a score and two scalars
    assert 2100 * 16 < facts["largest"] <= block < facts["whole"]
    assert all(facts["same_bits"])
    notes = [line for line in run.stderr.splitlines() if line.startswith("cogwheel:")]
    assert notes == [
        "cogwheel: attention on cpu: composed of ATen's operators (COGWHEEL_ENGINE=composed), slower than fused kernels"
    ]


def test_another_engine_is_refused_in_one_line():
    script = "import torch, cogwheel; x = torch.ones(1, 1, 2, 8); cogwheel.attention(x, x, x)"
    run = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "COGWHEEL_ENGINE": "steam"}, capture_output=True, text=True
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].endswith("COGWHEEL_ENGINE: expected composed, interpreted or nothing, got steam")


def test_the_list_names_the_engine(cogwheel_executable):
    for environment, chosen in ((os.environ, True), (COMPOSED, False)):
        run = subprocess.run(
            [cogwheel_executable, "list", "kernels"], env=environment, capture_output=True, text=True, check=True
        )
        assert "every row map" in run.stdout and "composed of ATen's operators" in run.stdout
        assert (" yes " in "".join(line for line in run.stdout.splitlines() if line.startswith("softmax "))) == chosen
