"""Walks whose decay is one number per token, whose gradients go by chunks of tokens, against all pairs of tokens; and what stands around them."""

import math
import os
import pathlib
import subprocess
import sys

import pytest
import torch

import cogwheel

LAWS = ("linear_attention", "retnet", "mamba2", "gated_rfa", "mlstm", "cosformer")
# Chunks are of 32 tokens, and groups of 128.
TOKENS = (1, 31, 33, 129, 300)


def inputs(law, tokens, heads=2, width=5, value_width=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(tokens)

    def normal(*sizes):
        return torch.randn(*sizes, generator=generator, dtype=torch.float64)

    tensors = {"query": normal(1, heads, tokens, width), "key": normal(1, heads, tokens, width), "value": normal(1, heads, tokens, value_width)}
    if law == "retnet":
        tensors["decay"] = 1 - torch.rand(heads, generator=generator, dtype=torch.float64) / 8
    if law in ("mamba2", "gated_rfa"):
        tensors["log_decay"] = -torch.rand(1, heads, tokens, generator=generator, dtype=torch.float64)
        tensors["log_decay"][..., tokens // 2] = -math.inf
    if law == "gated_rfa":  # a sum that is divided by stays away from 0
        tensors["query"], tensors["key"] = tensors["query"].abs() + 0.1, tensors["key"].abs() + 0.1
    if law == "mlstm":
        tensors["input_gate"], tensors["forget_gate"] = 2 * normal(1, heads, tokens), 2 * normal(1, heads, tokens) + 2
    if law == "cosformer":
        tensors["key"] = tensors["key"].abs() + 0.1
        tensors["query"][..., 0] = 1
    return {name: tensor.to(dtype).requires_grad_() for name, tensor in tensors.items()}


def called(law, tensors, **options):
    if law == "cosformer":
        options["horizon"] = 2.0 * tensors["query"].shape[2]
    if law == "linear_attention":
        options["normalize"] = False
    return cogwheel.recurrent(mechanism=law, **tensors, **options)


def pairs(law, query, key, value, **own):
    """The law as one matrix of weights: no state, no chunks."""
    tokens = query.shape[2]
    distance = torch.arange(tokens)[:, None] - torch.arange(tokens)
    seen = distance >= 0
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if law == "cosformer":
        scores = torch.cos(math.pi / 2 * distance.double() / (2.0 * tokens)) * (query.relu() @ key.relu().mT)
    if law == "retnet":
        scores = scores * own["decay"][:, None, None] ** distance.clamp_min(0)
    log_decay = torch.nn.functional.logsigmoid(own["forget_gate"]) if law == "mlstm" else own.get("log_decay")
    if log_decay is not None:
        resets = log_decay.isinf().cumsum(-1)
        total = log_decay.masked_fill(log_decay.isinf(), 0).cumsum(-1)
        passed = (total[..., :, None] - total[..., None, :]).masked_fill(~seen, 0).exp()
        passed = passed.masked_fill(resets[..., :, None] != resets[..., None, :], 0)
        scores = scores * passed
    if law == "gated_rfa":
        scores = scores * (1 - own["log_decay"].exp())[:, :, None]
    if law == "mlstm":
        scores = scores * own["input_gate"].exp()[:, :, None]
    scores = scores.masked_fill(~seen, 0)
    if law in ("gated_rfa", "cosformer"):
        return scores @ value / scores.sum(-1, keepdim=True)
    if law == "mlstm":
        return scores @ value / scores.sum(-1, keepdim=True).abs().clamp_min(1)
    return scores @ value


def results(function, law, tensors, output_gradient):
    output = function(law, tensors) if function is called else pairs(law, **tensors)
    gradients = torch.autograd.grad(output, list(tensors.values()), output_gradient.to(output.dtype))
    return {"output": output.detach(), **dict(zip(tensors, gradients))}


def close(found, expected, bound):
    for name, tensor in expected.items():
        error, scale = (found[name].double() - tensor).abs().max().item(), tensor.abs().max().item()
        assert error <= bound * max(1.0, scale), f"{name}: {error} of {scale}"


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("tokens", TOKENS)
def test_as_all_pairs_of_tokens(law, tokens):
    wide = tokens < 129
    tensors = inputs(law, tokens, width=5 if wide else 17, value_width=3 if wide else 33)
    output_gradient = torch.randn_like(tensors["value"])
    expected = results(pairs, law, tensors, output_gradient)
    close(results(called, law, tensors, output_gradient), expected, 1e-9)
    single = {name: tensor.detach().float().requires_grad_() for name, tensor in tensors.items()}
    close(results(called, law, single, output_gradient), expected, 3e-4)


# Where heads are few, groups of chunks are what workers share.
THREADS = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import test_recurrent_chunks as chunks
torch.set_num_threads(int(sys.argv[2]))
for law in chunks.LAWS:
    for heads, tokens in ((1, 300), (1, 20), (2, 257), (9, 130)):
        tensors = chunks.inputs(law, tokens, heads, 17, 9, torch.float32)
        found = chunks.results(chunks.called, law, tensors, torch.ones(1, heads, tokens, 9))
        for name, tensor in found.items():
            print(law, heads, tokens, name, hash(tensor.contiguous().numpy().tobytes()))
"""


def test_same_bits_at_any_number_of_threads():
    folder = str(pathlib.Path(__file__).parent)
    environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_WAIT_POLICY": "passive"}
    found = {
        subprocess.run([sys.executable, "-c", THREADS, folder, threads], env=environment, capture_output=True, text=True, check=True).stdout
        for threads in ("1", "2", "3")
    }
    assert len(found) == 1 and found.pop()


def test_emulated_vectors():
    """Lanes of another number, by the kernels that run anywhere."""
    few = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::test_as_all_pairs_of_tokens", "-k", "33 and (mamba2 or mlstm)"]
    made = subprocess.run(few, env=os.environ | {"COGWHEEL_ISA": "portable"}, capture_output=True, text=True)
    if "COGWHEEL_ISA" in made.stdout + made.stderr:
        pytest.skip("not built")
    assert made.returncode == 0, made.stdout


@pytest.mark.parametrize("law", ["linear_attention", "mamba2"])
def test_gradients_of_packed_sequences_and_states(law):
    tensors = inputs(law, 300, width=3, value_width=4)
    ends = [0, 130, 130, 131, 300]
    state = torch.randn(4, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    output, last = called(law, tensors, cu_seqlens=torch.tensor(ends), initial_state=state, return_state=True)
    of_output, of_last = torch.randn_like(output), torch.randn_like(last)
    wanted = [*tensors.values(), state]
    found = torch.autograd.grad([output, last], wanted, [of_output, of_last])
    apart = [
        called(law, {name: tensor[:, :, begin:end] for name, tensor in tensors.items()}, initial_state=state[i : i + 1], return_state=True)
        for i, (begin, end) in enumerate(zip(ends, ends[1:]))
    ]
    outputs, lasts = torch.cat([each[0] for each in apart], 2), torch.cat([each[1] for each in apart])
    for mine, theirs in zip(found, torch.autograd.grad([outputs, lasts], wanted, [of_output, of_last])):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    # And the last sequence by itself, as the sum over its tokens.
    if law == "linear_attention":
        q, k, v = (tensors[name][:, :, 131:] for name in ("query", "key", "value"))
        whole = (q @ k.mT).tril() @ v + q @ state[3:]
        torch.testing.assert_close(output[:, :, 131:], whole / math.sqrt(3), rtol=1e-9, atol=1e-9)


def test_what_comes_later_changes_nothing_before_it():
    """A NaN among values or the output's gradient stays on its side, within a chunk too."""
    tensors = inputs("mamba2", 50)
    output_gradient = torch.randn_like(tensors["value"])
    clean = results(called, "mamba2", tensors, output_gradient)
    with torch.no_grad():
        tensors["value"][:, :, 40] = math.nan
    assert torch.equal(results(called, "mamba2", tensors, output_gradient)["output"][:, :, :40], clean["output"][:, :, :40])
    tensors = inputs("mamba2", 50)
    output_gradient[:, :, 10] = math.nan
    spoilt = results(called, "mamba2", tensors, output_gradient)
    for name in ("key", "value"):
        assert torch.equal(spoilt[name][:, :, 11:], clean[name][:, :, 11:]), name


def test_no_memory_is_left_unwritten():
    torch.use_deterministic_algorithms(True)  # fills what is empty with NaN
    try:
        for law in LAWS:
            tensors = inputs(law, 33)
            for name, tensor in results(called, law, tensors, torch.ones_like(tensors["value"])).items():
                assert tensor.isfinite().all(), (law, name)
    finally:
        torch.use_deterministic_algorithms(False)


def test_gates_of_packed_sequences():
    """Decays and weights of mLSTM as its paper writes them, and the gradients of gates and of the first maximum."""
    ends = torch.tensor([0, 3, 3, 7])
    given, kept = torch.randn(1, 2, 7, dtype=torch.float64), torch.randn(1, 2, 7, dtype=torch.float64)
    given[..., 4], kept[..., 5] = 90.0, -90.0
    first = torch.rand(3, 2, dtype=torch.float64)
    inputs_ = [each.requires_grad_() for each in (given, kept, first)]
    log_decay, weight, least, last, _ = torch.ops.cogwheel.exponential_gates(*inputs_, ends)
    assert not least.requires_grad and not last.requires_grad
    expected_decay, expected_weight, expected_last = torch.zeros_like(log_decay), torch.zeros_like(weight), first.detach().clone()
    for sequence, (begin, end) in enumerate(((0, 3), (3, 3), (3, 7))):
        m = first[sequence]
        for t in range(begin, end):
            carried = torch.nn.functional.logsigmoid(kept[0, :, t]) + m
            m = torch.maximum(carried, given[0, :, t]).clamp_min(0).detach()
            expected_decay[0, :, t] = carried - m
            expected_weight[0, :, t] = (given[0, :, t] - m).exp()
            torch.testing.assert_close(least[0, :, t], (-m).exp())
            expected_last[sequence] = m
    torch.testing.assert_close((log_decay, weight, last), (expected_decay, expected_weight, expected_last), rtol=1e-12, atol=1e-12)
    gradients = [torch.randn_like(log_decay), torch.randn_like(weight)]
    found = torch.autograd.grad([log_decay, weight], inputs_, gradients)
    torch.testing.assert_close(found, torch.autograd.grad([expected_decay, expected_weight], inputs_, gradients), rtol=1e-12, atol=1e-12)


def test_rows_of_tokens():
    """Keys and queries times numbers, and turned: outputs, first and second derivatives."""
    rows = torch.randn(2, 7, 3, 9, dtype=torch.float64).transpose(1, 2).requires_grad_()  # [2, 3, 7, 9], not contiguous
    weights = torch.randn(2, 3, 7, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(torch.ops.cogwheel.weighted_rows(rows, weights), rows * weights[..., None])
    assert torch.autograd.gradcheck(torch.ops.cogwheel.weighted_rows, (rows, weights), fast_mode=True)
    assert torch.autograd.gradgradcheck(torch.ops.cogwheel.weighted_rows, (rows, weights), fast_mode=True)
    angles = torch.linspace(0, 3, 7, dtype=torch.float64)
    for relu in (False, True):
        mapped = rows.relu() if relu else rows
        expected = torch.cat([mapped * angles.cos()[:, None], mapped * angles.sin()[:, None]], -1)

        def turned(rows, angles, relu=relu):
            return torch.ops.cogwheel.turned_rows(rows, angles.cos(), angles.sin(), relu)

        torch.testing.assert_close(turned(rows, angles), expected)
        assert torch.autograd.gradcheck(turned, (rows, angles), fast_mode=True)
        assert torch.autograd.gradcheck(turned, (rows, angles.clone().requires_grad_()), fast_mode=True)
        assert torch.autograd.gradgradcheck(turned, (rows, angles), fast_mode=True)


def test_quotient_by_at_least_a_number():
    sums = torch.tensor([[2.0, 4.0, 2.0], [2.0, 4.0, -4.0], [2.0, 4.0, 0.25], [2.0, 4.0, 0.0]], dtype=torch.float64, requires_grad=True)
    for least in (torch.full((4,), 0.5, dtype=torch.float64), torch.tensor([0.5, 0.5, 0.5, 0.0], dtype=torch.float64)):
        output = torch.ops.cogwheel.normalized_sums(sums, least)
        total = torch.maximum(sums[:, 2].abs(), least)[:, None]
        expected = torch.where(total == 0, torch.zeros_like(sums[:, :2]), sums[:, :2] / total)
        torch.testing.assert_close(output, expected)
    assert torch.autograd.gradcheck(lambda x: torch.ops.cogwheel.normalized_sums(x, torch.full((4,), 0.5, dtype=torch.float64)), (sums,))


@pytest.mark.parametrize("operator", ["exponential_gates", "weighted_rows", "turned_rows", "normalized_sums", "token_walk"])
def test_registration(operator):
    def given(*sizes):
        return torch.randn(*sizes, dtype=torch.float64, requires_grad=True)

    arguments = {
        "exponential_gates": (given(1, 2, 5), given(1, 2, 5), given(1, 2), None),
        "weighted_rows": (given(1, 2, 5, 3), given(1, 2, 5)),
        "turned_rows": (given(1, 2, 5, 3), torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64), True),
        "normalized_sums": (given(1, 2, 5, 3), torch.ones(1, 2, 5, dtype=torch.float64)),
        "token_walk": (given(1, 2, 5, 4), given(1, 2, 5, 4), given(1, 2, 5, 3), None, None, given(1, 2, 4, 4), None, "none", False, 0.5, True),
    }[operator]
    torch.library.opcheck(getattr(torch.ops.cogwheel, operator).default, arguments)
