"""`CogwheelForCausalLM`: what no architecture of transformers holds, exported with code of its own."""

import json
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
import transformers
from tensor_files import read_tensors

import cogwheel
from cogwheel.bench.eager_training import EagerTraining
from cogwheel.bench.training import CogwheelSteps

CONFIG = """
[data]
text = ["text.txt"]
tokenizer = "byte"
[model]
form = "llama"
context = 96
layers = 2
heads = 4
width = 32
feed_forward = 64
[training]
steps = 20
batch = 4
warm_up = 4
learning_rate = 1e-2
curve_tokens = 96
"""

# Every kind of layer; the others with --all.
QUICK = ["cog", "differential", "gla", "mamba2", "gla+softmax", "cog+polynomial", "symmetric"]
HYBRIDS = [name for name in QUICK if "+" in name]
KNOWN = [entry["name"] for entry in cogwheel.mechanisms() if entry["definition"] is None]
EVERY = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in [*KNOWN, *HYBRIDS]]
DENSE = {entry["name"] for entry in cogwheel.mechanisms() if entry["level"] == "dense"}


def is_dense(mechanism):
    return bool(DENSE & set(mechanism.split("+")))


@pytest.fixture(scope="module")
def place(cogwheel_in, tmp_path_factory):
    """The command line beside a trained run `soft`."""
    folder = tmp_path_factory.mktemp("causal_lm")
    (folder / "text.txt").write_text("".join(f"The quick brown fox {n} jumps over {n * n} lazy dogs. " for n in range(400)))
    (folder / "soft.toml").write_text(CONFIG)
    run = cogwheel_in(folder)
    done = run("train", "soft.toml", "--out", "soft")
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="module")
def exported(place):
    """Of a mechanism, a run with it in the weights of `soft`, and its export; each is made when it is first asked for."""
    made = {}

    def pair(mechanism, *keys):
        name = "-".join([mechanism, *keys]).replace("+", "_")
        if name not in made:
            words = [word for key in keys for word in ("--set", key)]
            for words in (
                ["convert", "soft", "--set", f"model.mechanism={mechanism}", *words, "--out", name],
                ["export", name, "--out", f"{name}_export", *(["--as", "CogwheelForCausalLM"] if mechanism == "softmax" else [])],
            ):
                done = place(*words)
                assert done.returncode == 0, done.stderr
            made[name] = place.folder / name, place.folder / f"{name}_export"
        return made[name]

    return pair


def opened(folder, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, **options).eval()


def some_tokens(*shape, seed=3):
    return torch.randint(0, 255, shape, generator=torch.Generator().manual_seed(seed))


def native_logits(run, tokens):
    """Of the model in C++, whole passes."""
    with torch.no_grad():
        return cogwheel.load(run)._compiled.made.forward({"tokens": tokens}, [], -1)


def expect_near(found, expected, tolerance=1e-5):
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= tolerance * expected.abs().max().clamp_min(1)


@pytest.mark.parametrize("mechanism", EVERY)
def test_logits_cached_steps_and_padded_batches_are_the_whole_pass(mechanism, exported):
    run, folder = exported(mechanism)
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["CogwheelForCausalLM"]
    model, tokens = opened(folder), some_tokens(3, 40)
    expected = native_logits(run, tokens)
    with torch.no_grad():
        expect_near(model(tokens).logits, expected)
        mask = torch.ones_like(tokens)
        mask[0, :11] = mask[2, :1] = 0
        padded = model(tokens, attention_mask=mask).logits
        for text, first in enumerate([11, 0, 1]):
            expect_near(padded[text, first:], native_logits(run, tokens[text : text + 1, first:])[0])
        if is_dense(mechanism):
            assert model(tokens, use_cache=True).cache is None
            return
        for given in (None, mask):
            texts = [tokens[text : text + 1, first:] for text, first in enumerate([0] * 3 if given is None else [11, 0, 1])]
            wholes = [native_logits(run, text)[0] for text in texts]
            step = model(tokens[:, :30], attention_mask=None if given is None else given[:, :30], use_cache=True)
            for end in (31, 32, 37, 40):
                begin = step.cache.get_seq_length()
                step = model(tokens[:, begin:end], attention_mask=None if given is None else given[:, :end], cache=step.cache)
                for text, whole in enumerate(wholes):
                    expect_near(step.logits[text], whole[begin - 40 : (end - 40) or None])


@pytest.mark.parametrize("mechanism", QUICK)
def test_greedy_texts_are_those_of_sample(mechanism, exported, place):
    run, folder = exported(mechanism)
    model = opened(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    prompts = ["The quick brown", "lazy dogs. The"]
    singly = []
    for prompt in prompts:
        given = tokenizer(prompt, return_tensors="pt")
        made = model.generate(**given, max_new_tokens=64, do_sample=False, eos_token_id=None, pad_token_id=255)[0, given.input_ids.shape[1] :]
        done = place("sample", run, "--prompt", prompt, "--length", 64, "--temperature", 0, "--json")
        assert done.returncode == 0, done.stderr
        assert made.tolist() == json.loads(done.stdout.splitlines()[0])["tokens"][-64:]
        singly.append(made)
    tokenizer.pad_token = tokenizer.eos_token
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    made = model.generate(**batch, max_new_tokens=64, do_sample=False, eos_token_id=None, pad_token_id=255)[:, batch.input_ids.shape[1] :]
    assert torch.equal(made, torch.stack(singly))


def test_attentions_are_signed(exported):
    run, folder = exported("gla+softmax".replace("softmax", "cog"))
    model, tokens = opened(folder), some_tokens(2, 30)
    with torch.no_grad():
        found = model(tokens, output_attentions=True, output_hidden_states=True, use_cache=False)
    assert found.attentions[0] is None and found.attentions[1].shape == (2, 4, 30, 30)
    assert found.attentions[1].min() < -1e-3 and found.attentions[1].triu(1).abs().max() == 0
    weights = cogwheel.load(run).run_with_cache(tokens, names=["blocks.1.attn.hook_pattern"])[1]["blocks.1.attn.hook_pattern"]
    expect_near(found.attentions[1], weights.detach(), 1e-6)
    assert len(found.hidden_states) == 3
    expect_near(found.logits, native_logits(run, tokens))
    with pytest.raises(ValueError, match="expected a pass without a cache"):
        model(tokens, output_attentions=True, use_cache=True)


@pytest.mark.parametrize("mechanism", ["gla+cog", "cog+polynomial"])
def test_attentions_and_states_of_padded_texts_are_those_of_each_alone(mechanism, exported):
    model, tokens = opened(exported(mechanism)[1]), some_tokens(3, 30)
    inside = [slice(7, 30), slice(0, 30), slice(0, 23)]  # two of equal length
    mask = torch.zeros_like(tokens)
    for text, part in enumerate(inside):
        mask[text, part] = 1
    with torch.no_grad():
        found = model(tokens, attention_mask=mask, output_attentions=True, output_hidden_states=True)
        alone = [model(tokens[text : text + 1, part], output_attentions=True, output_hidden_states=True) for text, part in enumerate(inside)]
    for layer, weights in enumerate(found.attentions):
        assert (weights is None) == (alone[0].attentions[layer] is None)
        for text, part in enumerate(inside if weights is not None else []):
            expected = torch.zeros(4, 30, 30)
            expected[:, part, part] = alone[text].attentions[layer][0]
            expect_near(weights[text], expected, 1e-6)
    for states, *of_each in zip(found.hidden_states, *(one.hidden_states for one in alone), strict=True):
        for text, part in enumerate(inside):
            expect_near(states[text, part], of_each[text][0])


def test_what_generate_cannot_do_is_said_in_a_line_and_a_cache_goes_on(exported):
    model, tokens, ends = opened(exported("gla+cog")[1]), some_tokens(2, 40), {"do_sample": False, "eos_token_id": None, "pad_token_id": 255}
    behind = torch.ones_like(tokens)
    behind[0, 30:] = 0
    with pytest.raises(ValueError, match="expected padding before texts that go on"):
        model.generate(tokens, attention_mask=behind, max_new_tokens=1, **ends)
    with pytest.raises(ValueError, match=r"tokens: expected at most 0 after those in the cache \(a context of 96\), got 1"):
        model.generate(tokens, max_new_tokens=60, **ends)
    with pytest.raises(NotImplementedError, match="resize_token_embeddings: expected the 256 tokens"):
        model.resize_token_embeddings(300)
    begun = model.generate(tokens[:1, :20], max_new_tokens=5, return_dict_in_generate=True, **ends)
    longer = torch.cat([begun.sequences, tokens[:1, 20:26]], 1)
    assert torch.equal(model.generate(longer, cache=begun.cache, max_new_tokens=5, **ends), model.generate(longer, max_new_tokens=5, **ends))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_models_have_the_type_of_numbers_that_is_asked_for(dtype, exported):
    _, folder = exported("gla+softmax")
    tokens = some_tokens(2, 24)
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    made = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=True, dtype=dtype)
    assert {parameter.dtype for parameter in made.parameters()} == {dtype}
    with torch.no_grad():
        found, expected = opened(folder, dtype=dtype)(tokens).logits, opened(folder)(tokens).logits
    assert found.dtype == dtype
    assert (found - expected).norm() <= (0.02 if dtype is torch.bfloat16 else 1e-5) * expected.norm()


class LossOfTargets(torch.nn.Module):
    """Of a model of transformers, as trainings of tests call models."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs, targets):
        return F.cross_entropy(self.model(inputs).logits.flatten(0, 1), targets.flatten())


@pytest.mark.parametrize(("mechanism", "tolerance"), [("softmax", 1e-4), ("cog", 2e-3), ("gla+softmax", 1e-4)])
def test_ten_steps_of_adamw_are_those_of_training_here(mechanism, tolerance, exported, cogwheel_executable, tmp_path, one_thread):
    steps, rate, start = 10, 1e-2, tmp_path / "start.safetensors"
    model = {"form": "llama", "mechanism": mechanism, "context": 96, "layers": 2, "heads": 4, "width": 32, "feed_forward": 64, "vocabulary": 256}
    training = {"steps": steps, "batch": 2, "warm_up": 0, "learning_rate": rate, "final_learning_rate": rate}
    keys = {f"model.{key}": value for key, value in model.items()} | {f"training.{key}": value for key, value in training.items()}
    side = CogwheelSteps(cogwheel_executable, [*(f"--set={key}={value}" for key, value in keys.items()), f"--save={start}", f"--batches={steps}"])
    try:
        ours = [side.step() for _ in range(steps)]
    finally:
        side.close()
    tensors = read_tensors(start)
    config = transformers.AutoConfig.from_pretrained(exported(mechanism)[1], trust_remote_code=True)
    theirs = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=True)
    theirs.model.load_state_dict({name: tensors[f"model.{name}"] for name, _ in theirs.model.named_parameters()})
    batches = iter([(tensors[f"batch.{step}.inputs"], tensors[f"batch.{step}.targets"]) for step in range(steps)])
    peer = EagerTraining(LossOfTargets(theirs), lambda: next(batches), "fp32", learning_rate=lambda step: rate)
    assert ours == pytest.approx([peer.step() for _ in range(steps)], abs=tolerance)
    assert max(ours) - min(ours) > 10 * tolerance, ours


def test_labels_are_shifted_and_every_parameter_has_a_gradient(exported):
    _, folder = exported("cog+polynomial")
    model, tokens = opened(folder).train(), some_tokens(2, 24)
    labels = tokens.clone()
    labels[0, :7] = -100
    found = model(tokens, labels=labels)
    expected = F.cross_entropy(found.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    assert found.loss.item() == pytest.approx(expected.item(), rel=1e-6)
    found.loss.backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for name, parameter in model.named_parameters())


def test_a_model_comes_of_its_configuration_alone_and_is_saved(exported, tmp_path):
    _, folder = exported("gla")
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    fresh = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=True)
    model, tokens = opened(folder), some_tokens(1, 9)
    assert {name: value.shape for name, value in fresh.state_dict().items()} == {name: value.shape for name, value in model.state_dict().items()}
    fresh.save_pretrained(tmp_path / "saved")
    with torch.no_grad():
        expect_near(opened(tmp_path / "saved")(tokens).logits, fresh.eval()(tokens).logits, 0)
        beams = model.generate(tokens, max_new_tokens=5, num_beams=3, do_sample=False, eos_token_id=None, pad_token_id=255)
    assert beams.shape == (1, 14)


@pytest.mark.parametrize("mechanism", ["cog", "gla+softmax"])
def test_an_import_of_the_export_is_the_run(mechanism, exported, place):
    run, folder = exported(mechanism)
    back = place.folder / f"{run.name}-back"
    done = place("import", folder, "--out", back)
    assert done.returncode == 0, done.stderr
    one, other = (read_tensors(each / "checkpoint.safetensors") for each in (run, back))
    weights = {name for name in one if name.startswith("model.")}
    assert weights and all(torch.equal(one[name], other[name]) for name in weights)
    saved = place.folder / f"{run.name}-saved"  # as transformers writes it
    opened(folder).save_pretrained(saved)
    done = place("import", saved, "--out", place.folder / f"{run.name}-of-saved")
    assert done.returncode == 0, done.stderr
    other = read_tensors(place.folder / f"{run.name}-of-saved" / "checkpoint.safetensors")
    assert all(torch.equal(one[name], other[name]) for name in weights)
    again = place.folder / f"{run.name}-again"
    assert place("export", back, "--out", again).returncode == 0
    for name in ("config.json", "model.safetensors", "modeling_cogwheel.py"):
        assert (folder / name).read_bytes() == (again / name).read_bytes(), name


REFUSALS = {
    "an older format": ({"cogwheel_format": 0}, "config.json: cogwheel_format: expected 1, .*got 0"),
    "no mechanism": ({"model": {"layers": 2}}, "config.json: model.mechanism: expected a value, got none"),
    "two vocabularies": ({"model.vocabulary": 3}, "model.vocabulary: expected none beside vocab_size, got 3"),
    "another mechanism": ({"model.mechanism": "cogg"}, "cogg"),
    "another width": ({"model.width": 64}, "ignore_mismatched_sizes"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_read_is_refused(case, exported, tmp_path):
    changes, message = REFUSALS[case]
    _, folder = exported("cog")
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    for key, value in changes.items():
        (config["model"] if key.startswith("model.") else config)[key.removeprefix("model.")] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises((ValueError, RuntimeError), match=message):
        opened(tmp_path)


def test_without_the_package_it_says_what_is_missing(exported, tmp_path):
    _, folder = exported("cog")
    (tmp_path / "cogwheel.py").write_text("raise ImportError('none here')\n")
    program = f"import transformers; transformers.AutoModelForCausalLM.from_pretrained({str(folder)!r}, trust_remote_code=True)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode != 0 and "expected the Python package of Cogwheel" in done.stderr.splitlines()[-1]
