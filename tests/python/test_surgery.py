"""Another mechanism inside trained weights: `cogwheel convert`, task.start, task.teacher, task.transfer_steps, training.frozen."""

import json
import resource
import shutil
import subprocess

import pytest
import reference
import torch
import torch.nn.functional as F
from recorded_bits import weights_hash
from resumed_runs import expect_resumes_bit_for_bit, metrics
from tensor_files import read_tensors

import cogwheel as package
from cogwheel.bench.timing import take_turns
from cogwheel.bench.training import CogwheelSteps

TEXT = "".join(f"line {number * number} of the quick brown fox, {number} times over\n" for number in range(400))
CONFIG = """
[data]
text = ["text.txt"]
[model]
form = "llama"
context = 16
layers = 3
heads = 4
width = 32
feed_forward = 64
[training]
steps = 40
batch = 8
warm_up = 4
learning_rate = 5e-3
curve_tokens = 256
"""
LAYERS = 3


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, tmp_path_factory):
    """The command line beside two trained runs: `soft`, and `other` on another vocabulary and with another width."""
    folder = tmp_path_factory.mktemp("surgery")
    (folder / "text.txt").write_text(TEXT)
    (folder / "letters.txt").write_text("abc cab " * 500)
    (folder / "soft.toml").write_text(CONFIG)
    run = cogwheel_in(folder)
    for name, words in {"soft": [], "other": ["--text", "letters.txt", "--set", "model.width=64", "--set", "training.steps=1"]}.items():
        done = run("train", "soft.toml", *words, "--out", name)
        assert done.returncode == 0, done.stderr
    assert run("export", "soft", "--out", "exported").returncode == 0 and run("import", "exported", "--out", "weights").returncode == 0
    return run


def convert(cogwheel, run, out, *keys, more=()):
    words = [word for key in keys for word in ("--set", f"model.{key}")]
    done = cogwheel("convert", run, *words, "--out", out, "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def train(cogwheel, out, *words, config="soft/config.toml"):
    done = cogwheel("train", config, *(word for key in words for word in ("--set", key)), "--out", out, "--overwrite")
    assert done.returncode == 0, done.stderr
    return cogwheel.folder / out


def weights(run):
    return {name.removeprefix("model."): value for name, value in read_tensors(run / "checkpoint.safetensors").items() if name.startswith("model.")}


def logits(run, tokens=None):
    model = package.load(run)
    if tokens is None:
        tokens = torch.randint(model.options["vocabulary"], (3, 16), generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        return model(tokens)


def test_a_run_converted_to_itself_is_its_original(cogwheel):
    found = convert(cogwheel, "soft", "itself")
    assert found["changed"] == found["new"] == found["lost"] == [] and found["before"] == found["after"]
    before, after = weights(cogwheel.folder / "soft"), weights(cogwheel.folder / "itself")
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    for name in ("config.toml", "tokenizer.json", "text.json"):
        assert (cogwheel.folder / "soft" / name).read_bytes() == (cogwheel.folder / "itself" / name).read_bytes()
    evaluated = [json.loads((cogwheel.folder / run / "evaluation.json").read_text())["measures"] for run in ("soft", "itself") if cogwheel("evaluate", run).returncode == 0]
    assert len(evaluated) == 2 and evaluated[0] == evaluated[1]
    # What was measured of the one says nothing of the other.
    (cogwheel.folder / "soft/harness.json").write_text("{}")
    convert(cogwheel, "soft", "itself-again")
    assert not any((cogwheel.folder / "itself-again" / name).exists() for name in ("harness.json", "evaluation.json", "metrics.jsonl"))
    (cogwheel.folder / "soft/harness.json").unlink()
    refused = cogwheel("resume", "itself")  # it has no state of training
    assert refused.returncode == 1 and "weights alone" in refused.stderr


def test_key_heads_become_fewer_and_more(cogwheel):
    few = convert(cogwheel, "soft", "few", "key_value_heads=2")
    assert {part["name"] for part in few["changed"]} == {f"layers.{layer}.attention: {rows}" for layer in range(LAYERS) for rows in ("keys", "values")}
    rows = {run: weights(cogwheel.folder / run)["layers.1.attention.query_key_value.weight"].double() for run in ("soft", "few")}
    heads = rows["soft"][32:].view(2, 4, 8, 32)  # of keys and values
    torch.testing.assert_close(rows["few"][32:].view(2, 2, 8, 32), heads.view(2, 2, 2, 8, 32).mean(2), rtol=0, atol=1e-7)
    assert torch.equal(rows["few"][:32], rows["soft"][:32])
    # From two heads to four, each key head twice: the same numbers; and back, means of equal rows.
    convert(cogwheel, "few", "many", "key_value_heads=4")
    convert(cogwheel, "many", "again", "key_value_heads=2")
    expected = logits(cogwheel.folder / "few")
    for run in ("many", "again"):
        torch.testing.assert_close(logits(cogwheel.folder / run), expected, rtol=0, atol=1e-6)
    assert torch.equal(weights(cogwheel.folder / "again")["layers.0.attention.query_key_value.weight"], weights(cogwheel.folder / "few")["layers.0.attention.query_key_value.weight"])


def test_every_form_takes_what_it_can(cogwheel):
    soft = weights(cogwheel.folder / "soft")
    queries, keys, values = (soft["layers.0.attention.query_key_value.weight"][first : first + 32] for first in (0, 32, 64))
    tied = convert(cogwheel, "soft", "tied", "mechanism=symmetric_cog")
    assert tied["lost"] == [f"layers.{layer}.attention: keys" for layer in range(LAYERS)] and tied["new"] == []
    assert torch.equal(weights(cogwheel.folder / "tied")["layers.0.attention.query_value.weight"], torch.cat([queries, values]))
    back = convert(cogwheel, "tied", "back", "mechanism=softmax")
    assert back["new"] == tied["lost"] and back["lost"] == []
    state = convert(cogwheel, "soft", "state", "mechanism=gla*2+softmax")
    found = weights(cogwheel.folder / "state")
    for part, expected in {"query": queries, "key": keys, "value": values, "output": soft["layers.0.attention.output.weight"]}.items():
        assert torch.equal(found[f"layers.0.attention.{part}.weight"], expected)
    assert {part.split(".")[3] for part in state["new"]} == {"output_gate", "head_norm", "log_decay"}
    difference = convert(cogwheel, "soft", "difference", "mechanism=differential")
    assert {part.split(".")[3] for part in difference["new"]} == {"lambda_query1", "lambda_key1", "lambda_query2", "lambda_key2", "head_norm"}
    assert torch.equal(weights(cogwheel.folder / "difference")["layers.0.attention.query_key_value.weight"], soft["layers.0.attention.query_key_value.weight"])
    # What is new is what a run begins with.
    fresh = train(cogwheel, "fresh", "model.mechanism=differential", "training.steps=1", "training.learning_rate=1e-30", "training.final_learning_rate=0")
    assert torch.equal(weights(fresh)["layers.2.attention.lambda_key2"], weights(cogwheel.folder / "difference")["layers.2.attention.lambda_key2"])


def test_norms_heads_and_positions(cogwheel):
    gpt = train(cogwheel, "gpt", "training.steps=2", "model.position=learned", "model.tied_head=true", "model.norm=layer", "model.bias=true")
    found = convert(cogwheel, "gpt", "longer", "context=24", "tied_head=false", "norm=rms")
    tokens = torch.randint(5, (2, 16), generator=torch.Generator().manual_seed(1))
    before, after = weights(gpt), weights(cogwheel.folder / "longer")
    assert torch.equal(after["position_embedding"][:16], before["position_embedding"]) and after["position_embedding"].shape == (24, 32)
    assert torch.equal(after["head.weight"], before["token_embedding"])
    assert "final_norm.bias" in found["lost"] and "head.bias" in found["new"]
    convert(cogwheel, "gpt", "only-longer", "context=24", "tied_head=false")
    torch.testing.assert_close(logits(cogwheel.folder / "only-longer", tokens), logits(gpt, tokens), rtol=0, atol=1e-6)


def test_one_by_one_is_each_layer_converted_by_hand(cogwheel):
    done = cogwheel("convert", "soft", "--set", "model.mechanism=cog", "--one-by-one", "--json")
    assert done.returncode == 0 and not (cogwheel.folder / "runs").exists(), done.stderr
    swaps = json.loads(done.stdout)["one_by_one"]
    # Every token that is held out, by a window each.
    ids = {token: number for number, token in enumerate(json.loads((cogwheel.folder / "soft/tokenizer.json").read_text())["characters"])}
    held_out = torch.tensor([ids[character] for character in TEXT])[len(TEXT) * 9 // 10 :]
    windows = (len(held_out) - 1) // 16
    assert swaps["tokens"] == windows * 16
    tokens, targets = held_out[: windows * 16].view(-1, 16), held_out[1 : windows * 16 + 1]
    before = logits(cogwheel.folder / "soft", tokens).flatten(0, 1).double().log_softmax(-1)
    assert swaps["loss"] == pytest.approx(F.nll_loss(before, targets).item(), abs=1e-5)
    for layer, pattern in enumerate(["cog+softmax*2", "softmax+cog+softmax", "softmax*2+cog", "cog"]):
        by_hand = convert(cogwheel, "soft", f"by-hand-{layer}", f"mechanism={pattern}")
        now = logits(cogwheel.folder / f"by-hand-{layer}", tokens).flatten(0, 1).double().log_softmax(-1)
        cost = swaps["layers"][layer] if layer < LAYERS else swaps["all"]
        assert cost["loss"] == pytest.approx(by_hand["after"], abs=1e-5)
        assert cost["loss"] == pytest.approx(F.nll_loss(now, targets).item(), abs=1e-5)
        assert cost["divergence"] == pytest.approx(F.kl_div(now, before, log_target=True, reduction="batchmean").item(), abs=1e-5)
        assert cost["agreement"] == pytest.approx((now.argmax(-1) == before.argmax(-1)).double().mean().item(), abs=2 / len(targets))
        assert layer == LAYERS or (cost["before"], cost["after"]) == ("softmax", "cog")


# A dense model in float64, by the formulas of the papers.
MECHANISMS = {"softmax": reference.softmax_weights, "cog": reference.cog_weights}
HEADS = 2


def rms(x, gain):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gain


def turned(x):
    """Rotary positions of interleaved components."""
    place, pair = torch.arange(x.shape[-2], dtype=torch.float64), torch.arange(x.shape[-1] // 2, dtype=torch.float64)
    angle = place[:, None] * 10000 ** (-2 * pair / x.shape[-1])
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], -1).flatten(-2)


def mixer(model, layer, x, mechanism):
    name = f"layers.{layer}.attention."
    query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in F.linear(x, model[name + "query_key_value.weight"]).chunk(3, -1))
    scores = turned(query) @ turned(key).transpose(-1, -2) / query.shape[-1] ** 0.5
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return F.linear((MECHANISMS[mechanism](scores, visible) @ value).transpose(1, 2).flatten(2), model[name + "output.weight"])


def feed_forward(model, layer, x):
    name = f"layers.{layer}.feed_forward."
    gate, up = F.linear(x, model[name + "up.weight"]).chunk(2, -1)
    return F.linear(F.silu(gate) * up, model[name + "out.weight"])


def dense_pass(model, tokens, mechanism):
    """The logits, and of each layer the residual stream before it and what its mixer adds."""
    x, streams, added = model["token_embedding"][tokens], [], []
    for layer in range(2):
        streams.append(x)
        added.append(mixer(model, layer, rms(x, model[f"layers.{layer}.attention_norm.weight"]), mechanism))
        x = x + added[-1]
        x = x + feed_forward(model, layer, rms(x, model[f"layers.{layer}.feed_forward_norm.weight"]))
    return F.linear(rms(x, model["final_norm.weight"]), model["head.weight"]), streams, added


def transfer_loss(model, teacher, tokens):
    with torch.no_grad():
        _, streams, added = dense_pass(teacher, tokens, "softmax")
    missed = [mixer(model, layer, rms(streams[layer], model[f"layers.{layer}.attention_norm.weight"]), "cog") - added[layer] for layer in range(2)]
    return sum(each.square().sum(-1).mean() for each in missed) / 2


def taught_loss(model, teacher, tokens, targets, share, temperature):
    own = dense_pass(model, tokens, "cog")[0].flatten(0, 1)
    with torch.no_grad():
        theirs = dense_pass(teacher, tokens, "softmax")[0].flatten(0, 1)
    divergence = F.kl_div((own / temperature).log_softmax(-1), (theirs / temperature).log_softmax(-1), log_target=True, reduction="batchmean")
    return (1 - share) * F.cross_entropy(own, targets.flatten()) + share * temperature**2 * divergence


@pytest.mark.parametrize("more", [{}, {"micro_batches": 2}], ids=["whole", "slices"])
def test_transfer_and_teacher_are_those_of_dense_float64(more, cogwheel, cogwheel_executable, tmp_path, monkeypatch):
    """Steps of both phases, from equal weights and batches, against autograd and AdamW of PyTorch in float64."""
    shape = {"layers": 2, "heads": HEADS, "width": 32, "context": 12, "feed_forward": 48, "vocabulary": 30}
    train(cogwheel, "taught-by", *(f"model.{key}={value}" for key, value in shape.items() if key != "vocabulary"), "training.steps=20", "data.text=text.txt", 'data.sha256=""')
    shape["vocabulary"] = len(weights(cogwheel.folder / "taught-by")["token_embedding"])
    steps, transfer, share, temperature, rate = 16, 10, 0.7, 2.0, 0.002
    start = tmp_path / "start.safetensors"
    options = {f"model.{key}": value for key, value in shape.items()} | {f"training.{key}": value for key, value in more.items()}
    options |= {"model.form": "llama", "model.mechanism": "cog", "training.batch": 4, "training.warm_up": 0, "training.learning_rate": rate, "training.schedule": "wsd"}
    options |= {"task.start": cogwheel.folder / "taught-by", "task.teacher": cogwheel.folder / "taught-by"}
    options |= {"task.transfer_steps": transfer, "task.teacher_share": share, "task.teacher_temperature": temperature}
    side = CogwheelSteps(cogwheel_executable, [*(f"--set={key}={value}" for key, value in options.items()), f"--save={start}", f"--batches={steps}"])
    ours = [side.step() for _ in range(steps)]
    side.close()

    teacher = {name: weight.double() for name, weight in weights(cogwheel.folder / "taught-by").items()}
    saved = read_tensors(start)
    model = {name.removeprefix("model."): weight.double().requires_grad_() for name, weight in saved.items() if name.startswith("model.")}
    assert all(torch.equal(model[name], teacher[name]) for name in teacher) and model.keys() == teacher.keys()
    mixers = {name for name in model if ".attention." in name}

    def optimizer(names):
        groups = [{"params": [model[name]], "weight_decay": 0.1 if model[name].dim() > 1 else 0.0} for name in names]
        return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99))

    of_mixers, of_others = optimizer(sorted(mixers)), optimizer(sorted(model.keys() - mixers))
    theirs = []
    for step in range(steps):
        tokens, targets = saved[f"batch.{step}.inputs"], saved[f"batch.{step}.targets"]
        parts = [of_mixers] if step < transfer else [of_mixers, of_others]
        if step < transfer:
            loss = transfer_loss(model, teacher, tokens)
        else:
            loss = taught_loss(model, teacher, tokens, targets, share, temperature)
        for weight in model.values():
            weight.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_norm_([weight for name, weight in model.items() if step >= transfer or name in mixers], 1.0)
        for part in parts:
            part.step()
        theirs.append(loss.item())
    assert ours == pytest.approx(theirs, rel=2e-4)
    assert theirs[transfer - 1] < 0.9 * theirs[0] and theirs[-1] < theirs[transfer]  # they have learned


def test_a_run_with_a_teacher_resumes_bit_for_bit(cogwheel, cogwheel_executable):
    words = ["soft/config.toml", "--set", "model.mechanism=gla+cog+softmax", "--set", "task.start=soft", "--set", "task.teacher=soft"]
    more = {"task.transfer_steps": 30, "training.steps": 36, "training.report_every": 4, "training.checkpoint_every": 1, "training.evaluate_every": 0, "training.ema": 0.9}
    words += [word for key, value in more.items() for word in ("--set", f"{key}={value}")]
    expect_resumes_bit_for_bit(cogwheel, cogwheel_executable, cogwheel.folder, words, "taught")
    lines = metrics(cogwheel.folder / "whole-taught")
    assert [line.get("phase") for line in lines] == ["transfer"] * 7 + [None] * 2
    # A line after the change is of the steps after it alone: the loss of a text and not what mixers miss.
    assert lines[7]["train_loss"] > 10 * lines[6]["train_loss"] > 0
    config = (cogwheel.folder / "whole-taught/config.toml").read_text()
    assert config.count("_sha256") == 2


def test_a_run_with_a_teacher_goes_on_from_any_checkpoint(cogwheel):
    """Of either phase, and where one ends; one that ended with its transfer goes on to the steps after it."""
    keys = ["task.start=soft", "task.teacher=soft", "model.mechanism=cog", "task.transfer_steps=4", "training.checkpoint_every=1", "training.keep_checkpoints=20"]
    keys += ["training.warm_up=0", "training.final_learning_rate=5e-3"]  # a rate that knows nothing of the steps
    whole, transfer = (train(cogwheel, f"kept-{steps}", *keys, f"training.steps={steps}") for steps in (8, 4))
    expected = weights_hash(whole / "checkpoint.safetensors")
    for step in (2, 4, 6):
        done = cogwheel("resume", whole / f"checkpoints/{step}.safetensors", "--out", f"kept-from-{step}")
        assert done.returncode == 0, done.stderr
        assert weights_hash(cogwheel.folder / f"kept-from-{step}/checkpoint.safetensors") == expected
    done = cogwheel("resume", transfer, "--set", "training.steps=8")
    assert done.returncode == 0, done.stderr
    assert weights_hash(transfer / "checkpoint.safetensors") == expected


def test_a_run_without_its_teacher_stays_as_it_was(cogwheel):
    shutil.copytree(cogwheel.folder / "soft", cogwheel.folder / "left")
    train(cogwheel, "pupil", "task.teacher=left", "training.steps=2")
    shutil.rmtree(cogwheel.folder / "left")
    before = {path: path.read_bytes() for path in (cogwheel.folder / "pupil").rglob("*") if path.is_file()}
    refused = cogwheel("resume", "pupil", "--set", "training.steps=4")
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1 and "task.teacher: " in refused.stderr, refused.stderr
    assert {path: path.read_bytes() for path in (cogwheel.folder / "pupil").rglob("*") if path.is_file()} == before
    assert cogwheel("evaluate", "pupil").returncode == 0


def test_a_run_that_has_begun_needs_no_start(cogwheel):
    shutil.copytree(cogwheel.folder / "soft", cogwheel.folder / "gone")
    train(cogwheel, "begun", "task.start=gone", "model.mechanism=cog", "training.steps=4")
    shutil.rmtree(cogwheel.folder / "gone")
    done = cogwheel("resume", "begun", "--set", "training.steps=6")
    assert done.returncode == 0, done.stderr
    refused = cogwheel("train", "begun/config.toml", "--out", "anew")
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1 and "task.start: " in refused.stderr


def test_frozen_parts_stay(cogwheel):
    frozen = 'training.frozen=["token_embedding", "head", "layers.*.feed_forward"]'
    run = train(cogwheel, "frozen", "task.start=soft", "model.mechanism=cog", frozen, "training.steps=3")
    before, after = weights(cogwheel.folder / "soft"), read_tensors(run / "checkpoint.safetensors")
    stays = {name for name in before if name.startswith(("token_embedding", "head")) or ".feed_forward." in name}
    assert len(stays) == 2 + 2 * LAYERS
    for name, weight in before.items():
        assert torch.equal(weight, after["model." + name]) == (name in stays), name
        assert ("first_moment." + name in after) == (name not in stays)
    said = [cogwheel("train", "soft/config.toml", "--set", "task.start=soft", *more, "--dry-run", "--json") for more in ([], ["--set", frozen])]
    parts = [{part["name"]: part["bytes"] for part in json.loads(each.stdout)["memory"]["parts"]} for each in said]
    left = sum(4 * weight.numel() for name, weight in before.items() if name not in stays)
    assert parts[0]["weights"] == parts[1]["weights"] and parts[1]["moments"] == 2 * left < parts[0]["moments"]


def test_memory_with_a_teacher_is_forecast(cogwheel):
    words = ["train", "soft/config.toml", "--set", "task.teacher=soft", "--set", "model.context=512", "--set", "training.batch=16", "--dry-run", "--json"]
    convert(cogwheel, "soft", "long", "context=512")
    for more in ([], ["--set", "task.transfer_steps=5"]):
        done = cogwheel(*[word.replace("=soft", "=long") for word in words], *more)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["measured"]["peak_bytes"] == pytest.approx(found["measured"]["said_bytes"], rel=0.35)


def test_a_comparison_of_surgeries(cogwheel):
    words = ["--attention", "softmax,cog,gla*2+softmax", "--set", "task.start=soft", "--text", "text.txt", "--preset", "tiny", "--seeds", "1", "--steps", "4"]
    done = cogwheel("compare", *words, "--set", "training.batch=4", "--learning-rate", "1e-4", "--out", "compared")
    assert done.returncode == 0, done.stderr
    results = json.loads((cogwheel.folder / "compared/results.json").read_text())
    assert results["match"] == "tokens" and results["configuration"]["task.start_sha256"]
    assert [plan["feed_forward"] for plan in results["mechanisms"]] == [64] * 3
    start = json.loads(cogwheel("convert", "soft", "--set", "model.mechanism=cog", "--out", "c", "--overwrite", "--json").stdout)
    final = {run["mechanism"]: run["held_out_loss"] for run in results["runs"]}
    assert final["softmax"] == pytest.approx(start["before"], abs=0.05) and final["softmax"] < final["cog"] < start["after"]
    assert "task.start=soft" in results["command"]
    added = cogwheel("compare", "--add", "linear_abs", "compared")
    assert added.returncode == 0, added.stderr


def test_a_comparison_of_surgeries_takes_its_options(cogwheel):
    """Of the start's model what is asked for changes; curves have no losses of a transfer, which are of mixers."""
    words = ["--attention", "softmax,gla", "--set", "task.start=soft", "--text", "text.txt", "--preset", "tiny", "--seeds", "1", "--steps", "6"]
    words += ["--position", "none", "--recurrent-layer", "plain", "--set", "task.teacher=soft", "--set", "task.transfer_steps=3"]
    done = cogwheel("compare", *words, "--out", "optional")
    assert done.returncode == 0, done.stderr
    results = json.loads((cogwheel.folder / "optional/results.json").read_text())
    assert (results["configuration"]["model.position"], results["configuration"]["model.recurrent_layer"]) == ("none", "plain")
    assert "--position none" in results["command"] and "--recurrent-layer plain" in results["command"]
    for run in results["runs"]:
        assert [point["train_loss"] is None for point in run["curve"]] == [point["step"] <= 3 for point in run["curve"]]


REFUSALS = {
    "width": (["convert", "soft", "--set", "model.width=64"], "model.width: expected 32, as soft has, got 64"),
    "layers": (["convert", "soft", "--set", "model.layers=2"], "model.layers: expected 3"),
    "vocabulary": (["convert", "soft", "--set", "model.vocabulary=99"], "model.vocabulary: expected"),
    "hidden": (["convert", "soft", "--set", "model.feed_forward=32"], "model.feed_forward: expected 64"),
    "activation": (["convert", "soft", "--set", "model.activation=gelu"], "model.activation: expected swiglu"),
    "another key": (["convert", "soft", "--set", "training.steps=2"], "convert: --set: expected a key of the model"),
    "mechanism": (["convert", "soft", "--set", "model.mechanism=cogg"], "model.mechanism: expected cog"),
    "key heads": (["convert", "soft", "--set", "model.key_value_heads=3"], "key_value_heads: expected a divisor of the heads (4), got 3"),
    "no run": (["convert", "nowhere", "--set", "model.mechanism=cog"], "nowhere: expected the folder of a run"),
    "itself": (["convert", "soft", "--out", "soft", "--overwrite"], "convert: --out: expected another folder"),
    "nothing to swap on": (["convert", "weights", "--set", "model.mechanism=cog", "--one-by-one"], "convert: --one-by-one: expected a run with a text"),
    "taken": (["convert", "soft", "--out", "other"], "other: expected"),
    "start of another width": (["train", "soft/config.toml", "--set", "task.start=other", "--text", "letters.txt", "--set", "data.sha256="], "model.width: expected 64, as task.start, "),
    "start of other words": (["train", "other/config.toml", "--set", "task.start=soft"], "expected"),
    "start that is none": (["train", "soft/config.toml", "--set", "task.start=nowhere"], "nowhere: expected the folder of a run"),
    "teacher of other words": (["train", "soft/config.toml", "--set", "task.teacher=other"], "task.teacher: expected"),
    "another teacher": (["train", "soft/config.toml", "--set", "task.teacher=soft", "--set", "task.teacher_sha256=abc"], "SHA-256"),
    "share without teacher": (["train", "soft/config.toml", "--set", "task.teacher_share=0.5"], "task.teacher_share: expected task.teacher beside it"),
    "teacher of nothing": (["train", "soft/config.toml", "--set", "task.teacher=soft", "--set", "task.teacher_share=0"], "task.teacher_share: expected above 0"),
    "share": (["train", "soft/config.toml", "--set", "task.teacher=soft", "--set", "task.teacher_share=1.5"], "task.teacher_share: expected at most 1, got 1.5"),
    "temperature": (["train", "soft/config.toml", "--set", "task.teacher=soft", "--set", "task.teacher_temperature=0"], "task.teacher_temperature: expected at least 0.001"),
    "over its start": (["train", "soft/config.toml", "--set", "task.start=soft", "--out", "./soft", "--overwrite"], "--out: expected another folder than that of task.start"),
    "over its teacher": (["train", "soft/config.toml", "--set", "task.teacher=soft/checkpoint.safetensors", "--out", "soft", "--overwrite"], "--out: expected another folder than that of task.teacher"),
    "tokenizer of the start": (["train", "soft.toml", "--set", "task.start=soft", "--set", "data.tokenizer=byte"], "data.tokenizer: expected character, that of task.start, got byte"),
    "form of the start": (["compare", "--attention", "softmax", "--text", "text.txt", "--set", "task.start=soft", "--form", "gpt", "--steps", "1"], "model.activation: expected swiglu, as task.start"),
    "frozen in one of two": (["compare", "--attention", "softmax,gla", "--text", "text.txt", "--set", "task.start=soft", "--set", 'training.frozen=["*.query_key_value"]', "--steps", "1"], "training.frozen: expected"),
    "frozen, nothing near": (["train", "soft/config.toml", "--set", 'training.frozen=["nothing"]'], "such as token_embedding or layers.*.feed_forward, got nothing"),
    "short teacher": (["train", "soft/config.toml", "--set", "task.teacher=soft", "--set", "model.context=32"], "task.teacher: expected a context of at least 32"),
    "frozen": (["train", "soft/config.toml", "--set", 'training.frozen=["layers.7"]'], "training.frozen: expected"),
    "all frozen": (["train", "soft/config.toml", "--set", 'training.frozen=["*"]'], "training.frozen: expected parameters left to learn"),
    "unknown": (["train", "soft/config.toml", "--set", "task.teachr=soft"], "task: key: expected teacher"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_line_and_write_nothing(case, cogwheel):
    words, expected = REFUSALS[case]
    before = sorted(cogwheel.folder.rglob("*"))
    done = cogwheel(*words, *([] if "--out" in words else ["--out", "refused"]))
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1 and expected in done.stderr, done.stderr
    assert sorted(cogwheel.folder.rglob("*")) == before


@pytest.mark.parametrize("limit", [300, 3000, 60_000])
def test_a_disk_that_fills_leaves_nothing(limit, cogwheel, cogwheel_executable):
    before = sorted(cogwheel.folder.rglob("*"))
    done = subprocess.run(
        [cogwheel_executable, "convert", "soft", "--set", "model.mechanism=cog", "--out", "full"],
        cwd=cogwheel.folder, capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "expected a file that can be written" in done.stderr, done.stderr
    assert sorted(cogwheel.folder.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.alone
def test_a_step_with_a_teacher_takes_half_as_long_again_at_most(cogwheel, cogwheel_executable):
    shape = {"layers": 4, "heads": 4, "width": 256, "context": 256, "feed_forward": 704}
    keys = [f"model.{key}={value}" for key, value in shape.items()]
    train(cogwheel, "large", *keys, "training.steps=1", "training.batch=1", "data.tokenizer=byte", "data.sha256=")
    words = [f"--set={key}" for key in [*keys, "model.form=llama", "model.vocabulary=256", "training.batch=4"]]
    taught = [f"--set=task.teacher={cogwheel.folder / 'large'}"]
    sides = {name: CogwheelSteps(cogwheel_executable, words + more) for name, more in {"plain": [], "taught": taught}.items()}
    try:
        timings = take_turns({name: side.step for name, side in sides.items()}, seconds=8, min_turns=8)
    finally:
        for side in sides.values():
            side.close()
    assert timings["taught"].min <= 1.5 * timings["plain"].min
