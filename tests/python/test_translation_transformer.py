"""The encoder–decoder of the task `translation`: against its formulas, and on the command line."""

import base64
import json
import math
import os
import random
import re
import subprocess
import sys

import pytest
import reference
import torch
from plain_layers import frequencies, rotated
from resumed_runs import expect_resumes_bit_for_bit
from tensor_files import read_tensors
from torch.nn import functional as F

import cogwheel

CONFIG = """
[task]
name = "translation"
model = "transformer"
[model]
width = 32
context = 20
layers = 2
dropout = 0.1
{model}
[training]
steps = 4
batch = 8
warm_up = 1
learning_rate = 0.01
evaluate_every = 2
checkpoint_every = 2
curve_tokens = 16
"""
# Each kind of attention, position, norm and feed-forward, in as few models as hold them.
MODELS = {
    "learned": 'mechanism = "softmax"\nkey_value_heads = 2\nbias = true',
    "rotary": 'mechanism = "cog+softmax_off_by_one"\nposition = "rotary"\nnorm = "rms"\nactivation = "swiglu"\nheads = 2\nkey_value_heads = 1',
    "halves": 'mechanism = "differential"\nposition = "rotary_halves"\nfirst_lambda_depth = 1\ntied_embeddings = false\nactivation = "gelu_tanh"',
    "none": 'mechanism = "consmax"\nposition = "none"\nlast_softmax_layers = 1',
}
IGNORED = -100


@pytest.fixture(scope="module")
def cogwheel_command(cogwheel_executable, tmp_path_factory):
    folder = tmp_path_factory.mktemp("transformer")
    bare = folder / "bare-python"  # without sacrebleu, which takes seconds
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)

    def run(*words, fails=False):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COGWHEEL_PYTHON": str(bare)}
        done = subprocess.run([cogwheel_executable, *map(str, words)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode != 0) == fails, done.stderr
        return done

    run.folder = folder
    return run


@pytest.fixture(scope="module", params=MODELS)
def run(request, cogwheel_command):
    return trained(cogwheel_command, request.param)


def trained(command, name):
    (command.folder / f"{name}.toml").write_text(CONFIG.format(model=MODELS[name]))
    if not (command.folder / name).exists():
        command("train", f"{name}.toml", "--out", name)
    return command.folder / name


class Judge:
    """The model as dense formulas in float64."""

    def __init__(self, folder, options):
        tensors = read_tensors(folder / "checkpoint.safetensors")
        self.weights = {
            name.removeprefix("model."): tensor.double().requires_grad_()
            for name, tensor in tensors.items() if name.startswith("model.")
        }  # fmt: skip
        self.options = options

    def linear(self, name, x):
        return F.linear(x, self.weights[name + ".weight"], self.weights.get(name + ".bias"))

    def norm(self, name, x):
        if self.options["norm"] == "rms":
            return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * self.weights[name + ".weight"]
        return F.layer_norm(x, x.shape[-1:], self.weights[name + ".weight"], self.weights.get(name + ".bias"), 1e-5)

    def mechanism(self, layer):
        if layer >= self.options["layers"] - self.options["last_softmax_layers"]:
            return "softmax"
        names = self.options["mechanism"].split("+")
        return names[layer % len(names)]

    def heads(self, x, count):
        return x.unflatten(-1, (count, -1))

    def placed(self, x):
        kind = self.options["position"]
        if not kind.startswith("rotary"):
            return x
        omega = frequencies(x.shape[-1], 10000.0, "none", 1, 1, 1, 1)
        return rotated(x, torch.arange(x.shape[1]).expand(x.shape[:2]), omega, kind == "rotary_halves")

    def attention(self, name, layer, x, visible, memory=None):
        mechanism, count = self.mechanism(layer), self.options["heads"]
        shared = self.options["key_value_heads"] or count
        difference = mechanism == "differential"
        width, of_keys = self.options["width"], self.options["width"] // count * shared
        if memory is None:
            query, key, value = self.linear(name + ".query_key_value", x).split([width, of_keys, of_keys], -1)
        else:
            query, (key, value) = self.linear(name + ".query", x), self.linear(name + ".key_value", memory).chunk(2, -1)
        query, key, value = self.heads(query, count), self.heads(key, shared), self.heads(value, shared // 2 if difference else shared)
        if memory is None:
            query, key = self.placed(query), self.placed(key)
        parameters = {key: self.weights[f"{name}.{key}"] for key in ("beta", "gamma", "sink") if f"{name}.{key}" in self.weights}
        if difference:
            first = 0.8 - 0.6 * math.exp(-0.3 * (layer + self.options["first_lambda_depth"]))
            part = {each: self.weights[f"{name}.lambda_{each}"] for each in ("query1", "key1", "query2", "key2")}
            lam = (part["query1"] @ part["key1"]).exp() - (part["query2"] @ part["key2"]).exp() + first
            parameters["lam"] = lam.expand(count // 2)
        attended = reference.attention(
            mechanism, query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
            scale=query.shape[-1] ** -0.5, visible=visible, parameters=parameters,
        ).transpose(1, 2)  # fmt: skip
        if difference:
            attended = F.rms_norm(attended, attended.shape[-1:], None, 1e-5) * self.weights[name + ".head_norm"] * (1 - first)
        return self.linear(name + ".output", attended.flatten(2))

    def feed_forward(self, name, x):
        units = self.linear(name + ".up", x)
        if self.options["activation"] == "swiglu":
            gate, up = units.chunk(2, -1)
            units = F.silu(gate) * up
        else:
            units = F.gelu(units, approximate="tanh" if self.options["activation"] == "gelu_tanh" else "none")
        return self.linear(name + ".out", units)

    def embedded(self, tokens, table, places):
        x = F.embedding(tokens, self.weights[table])
        return x + self.weights[places][: tokens.shape[1]] if places in self.weights else x

    def __call__(self, source, tokens, lengths):
        own = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
        h = self.embedded(source, "embedding", "source_position_embedding")
        for layer in range(self.options["layers"]):
            name = f"encoder.{layer}"
            h = h + self.attention(f"{name}.attention", layer, self.norm(f"{name}.attention_norm", h), own)
            h = h + self.feed_forward(f"{name}.feed_forward", self.norm(f"{name}.feed_forward_norm", h))
        h = self.norm("encoder_norm", h)
        y = self.embedded(tokens, "embedding" if self.options["tied_embeddings"] else "target_embedding", "target_position_embedding")
        causal = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()[None, None]
        for layer in range(self.options["layers"]):
            name = f"decoder.{layer}"
            y = y + self.attention(f"{name}.attention", layer, self.norm(f"{name}.attention_norm", y), causal)
            y = y + self.attention(f"{name}.memory_attention", layer, self.norm(f"{name}.memory_norm", y), own, h)
            y = y + self.feed_forward(f"{name}.feed_forward", self.norm(f"{name}.feed_forward_norm", y))
        output = self.weights["embedding" if self.options["tied_embeddings"] else "output"]
        return F.linear(self.norm("decoder_norm", y), output, self.weights["output_bias"])


def a_batch(vocabulary):
    """Odd lengths, of which two are padded in source and target."""
    generator = torch.Generator().manual_seed(5)
    source, tokens, targets = (torch.randint(4, vocabulary, (3, n), generator=generator) for n in (7, 5, 5))
    targets[1, 3:] = targets[2, 1:] = IGNORED
    return source, tokens, torch.tensor([7, 3, 1]), targets


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, label_smoothing=0.1)


def test_is_its_formula(run):
    """The loss and every gradient."""
    loaded = cogwheel.load(run).double()
    assert type(loaded) is cogwheel.Transformer
    judge = Judge(run, loaded.options)
    source, tokens, lengths, targets = a_batch(loaded.options["vocabulary"])
    got, expected = loaded(source, tokens, lengths), judge(source, tokens, lengths)
    told = targets != IGNORED
    torch.testing.assert_close(got[told], expected[told], rtol=0, atol=1e-10)
    losses = [loss_of(logits, targets) for logits in (got, expected)]
    torch.testing.assert_close(*losses, rtol=1e-12, atol=0)
    for loss in losses:
        loss.backward()
    parameters = dict(loaded.named_parameters())
    assert parameters.keys() == judge.weights.keys()
    for name, parameter in parameters.items():
        reached = judge.weights[name].grad
        largest = float(reached.abs().max())
        assert largest > 0, name
        torch.testing.assert_close(parameter.grad, reached, rtol=0, atol=1e-9 * largest, msg=name)


def test_hooks_read_both_kinds_of_attention(run):
    loaded = cogwheel.load(run).double()
    source, tokens, lengths, _ = a_batch(loaded.options["vocabulary"])
    out, cache = loaded.run_with_cache(source, tokens, lengths, names=lambda name: name.endswith("pattern"))
    assert list(cache) == [f"blocks.{place}.hook_pattern" for place in ("0.attn", "1.attn", "2.attn", "2.memory.attn", "3.attn", "3.memory.attn")]
    heads = loaded.options["heads"] // (2 if loaded.options["mechanism"] == "differential" else 1)
    for name, pattern in cache.items():
        queries, keys = (7, 7) if name < "blocks.2" else (5, 7) if "memory" in name else (5, 5)
        assert pattern.shape == (3, heads, queries, keys), name
        assert (pattern[1, :, :, 3:] == 0).all() if "memory" in name else True
    silent = loaded.run_with_hooks(source, tokens, lengths, fwd_hooks=[("blocks.3.memory.hook_attn_out", lambda value, hook: torch.zeros_like(value))])
    assert not torch.allclose(silent, out)
    own = loaded.run_with_hooks(source, tokens, lengths, fwd_hooks=[("blocks.3.hook_attn_out", lambda value, hook: torch.zeros_like(value))])
    assert not torch.allclose(silent, own)


def test_padding_and_later_tokens_change_nothing(run):
    loaded = cogwheel.load(run).double()
    source, tokens, lengths, _ = a_batch(loaded.options["vocabulary"])
    together = loaded(source, tokens, lengths)
    other = source.clone()
    other[1, 3:] = 9
    assert torch.equal(loaded(other, tokens, lengths), together)
    alone = loaded(source[1:2, :3], tokens[1:2, :4])
    torch.testing.assert_close(together[1:2, :4], alone, rtol=0, atol=1e-12)
    assert not torch.allclose(loaded(source, tokens), together)  # without lengths padding is read


@pytest.mark.parametrize("name", ["learned", "halves"])
def test_evaluates_and_translates(cogwheel_command, name):
    run = trained(cogwheel_command, name)
    done = cogwheel_command("evaluate", name)
    assert "nats per word" in done.stdout
    found = json.loads((run / "evaluation.json").read_text())
    assert found["measures"]["held_out_loss"] == json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["final_held_out_loss"]
    tables = {table["title"]: table["rows"] for table in found["tables"]}
    assert 0 < float(dict(tables["Alignment"])["alignment error rate"]) <= 1
    assert "mean over heads of the decoder&#39;s layer 0 of 2" in (run / "evaluation.html").read_text().replace("'", "&#39;")
    lines = ["the cat sees a dog", "", "a old snowman follows a lighthouse"]
    (cogwheel_command.folder / "lines").write_text("\n".join(lines) + "\n")
    done = cogwheel_command("sample", name, "--input", "lines", "--alignments", "links")
    translated = done.stdout.split("\n")
    assert done.stdout == cogwheel_command("sample", name, "--input", "lines").stdout
    assert cogwheel_command("sample", name, "--prompt", lines[0]).stdout == translated[0] + "\n"
    links = (cogwheel_command.folder / "links").read_text().split("\n")
    assert len(links) == 4 and links[3] == "" and links[1] == ""
    for line, translation, linked in zip(lines, translated, links, strict=False):
        pairs = [tuple(map(int, pair.split("-"))) for pair in linked.split()]
        # One link of each word of the translation, as tokens are words.
        assert sorted(target for _, target in pairs) == list(range(len(translation.split())))
        assert all(source < len(line.split()) for source, _ in pairs) and pairs == sorted(pairs)


def test_resumes_bit_for_bit_after_a_kill(cogwheel_command, cogwheel_executable):
    trained(cogwheel_command, "rotary")
    words = ["rotary.toml"]
    for key in ("steps=60", "report_every=3", "checkpoint_every=3", "evaluate_every=20"):
        words += ["--set", "training." + key]
    expect_resumes_bit_for_bit(cogwheel_command, cogwheel_executable, cogwheel_command.folder, words, "rotary")


def test_links_are_those_of_the_weights(cogwheel_command):
    """Of words, where tokens are pieces of them; of the layer that is asked for."""
    draw = random.Random(4)
    words = {"dog": "Hund", "kitten": "Kätzchen", "lighthouse": "Leuchtturm", "old": "alt", "sees": "sieht"}
    pairs = [[draw.choice(list(words)) for _ in range(draw.randrange(2, 7))] for _ in range(60)]
    folder = cogwheel_command.folder
    (folder / "text.en").write_text("".join(" ".join(each) + "\n" for each in pairs))
    (folder / "text.de").write_text("".join(" ".join(words[word] for word in each) + "\n" for each in pairs))
    (folder / "files.toml").write_text(CONFIG.format(model="").replace("context = 20", "context = 60"))
    files = ["--source", "text.en", "--target", "text.de", "--set", "task.vocabulary=32"]
    cogwheel_command("train", "files.toml", *files, "--set", "training.steps=40", "--out", "files")
    line = "old kitten  sees lighthouse"
    read = {}
    for layer in (None, 0, 1):
        of_layer = [] if layer is None else ["--alignment-layer", layer]
        done = cogwheel_command("sample", "files", "--prompt", line, "--beam", 1, "--alignments", "links", *of_layer)
        read[layer] = (done.stdout, (folder / "links").read_text())
    assert read[None] == read[0] and read[0][0] == read[1][0] and read[0][1] != read[1][1]
    # The same by hand: the mean over heads of what predicts each piece, and its largest source piece.
    model = cogwheel.load(folder / "files")
    record = json.loads((folder / "files/tokenizer.json").read_text())
    sentencepiece = pytest.importorskip("sentencepiece")
    pieces = sentencepiece.SentencePieceProcessor(model_proto=base64.b64decode(record["model"]))
    source = torch.tensor([[*pieces.encode(line), 3]])
    made = []
    while len(made) < min(2 * source.shape[1] + 10, 60):  # as long as a search goes on
        token = int(model(source, torch.tensor([[2, *made]]))[0, -1].argmax())
        if token == 3:
            break
        made.append(token)
    assert pieces.decode(made) == read[0][0].strip("\n")
    of_word = lambda tokens: [max(0, len(pieces.decode(tokens[: place + 1]).split()) - 1) for place in range(len(tokens))]  # noqa: E731
    judge = Judge(folder / "files", model.options)
    seen = {}
    original = Judge.attention

    def watched(self, name, layer, x, visible, memory=None):
        if memory is not None:
            query, key = self.linear(name + ".query", x), self.linear(name + ".key_value", memory).chunk(2, -1)[0]
            query, key = (self.heads(each, 4).transpose(1, 2) for each in (query, key))
            seen[layer] = (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5).softmax(-1).mean(1)[0]
        return original(self, name, layer, x, visible, memory)

    Judge.attention = watched
    try:
        judge(source, torch.tensor([[2, *made]]), torch.tensor([source.shape[1]]))
    finally:
        Judge.attention = original
    sources, targets = of_word(source[0, :-1].tolist()), of_word(made)
    for layer in (0, 1):
        best = seen[layer][: len(made), :-1].argmax(1).tolist()
        expected = sorted({(sources[best[place]], targets[place]) for place in range(len(made))})
        assert read[layer][1] == " ".join(f"{one}-{other}" for one, other in expected) + "\n"


def test_is_compared_with_the_recurrent_model(cogwheel_command):
    words = ["compare", "--task", "translation", "--steps", 2, "--seeds", 1]
    for small in ("training.batch=8", "model.width=32", "task.beam=1"):
        words += ["--set", small]
    cogwheel_command(*words, "--set", "task.model=transformer", "--attention", "softmax,cog", "--out", "alike")
    written = json.loads((cogwheel_command.folder / "alike/results.json").read_text())
    assert [(run["mechanism"], run["status"]) for run in written["runs"]] == [("softmax", "done"), ("cog", "done")]
    assert written["settings"]["preset"] == "translation-transformer"
    rows = [
        "--variant", "attention alone: task.model=transformer model.mechanism=softmax model.layers=1",
        "--variant", "aligned: model.mechanism=bahdanau", "--baseline", "aligned",
    ]  # fmt: skip
    cogwheel_command(*words, *rows, "--out", "both")
    written = json.loads((cogwheel_command.folder / "both/results.json").read_text())
    assert [run["status"] for run in written["runs"]] == ["done", "done"]
    one, other = (plan["parameters"] for plan in written["mechanisms"])
    assert abs(one - other) < 0.01 * other
    config = (cogwheel_command.folder / "both/trained/attention alone-seed-1/config.toml").read_text()
    assert 'model = "transformer"' in config and "context = 40" in config and "dropout = 0.1" in config


def test_refusals_are_one_line(cogwheel_command):
    trained(cogwheel_command, "learned")
    (cogwheel_command.folder / "plain.toml").write_text(CONFIG.format(model='mechanism = "softmax"'))
    (cogwheel_command.folder / "old.toml").write_text('[task]\nname = "translation"\n[model]\nwidth = 16\ncontext = 20\nmechanism = "none"\n[training]\nsteps = 1\nbatch = 2\n')
    cogwheel_command("train", "old.toml", "--out", "old")
    train = ["train", "plain.toml", "--out", "no"]
    sample = ["sample", "learned", "--prompt", "the dog sees a cat"]
    for words, message in (
        ([*train, "--set", "model.mechanism=gla"], "model.mechanism: expected one whose queries can read the keys of another sentence, got gla, which has a state"),
        ([*train, "--set", "model.mechanism=symmetric"], "got symmetric, whose keys are its queries"),
        ([*train, "--set", "model.mechanism=polynomial"], "got polynomial, a function of a whole matrix of scores"),
        ([*train, "--set", "model.mechanism=bahdanau"], "model.mechanism: expected .*, got bahdanau"),
        ([*train, "--set", "model.cell=lstm"], "key: expected .*, got model.cell"),
        ([*train, "--set", "model.heads=3"], "expected a divisor"),
        ([*train, "--set", "model.position=alibi"], "model.position: expected one of learned, rotary, rotary_halves, none, got alibi"),
        ([*train, "--set", "task.model=transfomer"], "task.model: expected transformer"),
        ([*train, "--set", "model.context=12"], "model.context: expected at least 20 for the toy language"),
        ([*sample, "--alignments", "links", "--alignment-layer", 2], "--alignment-layer: expected at most 1, got 2"),
        ([*sample, "--alignment-layer", 1], "--alignment-layer: expected --alignments beside it, got none"),
        ([*sample, "--alignments", "nowhere/links"], "nowhere"),
        ([*sample, "--alignments", "learned/config.toml"], "sample: --alignments: expected a place of its own, not the files of the run, got learned/config.toml"),
        (["sample", "learned", "--input", "old.toml", "--alignments", "./old.toml"], "sample: --alignments: expected another file than --input, got old.toml"),
        (["sample", "old", "--prompt", "the dog", "--alignments", "links"], "--alignments: expected a run whose model aligns, got none"),
    ):
        done = cogwheel_command(*words, fails=True)
        assert re.search(message, done.stderr), (words, done.stderr)
        assert done.stderr.count("\n") == 1 and done.stderr.startswith("cogwheel: ")
        assert not (cogwheel_command.folder / "no").exists()
