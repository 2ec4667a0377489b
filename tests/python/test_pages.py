"""Pages made of what nobody would wish for: texts that are markup, names without an end, one head or sixty-four, one token.
In a real browser, at a phone's width and a desk's, in both themes."""

import json
import shutil

import pytest

pytest.importorskip("selenium.webdriver")
from page_checks import DRIVER, FAINT_TEXT, headless_browser  # noqa: E402
from pictures import png  # noqa: E402
from test_report import open_page, requests  # noqa: E402

pytestmark = pytest.mark.skipif(DRIVER is None, reason="no chromedriver")

MARKUP = "<img src=x onerror=document.title='run'></script><script>document.title='run'</script>"
LONG = "name-without-an-end" * 9
REVERSED = "\u202eright to left\u2066\u200f"
HOSTILE = f"{MARKUP}\"'`{{{{x}}}}&lt;{REVERSED}{LONG}"
RUN = f"<img src=x onerror=document.title='run'>{REVERSED}{LONG}"  # the name of a folder
CONFIG = """
[task]
name = "{task}"
{of_task}
[model]
layers = {layers}
heads = {heads}
width = {width}
mechanism = "{mechanism}"
{model}
[training]
steps = 6
batch = 4
evaluate_every = 3
curve_tokens = 64
"""


def config(task="language_modelling", layers=1, heads=2, width=16, mechanism="softmax", of_task="", model="context = 64"):
    return CONFIG.format(**locals())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / f"text {MARKUP[:40].replace('/', '')}.txt").write_text(f"{HOSTILE} the cat sat on a mat.\n" * 40)
    for name in ("circle " + MARKUP.replace("/", ""), REVERSED + LONG):
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(12):
            (folder / "pictures" / name / f"{number}.png").write_bytes(png(bytes([20 + 8 * number]) * (3 * 16 * 16), 16))
    return folder


@pytest.fixture(scope="module")
def run(cogwheel_in, folder):
    cogwheel = cogwheel_in(folder)

    def run(*words):
        done = cogwheel(*words)
        assert done.returncode == 0, done.stderr

    return run


@pytest.fixture(scope="module")
def trained(folder, run):
    """Runs in folders with hostile names, by what they are."""
    text = next(folder.glob("text *"))

    def train(kind, *words, **of_model):
        (folder / f"{kind}.toml").write_text(config(**of_model))
        run("train", f"{kind}.toml", "--out", kind + RUN, *words)
        return kind + RUN

    on_text = ["--text", text.name, "--set", "data.tokenizer=byte"]
    runs = {
        "two": train("two", *on_text, mechanism="cog", layers=2),
        "one": train("one", *on_text, heads=1),
        "many": train("many", *on_text, heads=64, width=512, layers=2),
        "ioi": train("ioi", task="ioi", model="context = 32"),
        "pictures": train("pictures", "--images", "pictures", task="images", layers=2, of_task="size = 16", model="patch = 4"),
        "drawing": train("drawing", "--images", "pictures", task="diffusion", layers=3, of_task="size = 16", model="patch = 8"),
        "roomy": train("roomy", *on_text, model="context = 256"),
        "recall": train("recall", task="recall", of_task="pairs = 4\nkeys = 8\nvalues = 2", model="context = 32"),
    }
    return runs


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = headless_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def expect_sound(browser, path):
    """Silent, drawn as text, within the screen and legible."""
    for width, theme in ((375, "dark"), (1440, "light")):
        open_page(browser, path, width, theme)
        assert [entry for entry in browser.get_log("browser") if entry["level"] != "DEBUG"] == []
        assert [url for url in requests(browser) if url != path.as_uri() and not url.startswith("data:")] == []
        assert browser.title != "run" and browser.execute_script("return document.querySelectorAll('[onerror], [src=x]').length") == 0
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script(FAINT_TEXT) == []
        assert "{{" not in browser.execute_script("return document.body.innerText").replace("{{x}}", "")


def page_of(folder, name):
    """The page under a name that an address can hold."""
    shutil.copy(folder / name, folder / "shown.html")
    return folder / "shown.html"


@pytest.mark.parametrize(
    ("study", "runs", "words"),
    [
        ("ioi", ["ioi"], ["--set", "prompts=4"]),
        ("gallery", ["two", "one", "many"], ["--text", HOSTILE[:60]]),
        ("heads", ["two", "one", "many"], ["--text", HOSTILE[:60]]),
        ("ranks", ["two", "one"], ["--text", HOSTILE[:60]]),
        ("squashing", ["two", "one"], ["--set", "input=2", "--set", "tokens=16"]),
        ("length", ["two", "one"], ["--set", "tokens=64"]),
        ("spectrum", ["two", "one"], ["--text", HOSTILE[:60]]),
        ("gallery", ["one"], ["--text", "ab"]),
        ("layers", ["two", "one"], ["--text", HOSTILE[:60]]),
        ("symmetry", ["two", "one"], ["--text", HOSTILE[:60]]),
        ("values", ["two", "one"], ["--set", "tokens=64"]),
        ("pruning", ["two"], ["--set", "tokens=64"]),
        ("kept_keys", ["two", "one"], ["--set", "tokens=64"]),
        ("collapse", ["roomy"], []),
        ("needle", ["recall"], ["--set", "sequences=40"]),
        ("pictures", ["drawing"], ["--set", "samples=4", "--set", "sampler_steps=2", "--set", "classifier_steps=3"]),
    ],
)
def test_studies(folder, run, trained, browser, study, runs, words):
    run("inspect", study, *(trained[each] for each in runs), *words, "--out", f"study-{study}", "--overwrite")
    expect_sound(browser, page_of(folder / f"study-{study}", "report.html"))
    answer = json.loads((folder / f"study-{study}/results.json").read_text())["answer"]
    assert answer.endswith(".") and ". " not in answer.replace(RUN, ""), answer


@pytest.mark.parametrize("of", ["two", "many", "pictures"])
def test_evaluations(folder, run, trained, browser, of):
    run("evaluate", trained[of], "--out", f"page-{of}")
    expect_sound(browser, page_of(folder / f"page-{of}", "evaluation.html"))


@pytest.mark.parametrize(("runs", "text", "second"), [(["two", "two copy"], HOSTILE[:40], HOSTILE[40:80]), (["many"], "a", "b"), (["one"], "ab", "")])
def test_viewers(folder, run, trained, browser, runs, text, second):
    if "two copy" in runs and not (folder / "two copy").exists():
        shutil.copytree(folder / trained["two"], folder / "two copy")
    run("view", *(trained.get(each, each) for each in runs), "--text", text, *(["--second-text", second] if second else []), "--export", "view.html")
    expect_sound(browser, page_of(folder, "view.html"))


def test_experiments(folder, run, browser):
    """An experiment that trains, its comparison of rows, and the index of several, one of which found what nobody would."""
    text = next(folder.glob("text *"))
    run("reproduce", "s1/convergence", "--text", text.name, "--seeds", 2, "--steps", 4, "--set", "model.width=16", "--set", "model.heads=2",
        "--set", "data.vocabulary=260", "--models", "stored", "--out", "reproduced")  # fmt: skip
    expect_sound(browser, page_of(folder, "reproduced/report.html"))
    expect_sound(browser, page_of(folder, "reproduced/comparison/report.html"))
    found = json.loads((folder / "reproduced/results.json").read_text())
    for claim in found["claims"]:
        claim["says"] = claim["expected"] = HOSTILE
    found["answer"] = found["source"]["place"] = LONG
    place = folder / "index/s1"
    for name in ("convergence", "phi"):
        (place / name).mkdir(parents=True)
        (place / name / ".cogwheel").write_text("reproduction\n")
        (place / name / "results.json").write_text(json.dumps(found))
    (folder / "index/.cogwheel").write_text("reproductions\n")
    run("reproduce", "s1", "--out", "index", "--index")
    expect_sound(browser, page_of(folder, "index/report.html"))


STUDIED = """
title = '''{hostile}'''
question = '''{hostile}'''
[source]
document = "S1"
place = "{long}"
items = ["S1-45"]
[[source.table]]
caption = '''{hostile}'''
columns = ["{long}", "b"]
rows = [{{ name = '''{hostile}''', variant = "softmax at 16", values = [1.5, nan] }}]
measures = ["train_loss", "held_out_loss"]
[comparison]
preset = "tiny"
tokenizer = "byte"
baseline = "softmax"
widths = [16, 24, 32]
[variants.softmax]
model.mechanism = "softmax"
[variants.cog]
model.mechanism = "cog"
[[study]]
name = "heads"
rows = ["cog at 16", "softmax at 16"]
[[study]]
name = "collapse"
rows = ["cog at 16"]
[[claim]]
id = "every"
says = '''{hostile}'''
row = "cog at 16"
measure = "heads.kurtosis"
every = true
above = 0
primary = true
[[claim]]
id = "untold"
says = "{long}"
row = "cog at 32"
against = "softmax at 32"
below = 0
primary = true
[desk]
seeds = 2
steps = 4
"""


def test_an_experiment_with_widths_and_studies(folder, cogwheel_in, browser):
    """One of its studies cannot be made: the models have no place for the texts that it asks about."""
    (folder / "studied.toml").write_text(STUDIED.format(hostile=HOSTILE.replace("\u202e", "").replace("'", ""), long=LONG))
    text = next(folder.glob("text *"))
    done = cogwheel_in(folder)("reproduce", "studied.toml", "--text", text.name, "--models", "stored", "--out", "studied")
    assert done.returncode == 1 and "an answer of every study" in done.stderr, done.stderr
    page = page_of(folder, "studied/report.html")
    assert "could not be made" in page.read_text() and "its gap to the baseline" in page.read_text()
    expect_sound(browser, page)


@pytest.mark.parametrize("task", ["images", "diffusion", "language_modelling"])
def test_comparisons(folder, run, trained, browser, task):
    """What lies in the folder of a comparison may be anyone's, and the report is written again of it."""
    text = next(folder.glob("text *"))
    data = ["--text", text.name, "--preset", "tiny", "--tokenizer", "byte"] if task == "language_modelling" else [
        "--images", "pictures", "--preset", task, "--set", "model.layers=3", "--set", "model.width=16", "--set", "model.heads=2",
        "--set", "task.size=16", "--set", "model.patch=2"]  # fmt: skip
    out = f"compared-{task}"
    run("compare", "--attention", "softmax,cog", "--seeds", 1, "--steps", 4, *data, "--out", out)
    for path in (folder / out).glob("trained/*/inspection.json"):
        inspection = json.loads(path.read_text())
        inspection["prompt"] = inspection["sample"] = HOSTILE
        if inspection["tokens"] and task == "language_modelling":
            inspection["tokens"] = [HOSTILE, REVERSED, "\n", *inspection["tokens"][3:]]
        for table in inspection.setdefault("tables", []):
            table["title"] = table["rows"][0][0] = table["columns"][1] = HOSTILE
        inspection["tables"].append({"title": LONG, "columns": [HOSTILE, "b"], "rows": [[HOSTILE, LONG], ["", ""]]})
        for figure in inspection.get("figures", []):
            figure["title"] = figure["caption"] = HOSTILE
            figure["html"] = MARKUP
            for picture in figure.get("pictures", []):
                picture["text"] = HOSTILE
        path.write_text(json.dumps(inspection))
    run("compare", "--resume", out)
    report = (folder / out / "report.html").read_text()
    assert LONG in report and "<img src=x" not in report and "<script>document" not in report
    expect_sound(browser, folder / out / "report.html")
