"""`cogwheel inspect collapse` and `squashing` on small models of text, against plain PyTorch in float64."""

import csv
import json

import plain_models
import pytest
import torch

import cogwheel as package
from cogwheel import interpret

CONFIG = """
[data]
tokenizer = "{tokenizer}"
[model]
form = "{form}"
layers = 2
heads = 4
width = 32
context = {context}
mechanism = "{mechanism}"
[training]
seed = {seed}
steps = 30
batch = 4
learning_rate = 3e-3
"""
QUESTIONS = {
    "finding a zero": "Is there a zero in the following sequences? ",
    "counting ones": "How many ones are in the following sequences? ",
}
LENGTHS = [30, 60, 90]


def train(cogwheel, work, name, *, tokenizer="byte", form="llama", context=160, mechanism="softmax", seed=1):
    config = CONFIG.format(tokenizer=tokenizer, form=form, context=context, mechanism=mechanism, seed=seed)
    (work / f"{name}.toml").write_text(config)
    text = "few-letters.txt" if tokenizer == "character" else "text.txt"
    done = cogwheel("train", f"{name}.toml", "--text", text, "--out", name)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    (folder / "text.txt").write_text("Is it 1, 10 or 101? A zero and a one; 1111 and 0. " * 400)
    (folder / "few-letters.txt").write_text("abab baba abba. " * 400)
    return folder


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, work):
    return cogwheel_in(work)


@pytest.fixture(scope="module")
def runs(cogwheel, work):
    train(cogwheel, work, "softmax-1")
    train(cogwheel, work, "softmax-2", seed=2)
    train(cogwheel, work, "cog", mechanism="cog")
    train(cogwheel, work, "learned", form="gpt", context=80)
    train(cogwheel, work, "gla", mechanism="gla")
    train(cogwheel, work, "letters", tokenizer="character")
    (work / "copying.toml").write_text('[task]\nname = "copying"\n[training]\nsteps = 1\n')
    assert cogwheel("train", "copying.toml", "--out", "copying").returncode == 0
    return work


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def last_output(run, text):
    """What the head of a plain model reads at the last token."""
    model = package.load(run)
    plain = plain_models.PlainLanguageModel(run, model.options)
    seen = {}

    def at(name, value):
        seen[name] = value
        return value

    plain.at = at
    plain(torch.tensor([list(text.encode())]))
    y = seen["ln_final.hook_normalized"][0, -1] * plain.weights["final_norm.weight"]
    return y + plain.weights.get("final_norm.bias", 0)


def pair_of(task, n):
    question = QUESTIONS[task]
    return question + "1" * (n + 1), question + ("0" if task == "finding a zero" else "") + "1" * n


def test_collapse_is_the_distance_of_plain_outputs(runs, cogwheel):
    done = cogwheel("inspect", "collapse", "softmax-1", "softmax-2", "cog", "--set", "lengths=30,60,90", "--out", "collapse")
    assert done.returncode == 0, done.stderr
    pairs = rows(runs / "collapse" / "pairs.csv")
    assert len(pairs) == 3 * 2 * 3
    shortest = {}
    for row in pairs:
        n = int(row["n"])
        one, other = pair_of(row["task"], n)
        assert (int(row["tokens"]), int(row["tokens of the other"])) == (len(one), len(other))
        assert (row["tokens that differ"], row["same last token"]) == ("1", "yes")
        y, z = last_output(runs / row["run"], one), last_output(runs / row["run"], other)
        blocks = (y - z).abs().view(4, -1).amax(1).mean().item()
        start = shortest.setdefault((row["run"], row["task"]), blocks)
        for column, value in (
            ("mean of largest in blocks", blocks),
            ("to the shortest", blocks / start),
            ("euclidean", (y - z).norm().item()),
            ("relative euclidean", ((y - z).norm() / y.norm()).item()),
            ("largest", (y - z).abs().max().item()),
            ("relative largest", ((y - z).abs().max() / y.abs().max()).item()),
        ):
            assert float(row[column]) == pytest.approx(value, rel=1e-3), column
        found = interpret.representation_distance(
            package.load(runs / row["run"]).double(), *(torch.tensor(list(text.encode())) for text in (one, other))
        )
        assert found.blocks == pytest.approx(blocks, rel=1e-8)
        assert found.relative_largest == pytest.approx(((y - z).abs().max() / y.abs().max()).item(), rel=1e-8)

    # Seeds of one model are one row: mean and half of the interval, t with one degree of freedom.
    table = rows(runs / "collapse" / "to_shortest.csv")
    assert [(row["model"], row["runs"]) for row in table] == [("softmax", "2"), ("cog", "1")] * 2
    of_seeds = [float(row["to the shortest"]) for row in pairs if (row["task"], row["n"]) == ("counting ones", "90")][:2]
    mean, half = float(table[2]["n = 90"]), float(table[2]["n = 90, interval of 95 %: ±"])
    assert mean == pytest.approx(sum(of_seeds) / 2, rel=1e-3)
    assert half == pytest.approx(12.7062 * abs(of_seeds[0] - of_seeds[1]) / 2, rel=6e-2)
    page = (runs / "collapse" / "report.html").read_text()
    assert page.count("<svg") >= 4 and "<script src" not in page and "nan" not in page.split("<body")[1].lower().split()


def test_lengths_are_shares_of_a_short_context(runs, cogwheel):
    done = cogwheel("inspect", "collapse", "cog", "learned", "--out", "short")
    assert done.returncode == 0 and "learned has room for 33 ones only, not 2000" in done.stderr, done.stderr
    pairs = rows(runs / "short" / "pairs.csv")
    expected = [int(n * 33 / 2000 + 0.5) for n in (200, 400, 600, 800, 1000, 2000)]
    assert [int(row["n"]) for row in pairs] == expected * 4
    assert max(int(row["tokens"]) for row in pairs) == 80
    remarks = json.loads((runs / "short" / "results.json").read_text())["remarks"]
    assert any("shares" in remark for remark in remarks)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["collapse", "letters"], 1, "letters: “Is there a zero"),
        (["collapse", "cog", "copying"], 2, "copying: expected a run with a tokenizer of text"),
        (["collapse", "learned", "--set", "lengths=100,101,102"], 2, "a context that holds"),
        (["collapse", "cog", "--set", "lengths=60,30"], 2, "lengths"),
        (["collapse", "cog", "--set", "lengths=0,30"], 2, "lengths"),
        (["squashing", "letters"], 1, "letters: the text of input=0"),
        (["squashing", "copying"], 2, "--set input=2"),
        (["squashing", "gla", "--set", "tokens=8"], 2, "one with heads of attention in every layer, got gla"),
        (["squashing", "cog", "--set", "tokens=7"], 2, "tokens"),
    ],
)
def test_refuses_in_one_line(cogwheel, runs, words, code, said):
    done = cogwheel("inspect", *words, "--out", "refused")
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr.splitlines()[0] and not (runs / "refused").exists(), done.stderr


def plain_squashing(run, tokens):
    """Norms by torch.autograd of a plain model, with weights held fixed and not, its path product, and a bound of norms."""
    model = package.load(run)
    plain = plain_models.PlainLanguageModel(run, model.options)
    cache = {}

    def keep(name, value):
        cache[name] = value
        return value

    plain.at = keep
    plain(tokens[None])
    kept = dict(cache)
    weights = plain.weights

    def output(stream, frozen):
        def at(name, value):
            cache[name] = value
            if name == "hook_full_embed":
                return stream
            return kept[name] if frozen and name.endswith("hook_pattern") else value

        plain.at = at
        plain(tokens[None])
        return cache["ln_final.hook_normalized"][0, -1] * weights["final_norm.weight"]

    def norms(frozen):
        jacobian = torch.autograd.functional.jacobian(lambda stream: output(stream, frozen), kept["hook_full_embed"])
        return torch.linalg.matrix_norm(jacobian[:, 0].transpose(0, 1), 2)  # [width, N, width]

    sigma, product, magnitude = 0, torch.eye(len(tokens), dtype=torch.float64), torch.eye(len(tokens), dtype=torch.float64)
    for layer in range(model.options["layers"]):
        block, name = f"blocks.{layer}", f"layers.{layer}"
        gain = weights[f"{name}.feed_forward_norm.weight"]
        for normed in kept[f"{block}.ln2.hook_normalized"][0]:
            local = torch.autograd.functional.jacobian(lambda x: plain.feed_forward(layer, x * gain), normed)  # noqa: B023
            sigma = max(sigma, torch.linalg.matrix_norm(local, 2).item())
        pattern = kept[f"{block}.attn.hook_pattern"][0] / kept[f"{block}.ln1.hook_scale"].mean()
        product = pattern.mean(0) @ product + product
        magnitude = pattern.abs().mean(0) @ magnitude + magnitude
    constant = 1 / kept["ln_final.hook_scale"].mean().item()
    for layer in range(model.options["layers"]):
        constant *= 1 + sigma / kept[f"blocks.{layer}.ln2.hook_scale"].mean().item()
    return norms(True), norms(False), constant * product[-1], constant * magnitude[-1]


@pytest.mark.parametrize("name", ["softmax-1", "cog", "learned"])
def test_squashing_is_what_plain_models_have(runs, name):
    tokens = torch.tensor(list(QUESTIONS["finding a zero"][-14:].encode()) + list(b"01111"))
    frozen, full, product, magnitude = plain_squashing(runs / name, tokens)
    found = interpret.over_squashing(package.load(runs / name).double(), tokens)
    for ours, plain in ((found.frozen, frozen), (found.full, full), (found.path_product, product), (found.path_magnitude, magnitude)):
        assert torch.allclose(ours, plain, rtol=1e-8, atol=1e-10 * plain.abs().max().item())
    assert (found.bound >= frozen * (1 - 1e-12)).all() and not torch.allclose(found.frozen, found.full, rtol=1e-3)
    with pytest.raises(ValueError, match="float64"):
        interpret.over_squashing(package.load(runs / name), tokens)


def test_squashing_writes_every_position(runs, cogwheel):
    words = ["inspect", "squashing", "softmax-1", "softmax-2", "cog", "--set", "tokens=61"]
    done = cogwheel(*words, "--out", "squashing")
    assert done.returncode == 0, done.stderr
    positions = rows(runs / "squashing" / "positions.csv")
    text = (QUESTIONS["finding a zero"] + "0" + "1" * 61)[:61]
    assert [int(row["token"]) for row in positions] == list(text.encode()) * 3
    found = interpret.over_squashing(package.load(runs / "cog").double(), torch.tensor(list(text.encode())))
    own = [row for row in positions if row["run"] == "cog"]
    for column, values in (
        ("path product", found.path_product),
        ("strict bound", found.bound),
        ("norm with weights held fixed", found.frozen),
        ("norm in full", found.full),
    ):
        assert [float(row[column]) for row in own] == pytest.approx(values.tolist(), rel=1e-3), column
    models = rows(runs / "squashing" / "models.csv")
    assert [(row["model"], row["runs"]) for row in models] == [("softmax", "2"), ("cog", "1")]
    inner = found.frozen[1:-1]  # of 59 positions the first and the last 14
    early_to_late = inner[:14].quantile(0.5) / inner[-14:].quantile(0.5)
    assert float(models[1]["early to late: weights held fixed"]) == pytest.approx(early_to_late.item(), rel=1e-3)
    assert float(models[1]["path product below 0"]) == (found.path_product < 0).sum().item()
    page = (runs / "squashing" / "report.html").read_text()
    assert page.count("<svg") >= 6 and "the zero" in page and "<script src" not in page
    # A shorter context shortens the text of all; drawn tokens are the same for one seed.
    drawn = cogwheel("inspect", "squashing", "cog", "learned", "--set", "input=2", "--set", "tokens=100", "--out", "drawn")
    assert drawn.returncode == 0, drawn.stderr
    positions = rows(runs / "drawn" / "positions.csv")
    assert len(positions) == 2 * 80 and [row["token"] for row in positions[:80]] == [row["token"] for row in positions[80:]]
