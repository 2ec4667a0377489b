"""Where the command line writes: never over a run's files, quietly where nobody reads, and by nobody's code but the user's."""

import hashlib
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

CONFIG = """
name = "{name}"
[task]
name = "{name}"
{task}
[model]
width = 16
{model}
[training]
steps = {steps}
batch = 2
checkpoint_every = {steps}
"""
RUNS = {
    "handwriting": ("held_out = 4\ncharacters = 4", "layers = 1\nmixtures = 2\ncurves = 2\ncontext = 60"),
    "diffusion": ("size = 16", "layers = 3\nheads = 2\npatch = 8"),
    "sentences": ("", "layers = 1\nheads = 2\ncontext = 32"),
    "translation": ("", "context = 20"),
    "ioi": ("", "layers = 1\nheads = 2\ncontext = 32"),
    "language_modelling": ("", "layers = 1\nheads = 2\ncontext = 16"),
}


@pytest.fixture(scope="module")
def work(tmp_path_factory, cogwheel_in):
    folder = tmp_path_factory.mktemp("outputs")
    cogwheel = cogwheel_in(folder)
    (folder / "text.txt").write_text("the cat sat on a mat. " * 200)
    for name, (task, model) in RUNS.items():
        (folder / f"{name}.toml").write_text(CONFIG.format(name=name, task=task, model=model, steps=2))
        text = ["--text", "text.txt"] if name == "language_modelling" else []
        done = cogwheel("train", f"{name}.toml", "--out", name, *text)
        assert done.returncode == 0, done.stderr
    shutil.copytree(folder / "handwriting", folder / "other run")
    shutil.copytree(folder / "handwriting", folder / "unmarked")
    (folder / "unmarked/.cogwheel").unlink()
    (folder / "shortcut").symlink_to("handwriting")
    done = cogwheel("compare", "--preset", "tiny", "--steps", "2", "--seeds", "1", "--attention", "softmax,cog", "--text", "text.txt", "--out", "comparison")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, work):
    return cogwheel_in(work)


def contents(folder):
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        *[(["sample", "handwriting", "--prompt", "a", "--out", out], "sample: --out")
          for out in ("handwriting/checkpoint.safetensors", "shortcut/config.toml", "./handwriting/../handwriting/strokes.json", "other run/metrics.jsonl",
                      "unmarked/checkpoint.safetensors", "handwriting/.cogwheel", "handwriting/evaluation.html", "handwriting",
                      "comparison/report.html", "comparison/trained/cog-seed-1/tokenizer.json")],
        (["sample", "diffusion", "--out", "other run/checkpoint.safetensors"], "sample: --out"),
        (["embed", "sentences", "--prompt", "a", "--out", "other run/checkpoint.safetensors"], "embed: --out"),
        (["evaluate", "ioi", "--out", "other run"], "evaluate: --out"),
        (["evaluate", "ioi", "--out", "unmarked"], "evaluate: --out"),
        (["view", "ioi", "--text", "Mary and John", "--export", "other run/config.toml"], "--export"),
        (["view", "ioi", "--text", "Mary and John", "--export", "comparison/results.json"], "--export"),
        *[([*verb, "--overwrite"], str(verb[-1])) for verb in
          (["export", "diffusion", "--out", "other run"], ["inspect", "ioi", "ioi", "--out", "other run"],
           ["reproduce", "s2/hopfield", "--out", "other run"], ["train", "ioi.toml", "--out", "comparison"])],
    ],
    ids=lambda value: "-".join(str(word).strip("-./") for word in value) if isinstance(value, list) else "",
)  # fmt: skip
def test_no_output_replaces_a_file_of_a_run(cogwheel, work, words, what):
    before = contents(work)
    done = cogwheel(*words)
    assert done.returncode == 2 and done.stderr.startswith(f"cogwheel: {what}: expected "), done.stderr
    assert contents(work) == before


def test_other_places_are_written(cogwheel, work):
    link = work / "link.svg"
    link.symlink_to("handwriting/checkpoint.safetensors")
    before = contents(work / "handwriting")
    for out in ("handwriting/drawing.svg", "drawing.svg", "link.svg", "handwriting/drawing.svg"):
        done = cogwheel("sample", "handwriting", "--prompt", "a", "--out", out)
        assert done.returncode == 0 and (work / out).read_text().startswith("<svg"), done.stderr
    assert not link.is_symlink()  # the link was replaced, not what it led to
    (work / "handwriting/drawing.svg").unlink()
    assert contents(work / "handwriting") == before
    for words in (["sample", "diffusion", "--count", "2", "--sampler-steps", "2", "--out", "diffusion/samples.png"], ["evaluate", "ioi", "--out", "ioi/"]):
        done = cogwheel(*words)
        assert done.returncode == 0, done.stderr


def start(executable, folder, *words, PYTHONPATH=os.environ["PYTHONPATH"], **options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PYTHONPATH)}
    return subprocess.Popen([str(word) for word in (executable, *words)], cwd=folder, env=environment, **options)


# Started from a shell, and from Python as the installed command is, which leaves the signal ignored.
@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize(
    "words",
    [["list", "mechanisms"], ["list"], ["--help"], ["train", "--help"], ["--version"], ["sample", "ioi", "--prompt", "After Mary", "--length", "20"],
     ["evaluate", "ioi"], ["mechanism", "check", "softmax"]],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_ends_quietly_where_nobody_reads(cogwheel_executable, work, words, ignored):
    if ignored and words[0] in ("evaluate", "mechanism", "train"):
        pytest.skip("as without")
    reading, writing = os.pipe()
    os.close(reading)
    process = start(cogwheel_executable, work, *words, stdout=writing, stderr=subprocess.PIPE, restore_signals=not ignored)
    os.close(writing)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (-signal.SIGPIPE, b"")


def test_stops_generating_when_its_reader_leaves(cogwheel_executable, work):
    process = start(cogwheel_executable, work, "sample", "language_modelling", "--prompt", "the ", "--length", "1000000",
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, restore_signals=False)  # fmt: skip
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.wait(60) == -signal.SIGPIPE and process.stderr.read() == b""
    process.stderr.close()


def test_training_that_nobody_watches_is_saved(cogwheel, cogwheel_executable, work):
    (work / "long.toml").write_text(CONFIG.format(name="ioi", task="", model="layers = 1\nheads = 2\ncontext = 32", steps=1_000_000))
    process = start(cogwheel_executable, work, "train", "long.toml", "--set", "training.evaluate_every=50", "--out", "long", stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, restore_signals=False)  # fmt: skip
    assert process.stderr.readline()
    process.stderr.close()
    assert process.wait(120) == -signal.SIGPIPE and process.stdout.read() == b""
    process.stdout.close()
    assert (work / "long/checkpoint.safetensors").is_file() and not list((work / "long").glob(".*.part"))
    assert cogwheel("sample", "long", "--prompt", "After", "--length", "1").returncode == 0


def test_full_disks_are_still_told(cogwheel_executable, work):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([cogwheel_executable, "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and done.stderr == "cogwheel: standard output: expected something that can be written to, got No space left on device\n"


def test_files_of_the_working_folder_are_not_run(cogwheel_executable, work, tmp_path):
    """Python looks for modules where it is started, and anyone's files may lie there."""
    here, own = tmp_path / "here", tmp_path / "own"
    mark = f'import pathlib\npathlib.Path(r"{tmp_path / "run"}").touch()\nraise ImportError("not this one")\n'
    for folder, modules in ((here, ("sacrebleu", "random", "runpy", "json", "argparse", "torch", "statistics")), (own, ("sacrebleu",))):
        folder.mkdir()
        for module in modules:
            (folder / f"{module}.py").write_text(mark)

    def run_here(*words, path):
        process = start(cogwheel_executable, here, *words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, PYTHONPATH=path)
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        return (tmp_path / "run").exists()

    package = os.environ["PYTHONPATH"]
    evaluate = ["evaluate", work / "translation", "--out", tmp_path / "page"]
    for path in (package, os.pathsep + package, f"{here}{os.pathsep}{package}"):
        assert not run_here(*evaluate, path=path)
    assert not run_here("bench", "attention", "--help", path=package)
    # What the user has put on the path of modules is found.
    assert run_here(*evaluate, path=own)
