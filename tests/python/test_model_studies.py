"""`cogwheel inspect` length, pruning, kept_keys, needle, layers, values, spectrum and symmetry on small models, against plain PyTorch in float64."""

import csv
import json
import math
import pathlib

import plain_models
import pytest
import torch
from torch.nn import functional as F

import cogwheel as package

DOCUMENT = (pathlib.Path(__file__).resolve().parents[2] / "docs/inspect.md").read_text()
CONTEXT = 32
CONFIG = """
[data]
tokenizer = "byte"
[model]
form = "{form}"
layers = 2
heads = 4
width = 32
context = 32
mechanism = "{mechanism}"
{model}
[training]
seed = {seed}
steps = 15
batch = 4
learning_rate = 1e-2
"""
TEXT = "Is it 1, 10 or 101? A zero, and a one."


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    (folder / "text.txt").write_text("".join(f"{n} times {n % 7} is {n * (n % 7)}. " for n in range(700)))
    return folder


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, work):
    return cogwheel_in(work)


@pytest.fixture(scope="module")
def runs(cogwheel, work):
    def train(name, *, form="llama", mechanism="softmax", seed=1, model=""):
        (work / f"{name}.toml").write_text(CONFIG.format(form=form, mechanism=mechanism, seed=seed, model=model))
        done = cogwheel("train", f"{name}.toml", "--text", "text.txt", "--out", name)
        assert done.returncode == 0, done.stderr

    train("softmax")
    train("softmax-2", seed=2)
    train("cog", mechanism="cog")
    train("differential", mechanism="differential", model="key_value_heads = 2")
    train("symmetric", mechanism="symmetric")
    train("learned", form="gpt", mechanism="centered")
    train("gla", mechanism="gla")
    recall = '[task]\nname = "recall"\npairs = 4\nkeys = 8\nvalues = 2\n[model]\ncontext = 32\nlayers = 1\nwidth = 16\nheads = 2\n[training]\nsteps = 15\n'
    (work / "recall.toml").write_text(recall)
    assert cogwheel("train", "recall.toml", "--out", "recall").returncode == 0
    return work


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def inspect(cogwheel, runs):
    def ask(study, *words):
        """The numbers of each run, the tables, and what was told."""
        out = f"{study}-{len(list(runs.glob(study + '-*')))}"
        done = cogwheel("inspect", study, *words, "--out", out)
        assert done.returncode == 0, done.stderr
        results = json.loads((runs / out / "results.json").read_text())
        numbers = {(each["name"], each["place"]): each["values"] for each in results["numbers"]}
        section = DOCUMENT.split(f"\n## {study}\n")[1].split("\n## ")[0]
        for name, _ in numbers:
            assert f"`{name}" in section or f"`{name.removesuffix('_of_layer')}" in section, name
        page = (runs / out / "report.html").read_text()
        assert "<script src" not in page and "nan" not in page.split("<body")[1].lower().split()
        assert results["answer"].endswith(".") and "nan" not in results["answer"]
        return numbers, {path.stem: rows(path) for path in (runs / out).glob("*.csv")}, done.stderr

    return ask


class Plain:
    """A plain model that keeps what its pass comes to, and replaces what it is told to."""

    def __init__(self, run):
        self.model = plain_models.PlainLanguageModel(run, package.load(run).options)
        self.kept, self.replaced = {}, {}
        self.model.at = self.at

    def at(self, name, value):
        for ending, replace in self.replaced.items():
            value = replace(name, value) if name.endswith(ending) else value
        self.kept[name] = value
        return value

    def losses(self, tokens):
        logits = self.model(tokens[None, :-1])
        return F.cross_entropy(logits[0], tokens[1:], reduction="none")


def held_out(work, windows, context=CONTEXT):
    """As evaluation spreads them."""
    tokens = list((work / "text.txt").read_bytes())
    tokens = torch.tensor(tokens[len(tokens) * 9 // 10 :])
    all_windows = (len(tokens) - 1) // context
    return [tokens[at : at + context + 1] for at in (row * all_windows // windows * context for row in range(windows))]


def study_tokens():
    return torch.tensor(list(TEXT.encode()))[:CONTEXT]


def test_length_is_the_loss_of_plain_models_by_position(runs, inspect):
    words = ["--set", "multiple=4", "--set", "tokens=256"]
    numbers, tables, told = inspect("length", "softmax", "softmax-2", "learned", "gla", *words)
    assert "learned is measured up to its context of 32 tokens, for its positions are learned" in told
    for place, (run, multiple) in enumerate((("softmax", 4), ("softmax-2", 4), ("learned", 1))):
        length = multiple * CONTEXT
        texts = held_out(runs, 256 // length, length)
        plain = Plain(runs / run)
        losses = torch.stack([plain.losses(text) for text in texts]).mean(0)
        own = [float(row["loss"]) for row in tables["positions"] if row["run"] == run]
        assert own == pytest.approx(losses.tolist(), rel=2e-3)
        for at in (1, 2, 4):
            value = numbers["loss_at", at][place]
            if at > multiple:
                assert value is None
            else:
                assert value == pytest.approx(losses[at * CONTEXT - 8 : at * CONTEXT].mean().item(), rel=1e-4), (run, at)
        assert numbers["loss_within", None][place] == pytest.approx(losses[:CONTEXT].mean().item(), rel=1e-4)
        if multiple > 1:
            assert numbers["loss_late", None][place] == pytest.approx(losses[CONTEXT:].mean().item(), rel=1e-4)
    assert numbers["loss_late", None][3] > 0  # a state has no limit
    numbers, _, told = inspect("length", "softmax", "--set", "multiple=64")
    assert "too few for 64 × its context" in told and ("loss_at", 32) in numbers and ("loss_at", 64) not in numbers


def test_pruning_removes_the_heads_of_the_smallest_gradients(runs, inspect):
    words = ["--set", "tokens=128", "--set", "shares=0,0.5,1"]
    numbers, tables, _ = inspect("pruning", "cog", "differential", *words)
    texts = held_out(runs, 8)
    for place, run in enumerate(("cog", "differential")):
        plain, sums = Plain(runs / run), 0
        for text in texts[::2]:
            factors = {}

            def scaled(name, value):
                factors[name] = torch.ones(value.shape[2], 1, dtype=value.dtype, requires_grad=True)  # noqa: B023
                return value * factors[name]  # noqa: B023

            plain.replaced = {"attn.hook_z": scaled}
            loss = plain.losses(text).mean()
            sums = sums + torch.stack(torch.autograd.grad(loss, list(factors.values()))).squeeze(-1).abs()
        importance = sums / len(texts[::2])
        order = [row for row in tables["order"] if row["run"] == run]
        heads = [tuple(int(number) for number in row["head"][1:].split("H")) for row in order]
        assert [float(row["importance"]) for row in order] == pytest.approx([importance[head].item() for head in heads], rel=2e-3)
        normed = importance / importance.norm(dim=1, keepdim=True)
        assert [normed[head].item() for head in heads] == sorted(normed.flatten().tolist())
        for share in (0, 0.5, 1):
            removed = heads[: round(share * len(heads))]

            def without(name, value):
                keeps = torch.tensor([(int(name.split(".")[1]), head) not in removed for head in range(value.shape[2])])  # noqa: B023
                return value * keeps[:, None]

            plain.replaced = {"attn.hook_z": without}
            loss = torch.stack([plain.losses(text) for text in texts[1::2]]).mean().item()
            plain.replaced = {}
            whole = torch.stack([plain.losses(text) for text in texts[1::2]]).mean().item()
            assert numbers["rise", share][place] == pytest.approx(loss - whole, abs=2e-5)
        assert numbers["heads", None][place] == len(heads) == (8 if run == "cog" else 4)
        assert numbers["rise", 0][place] == 0 != numbers["rise", 1][place]


def kept_rows(weights, way, share):
    """Which keys are kept of |a| [N, N], query by query."""
    keeps, sums, alive = torch.zeros_like(weights, dtype=torch.bool), torch.zeros(len(weights), dtype=weights.dtype), set()
    for query in range(len(weights)):
        kept = min(query + 1, math.ceil(share * len(weights)))
        sums = sums + weights[query]
        alive.add(query)
        if way == "newest":
            chosen = range(query + 1 - kept, query + 1)
        elif way == "heaviest":
            chosen = sorted(range(query + 1), key=lambda key: -weights[query][key])[:kept]  # noqa: B023
        else:
            newest = set(range(query + 1 - (kept + 1) // 2, query + 1))
            older = sorted((alive - newest), key=lambda key: -sums[key])[: kept - len(newest)]  # noqa: B023
            alive = newest | set(older)
            chosen = alive
        keeps[query, list(chosen)] = True
    return keeps


@pytest.mark.parametrize("renormalise", [1, 0])
def test_kept_keys_are_those_of_plain_rows(runs, inspect, renormalise):
    words = ["--set", "tokens=64", "--set", "shares=1,0.25", "--set", f"renormalise={renormalise}"]
    numbers, _, _ = inspect("kept_keys", "cog", "differential", *words)
    texts = held_out(runs, 2)
    for place, run in enumerate(("cog", "differential")):
        plain = Plain(runs / run)
        whole = torch.stack([plain.losses(text) for text in texts]).mean().item()
        for way in ("newest", "heaviest", "accumulated"):

            def cut(name, value):
                keeps = torch.stack([kept_rows(head.abs(), way, 0.25) for head in value[0]])  # noqa: B023
                left = value * keeps
                return left * (value.abs().sum(-1, keepdim=True) / left.abs().sum(-1, keepdim=True)) if renormalise else left

            plain.replaced = {"attn.hook_pattern": cut}
            loss = torch.stack([plain.losses(text) for text in texts]).mean().item()
            plain.replaced = {}
            assert numbers[way, 0.25][place] == pytest.approx(loss - whole, abs=2e-5), (run, way)
            assert numbers[way, 1][place] == 0
    assert len({round(numbers[way, 0.25][0], 6) for way in ("newest", "heaviest", "accumulated")}) == 3


def test_needle_counts_answers_by_place(runs, inspect):
    numbers, tables, _ = inspect("needle", "recall", "--set", "sequences=300")
    asked = [numbers["answers_at", tenth / 10][0] for tenth in range(11)]
    accuracy = [numbers["accuracy_at", tenth / 10][0] for tenth in range(11)]

    def mean(tenths):
        known = [(asked[at], accuracy[at]) for at in tenths if asked[at]]
        return sum(count * share for count, share in known) / sum(count for count, _ in known)

    # Of 4 pairs one is written twice, so places are fourths; of three pairs they are halves.
    assert [tenth for tenth, count in enumerate(asked) if count] == [0, 3, 5, 8, 10]
    assert numbers["accuracy", None][0] == pytest.approx(mean(range(11)))
    assert numbers["middle", None][0] == pytest.approx((mean((0, 1)) + mean((9, 10))) / 2 - mean((4, 5, 6)))
    assert len(tables["places"]) == sum(count > 0 for count in asked)


def test_layers_are_cosines_of_plain_streams(runs, inspect):
    numbers, _, _ = inspect("layers", "softmax", "cog", "--text", TEXT)
    for place, run in enumerate(("softmax", "cog")):
        plain = Plain(runs / run)
        plain.model(study_tokens()[None])
        states = [plain.kept["hook_full_embed"][0], *(plain.kept[f"blocks.{layer}.hook_resid_post"][0] for layer in (0, 1))]
        nexts = []
        for layer in (0, 1):
            before, after = states[layer], states[layer + 1]
            nexts.append(F.cosine_similarity(before, after, dim=-1).mean().item())
            assert numbers["next_cosine_of_layer", layer][place] == pytest.approx(nexts[-1], rel=1e-4)
            centred = F.cosine_similarity(before - before.mean(0), after - after.mean(0), dim=-1).mean().item()
            assert numbers["centred_next_cosine_of_layer", layer][place] == pytest.approx(centred, rel=1e-4)
            own = F.cosine_similarity(states[0], after, dim=-1).mean().item()
            assert numbers["input_cosine_of_layer", layer][place] == pytest.approx(own, rel=1e-4)
        assert numbers["mean_next_cosine", None][place] == pytest.approx(sum(nexts) / 2, rel=1e-4)


def test_values_are_those_of_plain_heads(runs, inspect):
    numbers, tables, _ = inspect("values", "cog", "differential", "--set", "tokens=256")
    for place, run in enumerate(("cog", "differential")):
        plain, values, outputs = Plain(runs / run), {0: [], 1: []}, {0: [], 1: []}
        for text in held_out(runs, 8):
            plain.model(text[None, :-1])
            for layer in values:
                values[layer].append(plain.kept[f"blocks.{layer}.attn.hook_v"][0])
                outputs[layer].append(plain.kept[f"blocks.{layer}.attn.hook_z"][0].norm(dim=-1).mean().item())
        means = {}
        for layer in values:
            for v in torch.cat(values[layer]).unbind(1):
                centred = v - v.mean(0)
                covariance = centred.T @ centred / len(v)
                spectrum = torch.linalg.eigvalsh(covariance)
                share = spectrum / spectrum.sum()
                distances = (centred @ torch.linalg.inv(covariance) * centred).sum(1)
                r, n = v.shape[1], len(v)
                for name, value in (
                    ("value_bias", (v.mean(0).norm() / v.square().sum(1).mean().sqrt()).item()),
                    ("effective_rank", (-(share * share.log()).sum()).exp().item()),
                    ("largest_share", share.max().item()),
                    ("kurtosis", distances.square().mean().item() / (r * (r + 2))),
                    ("kurtosis_z", (distances.square().mean().item() - r * (r + 2) * (n - 1) / (n + 1)) / (8 * r * (r + 2) / n) ** 0.5),
                ):
                    means.setdefault(name, []).append(value)
        for name, each in means.items():
            assert numbers[name, None][place] == pytest.approx(sum(each) / len(each), rel=1e-3), (run, name)
        assert numbers["output_norm", None][place] == pytest.approx(sum(outputs[0] + outputs[1]) / 16, rel=1e-3)
    assert len(tables["heads"]) == 2 * 4 + 2 * 1


def test_spectrum_is_that_of_plain_maps(runs, inspect):
    numbers, _, _ = inspect("spectrum", "softmax", "cog", "learned", "--text", TEXT)
    scale = 8**-0.5
    for place, run in enumerate(("softmax", "cog", "learned")):
        plain = Plain(runs / run)
        plain.model(study_tokens()[None])
        found = {}
        for layer in (0, 1):
            kept = {name: plain.kept[f"blocks.{layer}.attn.{name}"][0] for name in ("hook_pattern", "hook_attn_scores")}
            turned = "hook_rot_" if run != "learned" else "hook_"
            query, key = (plain.kept[f"blocks.{layer}.attn.{turned}{part}"][0].transpose(0, 1) for part in "qk")
            scores = query @ key.transpose(1, 2) * scale
            if run == "cog":
                whole = scores.sign() * F.softmax(scores.abs(), -1)
            else:
                whole = F.softmax(scores, -1) - (1 / scores.shape[-1] if run == "learned" else 0)
            for masked, open_ in zip(kept["hook_pattern"], whole, strict=True):
                eigenvalues = torch.linalg.eigvals(open_)
                symmetric = torch.linalg.eigvalsh((masked + masked.T) / 2)
                sizes = eigenvalues.abs().sort(descending=True).values
                for name, value in (
                    ("least", masked.diagonal().min()), ("largest", masked.diagonal().max()),
                    ("least_symmetric", symmetric.min()), ("largest_symmetric", symmetric.max()),
                    ("largest_singular", torch.linalg.matrix_norm(masked, 2)),
                    ("unmasked_least", eigenvalues.real.min()), ("unmasked_largest", eigenvalues.real.max()),
                    ("unmasked_imaginary", eigenvalues.imag.abs().max()),
                    ("unmasked_radius", sizes[0]), ("unmasked_second", sizes[1]),
                ):  # fmt: skip
                    found.setdefault(name, []).append(value.item())
        for name, each in found.items():
            assert numbers[name, None][place] == pytest.approx(sum(each) / 8, rel=1e-3, abs=1e-5), (run, name)
    radius = numbers["unmasked_radius", None]
    assert radius[0] == pytest.approx(1, abs=1e-5) and radius[2] < 0.9  # rows sum to 1, and to 0
    assert numbers["largest", None][0] == pytest.approx(1)


def test_spectrum_of_models_that_hide_nothing(small_runs, inspect):
    numbers, tables, _ = inspect("spectrum", small_runs("encoder"), small_runs("vision"))
    for name in ("least", "largest"):
        assert numbers[name + "_of_layer", 0] == numbers[f"unmasked_{name}_of_layer", 0]
    radius, imaginary = ([numbers[f"unmasked_{name}_of_layer", layer] for layer in range(3)] for name in ("radius", "imaginary"))
    # Of the encoder Cog, a difference, and softmax of QQᵀ, whose eigenvalues are those of a symmetric matrix; of images Cog and centred.
    assert imaginary[0][0] > 1e-3 > 1e-6 > imaginary[2][0] and imaginary[0][1] > 1e-3
    assert radius[2][0] == pytest.approx(1, abs=1e-5) and radius[1][1] < 0.9 and radius[2][1] is None
    assert len(tables["heads"]) == 4 + 2 + 4 + 2 * 4


def test_symmetry_follows_from_the_weights(runs, inspect):
    names = ("softmax", "differential", "symmetric")
    numbers, tables, _ = inspect("symmetry", *names, "--text", TEXT)
    for place, run in enumerate(names):
        weights = {name: value.detach().double() for name, value in package.load(runs / run).named_parameters()}
        plain = Plain(runs / run)
        plain.model(study_tokens()[None])
        found, shares = [], []
        for layer in (0, 1):
            prefix = f"layers.{layer}.attention."
            if run == "symmetric":
                query = key = weights[prefix + "query_value.weight"][:32].view(4, 8, 32)
            else:
                made = weights[prefix + "query_key_value.weight"]
                query, key = made[:32].view(4, 8, 32), made[32 : 32 + (32 if run == "softmax" else 16)].view(-1, 8, 32)
                if run == "differential":  # each half of a head reads the half of the keys' only head
                    key = key[[0, 1, 0, 1]]
            matrices = query.transpose(1, 2) @ key
            found += [((m - m.T).norm() / (m + m.T).norm()).item() for m in matrices]
            read = plain.kept[f"blocks.{layer}.ln1.hook_normalized"][0] * weights[f"layers.{layer}.attention_norm.weight"]
            scores = read @ matrices @ read.T
            shares += [(((s + s.T) / 2).square().sum() / s.square().sum()).item() for s in scores]
        assert [float(row["asymmetry"]) for row in tables["heads"] if row["run"] == run] == pytest.approx(found, rel=2e-3, abs=1e-9)
        assert numbers["mean", None][place] == pytest.approx(sum(found) / len(found), rel=1e-4, abs=1e-9)
        assert numbers["least", None][place] == pytest.approx(min(found), abs=1e-9)
        assert numbers["most", None][place] == pytest.approx(max(found), abs=1e-9)
        assert numbers["symmetric_share_on_text", None][place] == pytest.approx(sum(shares) / len(shares), rel=1e-3)
    assert numbers["mean", None][2] == 0 and numbers["symmetric_share", None][2] == 1
    assert [row["head"] for row in tables["heads"] if row["run"] == "differential"][:3] == ["L0H0a", "L0H0b", "L0H1a"]
    assert abs(numbers["random", None][0] - (1 - 1 / 32)) < 4 * numbers["random_deviation", None][0] / 50**0.5


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["length", "recall"], 2, "recall: expected a run on a text"),
        (["needle", "cog"], 2, "cog: expected a run of the task recall"),
        (["kept_keys", "gla"], 2, "gla: expected layers that keep keys"),
        (["kept_keys", "cog", "--set", "shares=0"], 2, "shares"),
        (["kept_keys", "cog", "--text", "abc"], 2, "--text: expected a study that reads one"),
        (["pruning", "cog", "--set", "shares=0.5,0.25"], 2, "shares"),
        (["spectrum", "gla"], 2, "gla: expected layers of attention"),
        (["symmetry", "gla"], 2, "gla: expected layers of attention"),
        (["symmetry", "recall"], 2, "recall: expected a run with a tokenizer"),
    ],
)
def test_refuses_in_one_line(cogwheel, runs, words, code, said):
    done = cogwheel("inspect", *words, "--out", "refused")
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr.splitlines()[0] and not (runs / "refused").exists(), done.stderr


def test_held_out_text_that_is_gone_is_said(cogwheel, runs, work):
    (work / "text.txt").rename(work / "elsewhere.txt")
    done = cogwheel("inspect", "values", "cog", "--out", "refused")
    (work / "elsewhere.txt").rename(work / "text.txt")
    assert done.returncode == 1 and "text.txt" in done.stderr.splitlines()[0] and not (work / "refused").exists(), done.stderr
