"""Runs of several ranks, as the tests of them make: configurations, a folder with their data, what is compared."""

import os
import signal
import time

import pytest
import torch
from processes import children_of, ended_with_test, wait_for
from recorded_bits import generated_text
from resumed_runs import metrics
from tensor_files import read_tensors

CONFIG = """
[task]
{task}
[model]
{model}
[training]
seed = 7
steps = 24
batch = 12
micro_batches = 8
learning_rate = 3e-3
report_every = 4
evaluate_every = 12
checkpoint_every = 8
{training}
"""
TEXT = 'name = "language_modelling"\n[data]\ntext = ["text.txt"]'
KINDS = {
    "gpt": (TEXT, 'form = "gpt"\nmechanism = "softmax"\ncontext = 48\nlayers = 2\nheads = 2\nwidth = 32', ""),
    # The slices of a batch of 12 are of one row and of two.
    "cog": (TEXT, 'form = "llama"\nmechanism = "cog"\ncontext = 48\nlayers = 2\nheads = 2\nwidth = 32\ndropout = 0.1', 'precision = "bf16"\nema = 0.9'),
    "hybrid": (TEXT, 'form = "llama"\nmechanism = "gla+softmax"\nposition = "none"\ncontext = 48\nlayers = 2\nheads = 2\nwidth = 32', 'optimizer = "muon"'),
    # Counts beside means, of few parts.
    "zeros_and_ones": ('name = "zeros_and_ones"', 'mechanism = "cog"\ncontext = 24\nlayers = 2\nheads = 2\nwidth = 32', ""),
    # Sentences of many lengths: the loss is a mean over what each slice has of them.
    "translation": ('name = "translation"', 'width = 32\nheads = 2\nlayers = 2', ""),
}  # fmt: skip

SMALL = "context = 48\nheads = 2\nwidth = 32"
# Of texts that ranks share: what attention, a learned position, documents, a window, convolutions, a shift of tokens, running means and
# states read of other ranks' tokens.
SHARED = {
    "softmax": (TEXT, f'form = "gpt"\nmechanism = "softmax"\nlayers = 2\n{SMALL}', ""),
    "documents": (
        'name = "language_modelling"\n[data]\ncorpus = ["corpus"]\npacking = "documents"',
        f'form = "llama"\nmechanism = "gla+cog"\nlayers = 2\n{SMALL}', "",
    ),
    "three heads": (TEXT, 'form = "llama"\nmechanism = "cog"\nwindow = 20\ncontext = 48\nlayers = 2\nheads = 3\nwidth = 48', ""),
    "hybrid": (TEXT, f'form = "llama"\nmechanism = "mamba2+rwkv6+abc+polynomial"\nposition = "none"\nlayers = 4\n{SMALL}', ""),
    "dropout": (TEXT, f'form = "llama"\nmechanism = "differential"\nposition = "alibi"\nlayers = 2\ndropout = 0.1\n{SMALL}', 'precision = "bf16"\nema = 0.9'),
}  # fmt: skip

# Gradients of 42 MB, in ten buckets; matrices of 8 MB are in three of them. The first sums come back while the backward pass goes on.
MANY_BUCKETS = ("training.steps=3", "training.batch=4", "model.context=16", "model.heads=4", "model.width=512", "model.feed_forward=4096")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "text.txt").write_text(generated_text())
    (folder / "documents").mkdir()
    for number, start in enumerate(range(0, 24000, 160)):
        (folder / "documents" / f"{number}.txt").write_text(generated_text()[start : start + 20 + 37 * number % 140])
    for kinds in (KINDS, SHARED):
        for name, (task, model, training) in kinds.items():
            (folder / f"{prefix(kinds)}{name}.toml").write_text(CONFIG.format(task=task, model=model, training=training))
    return folder


def prefix(kinds):
    return "shared " if kinds is SHARED else ""


@pytest.fixture(scope="module")
def cogwheel(work, cogwheel_in):
    run = cogwheel_in(work)
    trained(run("data", "prepare", "documents", "--tokenizer", "byte", "--held-out", "0.2", "--out", "corpus"))
    return run


@pytest.fixture
def begin(work, cogwheel_in):
    """Starts a command, whose process ends with the test."""
    with ended_with_test() as end:
        yield lambda *words, **environment: end(cogwheel_in(work, **environment)(*words, background=True))


@pytest.fixture(scope="module")
def of_one(work, cogwheel):
    """The run of a kind, or of other words, by one process."""

    def run(kind, *words):
        folder = work / "-".join(("one", kind, *map(str, words)))
        if not folder.exists():
            trained(cogwheel("train", f"{kind}.toml", *words, "--out", folder))
        return folder

    return run


def trained(done):
    assert done.returncode == 0, done.stderr
    return done


def expect_same(run, other):
    """Weights, moments, averages and everything that was measured, bit for bit."""
    ours, theirs = (read_tensors(folder / "checkpoint.safetensors") for folder in (run, other))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert metrics(run) == metrics(other)


def expect_nearly_same(run, other):
    ours, theirs = metrics(run), metrics(other)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for line, expected in zip(ours, theirs, strict=True):
        for name in ("train_loss", "gradient_norm", "held_out_loss"):
            assert line.get(name, 0) == pytest.approx(expected.get(name, 0), rel=1e-5), (line["step"], name)


def ranks_of(process):
    """Their process numbers, once there are several."""
    return wait_for(lambda: len(found := children_of(process)) > 1 and found)


def wait_for_step(folder, step):
    written = folder / "metrics.jsonl"
    wait_for(lambda: written.exists() and f'"step":{step},' in written.read_text())


def killed_at_random(begin, draw, *words, most=8):
    """One rank of a command after the other, whatever it does at the moment; how many, before it came to its end."""
    for killed in range(most):
        process = begin(*words)
        ranks = ranks_of(process)
        time.sleep(draw.uniform(1, 7))
        if process.poll() == 0:
            return killed
        os.kill(draw.choice(ranks), signal.SIGKILL)
        process.communicate(timeout=120)
        assert process.returncode == 1
        wait_for(lambda ranks=ranks: not any(os.path.exists(f"/proc/{rank}") for rank in ranks))
    return most


def expect_all_end(process, ranks, says):
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert says in one_line(errors)
    assert not any(os.path.exists(f"/proc/{rank}") for rank in ranks)


def one_line(errors):
    """What a command says besides its progress."""
    lines = [line for line in errors.splitlines() if line.startswith("cogwheel: ")]
    assert len(lines) == 1, errors
    return lines[0]
