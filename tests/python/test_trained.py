"""Runs as modules of Python, with hooks, against plain formulas; models of other programs alike; and back."""

import json
import os
import subprocess

import pytest
import small_runs
import torch
from foreign_models import Bert, Vit
from pictures import png
from plain_models import layer_mechanism, plain
from tensor_files import read_tensors, write_tensors
from torch.nn import functional as F

import cogwheel

TRAIN = small_runs.TRAIN.replace("{layers}", "3").replace("{width}", "32")

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


def observed_by(judge):
    """Every activation of the judge's next passes, by name."""
    seen = {}

    def keep(name, value):
        seen[name] = value
        return value

    judge.at = keep
    return seen


def expect_equal(got, expected, what=""):
    """To 1e-9 of the largest finite number: the same formulas in float64."""
    assert got.shape == expected.shape, what
    expected = expected.detach()
    largest = expected[expected.isfinite()].abs().max().clamp_min(1)
    torch.testing.assert_close(got.detach(), expected, rtol=0, atol=1e-9 * float(largest), msg=lambda text: f"{what}: {text}")


@pytest.fixture(scope="module", params=LANGUAGE_MODELS)
def language_run(request, program):
    mechanism, model = LANGUAGE_MODELS[request.param]
    config = TRAIN.format(task="language_modelling", data="", mechanism=mechanism, model=model)
    return program.train(f"language-{request.param}", config, "--text", "text.txt")


def test_language_models_are_their_formulas(language_run):
    """Logits, every activation, and every gradient."""
    loaded, judge = cogwheel.LanguageModel.load(language_run).double(), plain(language_run)
    tokens = whole(loaded.options["vocabulary"], 2, 11)
    expected = observed_by(judge)
    for tensor in judge.weights.values():
        tensor.requires_grad_()
    logits = judge(tokens)
    out, cache = loaded.run_with_cache(tokens, names=lambda name: True)
    expect_equal(loaded(tokens), logits)
    expect_equal(out, logits)
    unseen = {name for name in loaded.hook_names() if name.endswith("row_statistics")}
    assert cache.keys() - unseen == expected.keys() and list(cache) == sorted(cache, key=list(cache).index)
    for name, value in expected.items():
        expect_equal(cache[name], value, name)
    for model in (loaded, judge):
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    for name, parameter in loaded.named_parameters():
        expect_equal(parameter.grad, judge.weights[name].grad, name)


def test_every_activation_can_be_replaced(language_run):
    """Hidden keys stay hidden, whatever a patch says; derivatives flow through it."""
    loaded, judge = cogwheel.load(language_run).double(), plain(language_run)
    tokens = whole(loaded.options["vocabulary"], 2, 11)
    shapes = {name: value.shape for name, value in loaded.run_with_cache(tokens, names=lambda name: True)[1].items()}
    visible = torch.ones(11, 11, dtype=torch.bool).tril()
    for name, shape in shapes.items():
        if name.endswith(("row_statistics", "hook_lambda")):  # can only be read
            continue
        patch = normal(*shape).double()
        if name.endswith("scale"):
            patch = patch.abs() + 0.5
        if name.endswith(("scores", "pattern", "pattern_members")):
            patch = patch * 0.3
        of_scores, of_weights = name.endswith("scores"), name.endswith(("pattern", "pattern_members"))
        patch.requires_grad_()

        def replace(value, hook, patch=patch):
            return patch

        def judged(place, value, name=name, patch=patch, of_scores=of_scores, of_weights=of_weights):
            replaced = patch.where(visible, -torch.inf if of_scores else 0.0) if of_scores or of_weights else patch
            return replaced if place == name else value

        if of_scores and layer_mechanism(judge.options, int(name.split(".")[1])) == "polynomial":
            with pytest.raises(ValueError, match="hook_attn_scores of polynomial: expected scores as they are"):
                loaded.run_with_hooks(tokens, fwd_hooks=[(name, replace)])
            continue
        judge.at = judged
        got, expected = loaded.run_with_hooks(tokens, fwd_hooks=[(name, replace)]), judge(tokens)
        expect_equal(got, expected, name)
        (gradient,), (of_judge,) = (torch.autograd.grad(out.square().sum(), patch) for out in (got, expected))
        expect_equal(gradient, of_judge, name)


def test_effective_attention_is_the_pattern(language_run):
    loaded = cogwheel.load(language_run).double()
    tokens = whole(loaded.options["vocabulary"], 2, 13)  # no multiple of the values' width
    _, cache = loaded.run_with_cache(tokens, names=lambda name: name.endswith("hook_pattern"))
    measured = loaded.effective_attention(tokens)
    assert len(measured) == len(cache) == loaded.options["layers"]
    for matrix, pattern in zip(measured, cache.values(), strict=True):
        expect_equal(matrix, pattern)
    for matrix, pattern in zip(loaded.effective_attention(tokens, by_channel=True), cache.values(), strict=True):
        expect_equal(matrix, pattern[..., None].expand_as(matrix))


def test_effective_attention_reads_states(program):
    """Layers with a state: what their own formulas of weights say, and values through it are their output."""
    config = TRAIN.format(task="language_modelling", data="", mechanism="gla+mamba+deltanet", model="context = 16")
    loaded = cogwheel.load(program.train("states", config, "--text", "text.txt")).double()
    tokens = whole(loaded.options["vocabulary"], 2, 13)
    _, cache = loaded.run_with_cache(tokens, names=lambda name: name.endswith(("hook_pattern", "hook_v", "hook_z")))
    measured = loaded.effective_attention(tokens, by_channel=True)
    for layer, matrix in enumerate(measured):
        place = f"blocks.{layer}.attn."
        z = torch.einsum("bhijc,bjhc->bihc", matrix, cache[place + "hook_v"])
        expect_equal(z, cache[place + "hook_z"], place)
        expect_equal(matrix.mean(-1), cache[place + "hook_pattern"], place)
        assert matrix.movedim(-1, 0).triu(1).count_nonzero() == 0
    for matrix, mean in zip(measured, loaded.effective_attention(tokens), strict=True):
        expect_equal(mean, matrix.mean(-1))
    spread = [float((matrix - matrix.mean(-1, keepdim=True)).abs().max()) for matrix in measured]
    assert spread[1] > 1e-4 and spread[0] < 1e-9 and spread[2] < 1e-9  # Mamba forgets each channel at its own rate


def test_patterns_of_states_stay_causal(program):
    config = TRAIN.format(task="language_modelling", data="", mechanism="gla+cog", model="context = 16")
    loaded = cogwheel.load(program.train("causal-patches", config, "--text", "text.txt")).double()
    tokens = whole(loaded.options["vocabulary"], 1, 9)
    other = tokens.clone()
    other[0, -1] = (other[0, -1] + 1) % loaded.options["vocabulary"]
    for layer in range(2):
        hooks = [(f"blocks.{layer}.attn.hook_pattern", lambda value, hook: torch.ones_like(value))]
        one, two = (loaded.run_with_hooks(given, fwd_hooks=hooks) for given in (tokens, other))
        assert torch.equal(one[:, :-1], two[:, :-1]) and not torch.equal(one[:, -1], two[:, -1])


def test_hooks_refuse_what_they_cannot_use(language_run):
    loaded = cogwheel.load(language_run)
    tokens, name = whole(loaded.options["vocabulary"], 1, 5), "blocks.0.attn.hook_z"
    refused = lambda message, **hooks: pytest.raises(ValueError, match=f"{name}: expected {message}")  # noqa: E731

    def poison(value, hook):
        value.detach().fill_(torch.nan)

    with refused("numbers, got NaN"):
        loaded.run_with_hooks(tokens, fwd_hooks=[(name, poison)])
    with torch.no_grad(), refused("numbers, got NaN"):
        loaded.run_with_hooks(tokens, fwd_hooks=[(name, lambda value, hook: value.fill_(torch.nan))])
    with refused("a tensor or None from a hook, got int"):
        loaded.run_with_hooks(tokens, fwd_hooks=[(name, lambda value, hook: 3)])
    for message, hook in (
        ("a gradient or None from a hook, got int", lambda gradient, hook: 3),
        (r"a gradient torch.float32 \[.*, got torch.float32 \[", lambda gradient, hook: gradient[:, :1]),
        ("a gradient of numbers, got NaN", lambda gradient, hook: gradient * torch.nan),
    ):
        out = loaded.run_with_hooks(tokens, bwd_hooks=[(name, hook)])
        with refused(message):
            out.sum().backward()
    with torch.no_grad(), pytest.raises(ValueError, match="bwd_hooks: expected a pass with gradients"):
        loaded.run_with_hooks(tokens, bwd_hooks=[(name, lambda gradient, hook: None)])


def test_hooks_see_gradients(language_run):
    loaded = cogwheel.load(language_run).double()
    tokens = whole(loaded.options["vocabulary"], 2, 11)
    name, seen = "blocks.1.hook_resid_mid", []
    out, cache = loaded.run_with_cache(tokens, names=name)
    (expected,) = torch.autograd.grad(out.square().sum(), cache[name])
    out = loaded.run_with_hooks(tokens, bwd_hooks=[(name, lambda gradient, hook: seen.append((hook.layer(), gradient)))])
    out.square().sum().backward()
    assert seen[0][0] == 1 and torch.equal(seen[0][1], expected)
    # What a hook returns is the gradient from there on: nothing before it learns.
    loaded.zero_grad()
    out = loaded.run_with_hooks(tokens, bwd_hooks=[(name, lambda gradient, hook: torch.zeros_like(gradient))])
    out.square().sum().backward()
    before, after = (loaded.get_parameter(f"layers.{layer}.feed_forward.out.weight").grad for layer in (0, 1))
    assert before.count_nonzero() == 0 and after.count_nonzero() > 0


def test_gradients_written_in_place_are_returned_ones(language_run):
    """They reach no other gradient, though a sum gives one tensor to all its terms; NaN is refused."""
    loaded = cogwheel.load(language_run).double()
    tokens = whole(loaded.options["vocabulary"], 2, 11)

    def written(gradient, factor):
        gradient.mul_(factor)

    def gradients(hook, name):
        loaded.zero_grad()
        loaded.run_with_hooks(tokens, bwd_hooks=[(name, hook)]).sum().backward()
        return [parameter.grad for parameter in loaded.parameters()]

    for name in ("hook_embed", *(f"blocks.1.{place}" for place in ("hook_resid_mid", "hook_attn_out", "hook_mlp_out", "attn.hook_z"))):
        returned = gradients(lambda gradient, hook: gradient * 0.5, name)
        in_place = gradients(lambda gradient, hook: written(gradient, 0.5), name)
        for one, two in zip(returned, in_place, strict=True):
            assert torch.equal(one, two), name
    with pytest.raises(ValueError, match="hook_embed: expected a gradient of numbers, got NaN"):
        gradients(lambda gradient, hook: written(gradient, torch.nan), "hook_embed")


def test_hooks_refuse_what_cannot_be(language_run):
    loaded = cogwheel.load(language_run)
    tokens = whole(loaded.options["vocabulary"], 2, 11)
    name = "blocks.0.attn.hook_z"
    whole_output = loaded(tokens)

    def run(hook, at=name):
        return loaded.run_with_hooks(tokens, fwd_hooks=[(at, hook)])

    with pytest.raises(ValueError, match=r"hook: expected .*blocks.0.attn.hook_z.* \(the nearest of \d+ names\), got blocks.0.attn.hook_zz"):
        run(None, "blocks.0.attn.hook_zz")
    with pytest.raises(ValueError, match=r"hook_z: expected a tensor of shape \[2, 11, \d, \d+\], got \[1, 11,"):
        run(lambda value, hook: value[:1])
    with pytest.raises(ValueError, match="hook_z: expected numbers, got NaN"):
        run(lambda value, hook: value * float("nan"))
    with pytest.raises(ValueError, match="hook_z: expected Float on cpu, got Double on cpu"):
        run(lambda value, hook: value.double())
    with pytest.raises(KeyError, match="mine"):
        run(lambda value, hook: {}["mine"])
    with pytest.raises(ValueError, match="hook_embed: expected a pass whose numbers hooks can compare, got one within torch.func.vmap"):
        torch.func.vmap(lambda each: loaded.run_with_cache(each[None])[0])(tokens)
    assert torch.equal(loaded(tokens), whole_output)


def test_vision_transformers_are_their_formulas(vision_run):
    images, judge = normal(2, 3, 16, 16).double(), plain(vision_run)
    expected = observed_by(judge)
    out, cache = cogwheel.VisionTransformer.load(vision_run).double().run_with_cache(images)
    expect_equal(out, judge(images))
    for name in cache:
        expect_equal(cache[name], expected[name], name)


@pytest.mark.parametrize(("mechanism", "condition"), [("cog", "class"), ("differential", "none")])
def test_u_vits_are_their_formulas(program, mechanism, condition):
    """With averaged weights."""
    data = f'size = 16\ncondition = "{condition}"'
    config = TRAIN.format(task="diffusion", data=data, mechanism=mechanism, model="patch = 4") + "ema = 0.5\n"
    run = program.train(f"u-vit-{condition}", config)
    inputs = [normal(2, 3, 16, 16).double(), torch.tensor([3.5, 900.0])]
    if condition == "class":
        inputs.append(torch.tensor([1, 4]))
    judge = plain(run)
    expected = observed_by(judge)
    out, cache = cogwheel.load(run).double().run_with_cache(*inputs)
    expect_equal(out, judge(*inputs))
    for name in cache:
        expect_equal(cache[name], expected[name], name)


def test_refuses_what_it_cannot_compute(program):
    config = TRAIN.format(task="language_modelling", data="", mechanism="gla+softmax", model="context = 16")
    run = program.train("recurrent", config, "--text", "text.txt")
    checkpoint = run / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(ValueError, match="expected a whole safetensors file"):
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
    expect_close(cogwheel.load(run)(images), vit.logits(images))

    for key, said in (("nonsense=1", "got nonsense"), ("sentences=a.tsv", "got sentences"), ("size=x", "task.size")):
        done = program("import", there, "--set", f"task.{key}", "--out", program.work / "never", fails=True)
        assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    program("import", there, "--set", "task.size=16", "--set", "training.batch=8", "--out", "sized")

    # Measured on images whose labels are numbers of classes; training on is refused.
    for classes in (5, 6):
        labelled = {"images": normal(40, 3, 16, 16), "labels": torch.arange(40) % classes}
        write_tensors(labelled, program.work / f"{classes}.safetensors")
    done = program("import", there, "--images", "6.safetensors", "--out", program.work / "never", fails=True)
    assert "6.safetensors: classes: expected classes of the model: class 0, class 1" in done.stderr
    done = program("import", there, "--images", "5.safetensors", "--out", "measured")
    assert "note: 5.safetensors: the numbers that the data call classes by are taken as places" in done.stderr
    program("evaluate", "measured")
    evaluation = json.loads((program.work / "measured/evaluation.json").read_text())
    assert evaluation["steps"] is None and evaluation["seed"] is None
    assert "imported weights" in (program.work / "measured/evaluation.html").read_text()
    assert json.loads((program.work / "measured/evaluation.json").read_text())
    assert "expected a checkpoint of a training run, got weights alone" in program("resume", "measured", fails=True).stderr

    program("export", run, "--out", back)
    exported = read_tensors(back / "model.safetensors")
    assert exported.keys() == vit.weights.keys()
    assert all(torch.equal(exported[name], tensor) for name, tensor in vit.weights.items())
    written = json.loads((back / "config.json").read_text())
    assert {key: written[key] for key in vit.config} == vit.config
    assert "expected a new or empty folder" in program("export", run, "--out", back, fails=True).stderr


def test_weights_in_parts(program):
    """As transformers writes models that one file would not hold: an index, and the files that it names."""
    vit = Vit()
    whole_folder, there = program.work / "vit-whole", program.work / "vit-parts"
    vit.write(whole_folder)
    vit.write(there)
    (there / "model.safetensors").unlink()
    parts = {f"model-0000{part}-of-00003.safetensors": sorted(vit.weights)[part - 1 :: 3] for part in (1, 2, 3)}
    for name, tensors in parts.items():
        write_tensors({tensor: vit.weights[tensor] for tensor in tensors}, there / name)
    index = {"metadata": {"total_size": 1}, "weight_map": {tensor: name for name, tensors in parts.items() for tensor in tensors}}
    file = there / "model.safetensors.index.json"

    def imported(**changed):
        file.write_text(json.dumps(index | changed))
        return program("import", there, "--out", "parts", "--overwrite", fails=bool(changed)).stderr

    imported()
    program("import", whole_folder, "--out", "whole")
    assert all(torch.equal(tensor, read_tensors(program.work / "whole/checkpoint.safetensors")[name])
               for name, tensor in read_tensors(program.work / "parts/checkpoint.safetensors").items())  # fmt: skip

    map, first = index["weight_map"], sorted(vit.weights)[0]
    assert "index.json: weight_map: expected an object of names" in imported(weight_map=3)
    said = imported(weight_map=map | {first: "../vit-whole/model.safetensors"})
    assert f"index.json: weight_map: {first}: expected the name of a file beside it" in said
    said = imported(weight_map=map | {first: "model-00003-of-00003.safetensors"})
    assert f"model-00001-of-00003.safetensors: expected the tensors of its index, got another, {first}" in said
    said = imported(weight_map=map | {"more": "model-00001-of-00003.safetensors"})
    assert "model-00001-of-00003.safetensors: expected more, as its index says, got no such tensor" in said
    said = imported(weight_map=map | {"more": "model-00004-of-00003.safetensors"})
    assert "model-00004-of-00003.safetensors" in said and said.count("\n") == 1
    said = imported(weight_map={tensor: part for tensor, part in map.items() if tensor != first})
    assert f"expected the tensors of its index, got another, {first}" in said
    file.unlink()
    said = program("import", there, "--out", "parts", "--overwrite", fails=True).stderr
    assert "expected model.safetensors, or parts with model.safetensors.index.json, got neither" in said


def test_classes_of_one_name_are_exported(program):
    """As the two cranes of ImageNet: numbers have names, and names no numbers."""
    vit = Vit()
    vit.config["id2label"] = {"0": "crane", "1": "ant", "2": "crane", "3": "bee", "4": "owl"}
    vit.write(program.work / "cranes")
    program("import", "cranes", "--out", "cranes-run")
    program("export", "cranes-run", "--out", "cranes-back")
    written = json.loads((program.work / "cranes-back/config.json").read_text())
    assert written["id2label"] == vit.config["id2label"] and "label2id" not in written


def test_imported_runs_are_not_resumed(program):
    """Whatever the task would want first, such as a vocabulary or images."""
    for name, foreign in (("vit", Vit()), ("bert", Bert(True)), ("words", Bert(False))):
        foreign.write(program.work / f"resumed-{name}")
        program("import", f"resumed-{name}", "--out", f"resumed-{name}-run")
        said = program("resume", f"resumed-{name}-run", fails=True).stderr
        assert "checkpoint.safetensors: expected a checkpoint of a training run, got weights alone" in said
        assert said.count("\n") == 1


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


def permuted(foreign, folder):
    """The same model, whose classes stand in another order."""
    names = list(foreign.config["id2label"].values())
    order = [*range(1, len(names)), 0]
    weights, config = dict(foreign.weights), dict(foreign.config)
    for part in ("weight", "bias"):
        foreign.weights[f"classifier.{part}"] = weights[f"classifier.{part}"][order].clone()
    foreign.config["id2label"] = {str(place): names[label] for place, label in enumerate(order)}
    foreign.write(folder)
    foreign.weights, foreign.config = weights, config


def accuracy(program, run):
    program("evaluate", run)
    return json.loads((program.work / run / "evaluation.json").read_text())["measures"]["accuracy"]


def test_a_classifier_of_sentences_is_scored_by_the_names_of_its_classes(program):
    bert = Bert(True)
    texts = [" ".join(f"{a}{b}c"[:3]) for a in "abcdefghij" for b in "abcdefghij"]
    rows = torch.tensor([[2, *(5 + ord(word) - ord("a") for word in text.split()), 3] for text in texts])
    logits = bert.logits(rows, torch.zeros_like(rows))
    bert.weights["classifier.bias"] -= logits.mean(0)  # so that no class takes all
    labels = bert.logits(rows, torch.zeros_like(rows)).argmax(-1).tolist()
    assert len(set(labels)) == 3
    names = list(bert.config["id2label"].values())
    for name, said in (("named", names), ("upper", [each.upper() for each in names]), ("other", ["x", "y", "z"])):
        lines = [f"{text}\t{said[label]}" for text, label in zip(texts, labels, strict=True)]
        (program.work / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    bert.write(program.work / "bert-in-order")
    permuted(bert, program.work / "bert-permuted")
    for order in ("in-order", "permuted"):
        for name in ("named", "upper"):
            run, data = f"bert-run-{order}-{name}", f"task.sentences={name}.tsv"
            program("import", f"bert-{order}", "--set", data, "--out", run)
            assert accuracy(program, run) == 1
    done = program("import", "bert-permuted", "--set", "task.sentences=other.tsv", "--out", "never", fails=True)
    assert done.stderr.count("\n") == 1 and not (program.work / "never").exists()
    assert "other.tsv: labels: expected classes of the model: class 1, class 2, class 0, got x" in done.stderr


def test_a_classifier_of_images_is_scored_by_the_names_of_its_classes(program):
    vit = Vit()
    pictures = torch.randint(0, 256, (60, 16, 16, 3), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    images = pictures.permute(0, 3, 1, 2) * (2 / 255) - 1
    vit.weights["classifier.bias"] -= vit.logits(images).mean(0)
    labels = vit.logits(images).argmax(-1).tolist()
    assert len(set(labels)) == 5
    for number, label in enumerate(labels):
        folder = program.work / "by-class" / f"class_{label}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(png(pictures[number].numpy().tobytes(), 16))
    permuted(vit, program.work / "vit-permuted")
    for number, words in enumerate((["--images", "by-class"], ["--set", "task.images=by-class"])):
        program("import", "vit-permuted", *words, "--out", f"vit-run-{number}")
        assert accuracy(program, f"vit-run-{number}") == 1


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
