"""Runs as modules of Python, against the executable; models of other programs against their formulas; and back."""

import json
import os
import subprocess

import pytest
import torch
from foreign_models import Bert, Vit
from tensor_files import read_tensors, write_tensors
from torch.nn import functional as F

import cogwheel

TRAIN = """
[task]
name = "{task}"
{data}
[model]
mechanism = "{mechanism}"
width = 32
heads = 4
layers = 3
{model}
[training]
steps = 2
batch = 2
warm_up = 1
learning_rate = 0.05
curve_tokens = 16
"""

# Each kind of attention layer, position, norm and feed-forward, in as few models as hold them.
LANGUAGE_MODELS = {
    "learned": ("consmax+polynomial", "context = 16\nfirst_softmax_layers = 1"),
    "llama": ("differential_cog+cog", 'context = 16\nform = "llama"'),
    "interleaved": ("cog*2+softmax_off_by_one", 'context = 16\nposition = "rotary"\nkey_value_heads = 2'),
    "tied": ("differential_symmetric_norm+symmetric_sigmoid", 'context = 16\nposition = "none"'),
}


@pytest.fixture(scope="module")
def program(cogwheel_executable, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60)

    class Program:
        work = folder

        def __call__(self, *words, fails=False):
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            command = [str(word) for word in (cogwheel_executable, *words)]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            assert (done.returncode != 0) == fails, done.stderr
            return done

        def train(self, name, config, *words):
            (folder / f"{name}.toml").write_text(config)
            self("train", f"{name}.toml", *words, "--out", name)
            return folder / name

        def forward(self, run, **inputs):
            write_tensors(inputs, folder / "in.safetensors")
            self("forward", run, "in.safetensors", "out.safetensors")
            return read_tensors(folder / "out.safetensors")["output"]

    return Program()


@pytest.fixture(scope="module")
def vision_run(program):
    model = 'patch = 4\npooling = "mean"\ndropout = 0.1'
    return program.train("vision", TRAIN.format(task="images", data="size = 16", mechanism="cog", model=model))


def normal(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(2))


def whole(limit, *sizes):
    return torch.randint(0, limit, sizes, generator=torch.Generator().manual_seed(3))


def expect_close(got, expected):
    """To 2e-5 of the largest element: products are added in another order."""
    assert got.shape == expected.shape and expected.std() > 1e-3
    torch.testing.assert_close(got.detach(), expected, rtol=0, atol=2e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_language_models_are_those_of_the_executable(program, name):
    mechanism, model = LANGUAGE_MODELS[name]
    config = TRAIN.format(task="language_modelling", data="", mechanism=mechanism, model=model)
    run = program.train(f"language-{name}", config, "--text", "text.txt")
    loaded = cogwheel.load(run)
    tokens = whole(loaded.options["vocabulary"], 2, 11)
    expect_close(loaded(tokens), program.forward(run, tokens=tokens))
    F.cross_entropy(loaded(tokens).flatten(0, 1), tokens.flatten()).backward()
    for parameter, value in loaded.named_parameters():
        assert value.grad is not None and value.grad.isfinite().all(), parameter


def test_vision_transformers_are_those_of_the_executable(program, vision_run):
    images = normal(2, 3, 16, 16)
    expect_close(cogwheel.load(vision_run)(images), program.forward(vision_run, images=images))


@pytest.mark.parametrize(("mechanism", "condition"), [("cog", "class"), ("differential", "none")])
def test_u_vits_are_those_of_the_executable(program, mechanism, condition):
    """With averaged weights."""
    data = f'size = 16\ncondition = "{condition}"'
    config = TRAIN.format(task="diffusion", data=data, mechanism=mechanism, model="patch = 4") + "ema = 0.5\n"
    run = program.train(f"u-vit-{condition}", config)
    inputs = {"images": normal(2, 3, 16, 16), "time": torch.tensor([3.5, 900.0])}
    if condition == "class":
        inputs["classes"] = torch.tensor([1, 4])
    expect_close(cogwheel.load(run)(*inputs.values()), program.forward(run, **inputs))


def test_refuses_what_it_cannot_compute(program):
    config = TRAIN.format(task="language_modelling", data="", mechanism="gla+softmax", model="context = 16")
    run = program.train("recurrent", config, "--text", "text.txt")
    with pytest.raises(ValueError, match="model.mechanism: expected attention in every layer, got gla, which has a state"):
        cogwheel.load(run)
    checkpoint = run / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(ValueError, match="expected a whole checkpoint"):
        cogwheel.load(run)
    with pytest.raises(FileNotFoundError):
        cogwheel.load(program.work / "nowhere")


def test_a_foreign_vit_is_itself_here_and_back(program):
    vit = Vit()
    for number, name in enumerate(vit.weights):  # each type that files may hold
        vit.weights[name] = vit.weights[name].to([torch.float32, torch.float16, torch.bfloat16][number % 3])
    there, run, back = (program.work / f"vit-{place}" for place in ("there", "run", "back"))
    vit.write(there)
    said = program("import", there, "--out", run).stdout
    assert "ViTForImageClassification" in said and "a run of the task images" in said
    vit.weights = {name: tensor.float() for name, tensor in vit.weights.items()}
    images = normal(2, 3, 16, 16)
    expect_close(program.forward(run, images=images), vit.logits(images))
    expect_close(cogwheel.load(run)(images), vit.logits(images))

    # Measured on images with as many classes, which have other names; training on is refused.
    for classes in (4, 5):
        labelled = {"images": normal(40, 3, 16, 16), "labels": torch.arange(40) % classes}
        write_tensors(labelled, program.work / f"{classes}.safetensors")
    done = program("import", there, "--images", "4.safetensors", "--out", program.work / "never", fails=True)
    assert "model.vocabulary: expected 4, the classes of 4.safetensors, got 5" in done.stderr
    done = program("import", there, "--images", "5.safetensors", "--out", "measured")
    assert "note: the classes of the images have other names" in done.stderr
    program("evaluate", "measured")
    assert json.loads((program.work / "measured/evaluation.json").read_text())
    assert "expected a checkpoint of a training run, got weights alone" in program("resume", "measured", fails=True).stderr

    program("export", run, "--out", back)
    exported = read_tensors(back / "model.safetensors")
    assert exported.keys() == vit.weights.keys()
    assert all(torch.equal(exported[name], tensor) for name, tensor in vit.weights.items())
    written = json.loads((back / "config.json").read_text())
    assert {key: written[key] for key in vit.config} == vit.config
    assert "expected a new or empty folder" in program("export", run, "--out", back, fails=True).stderr


@pytest.mark.parametrize("classes", [False, True])
def test_a_foreign_bert_is_itself_here(program, classes):
    bert = Bert(classes)
    there, run = (program.work / f"bert-{classes}-{place}" for place in ("there", "run"))
    bert.write(there)
    program("import", there, "--out", run)
    model, tokens, segments = cogwheel.load(run), whole(20, 2, 7), whole(2, 2, 7)
    expect_close(model(tokens, segments), bert.logits(tokens, segments))
    # What lies behind the end of a sequence is not seen.
    lengths = torch.tensor([4, 7])
    short = model(tokens, segments, lengths)[0].detach()
    alone = bert.logits(tokens[:1, :4], segments[:1, :4])[0]
    expect_close(short if classes else short[:4], alone)


def test_what_the_command_line_refuses(program, vision_run):
    vit, there, never = Vit(), program.work / "refused", program.work / "never"
    vit.write(there)
    done = program("import", there, "--set", "model.heads=4", "--out", never, fails=True)
    assert done.returncode == 2 and "import: --set: expected a key of the task" in done.stderr
    (there / "config.json").write_text(json.dumps({**vit.config, "hidden_act": "relu"}))
    done = program("import", there, "--out", never, fails=True)
    assert done.returncode == 1 and 'hidden_act: expected "gelu"' in done.stderr and done.stderr.count("\n") == 1
    done = program("export", vision_run, "--out", never, fails=True)
    assert done.returncode == 1
    assert "expected softmax, the only attention of ViTForImageClassification, got cog" in done.stderr
    assert not never.exists()
