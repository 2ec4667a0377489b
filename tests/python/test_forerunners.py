"""The forerunners of self-attention that learn the task `sentences`: against their formulas, and on the command line."""

import json
import re

import pytest
import reference
import torch
from resumed_runs import expect_resumes_bit_for_bit, metrics
from tensor_files import read_tensors
from torch.nn import functional as F

import cogwheel as cw

CONFIG = """
[task]
name = "sentences"
model = "{word}"
toy = "{toy}"
[model]
width = 16
context = 64
dropout = 0.1
{model}
[training]
steps = 4
batch = 8
warm_up = 1
learning_rate = 0.01
evaluate_every = 2
report_every = 1
checkpoint_every = 2
curve_tokens = 16
"""
MODELS = {
    "structured": ("structured", "reviews", 'mechanism = "softmax"\nqueries = 3'),
    "gated": ("structured", "pairs", 'mechanism = "cog"\ncell = "gru"\nlayers = 2\nqueries = 2\npenalty = 0.5'),
    "consmax": ("structured", "reviews", 'mechanism = "consmax"\nfeed_forward = 8'),
    "lstmn": ("lstmn", "reviews", 'mechanism = "softmax"'),
    "signed": ("lstmn", "pairs", 'mechanism = "cog"\nfeed_forward = 8'),
    "sink": ("lstmn", "reviews", 'mechanism = "softmax_off_by_one"'),
    "decomposable": ("decomposable", "pairs", 'mechanism = "softmax"'),
    "compared": ("decomposable", "pairs", 'mechanism = "cog"\nfeed_forward = 8'),
}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forerunners")
    for name, (word, toy, model) in MODELS.items():
        (folder / f"{name}.toml").write_text(CONFIG.format(word=word, toy=toy, model=model))
    return folder


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, work):
    return cogwheel_in(work)


def trained(cogwheel, work, name):
    if not (work / name).exists():
        done = cogwheel("train", f"{name}.toml", "--out", name)
        assert done.returncode == 0, done.stderr
    return work / name


@pytest.fixture(scope="module", params=MODELS)
def run(request, cogwheel, work):
    return trained(cogwheel, work, request.param)


class Judge:
    """The models as formulas in float64, sentence by sentence and without padding."""

    def __init__(self, folder, options, word):
        tensors = read_tensors(folder / "checkpoint.safetensors")
        self.weights = {
            name.removeprefix("model."): tensor.double().requires_grad_()
            for name, tensor in tensors.items() if name.startswith("model.")
        }  # fmt: skip
        self.options, self.read = options, getattr(self, word)

    def linear(self, name, x):
        return F.linear(x, self.weights[name + ".weight"], self.weights.get(name + ".bias"))

    def row(self, scores):
        """Weights of scores [queries, keys]."""
        mechanism = self.options["mechanism"]
        parameters = {key: self.weights[f"alignment.{key}"] for key in ("beta", "gamma", "sink") if f"alignment.{key}" in self.weights}
        ones = torch.ones(1, 1, 1, 1, dtype=torch.double)
        visible = torch.ones(1, 1, 1, scores.shape[1], dtype=torch.bool)
        each = [reference.weights(mechanism, ones, line[None, None, :, None], scale=1.0, visible=visible, parameters=parameters)[0, 0, 0] for line in scores]
        return torch.stack(each)

    def queries(self, x):
        states = self.states(x)
        a = self.row(self.weights["queries"] @ self.linear("key", states).tanh().T)
        return a, states

    def states(self, x):
        width, gated = self.options["width"], self.options["cell"] == "gru"
        network = (torch.nn.GRU if gated else torch.nn.LSTM)(width, width // 2, self.options["layers"], bidirectional=True, dtype=torch.double)
        named = {name.removeprefix("network."): weight for name, weight in self.weights.items() if name.startswith("network.")}
        assert named.keys() == dict(network.named_parameters()).keys()
        return torch.func.functional_call(network, named, (x[:, None],))[0][:, 0]

    def structured(self, x, _):
        a, states = self.queries(x)
        return (a @ states).flatten()

    def lstmn(self, x, _):
        """Equations 5 to 10 of the paper."""
        w = {name.removeprefix("alignment."): weight for name, weight in self.weights.items() if name.startswith("alignment.")}
        of_token, of_read = w["query.weight"].chunk(2, 1)
        hidden, memory, read, carried = [], [], torch.zeros_like(x[0]), torch.zeros_like(x[0])
        for t, token in enumerate(x):
            if t > 0:
                h, c = torch.stack(hidden), torch.stack(memory)
                scores = (h @ w["key.weight"].T + of_token @ token + of_read @ read).tanh() @ w["score"][0]
                s = self.row(scores[None])[0]
                read, carried = s @ h, s @ c
            gates = sum(F.linear(part, self.weights[f"cell.weight_{kind}_l0"], self.weights[f"cell.bias_{kind}_l0"]) for kind, part in (("ih", token), ("hh", read)))
            i, f, g, o = gates.chunk(4)
            memory.append(f.sigmoid() * carried + i.sigmoid() * g.tanh())
            hidden.append(o.sigmoid() * memory[-1].tanh())
        return torch.stack(hidden).mean(0)

    def decomposable(self, x, segments):
        x = self.linear("project", x)
        a, b = x[segments == 0], x[segments == 1]
        two = lambda name, x: self.linear(name + "_second", self.linear(name + "_first", x).relu()).relu()  # noqa: E731
        scores = two("attend", a) @ two("attend", b).T
        beta, alpha = self.row(scores) @ b, self.row(scores.T) @ a
        return torch.cat([two("compare", torch.cat(pair, 1)).sum(0) for pair in ((a, beta), (b, alpha))])

    def __call__(self, tokens, segments, lengths):
        read = [self.read(self.weights["embedding"][row[:n]], of[:n]) for row, of, n in zip(tokens, segments, lengths.tolist(), strict=True)]
        return self.linear("classifier", self.linear("hidden", torch.stack(read)).relu())


def a_batch(vocabulary):
    """Rows of odd lengths, two of them padded, each of two sentences."""
    generator = torch.Generator().manual_seed(5)
    tokens, lengths, segments = torch.randint(5, vocabulary, (3, 9), generator=generator), torch.tensor([9, 4, 2]), torch.zeros(3, 9, dtype=torch.long)
    segments[0, 6:], segments[1, 1:4], segments[2, 1:2] = 1, 1, 1
    return tokens, segments, lengths


def test_is_its_formula(run):
    """The loss and every gradient."""
    loaded = cw.load(run).double()
    judge = Judge(run, loaded.options, MODELS[run.name][0])
    rows = a_batch(loaded.options["vocabulary"])
    got, expected = loaded(*rows), judge(*rows)
    assert got.shape == (3, 3 if MODELS[run.name][1] == "pairs" else 2)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-11)
    for logits in (got, expected):
        F.cross_entropy(logits, torch.tensor([1, 0, 1])).backward()
    parameters = dict(loaded.named_parameters())
    assert parameters.keys() == judge.weights.keys()
    for name, parameter in parameters.items():
        reached = judge.weights[name].grad
        largest = float(reached.abs().max())
        # Hidden units of which none is read give nothing to what is before them.
        assert largest > 0, name
        torch.testing.assert_close(parameter.grad, reached, rtol=0, atol=1e-9 * largest, msg=name)


def test_padding_changes_nothing(run):
    loaded = cw.load(run).double()
    tokens, segments, lengths = a_batch(loaded.options["vocabulary"])
    together = loaded(tokens, segments, lengths)
    other, poisoned = tokens.clone(), segments.clone()
    other[1, 4:], other[2, 2:], poisoned[1, 4:] = 3, 7, 1
    assert torch.equal(loaded(other, poisoned, lengths), together)
    for row, length in enumerate(lengths.tolist()):
        alone = loaded(tokens[row : row + 1, :length], segments[row : row + 1, :length])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-12)
    assert not torch.allclose(loaded(tokens, segments), together)  # without lengths padding is read


def test_only_training_has_the_penalty(cogwheel, work):
    done = cogwheel("train", "structured.toml", "--set", "model.penalty=1000", "--out", "penalised")
    assert done.returncode == 0, done.stderr
    lines = metrics(work / "penalised")
    assert lines[0]["train_loss"] > 1000 > 10 > lines[-1]["final_held_out_loss"]
    trained(cogwheel, work, "structured")
    plain = cogwheel("train", "structured.toml", "--set", "model.penalty=0", "--out", "plain")
    assert plain.returncode == 0 and metrics(work / "plain")[0]["train_loss"] < 2 < metrics(work / "structured")[0]["train_loss"]


@pytest.mark.parametrize("name", ["gated", "lstmn", "compared"])
def test_evaluates_and_classifies(cogwheel, work, name):
    run, pairs = trained(cogwheel, work, name), MODELS[name][1] == "pairs"
    done = cogwheel("evaluate", name)
    assert done.returncode == 0, done.stderr
    found = json.loads((run / "evaluation.json").read_text())
    assert found["measures"]["held_out_loss"] == metrics(run)[-1]["final_held_out_loss"]
    assert "naive Bayes on words" in (run / "evaluation.html").read_text()
    first, second = "the acting is superb , but the film was never dreadful", "the film is good"
    (work / "lines.txt").write_text((f"{first}\t{second}\n" if pairs else f"{first}\n\n{second}\n"))
    done = cogwheel("sample", name, "--input", "lines.txt")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    for line in lines[:1] if pairs else (lines[0], lines[2]):
        assert abs(sum(map(float, line.split()[1::2])) - 1) < 3e-3
    assert pairs or lines[1] == ""
    if name == "compared":
        alone = cogwheel("sample", name, "--prompt", first)
        assert alone.returncode != 0 and alone.stderr.count("\n") == 1 and "two sentences" in alone.stderr


@pytest.mark.parametrize("name", ["gated", "signed", "compared"])
def test_resumes_bit_for_bit(cogwheel, cogwheel_executable, work, name):
    words = [f"{name}.toml", "--set", "training.steps=12", "--set", "training.ema=0.5"]
    expect_resumes_bit_for_bit(cogwheel, cogwheel_executable, work, words, f"resumed-{name}")


def test_learns_from_a_file_of_pairs(cogwheel, work):
    rows = [f"{'a fine film' if n % 2 else 'a dull cast'}\tit was number {n}\t{n % 2}" for n in range(40)]
    (work / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\n" + "\n".join(rows) + "\n")
    done = cogwheel("train", "compared.toml", "--sentences", "pairs.tsv", "--set", "task.vocabulary=100", "--out", "files")
    assert done.returncode == 0, done.stderr
    assert json.loads((work / "files/classes.json").read_text()) == ["0", "1"]
    assert cogwheel("evaluate", "files").returncode == 0
    bad = {
        "short.tsv": ("sentence1\tsentence2\tlabel\na\tb\tx\nc\td\n", "short.tsv, line 3: expected 3 fields with tabs between"),
        "unlabelled.tsv": ("sentence1\tsentence2\tlabel\na\tb\tx\nc\td\t\n", "unlabelled.tsv, line 3"),
        "single.tsv": ("sentence\tlabel\n" + "".join(f"word {n}\t{n % 2}\n" for n in range(30)), "task.model: expected another than decomposable, which compares two sentences, got rows of one in single.tsv"),
    }  # fmt: skip
    for name, (text, message) in bad.items():
        (work / name).write_text(text)
        done = cogwheel("train", "compared.toml", "--sentences", name, "--out", "no")
        assert done.returncode != 0 and message in done.stderr and done.stderr.count("cogwheel: ") == 1, done.stderr


def test_is_compared_with_the_encoder(cogwheel, work):
    words = ["compare", "--task", "sentences", "--steps", 2, "--seeds", 1, "--set", "training.batch=8", "--set", "model.width=32"]
    done = cogwheel(*words, "--set", "task.model=lstmn", "--attention", "softmax,cog", "--out", "alike")
    assert done.returncode == 0, done.stderr
    written = json.loads((work / "alike/results.json").read_text())
    assert written["settings"]["preset"] == "sentences-lstmn" and [run["status"] for run in written["runs"]] == ["done", "done"]
    rows = ["--variant", "encoder: model.mechanism=softmax", "--baseline", "encoder"]
    for word in ("structured", "lstmn", "decomposable"):
        rows += ["--variant", f"{word}: task.model={word} model.mechanism=softmax"]
    done = cogwheel(*words, "--set", "task.toy=pairs", *rows, "--out", "all")
    assert done.returncode == 0, done.stderr
    written = json.loads((work / "all/results.json").read_text())
    assert [run["status"] for run in written["runs"]] == ["done"] * 4
    parameters = [plan["parameters"] for plan in written["mechanisms"]]
    assert max(parameters) < 1.02 * min(parameters)


def test_refusals_are_one_line(cogwheel, work):
    for name in ("structured", "lstmn"):
        trained(cogwheel, work, name)
    (work / "encoder.toml").write_text(CONFIG.format(word="encoder", toy="reviews", model="heads = 2"))
    train = lambda name, *words: ["train", f"{name}.toml", "--out", "no", *(word for each in words for word in ("--set", each))]  # noqa: E731
    for words, message in (
        (train("structured", "model.queries=0"), "model.queries: expected at least 1, got 0"),
        (train("structured", "model.penalty=-1"), "model.penalty: expected at least 0, got -1"),
        (train("structured", "model.width=17"), "model.width: expected an even number"),
        (train("structured", "model.cell=rnn"), "model.cell: expected one of lstm, gru, got rnn"),
        (train("structured", "model.mechanism=differential"), "model.mechanism: expected a row map, .*got differential"),
        (train("decomposable", "model.mechanism=local_m"), "model.mechanism: expected a row map.*, got local_m"),
        (train("lstmn", "model.mechanism=gla"), "model.mechanism: expected a row map of any score, got gla"),
        (train("lstmn", "model.mechanism=norm"), "model.mechanism: expected a row map of any score, got norm|.*, got norm"),
        (train("lstmn", "model.queries=2"), "key: expected .*, got model.queries"),
        (train("lstmn", "model.penalty=1"), "key: expected .*, got model.penalty"),
        (train("encoder", "model.queries=2"), "key: expected .*, got model.queries"),
        (train("encoder", "model.penalty=1"), "key: expected .*, got model.penalty"),
        (train("structured", "task.model=strctured"), "task.model: expected structured"),
        (train("lstmn", "task.name=masked_words", "model.width=32"), "key: expected .*, got model$"),
        (train("decomposable", "task.toy=reviews"), "task.model: expected another than decomposable, which compares two sentences, got rows of one in toy reviews"),
        (train("structured", "model.context=8"), "model.context: expected at least"),
        (train("lstmn", f"task.start={work / 'structured'}"), "task.start: expected none for a model that is no encoder"),
        (train("encoder", f"task.start={work / 'structured'}"), "expected a run of an encoder, got one of the model structured"),
        (["embed", "lstmn", "--prompt", "a film", "--out", "v.safetensors"], "expected a run of an encoder, got one of the model lstmn"),
        (["export", "lstmn", "--out", "exported"], "got a model of another kind"),
        (["inspect", "heads", "lstmn"], "expected a run that trains a language model, got one of the task sentences"),
    ):  # fmt: skip
        done = cogwheel(*words)
        assert done.returncode != 0 and re.search(message, done.stderr.strip()), (words, done.stderr)
        assert done.stderr.count("\n") == 1 and done.stderr.startswith("cogwheel: "), done.stderr
        assert not (work / "no").exists()
    with pytest.raises(ValueError, match="lstmn: tokens: expected"):
        cw.load(work / "lstmn")(torch.ones(1, 65, dtype=torch.long))
    assert cw.load(work / "lstmn")(torch.ones(1, 64, dtype=torch.long)).isfinite().all()
