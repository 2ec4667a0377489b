"""cogwheel.interpret against passes with hooks, in float64."""

import os
import subprocess

import numpy as np
import pytest
import torch

import cogwheel
from cogwheel import interpret

CONFIG = """
[task]
name = "{task}"
[model]
layers = 3
heads = 4
width = 32
context = 32
mechanism = "{mechanism}"
[training]
steps = 2
batch = 4
"""


@pytest.fixture(scope="module")
def models(cogwheel_executable, tmp_path_factory):
    folder = tmp_path_factory.mktemp("interpret")
    found = {}
    for name, task in (("softmax", "ioi"), ("cog", "ioi"), ("differential", "ioi"), ("gla", "ioi"), ("vit", "images")):
        (folder / f"{name}.toml").write_text(CONFIG.format(task=task, mechanism="softmax" if name == "vit" else name))
        words = [cogwheel_executable, "train", f"{name}.toml", "--out", name]
        words += ["--set", "model.context=0", "--set", "model.patch=8"] if name == "vit" else []
        done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
        assert done.returncode == 0, done.stderr
        found[name] = cogwheel.load(folder / name)
        torch.manual_seed(3)
        with torch.no_grad():  # so that heads differ
            for parameter in found[name].parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        found[name].double()
    return found


@pytest.fixture(scope="module")
def prompts():
    draw = torch.Generator().manual_seed(4)
    tokens, corrupted = (torch.randint(100, (5, 9), generator=draw) for _ in range(2))
    numbers = torch.arange(5)
    return interpret.Prompts(tokens, torch.tensor([8, 6, 8, 7, 3]), numbers + 1, numbers + 20), corrupted


def difference(logits, prompts):
    last = logits[torch.arange(5), prompts.end]
    return (last.gather(1, prompts.answer[:, None]) - last.gather(1, prompts.foil[:, None])).squeeze(1)


def sent(model):
    return "attn.hook_z_normed" if "blocks.0.attn.hook_z_normed" in model.hook_names() else "attn.hook_z"


@pytest.mark.parametrize("name", ["softmax", "cog", "differential"])
def test_paths_are_passes_with_all_other_attention_frozen(models, prompts, name):
    model, (clean, corrupted) = models[name], prompts
    with torch.no_grad():
        names = [f"blocks.{layer}.{sent(model)}" for layer in range(3)]
        logits, z = model.run_with_cache(clean.tokens, names=names)
        _, other = model.run_with_cache(corrupted, names=names)
        found = interpret.patch_paths(model, clean, corrupted)
        assert found.clean == pytest.approx(difference(logits, clean).mean().item(), abs=1e-12)
        for layer in range(3):
            for head in range(found.patched.shape[1]):

                def frozen(value, point, layer=layer, head=head):
                    changed = z[point.name].clone()
                    if point.layer() == layer:
                        rows = torch.arange(5)
                        changed[rows, clean.end, head] = other[point.name][rows, clean.end, head]
                    return changed

                patched = model.run_with_hooks(clean.tokens, fwd_hooks=[(each, frozen) for each in names])
                wanted = difference(patched, clean).mean().item()
                assert found.patched[layer, head].item() == pytest.approx(wanted, abs=1e-9)
    assert torch.allclose(found.change(), (found.patched - found.clean) / found.clean)


@pytest.mark.parametrize("name", ["softmax", "cog", "differential"])
@pytest.mark.parametrize("frozen_too", [False, True])
def test_paths_to_single_heads(models, prompts, name, frozen_too):
    """Four passes: both caches, the receivers' inputs with one sender changed and all else held, and those inputs put in."""
    model, (clean, corrupted) = models[name], prompts
    receivers = [("blocks.2.hook_q_input", 1), ("blocks.1.hook_v_input", 0)]
    with torch.no_grad():
        parts = [f"blocks.{layer}.{sent(model)}" for layer in range(3)]
        feed_forward = [f"blocks.{layer}.hook_mlp_out" for layer in range(3)] if frozen_too else []
        _, held = model.run_with_cache(clean.tokens, names=parts + feed_forward)
        _, other = model.run_with_cache(corrupted, names=parts)
        found = interpret.patch_paths(model, clean, corrupted, receivers=receivers, freeze_feed_forward=frozen_too)
        assert found.patched[2].isnan().all()  # nobody hears the last layer
        rows = torch.arange(5)
        for layer in range(2):
            for head in range(found.patched.shape[1]):

                def hold(value, point, layer=layer, head=head):
                    changed = held[point.name].clone()
                    if point.name == parts[layer]:
                        changed[rows, clean.end, head] = other[point.name][rows, clean.end, head]
                    return changed

                heard = {}
                keep = lambda value, point: heard.__setitem__(point.name, value.clone())  # noqa: E731
                names = [point for point, _ in receivers]
                model.run_with_hooks(clean.tokens, fwd_hooks=[(parts + feed_forward, hold), (names, keep)])

                def put(value, point):
                    value = value.clone()
                    for receiver, of_head in receivers:
                        if receiver == point.name:
                            value[:, :, of_head] = heard[receiver][:, :, of_head]
                    return value

                wanted = difference(model.run_with_hooks(clean.tokens, fwd_hooks=[(names, put)]), clean).mean().item()
                assert found.patched[layer, head].item() == pytest.approx(wanted, abs=1e-9)


def test_prompts_of_the_task(models):
    drawn = interpret.ioi_prompts(6, seed=2)
    model = models["cog"]
    for row in range(6):
        tokens = drawn.clean.tokens[row, : drawn.clean.end[row] + 1]
        words = model.pieces(tokens)
        assert torch.equal(model.tokens(" ".join(words[1:])), tokens)
        io, first, second = (int(place[row]) for place in (drawn.io_at, drawn.s1_at, drawn.s2_at))
        assert words[first] == words[second] != words[io]
        assert model.pieces(torch.stack([drawn.clean.answer[row], drawn.clean.foil[row]])) == [words[io], words[first]]
        changed = (drawn.corrupted[row] != drawn.clean.tokens[row]).nonzero().flatten().tolist()
        assert changed == sorted([io, first, second])
    for seed in (2, 3):
        assert torch.equal(interpret.ioi_prompts(6, seed=seed).clean.tokens, drawn.clean.tokens) == (seed == 2)
    with pytest.raises(ValueError, match="words that the run knows, got Zaphod"):
        model.tokens("After Mary and Zaphod")
    with pytest.raises(ValueError, match="tokens: expected 0 to"):
        model.pieces(torch.tensor([10_000]))


@pytest.mark.parametrize("name", ["softmax", "cog", "differential", "gla"])
def test_patches_are_passes_with_one_value_replaced(models, prompts, name):
    model, (clean, corrupted) = models[name], prompts
    with torch.no_grad():
        _, cache = model.run_with_cache(clean.tokens)
        found = interpret.patch_activations(model, clean, corrupted, "attn.hook_z")

        def put(value, point):
            value = value.clone()
            value[:, :, 1] = cache[point.name][:, :, 1]
            return value

        for layer in range(3):
            patched = model.run_with_hooks(corrupted, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", put)])
            assert found.patched[layer, 1, 0].item() == pytest.approx(difference(patched, clean).mean().item(), abs=1e-9)
        whole = interpret.patch_activations(model, clean, corrupted)
        assert whole.restored()[0].item() == pytest.approx(1, abs=1e-9)
    # Estimates sum over tokens to that of all of them.
    apart = interpret.attribute_patches(model, clean, corrupted, "attn.hook_z", by_token=True)
    together = interpret.attribute_patches(model, clean, corrupted, "attn.hook_z")
    sums = (apart.patched - apart.corrupted).sum(2) + apart.corrupted
    assert torch.allclose(sums, together.patched[:, :, 0], atol=1e-9)


@pytest.mark.parametrize("name", ["softmax", "cog", "differential", "gla"])
def test_attributions_sum_to_the_logit_difference(models, prompts, name):
    model, (clean, _) = models[name], prompts
    parts, values = interpret.attribute_logits(model, clean)
    assert len(parts) == len(values) and "L2 feed-forward" in parts
    assert torch.allclose(values.sum(0), difference(model(clean.tokens), clean).detach(), atol=1e-9)


def test_scores_are_weights_of_the_pattern(models):
    model = models["cog"]
    tokens = interpret.repeated_tokens(100, 6, 5, seed=2)
    assert torch.equal(tokens[:, :5], tokens[:, 5:])
    scores = interpret.head_scores(model, tokens)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens, names=lambda name: name.endswith("hook_pattern"))
    rows = torch.arange(5, 10)
    for layer in range(3):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]
        for score, back in ((scores.previous, 1), (scores.duplicate, 5), (scores.induction, 4)):
            weights = pattern[:, :, rows, rows - back]
            assert torch.allclose(score.weight[layer], weights.mean((0, 2)), atol=1e-12)
            assert torch.allclose(score.magnitude[layer], weights.abs().mean((0, 2)), atol=1e-12)


def test_circuits_of_states_and_models_without_words(models, prompts):
    clean, corrupted = prompts
    assert interpret.copying_scores(models["gla"]).full.numel() == 0 or interpret.copying_scores(models["gla"]).full.isnan().all()
    found = interpret.copying_scores(models["softmax"])
    assert (found.full.abs() <= 1 + 1e-9).all() and 0 < found.null_deviation < 1
    for call, said in (
        (lambda: interpret.patch_paths(models["gla"], clean, corrupted), "one with heads of attention"),
        (lambda: interpret.copying_scores(models["vit"]), "a language model"),
        (lambda: interpret.patch_activations(models["cog"], clean, corrupted, "attn.hook_zz"), "attn.hook_z"),
        (lambda: interpret.patch_paths(models["cog"], clean, corrupted[:, 1:]), "corrupted tokens"),
        (lambda: interpret.patch_paths(models["cog"], clean, corrupted, receivers=[("blocks.9.hook_q_input", 0)]), "hook"),
        (lambda: interpret.head_scores(models["cog"], corrupted), "second half"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            call()
        assert "\n" not in str(error.value).strip()


def test_ranks_are_numpys():
    torch.manual_seed(5)
    matrix = torch.randn(30, 6, dtype=torch.float64) @ torch.randn(6, 20, dtype=torch.float64)
    found = interpret.matrix_rank(matrix)
    values = np.linalg.svd(matrix.numpy(), compute_uv=False)
    np.testing.assert_allclose(found.singular_values.numpy(), values, rtol=1e-12, atol=1e-12)
    assert found.numerical == np.linalg.matrix_rank(matrix.numpy()) == 6
    share = values / values.sum()
    assert found.effective == pytest.approx(np.exp(-(share * np.log(share)).sum()), rel=1e-9)
    assert found.stable == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-12)
    assert found.negative_share == (matrix < 0).double().mean().item()
    with pytest.raises(ValueError, match="matrix: expected finite numbers"):
        interpret.matrix_rank(torch.full((2, 2), torch.nan))


def test_score_matrices_are_their_formulas():
    torch.manual_seed(6)
    query, key = torch.randn(2, 12, 8, dtype=torch.float64)
    found = interpret.score_matrices(query, key, norm=2.0)
    scores, gram = query @ key.T / 8**0.5, query @ query.T
    gram = gram * 2 / torch.linalg.eigvalsh(gram).max()
    hidden = torch.ones(12, 12, dtype=torch.bool).triu(1)
    magnitudes = scores.abs().exp().masked_fill(hidden, 0.0)
    expected = {
        "QKᵀ": scores, "QKᵀ, causal": scores.tril(), "QQᵀ": gram, "QQᵀ, causal": gram.tril(), "(QQᵀ)²": gram @ gram,
        "(QQᵀ)³": gram @ gram @ gram, "exp(QQᵀ)": torch.matrix_exp(gram), "exp(QQᵀ), causal": torch.matrix_exp(gram).tril(),
        "exp(QQᵀ) − I": torch.matrix_exp(gram) - torch.eye(12), "softmax": scores.softmax(-1),
        "softmax, causal": scores.masked_fill(hidden, -torch.inf).softmax(-1),
        "Cog, causal": scores.sign() * magnitudes / magnitudes.sum(-1, keepdim=True),
    }  # fmt: skip
    assert len(found) == 15 and expected.keys() <= found.keys()
    for name, matrix in expected.items():
        torch.testing.assert_close(found[name], matrix.double(), rtol=1e-9, atol=1e-12)
    # Up to a factor, which keeps it finite.
    ratio = found["exp of each QKᵀ"] / scores.exp()
    torch.testing.assert_close(ratio, ratio[0, 0].expand(12, 12))


def test_distances_between_heads():
    torch.manual_seed(7)
    maps = torch.randn(2, 3, 9, 9, dtype=torch.float64).tril()
    expected = (maps[:, :, None, 1:] - maps[:, None, :, 1:]).abs().sum(-1).mean(-1) / 2
    torch.testing.assert_close(interpret.head_distances(maps), expected)
