"""Runs as modules of Python, against the executable; imported models against their own formulas; and back."""

import json
import os
import struct
import subprocess

import pytest
import torch
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

# Each kind of attention layer, in each model that has it.
LANGUAGE_MODELS = {
    "learned": ("softmax", 'context = 16'),
    "llama": ("cog", 'context = 16\nform = "llama"'),
    "interleaved": ("cog*2+softmax_off_by_one", 'context = 16\nposition = "rotary"'),
    "grouped": ("softmax", 'context = 16\nkey_value_heads = 2'),
    "differential": ("differential_cog", 'context = 16\nform = "llama"'),
    "tied": ("differential_symmetric_norm+symmetric_sigmoid", 'context = 16\nposition = "none"'),
    "outer": ("consmax+polynomial", 'context = 16\nfirst_softmax_layers = 1'),
}
U_VITS = {"classes": ("cog", "class"), "nothing": ("differential", "none")}


def write_tensors(tensors, path):
    """A .safetensors file of float32, float16, bfloat16 and int64."""
    types = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}
    header, contents = {}, b""
    for name, tensor in tensors.items():
        numbers = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        offsets = [len(contents), len(contents) + len(numbers)]
        header[name] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        contents += numbers
    head = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + contents)


def read_tensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    found = {}
    for name, entry in json.loads(content[8 : 8 + length]).items():
        if name != "__metadata__":
            first, last = (8 + length + offset for offset in entry["data_offsets"])
            found[name] = torch.frombuffer(bytearray(content[first:last]), dtype=torch.float32).view(entry["shape"])
    return found


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


def close(got, expected, tolerance=2e-5):
    """Of the largest element; scores of discontinuous maps that lie so near 0 are not met."""
    assert got.shape == expected.shape and expected.std() > 1e-3
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance * float(expected.abs().max()))


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_language_models_are_those_of_the_executable(program, name):
    mechanism, model = LANGUAGE_MODELS[name]
    config = TRAIN.format(task="language_modelling", data="", mechanism=mechanism, model=model)
    run = program.train(f"language-{name}", config, "--text", "text.txt")
    model = cogwheel.load(run)
    tokens = torch.randint(0, model.options["vocabulary"], (2, 11), generator=torch.Generator().manual_seed(1))
    close(model(tokens).detach(), program.forward(run, tokens=tokens))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.requires_grad) or name == "learned"


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_vision_transformers_are_those_of_the_executable(program, pooling):
    more = f'patch = 4\npooling = "{pooling}"\ndropout = 0.1'
    run = program.train(f"vision-{pooling}", TRAIN.format(task="images", data="size = 16", mechanism="cog", model=more))
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    close(cogwheel.load(run)(images).detach(), program.forward(run, images=images))


@pytest.mark.parametrize("name", U_VITS)
def test_u_vits_are_those_of_the_executable(program, name):
    mechanism, condition = U_VITS[name]
    data = f'size = 16\ncondition = "{condition}"'
    config = TRAIN.format(task="diffusion", data=data, mechanism=mechanism, model="patch = 4") + "ema = 0.5\n"
    run = program.train(f"u-vit-{name}", config)
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    inputs = {"images": images, "time": torch.tensor([3.5, 900.0])}
    classes = torch.tensor([1, 4]) if condition == "class" else None
    if classes is not None:
        inputs["classes"] = classes
    close(cogwheel.load(run)(images, inputs["time"], classes).detach(), program.forward(run, **inputs))


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


# A ViT as transformers keeps it, written out.
WIDTH, HEADS, HIDDEN, CLASSES = 32, 2, 48, 5


def foreign_vit(seed):
    generator = torch.Generator().manual_seed(seed)
    weights = {}

    def add(name, *sizes):
        weights[name] = 0.2 * torch.randn(sizes, generator=generator)

    def linear(name, inputs, outputs):
        add(name + ".weight", outputs, inputs)
        add(name + ".bias", outputs)

    def norm(name):
        add(name + ".weight", WIDTH)
        add(name + ".bias", WIDTH)

    add("vit.embeddings.cls_token", 1, 1, WIDTH)
    add("vit.embeddings.position_embeddings", 1, 17, WIDTH)
    add("vit.embeddings.patch_embeddings.projection.weight", WIDTH, 3, 4, 4)
    add("vit.embeddings.patch_embeddings.projection.bias", WIDTH)
    for layer in range(2):
        prefix = f"vit.encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            linear(f"{prefix}attention.attention.{part}", WIDTH, WIDTH)
        linear(prefix + "attention.output.dense", WIDTH, WIDTH)
        linear(prefix + "intermediate.dense", WIDTH, HIDDEN)
        linear(prefix + "output.dense", HIDDEN, WIDTH)
        norm(prefix + "layernorm_before")
        norm(prefix + "layernorm_after")
    norm("vit.layernorm")
    linear("classifier", WIDTH, CLASSES)
    config = {
        "architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": WIDTH,
        "num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": HIDDEN, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12, "qkv_bias": True,
        "image_size": 16, "patch_size": 4, "num_channels": 3, "torch_dtype": "float32",
        "id2label": {str(label): f"class {label}" for label in range(CLASSES)},
    }  # fmt: skip
    return config, weights


def vit_formula(weights, images):
    def linear(name, x):
        return F.linear(x, weights[name + ".weight"], weights[name + ".bias"])

    def norm(name, x):
        return F.layer_norm(x, (WIDTH,), weights[name + ".weight"], weights[name + ".bias"], 1e-12)

    projection = "vit.embeddings.patch_embeddings.projection"
    x = F.conv2d(images, weights[projection + ".weight"], weights[projection + ".bias"], stride=4).flatten(2).mT
    x = torch.cat([weights["vit.embeddings.cls_token"].expand(len(x), 1, -1), x], 1)
    x = x + weights["vit.embeddings.position_embeddings"]
    for layer in range(2):
        prefix = f"vit.encoder.layer.{layer}."
        read = norm(prefix + "layernorm_before", x)
        query, key, value = (
            linear(f"{prefix}attention.attention.{part}", read).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        x = x + linear(prefix + "attention.output.dense", mixed)
        inner = F.gelu(linear(prefix + "intermediate.dense", norm(prefix + "layernorm_after", x)))
        x = x + linear(prefix + "output.dense", inner)
    return linear("classifier", norm("vit.layernorm", x)[:, 0])


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_a_foreign_model_is_itself_here_and_back(program, kind):
    config, weights = foreign_vit(7)
    name = str(kind).removeprefix("torch.")
    there, run, back = (program.work / f"{place}-{name}" for place in ("there", "run", "back"))
    there.mkdir()
    (there / "config.json").write_text(json.dumps(config))
    narrow = {name: tensor.to(kind) for name, tensor in weights.items()}
    write_tensors(narrow, there / "model.safetensors")
    widened = {name: tensor.float() for name, tensor in narrow.items()}
    said = program("import", there, "--out", run).stdout
    assert "ViTForImageClassification" in said and "a run of the task images" in said
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(4))
    expected = vit_formula(widened, images)
    close(program.forward(run, images=images), expected)
    close(cogwheel.load(run)(images).detach(), expected)

    program("export", run, "--out", back)
    exported = read_tensors(back / "model.safetensors")
    assert exported.keys() == widened.keys()
    assert all(torch.equal(exported[name], widened[name]) for name in widened)
    written = json.loads((back / "config.json").read_text())
    assert {key: written[key] for key in config} == config
    assert "expected a new or empty folder" in program("export", run, "--out", back, fails=True).stderr
    program("export", run, "--out", back, "--overwrite")


def test_what_the_command_line_refuses(program):
    config, weights = foreign_vit(8)
    there = program.work / "refused"
    there.mkdir()
    write_tensors(weights, there / "model.safetensors")
    (there / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    done = program("import", there, "--out", program.work / "never", fails=True)
    assert done.returncode == 1 and 'hidden_act: expected "gelu"' in done.stderr and done.stderr.count("\n") == 1
    (there / "config.json").write_text(json.dumps(config))
    done = program("import", there, "--set", "model.heads=4", "--out", program.work / "never", fails=True)
    assert done.returncode == 2 and "--set" in done.stderr
    assert not (program.work / "never").exists()
    config = TRAIN.format(task="images", data="size = 16", mechanism="cog", model="patch = 4")
    run = program.train("of-cog", config)
    done = program("export", run, "--out", program.work / "never", fails=True)
    assert done.returncode == 1 and "expected softmax, the only attention of ViTForImageClassification, got cog" in done.stderr
    assert not (program.work / "never").exists()
