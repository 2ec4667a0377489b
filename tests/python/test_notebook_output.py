"""What notebooks show: HTML without anything from outside, confined to itself, in the scheme of the notebook; and the same as text."""

import copy
import html.parser
import json
import re

import pytest
import torch

import cogwheel

TOKENS = "the cat sat on the mat and the dog ran away .".split()
HOSTILE = ["<img src=x onerror=document.title='run'>", "</script><script>document.title='run'</script>", "\n", "\"'`${document.title='run'}", "\u202eleft"]


def weights(heads=4, size=12, mechanism="cog"):
    query, key = torch.randn(2, 1, heads, size, 16, generator=torch.Generator().manual_seed(4))
    return cogwheel.attention_weights(2 * query, 2 * key, mechanism, causal=True)


def statistics():
    query, key, value = torch.randn(3, 2, 4, 20, 16, generator=torch.Generator().manual_seed(5))
    return cogwheel.attention_statistics(query, key, value, "cog", causal=True)[1]


@pytest.fixture(scope="module")
def shown(small_comparison):
    """By name, objects that a notebook shows."""
    return {
        "comparison": cogwheel.results(small_comparison),
        "statistics": statistics(),
        "mechanism": cogwheel.mechanisms()["cog"],
        "state": cogwheel.mechanisms()["gla"],
        "dense": cogwheel.mechanisms()["polynomial"],
        "mechanisms": cogwheel.mechanisms(),
        "heads": cogwheel.show_attention(weights(), TOKENS),
        "head": cogwheel.show_attention(weights()[0, 0]),
        "hostile": cogwheel.show_attention([weights(2, 5), weights(1, 5)[0]], HOSTILE),
    }


NAMES = ["comparison", "statistics", "mechanism", "state", "dense", "mechanisms", "heads", "head", "hostile"]


class Balanced(html.parser.HTMLParser):
    """Fails where an element is not closed, or another than the one that is open."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.texts = [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("br", "img", "meta"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass  # of SVG

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.texts.append(data)


def read(text):
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert not parser.open
    return " ".join(" ".join(parser.texts).split())


@pytest.mark.parametrize("name", NAMES)
def test_html_is_whole_and_asks_for_nothing(shown, name):
    made = shown[name]._repr_html_()
    read(made)
    assert not re.search(r"(?i)https?:|@import|<link|<iframe|\bsrc=(?!x onerror)| id=", re.sub(r"http://www\.w3\.org/\S+", "", made))
    assert "url(" not in made  # of styles
    assert len(made) < (40_000 if name == "mechanisms" else 28_000)


@pytest.mark.parametrize("name", NAMES)
def test_styles_are_confined(shown, name):
    made = shown[name]._repr_html_()
    style = made[made.index("<style>") + 7 : made.index("</style>")]
    assert style.count("{") == style.count("}") > 5
    rules = re.findall(r"([^{}]+)\{", re.sub(r"@(container|media) \([^{]*\)( and \([^{]*\))* \{", "", style))
    assert len(rules) > 5
    for rule in rules:
        # What stands in parentheses may have commas: twice, for :is( … :not(…)).
        for selector in re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", rule)).split(","):
            assert ".cogwheel.cogwheel" in selector, selector
    assert "rem" not in re.findall(r"\d([a-z]+)\b", style) and "prefers-color-scheme: dark" in style


def test_a_comparison_says_the_same_in_both(shown):
    found = shown["comparison"]
    as_html, as_text = read(found._repr_html_()), repr(found)
    verdict = as_text.splitlines()[0]
    assert verdict == found.verdict and verdict in re.sub(r" (?=[,:.])", "", as_html)
    assert str(found.report) in as_html and str(found.report) in as_text
    for row in found.results["summary"]:
        assert f"{row['mean']:.4f}" in as_html and f"{row['mean']:.4f}" in as_text
    difference = f"{found.results['summary'][1]['difference']:+.4f}".replace("-", "−")
    assert difference in as_html and difference in as_text
    assert as_html.count("Held-out loss") >= 2 and found._repr_html_().count("<polyline") == 4  # two charts of two lines


def test_statistics_are_means_of_heads(shown):
    made = shown["statistics"]
    lines = [line.split() for line in repr(made).splitlines()]
    assert lines[1] == ["head", *(name for name in made._fields if name != "argmax")]
    seen = made.keys >= 2
    assert f"over {int(seen[:, 0].sum())} queries" in repr(made)
    for head in range(4):
        mean = made.negative_mass[:, head][seen[:, head]].mean()
        assert lines[2 + head][0] == f"H{head}" and lines[2 + head][4] == f"{mean:.3f}"
        assert f"{mean:.3f}" in read(made._repr_html_())
        kurtosis = made.kurtosis[:, head][seen[:, head] & made.kurtosis[:, head].isfinite()].mean()
        assert lines[2 + head][11] == f"{kurtosis:.3f}"


def test_statistics_are_still_a_tuple():
    made = statistics()
    assert isinstance(made, tuple) and len(made) == 12 and made[0] is made.log_mass
    others = type(made)(*(None if number is None else number.float().mean() for number in made))
    assert repr(others).startswith("AttentionStatistics(log_mass=tensor(") and others._repr_html_() is None
    on_meta = type(made)(*(number.to("meta") for number in made))
    assert "device='meta'" in repr(on_meta) and on_meta._repr_html_() is None
    assert repr(made._replace(argmax=None)) == repr(made)

    def total(query):
        out, rows = cogwheel.attention_statistics(query, query, query, "cog", causal=True)
        return out.sum() + rows.entropy.sum()

    query = torch.randn(1, 2, 10, 16)
    torch.testing.assert_close(torch.compile(total, backend="eager", fullgraph=True)(query), total(query))
    inside = []
    torch.func.vmap(lambda query: inside.append(repr(cogwheel.attention_statistics(query, query, query)[1])) or query)(query[None])
    assert inside[0].startswith("AttentionStatistics(log_mass=")


def test_a_mechanism_shows_formula_and_card(shown):
    for name in ("mechanism", "state"):
        entry = shown[name]
        said = read(entry._repr_html_())
        facts = {key: value for key, value in cogwheel.numerics_card(entry["name"])["facts"].items() if value != entry["formula"]}
        for text in (entry["title"], entry["formula"], entry["range"], entry["citation"], *facts, *facts.values()):
            assert " ".join(text.split()) in said, text
    assert shown["dense"]["formula"] in read(shown["dense"]._repr_html_())


def test_the_catalogue_is_still_a_list_of_dicts():
    made = cogwheel.mechanisms()
    assert isinstance(made, list) and all(isinstance(entry, dict) for entry in made)
    assert json.loads(json.dumps(made)) == made and made[0]["name"] == "softmax" and made[:2] == [made[0], made[1]]
    assert made["cog"] == next(entry for entry in made if entry["name"] == "cog")
    made["cog"]["title"] = "changed"
    assert cogwheel.mechanisms()["cog"]["title"] == "Cog"
    with pytest.raises(ValueError) as error:
        made["cogg"]
    assert re.fullmatch(r"mechanism: expected cog \(the nearest of \d+ names\), got cogg", str(error.value))
    said = read(made._repr_html_())
    assert all(entry["name"] in said for entry in made)


def test_the_catalogue_says_the_same_as_text(shown):
    made = shown["mechanisms"]
    lines = repr(made).splitlines()
    assert lines[0] == f"{len(made)} mechanisms" and [line.split()[0] for line in lines[2:]] == [entry["name"] for entry in made]
    assert repr(made[:2]).splitlines()[0] == "2 mechanisms" and "Cog" not in made[:1]._repr_html_()
    said, as_html = repr(shown["mechanism"]).split(), read(shown["mechanism"]._repr_html_())
    assert said[:2] == ["Cog", "(cog):"] and all(word in as_html for word in said[2:])
    changed = copy.copy(shown["mechanism"])
    del changed["name"]
    assert repr(changed) == repr(dict(changed)) and repr(cogwheel.mechanisms()[:0]).startswith("0 mechanisms")
    with pytest.raises(ValueError) as error:
        made[:1]["cog"]
    assert str(error.value) == "mechanism: expected one of those here, got cog"


def test_ones_own_mechanism_shows_its_definition(monkeypatch):
    from cogwheel import authoring, shown

    monkeypatch.setattr(shown, "of_mechanism", lambda name: (f"<b>{name}</b>", f"{name}: formula\n"))
    mine = authoring.Mechanism("mine", {})
    assert (mine._repr_html_(), repr(mine), str(mine)) == ("<b>mine</b>", "mine: formula", "mine")


def test_heads_say_what_they_hold(shown):
    maps, lines = weights()[0], repr(shown["heads"]).splitlines()
    assert lines[0] == "Attention of 4 heads over 12 tokens" and len(lines) == 6
    for head, line in enumerate(lines[2:]):
        largest = maps[head, 1:].abs().argmax()  # the first query has no choice
        query, key = 1 + int(largest) // 12, int(largest) % 12
        sign = f"{maps[head, query, key]:+.3f}".replace("-", "−")
        first, negative = maps[head, :, 0].abs().mean(), maps[head].clamp(max=0).sum(-1).neg().mean()
        expected = [f"L0H{head}", f"{first:.2f}", f"{negative:.2f}", sign, TOKENS[query], f"({query + 1})", TOKENS[key], f"({key + 1})"]
        assert line.split() == expected


def test_lines_of_text_stay_lines(shown):
    lines = repr(shown["hostile"]).splitlines()
    assert len(lines) == 5 and [line.split()[0] for line in lines[2:]] == ["L0H0", "L0H1", "L1H0"]


def test_shapes_of_weights():
    one = weights(1, 3)
    same = [repr(cogwheel.show_attention(given)) for given in (one, one[0], one[0, 0], [one], [one[0]], one.double(), one.clone().requires_grad_())]
    assert len(set(same)) == 1 and "1 head over 3 tokens" in same[0]
    assert [line.split()[0] for line in repr(cogwheel.show_attention(weights(4).reshape(2, 2, 12, 12))).splitlines()[2:]] == ["L0H0", "L0H1", "L1H0", "L1H1"]
    hidden = torch.eye(3).masked_fill(torch.ones(3, 3).triu(1).bool(), float("-inf"))
    assert "later tokens" in cogwheel.show_attention(hidden)._repr_html_()
    assert "later tokens" not in cogwheel.show_attention(torch.full((3, 3), 1 / 3))._repr_html_()
    assert '"range":2.0' in cogwheel.show_attention(torch.eye(3) * 2)._repr_html_()


@pytest.mark.parametrize(
    "given, tokens, kind, line",
    [
        (torch.ones(2, 3), None, ValueError, "weights: expected [N, N], [heads, N, N] or [layers, heads, N, N], got [1, 2, 3]"),
        (torch.ones(3, 3), ["a"], ValueError, "tokens: expected 3 tokens (as weights), got 1"),
        (torch.ones(3, 3), [], ValueError, "tokens: expected a string for each, got none"),
        (torch.ones(3, 3), "abc", TypeError, "tokens: expected a list of strings, got a string"),
        (torch.ones(3, 3), [1, 2, 3], TypeError, "tokens: expected a list of strings, got others"),
        (torch.ones(3, 3).long(), None, ValueError, "weights: expected [N, N], [heads, N, N] or [layers, heads, N, N], got [1, 3, 3]"),
        (torch.ones(600, 600), None, ValueError, "weights: expected at most 512 tokens, got 600"),
        (torch.ones(1, 1, 1, 1, 1), None, ValueError, "weights: expected [N, N], [heads, N, N] or [layers, heads, N, N], got [1, 1, 1, 1, 1]"),
        ([], None, ValueError, "weights: expected [N, N], [heads, N, N] or [layers, heads, N, N], got no layer"),
        ([torch.ones(1, 2, 2), torch.ones(1, 3, 3)], None, ValueError, "tokens: expected 3 tokens (as weights), got 2"),
        (3, None, TypeError, "weights: expected a tensor, or one for each layer, got a int"),
        (torch.ones(40, 400, 400), None, ValueError, "weights: expected at most 4,000,000 in all, got 6,400,000 or more"),
    ],
)  # fmt: skip
def test_weights_that_cannot_be_shown(given, tokens, kind, line):
    with pytest.raises(kind) as error:
        cogwheel.show_attention(given, tokens)
    assert str(error.value) == f"show_attention: {line}"
