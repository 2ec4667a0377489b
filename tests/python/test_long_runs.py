"""Runs that are killed, starved of disk, changed and damaged go on, and end with the bits of a run that was not."""

import json
import os
import random
import resource
import signal
import subprocess
import time

import pytest
from recorded_bits import weights_hash
from resumed_runs import metrics

CONFIG = """
[data]
corpus = ["corpus"]
packing = "documents"
[model]
mechanism = "cog"
context = 32
layers = 2
heads = 2
width = 32
[training]
steps = 60
batch = 8
micro_batches = 4
recompute = 1
optimizer = "muon"
schedule = "wsd"
ema = 0.9
learning_rate = 3e-3
report_every = 5
evaluate_every = 20
checkpoint_every = 7
keep_checkpoints = 2
spike_deviations = 50
sample_every = 20
prompts = ["line 1"]
"""


@pytest.fixture
def cogwheel(cogwheel_executable, tmp_path):
    documents = ["".join(f"line {line * line} of text {text}\n" for line in range(text % 7 + 1)) for text in range(120)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    (tmp_path / "run.toml").write_text(CONFIG)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    prepare = [str(cogwheel_executable), "data", "prepare", "texts.jsonl", "--tokenizer", "byte", "--out", "corpus", "--held-out", "0.2"]
    subprocess.run(prepare, cwd=tmp_path, env=environment, check=True, capture_output=True)

    def start(*words, **options):
        command = [str(word) for word in (cogwheel_executable, *words)]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def run(*words, **options):
        process = start(*words, **options)
        out, err = process.communicate(timeout=250)
        return process.returncode, out, err

    run.start = start
    return run


def whole_run(cogwheel, tmp_path, *words):
    code, _, err = cogwheel("train", "run.toml", "--out", "whole", *words)
    assert code == 0, err
    return weights_hash(tmp_path / "whole/checkpoint.safetensors")


def expect_equal_runs(tmp_path, whole, parts="parts"):
    assert weights_hash(tmp_path / parts / "checkpoint.safetensors") == whole
    assert metrics(tmp_path / parts) == metrics(tmp_path / "whole")
    assert (tmp_path / parts / "samples.jsonl").read_text() == (tmp_path / "whole/samples.jsonl").read_text()


@pytest.mark.parametrize("moments", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_any_moment_it_ends_with_the_same_bits(moments, cogwheel, tmp_path):
    whole = whole_run(cogwheel, tmp_path)
    draw = random.Random(moments)
    start = time.monotonic()
    cogwheel("train", "run.toml", "--out", "timed")
    lasts = time.monotonic() - start
    parts, kills = tmp_path / "parts", 0
    for _ in range(10 * moments):
        if kills == moments:
            break
        begun = (parts / "config.toml").exists()
        process = cogwheel.start("resume", "parts") if begun else cogwheel.start("train", "run.toml", "--out", "parts")
        try:
            process.communicate(timeout=draw.uniform(0, lasts))
            assert process.returncode == 0, process
            # It has come to its end: from the beginning again.
            expect_equal_runs(tmp_path, whole)
            subprocess.run(["rm", "-r", parts], check=True)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
    assert kills == moments
    if not (parts / "config.toml").exists():
        code, _, err = cogwheel("train", "run.toml", "--out", "parts")
    else:
        code, _, err = cogwheel("resume", "parts")
    assert code == 0, err
    expect_equal_runs(tmp_path, whole)


@pytest.mark.parametrize("limits", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_writes_that_fail_leave_a_run_that_goes_on(limits, cogwheel, tmp_path):
    whole = whole_run(cogwheel, tmp_path)
    draw = random.Random(limits)
    size = (tmp_path / "whole/checkpoint.safetensors").stat().st_size
    code, _, err = cogwheel("train", "run.toml", "--out", "parts", "--set", "training.steps=60")
    assert code == 0, err
    subprocess.run(["rm", "-r", tmp_path / "parts"], check=True)
    begun = False
    for _ in range(limits):
        limit = draw.choice([draw.randrange(1, 4000), draw.randrange(1, size), size + 2000])
        words = ("resume", "parts") if begun else ("train", "run.toml", "--out", "parts")
        code, _, err = cogwheel(*words, preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        assert code in (0, 1), err
        if code == 1:
            assert "expected a file that can be written, got File too large" in err and err.count("\n") < 12, err
        begun = (tmp_path / "parts/config.toml").exists()
    code, _, err = cogwheel(*(("resume", "parts") if begun else ("train", "run.toml", "--out", "parts")))
    assert code == 0, err
    expect_equal_runs(tmp_path, whole)


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_a_run_that_goes_on(cogwheel, cogwheel_executable, tmp_path):
    """A file system of its own, of less than the run needs, whose folder is then continued on a larger one."""
    in_namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    (tmp_path / "small").mkdir()
    if subprocess.run([*in_namespace, "mount -t tmpfs none small"], cwd=tmp_path, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    whole = whole_run(cogwheel, tmp_path)
    files = [file for file in (tmp_path / "whole").rglob("*") if file.is_file()]
    size = sum({file.stat().st_ino: file.stat().st_size for file in files}.values())  # a checkpoint may have two names
    went_on = 0
    for share in (0.4, 0.65, 0.95):
        subprocess.run(["rm", "-rf", tmp_path / "parts"], check=True)
        train = f"{cogwheel_executable} train run.toml --out small/parts; code=$?; test ! -e small/parts || cp -a small/parts .; exit $code"
        script = f"mount -t tmpfs -o size={int(share * size)} none small && {{ {train}; }}"
        done = subprocess.run([*in_namespace, script], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == 1 and "No space left on device" in done.stderr and done.stderr.count("\n") < 12, done.stderr
        begun = (tmp_path / "parts/config.toml").exists()
        went_on += (tmp_path / "parts/checkpoint.safetensors").exists()
        code, _, err = cogwheel(*(("resume", "parts") if begun else ("train", "run.toml", "--out", "parts")))
        assert code == 0 and "damaged" not in err, err
        expect_equal_runs(tmp_path, whole)
    assert went_on > 0  # from a checkpoint that was whole


def test_resume_takes_other_keys_of_training_and_records_them(cogwheel, tmp_path):
    code, _, err = cogwheel("train", "run.toml", "--out", "run", "--set", "training.steps=30")
    assert code == 0, err
    before = weights_hash(tmp_path / "run/checkpoint.safetensors")
    code, out, err = cogwheel("resume", "run", "--set", "training.steps=40", "--set", "training.batch=16", "--set", "training.report_every=4", "--out", "other")
    assert code == 0, err
    assert weights_hash(tmp_path / "run/checkpoint.safetensors") == before
    change = json.loads((tmp_path / "other/changes.jsonl").read_text())
    assert change == {"step": 30, "changes": {"training.steps": [30, 40], "training.batch": [8, 16], "training.report_every": [5, 4]}}
    lines = [json.loads(line) for line in (tmp_path / "other/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [5, 10, 15, 20, 25, 30, 32, 36, 40]
    assert lines[-1]["tokens"] == 30 * 8 * 32 + 10 * 16 * 32
    # Once more, without words: it has made all of its steps.
    code, out, err = cogwheel("resume", "other")
    assert code == 0 and "has made all of its 40 steps" in out
    for words, message in {
        ("model.width=64",): "resume: --set model.width: expected 32, as the run began, got 64",
        ("training.seed=3",): "resume: --set training.seed: expected 1337, as the run began, got 3",
        ("training.optimizer=adamw",): 'resume: --set training.optimizer: expected "muon", as the run began, got "adamw"',
        ("data.packing=windows",): 'resume: --set data.packing: expected "documents", as the run began, got "windows"',
    }.items():
        code, _, err = cogwheel("resume", "other", *(f"--set={word}" for word in words))
        assert code == 2 and err == f"cogwheel: {message}\n"
    assert len((tmp_path / "other/changes.jsonl").read_text().splitlines()) == 1


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(cogwheel, tmp_path):
    whole = whole_run(cogwheel, tmp_path)
    path = tmp_path / "whole/checkpoint.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)  # also checkpoints/60.safetensors, which is the same file
    code, _, err = cogwheel("evaluate", "whole")
    assert code == 1 and "the file is damaged" in err
    code, _, err = cogwheel("resume", "whole")
    assert code == 0, err
    assert "checkpoint.safetensors: expected the contents that were written" in err
    assert "going on from whole/checkpoints/56.safetensors, step 56" in err
    assert weights_hash(path) == whole


def test_a_prompt_that_cannot_be_continued_is_refused_before_anything_is_made(cogwheel, tmp_path):
    code, _, err = cogwheel("train", "run.toml", "--out", "run", "--set", 'training.prompts=["line", ""]')
    assert (code, err) == (2, "cogwheel: training.prompts: expected texts of a token at least, got an empty one\n")
    assert not (tmp_path / "run").exists()


def test_another_tokenizer_than_the_checkpoints_is_refused(cogwheel, tmp_path):
    settings = ["training.steps=1", "training.curve_tokens=128", "training.sample_every=0", "training.micro_batches=1"]
    options = [f"--set={each}" for each in (*settings, "data.tokenizer=bpe", "data.vocabulary=260")]
    (tmp_path / "plain.toml").write_text(CONFIG.replace('corpus = ["corpus"]\n', "").replace('packing = "documents"\n', ""))
    for name, line in (("one", "abcdefgh\n"), ("other", "stuvwxyz\n")):
        (tmp_path / f"{name}.txt").write_text(line * 800)
        code, _, err = cogwheel("train", "plain.toml", "--text", f"{name}.txt", "--out", name, *options)
        assert code == 0, err
    own, others = ((tmp_path / name / "tokenizer.json").read_text() for name in ("one", "other"))
    assert own != others
    go_on = ["resume", "one", "--set", "training.steps=2"]
    (tmp_path / "one/tokenizer.json").write_text(others)
    for words in (["evaluate", "one"], ["sample", "one"], go_on):
        code, _, err = cogwheel(*words)
        assert code == 1 and "one/tokenizer.json: expected the tokenizer of" in err and len(err.strip().splitlines()) == 1, err
    (tmp_path / "one/tokenizer.json").write_text(own)
    code, _, err = cogwheel(*go_on)
    assert code == 0, err


def test_without_its_newest_checkpoint_a_run_goes_on_from_an_older_one(cogwheel, tmp_path):
    whole = whole_run(cogwheel, tmp_path)
    path = tmp_path / "whole/checkpoint.safetensors"
    for spoil in (lambda: path.unlink(), lambda: path.write_bytes(b""), lambda: path.write_bytes(path.read_bytes()[:5000])):
        (tmp_path / "whole/checkpoints/60.safetensors").unlink()
        spoil()
        code, _, err = cogwheel("resume", "whole")
        assert code == 0, err
        assert weights_hash(path) == whole


def test_a_checkpoint_is_read_by_its_path_and_copied_from_there(cogwheel, tmp_path):
    code, _, err = cogwheel("train", "run.toml", "--out", "run", "--set", "training.keep_best=true")
    assert code == 0, err
    for name in ("checkpoints/56.safetensors", "checkpoints/best.safetensors"):
        code, _, err = cogwheel("evaluate", f"run/{name}")
        assert code == 0, err
    code, _, err = cogwheel("sample", "run/checkpoints/56.safetensors", "--prompt", "line", "--length", "5")
    assert code == 0, err
    code, _, err = cogwheel("evaluate", "run/checkpoints/7.safetensors")
    assert (code, err) == (1, "cogwheel: run/checkpoints/7.safetensors: expected a checkpoint, got no such file\n")
    # What is refused leaves no folder; a damaged newest checkpoint does not matter.
    code, _, err = cogwheel("resume", "run", "--set", "training.steps=10", "--out", "other")
    assert code == 2 and "training.steps: expected at least 60, the steps that were made, got 10" in err
    assert not (tmp_path / "other").exists()
    code, _, err = cogwheel("resume", "run/checkpoints/56.safetensors", "--set", "training.steps=64", "--out", "other")
    assert code == 0, err
    assert json.loads((tmp_path / "other/changes.jsonl").read_text())["step"] == 56
    assert (tmp_path / "other/checkpoints/best.safetensors").exists()


def test_changes_hold_from_where_a_run_went_back_to(cogwheel, tmp_path):
    options = ("--set=training.keep_checkpoints=9", "--set=training.steps=21", "--set=training.sample_every=0")
    assert cogwheel("train", "run.toml", "--out", "run", *options)[0] == 0
    assert cogwheel("resume", "run", "--set", "training.report_every=4", "--set", "training.steps=24")[0] == 0
    for name in ("checkpoint.safetensors", "checkpoints/24.safetensors", "checkpoints/21.safetensors"):
        (tmp_path / "run" / name).write_bytes(b"damaged")
    code, _, err = cogwheel("resume", "run")
    assert code == 0 and "going on from run/checkpoints/14.safetensors" in err
    code, _, err = cogwheel("resume", "run", "--set", "training.steps=28")
    assert code == 0, err


def test_sigterm_is_seen_between_slices(cogwheel, tmp_path):
    whole = whole_run(cogwheel, tmp_path)
    process = cogwheel.start("train", "run.toml", "--out", "parts")
    written = tmp_path / "parts/metrics.jsonl"
    while process.poll() is None and not (written.exists() and written.read_text().count("\n") >= 2):
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    if process.returncode != 0:  # it may have been done
        assert process.returncode == 130 and "`cogwheel resume parts` continues" in err
        code, _, err = cogwheel("resume", "parts")
        assert code == 0, err
    expect_equal_runs(tmp_path, whole)


@pytest.mark.slow
def test_a_run_that_is_resumed_needs_the_memory_of_one_that_was_not(cogwheel, tmp_path):
    """A checkpoint is written and read tensor by tensor: of 100 MB of weights it has 300."""
    model = ["model.width=512", "model.layers=8", "model.heads=8", "training.checkpoint_every=2", "training.batch=4", "training.sample_every=0"]
    words = [f"--set={key}" for key in (*model, "training.optimizer=adamw", "training.ema=0", "training.evaluate_every=0", "training.curve_tokens=64")]

    def peak(*command):
        process = cogwheel.start(*command)
        process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        return usage.ru_maxrss

    one_step = peak("train", "run.toml", "--out", "one", *words, "--set=training.steps=1", "--set=training.checkpoint_every=0")
    peak("train", "run.toml", "--out", "run", *words, "--set=training.steps=4")
    resumed = peak("resume", "run", "--set=training.steps=6")
    assert resumed <= 1.1 * one_step, (resumed, one_step)
