"""`--ranks N` and torchrun: several processes train one model, with the bits of one, and end together."""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
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


def ranks_of(process):
    """Their process numbers, once there are several."""
    return wait_for(lambda: len(found := children_of(process)) > 1 and found)


def wait_for_step(folder, step):
    written = folder / "metrics.jsonl"
    wait_for(lambda: written.exists() and f'"step":{step},' in written.read_text())


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


def by_hand(folder, rank, ranks, *words, timeout=60, meet="ranks", interface="lo"):
    """One rank, as a launcher starts it."""
    place = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "COGWHEEL_RENDEZVOUS": f"file://{folder / meet}"}
    environment = {**os.environ, **place, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface, "COGWHEEL_RANK_TIMEOUT": str(timeout)}
    command = [sys.executable, "-m", "cogwheel", *map(str, words)]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ranks_meet_through_the_interface_that_is_named(work):
    """Which PyTorch reads only for groups that it makes itself."""
    interfaces = [name for _, name in socket.if_nameindex()]
    ranks = [by_hand(work, 0, 2, "bench", "network", interface="nowhere", meet="unknown"), by_hand(work, 1, 2, "bench", "network", interface="lo,nowhere", meet="unknown")]
    for rank in ranks:
        _, errors = rank.communicate(timeout=60)
        assert rank.returncode == 2
        assert one_line(errors) == f"cogwheel: GLOO_SOCKET_IFNAME: expected network interfaces of this machine ({', '.join(interfaces)}), got nowhere"


@pytest.mark.parametrize("kind", KINDS)
def test_two_ranks_give_the_bits_of_one(cogwheel, work, of_one, kind):
    trained(cogwheel("train", f"{kind}.toml", "--ranks", 2, "--out", f"two-{kind}"))
    expect_same(work / f"two-{kind}", of_one(kind))
    last = json.loads((work / f"two-{kind}" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["exposed_communication_seconds"] > 0 and last["slowest_rank_seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_more_ranks_give_the_bits_of_one(cogwheel, work, of_one, kind, ranks):
    trained(cogwheel("train", f"{kind}.toml", "--ranks", ranks, "--out", f"{ranks}-{kind}"))
    expect_same(work / f"{ranks}-{kind}", of_one(kind))


FEW = ("training.steps=12", "training.micro_batches=2")
IN_TWO = ("--set", "parallel.context=2", *FEW)


def expect_nearly_same(run, other):
    ours, theirs = metrics(run), metrics(other)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for line, expected in zip(ours, theirs, strict=True):
        for name in ("train_loss", "gradient_norm", "held_out_loss"):
            assert line.get(name, 0) == pytest.approx(expected.get(name, 0), rel=1e-5), (line["step"], name)


@pytest.mark.parametrize("kind", [kind for kind in SHARED if kind != "dropout"])
def test_ranks_that_share_texts_learn_what_one_does(cogwheel, work, of_one, kind):
    trained(cogwheel("train", f"shared {kind}.toml", *IN_TWO, "--ranks", 2, "--out", f"shared-{kind}"))
    expect_nearly_same(work / f"shared-{kind}", of_one(f"shared {kind}", "--set", *FEW))


def expect_nearly_same_tensors(run, other):
    """Weights, moments and averages, put together of the shares of ranks: numbers in the place where one rank has them."""
    ours, theirs = (read_tensors(folder / "checkpoint.safetensors") for folder in (run, other))
    assert {name: tensor.shape for name, tensor in ours.items()} == {name: tensor.shape for name, tensor in theirs.items()}
    for name, expected in theirs.items():
        assert (ours[name] - expected).norm() <= 2e-3 * expected.norm(), name


OF_HEADS = ("model.heads=8", "model.width=64", "model.key_value_heads=4", "model.bias=true", "training.precision=fp32")


# What dropout drops is what one rank drops. Muon and the norms of reports read whole matrices; rates are those of rows where they follow
# from the width.
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("softmax", ()), ("documents", ()), ("dropout", ()),
        ("softmax", ("training.optimizer=muon",)), ("dropout", ("training.base_width=32", "model.form=llama")),
        ("softmax", ('training.frozen=["token_embedding", "layers.0.feed_forward"]', "training.checkpoint_minutes=1e-6")),
    ],
)  # fmt: skip
def test_ranks_that_share_heads_learn_what_one_does(cogwheel, work, of_one, kind, words):
    words, out = (*FEW, *OF_HEADS, *words), "-".join(("heads", kind, *words[:1]))
    trained(cogwheel("train", f"shared {kind}.toml", "--set", "parallel.tensor=2", *words, "--ranks", 2, "--out", out, "--overwrite"))
    expect_nearly_same(work / out, of_one(f"shared {kind}", "--set", *words))
    expect_nearly_same_tensors(work / out, of_one(f"shared {kind}", "--set", *words))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "words", "more"),
    [
        (4, ("parallel.tensor=2", "parallel.context=2"), ()), (7, ("parallel.tensor=7",), ()), (4, ("parallel.tensor=4",), ()),
        (4, ("parallel.tensor=4",), ("model.form=llama", "model.tied_head=false")),  # 22 tokens, which four do not divide
    ],
)  # fmt: skip
def test_more_ranks_share_heads(cogwheel, work, of_one, ranks, words, more):
    size = (*FEW, "model.heads=28", "model.width=224", "model.feed_forward=448", "model.dropout=0", "training.precision=fp32", *more)
    out = "-".join(("28", *words, *more))
    trained(cogwheel("train", "shared softmax.toml", "--set", *words, *size, "--ranks", ranks, "--out", out))
    expect_nearly_same(work / out, of_one("shared softmax", "--set", *size))
    expect_nearly_same_tensors(work / out, of_one("shared softmax", "--set", *size))


def test_ranks_that_share_heads_stop_and_go_on(begin, cogwheel, work):
    """Each has a share of the weights, and one of them the file: with others, with as many, and with one that has all."""
    longer = ("parallel.tensor=2", "training.steps=160", "training.keep_best=true", "training.sample_every=20", 'training.prompts=["the sum"]', *OF_HEADS)
    train = ("train", "shared dropout.toml", "--set", *longer, "--ranks")
    trained(cogwheel(*train, 2, "--out", "whole"))
    process = begin(*train, 4, "--out", "pieces")
    wait_for_step(work / "pieces", 8)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    trained(cogwheel("resume", "pieces", "--ranks", 2, "--out", "copied"))
    trained(cogwheel("resume", "pieces", "--ranks", 4))
    for run in ("pieces", "copied"):
        expect_same(work / run, work / "whole")
        assert (work / run / "samples.jsonl").read_bytes() == (work / "whole" / "samples.jsonl").read_bytes()
        assert read_tensors(work / run / "checkpoints" / "best.safetensors").keys() == read_tensors(work / "whole" / "checkpoint.safetensors").keys()
    trained(cogwheel("resume", "whole", "--set", "training.steps=170", "parallel.tensor=1"))
    assert metrics(work / "whole")[-1]["step"] == 170


def test_ranks_that_share_heads_return_from_a_spike(cogwheel, work):
    """Once, all of them to the checkpoint that the first one has; the second ends the run of all."""
    words = ("parallel.tensor=2", "training.spike_deviations=1.2", "training.spike_returns=1", "training.learning_rate=0.3", "training.steps=400", *OF_HEADS)
    done = cogwheel("train", "shared softmax.toml", "--set", *words, "--ranks", 2, "--out", "spikes")
    assert done.returncode == 1 and done.stderr.count("back to step") == 1
    assert "at most 1 spikes of the loss or gradient" in one_line(done.stderr)


def test_how_many_share_slices_changes_no_bit_where_others_share_texts(cogwheel, work):
    for ranks in (2, 4):
        trained(cogwheel("train", "shared dropout.toml", *IN_TWO, "--ranks", ranks, "--out", f"dropout-{ranks}"))
    expect_same(work / "dropout-4", work / "dropout-2")


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARED)
def test_four_ranks_share_texts(cogwheel, work, of_one, kind):
    words = ("--set", "parallel.context=4", *FEW, "model.heads=4", "model.width=64", "model.dropout=0", "training.precision=fp32")
    trained(cogwheel("train", f"shared {kind}.toml", *words, "--ranks", 4, "--out", f"four-{kind}"))
    expect_nearly_same(work / f"four-{kind}", of_one(f"shared {kind}", "--set", *words[2:]))


def test_a_run_goes_on_with_whole_texts(cogwheel, work):
    trained(cogwheel("train", "shared softmax.toml", *IN_TWO, "--ranks", 2, "--out", "cut"))
    assert "ranks: expected parallel.context × parallel.tensor, 2, times a power of two, got 1" in one_line(cogwheel("resume", "cut", "--set", "training.steps=20").stderr)
    trained(cogwheel("resume", "cut", "--set", "training.steps=20", "parallel.context=1"))
    assert metrics(work / "cut")[-1]["step"] == 20
    trained(cogwheel("evaluate", "cut"))


@pytest.mark.parametrize(
    ("kind", "words", "says"),
    [
        ("shared softmax", ("parallel.context=3",), "parallel.context: expected a power of two, got 3"),
        ("shared softmax", ("parallel.context=4",), "ranks: expected parallel.context × parallel.tensor, 4, times a power of two, got 2"),
        ("shared softmax", ("parallel.tensor=2", "model.heads=3", "model.width=48"), "model.heads: expected a multiple of 2 for softmax, whose heads the ranks of parallel.tensor share, got 3"),
        ("shared softmax", ("parallel.tensor=2", "model.feed_forward=97"), "model.feed_forward: expected a multiple of 2, parallel.tensor, got 97"),
        ("shared softmax", ("parallel.context=2", "model.context=50"), "model.context: expected a multiple of 4 from 12 on, twice parallel.context, got 50"),
        ("shared hybrid", ("parallel.context=2", "model.heads=1"), "model.heads: expected a multiple of 2 for polynomial, whose heads the ranks of parallel.context share, got 1"),
        ("translation", ("parallel.context=2",), "parallel.context: expected 1 for the task translation, got 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_is_said_once(cogwheel, work, kind, words, says):
    refused = cogwheel("train", f"{kind}.toml", "--set", *words, "--ranks", 2, "--out", "refused")
    assert refused.returncode == 2 and says in one_line(refused.stderr)
    assert not (work / "refused").exists()


def test_other_ranks_go_on_with_what_four_began(begin, cogwheel, work, of_one):
    longer = ("--set", "training.steps=160")
    process = begin("train", "gpt.toml", *longer, "--ranks", 4, "--out", "parts")
    wait_for_step(work / "parts", 8)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 130 and "continues" in one_line(errors)
    process = begin("resume", "parts", "--ranks", 2)
    wait_for_step(work / "parts", 80)
    for rank in ranks_of(process)[1:]:  # one that is asked to stop stops all
        os.kill(rank, signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 130
    trained(cogwheel("resume", "parts"))
    expect_same(work / "parts", of_one("gpt", *longer))


def test_torchrun_starts_ranks(work, of_one):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    words = ["-m", "cogwheel", "train", "cog.toml", "--out", "torchrun"]
    done = subprocess.run([*command, *words], cwd=work, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("held-out loss") == 1
    expect_same(work / "torchrun", of_one("cog"))


def test_the_module_is_the_command(work):
    done = subprocess.run([sys.executable, "-m", "cogwheel", "list", "mechanisms"], cwd=work, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "softmax" in done.stdout


def test_ranks_measure_what_one_does(cogwheel, work, of_one):
    run, found = of_one("gpt"), []
    for words in ((), ("--ranks", 2)):
        trained(cogwheel("evaluate", run, *words, "--out", work / f"measured-{len(words)}"))
        found.append(json.loads((work / f"measured-{len(words)}" / "evaluation.json").read_text()))
    assert found[0] == found[1]


def test_a_rank_that_is_killed_ends_all_and_the_same_command_goes_on(begin, cogwheel, work, of_one):
    longer = ("--set", "training.steps=160")
    words = ("train", "gpt.toml", *longer, "--out", "killed", "--resume", "--ranks", 2)
    process = begin(*words)
    wait_for_step(work / "killed", 40)
    ranks = ranks_of(process)
    os.kill(ranks[1], signal.SIGKILL)
    expect_all_end(process, ranks, "rank 1, which signal 9 has ended")
    refused = cogwheel("train", "gpt.toml", "--out", "killed", "--resume", "--ranks", 2)
    assert refused.returncode == 2 and "training.steps: expected 160, as it began, got 24" in one_line(refused.stderr)
    trained(cogwheel(*words))
    expect_same(work / "killed", of_one("gpt", *longer))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "words"), [("dropout", ["parallel.context=2"]), ("hybrid", ["parallel.context=4"]), ("softmax", ["parallel.context=2", "parallel.tensor=2"])])
def test_ranks_that_share_are_killed_at_random(begin, cogwheel, work, kind, words):
    """One of four, eight times, whatever it then does; the bits are those of a run that nobody disturbed."""
    draw = random.Random(kind)
    train = ("train", f"shared {kind}.toml", "--set", *words, "training.micro_batches=2", "model.heads=4", "model.width=64", "training.steps=400", "--ranks", 4, "--out")
    killed = 0
    while killed < 8:
        process = begin(*train, f"disturbed-{kind}", "--resume")
        ranks = ranks_of(process)
        time.sleep(draw.uniform(1, 7))
        if process.poll() == 0:
            break
        os.kill(draw.choice(ranks), signal.SIGKILL)
        process.communicate(timeout=120)
        assert process.returncode == 1
        wait_for(lambda: not any(os.path.exists(f"/proc/{rank}") for rank in ranks))
        killed += 1
    assert killed > 2
    trained(cogwheel(*train, f"disturbed-{kind}", "--resume"))
    trained(cogwheel(*train, f"undisturbed-{kind}"))
    expect_same(work / f"disturbed-{kind}", work / f"undisturbed-{kind}")


def test_ranks_that_are_asked_to_stop_end_as_the_first_does(work):
    words = ("train", "gpt.toml", "--set", "training.steps=4000", "--out", "stopped")
    with ended_with_test() as end:
        ranks = [end(by_hand(work, rank, 2, *words, meet="stopped-ranks")) for rank in range(2)]
        wait_for_step(work / "stopped", 8)
        ranks[1].send_signal(signal.SIGTERM)
        for rank in ranks:
            rank.communicate(timeout=120)
        assert [rank.returncode for rank in ranks] == [130, 130]


def test_a_rank_that_does_not_answer_is_waited_for_no_longer_than_said(begin, work):
    process = begin("train", "gpt.toml", "--set", "training.steps=4000", "--out", "frozen", "--ranks", 2, COGWHEEL_RANK_TIMEOUT="2")
    wait_for_step(work / "frozen", 8)
    ranks = ranks_of(process)
    os.kill(ranks[0], signal.SIGSTOP)
    expect_all_end(process, ranks, "rank 0, which did not answer")


def test_ranks_end_with_their_launcher(begin, work):
    process = begin("train", "gpt.toml", "--set", "training.steps=4000", "--out", "alone", "--ranks", 2)
    wait_for_step(work / "alone", 8)
    ranks = ranks_of(process)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(os.path.exists(f"/proc/{rank}") for rank in ranks), seconds=60)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("train", "gpt.toml", "--ranks", 3), "ranks: expected a power of two"),
        (("train", "gpt.toml", "--ranks", 2, "--set", "training.micro_batches=1"), "training.micro_batches: expected a multiple of the 2 ranks"),
        (("train", "gpt.toml", "--resume"), "--resume: expected --out with it and no --overwrite, got no --out"),
        (("train", "gpt.toml", "--resume", "--dry-run"), "--resume: expected no --dry-run"),
        (("train", "nothing.toml", "--ranks", 2), "config: expected a file"),
    ],
)
def test_refusals(cogwheel, words, says):
    done = cogwheel(*words)
    assert done.returncode == 2
    assert says in one_line(done.stderr)


def test_a_folder_has_one_job(begin, cogwheel, work):
    begin("train", "gpt.toml", "--set", "training.steps=4000", "--out", "taken", "--ranks", 2)
    wait_for_step(work / "taken", 8)
    done = cogwheel("resume", "taken", "--ranks", 2)
    assert done.returncode == 1 and "taken" in one_line(done.stderr)


def test_ranks_that_differ_are_told_apart(work):
    ranks = [by_hand(work, rank, 2, "train", "gpt.toml", "--set", f"training.seed={rank}", "--out", "differ", meet="differ-ranks") for rank in range(2)]
    said = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [2, 2]
    assert one_line("".join(said)) == "cogwheel: ranks: expected the same training.seed on all, got 0 on rank 0, 1 on rank 1"
    assert not (work / "differ").exists()


def test_a_problem_of_one_rank_is_said_once(work):
    (work / "elsewhere").mkdir()
    (work / "elsewhere" / "gpt.toml").write_text((work / "gpt.toml").read_text())
    first = by_hand(work, 0, 2, "train", "gpt.toml", "--out", "half", meet="half-ranks")
    other = by_hand(work, 1, 2, "train", "elsewhere/gpt.toml", "--set", "data.text=none.txt", meet="half-ranks")
    said = first.communicate(timeout=120)[1] + other.communicate(timeout=120)[1]
    assert first.returncode == 1 and other.returncode != 0
    assert "rank 1: " in one_line(said) and "none.txt" in said
    assert not (work / "half").exists()


def test_a_rank_that_never_comes(work):
    first = by_hand(work, 0, 2, "train", "gpt.toml", "--out", "waits", timeout=2, meet="waits-ranks")
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 1  # not as bad input
    assert "ranks: expected all 2 to meet within 2 s" in one_line(errors)


def test_what_one_process_does_is_refused_of_several(work):
    ranks = [by_hand(work, rank, 2, "list", "mechanisms", meet="list-ranks") for rank in range(2)]
    said = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert "list: expected one process, got 2 ranks" in one_line("".join(said))


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("RANK", "first", "RANK: expected a whole number from 0, got first"),
        ("RANK", "2", "RANK: expected one below 2, the ranks that there are, got 2"),
        ("COGWHEEL_RANK_TIMEOUT", "0", "COGWHEEL_RANK_TIMEOUT: expected a whole number from 1, got 0"),
    ],
)
def test_what_a_launcher_says_is_checked(work, name, value, says):
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", name: value}
    done = subprocess.run([sys.executable, "-m", "cogwheel", "list"], cwd=work, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert one_line(done.stderr) == f"cogwheel: {says}"


@pytest.mark.parametrize(
    ("gpus", "visible", "local_rank", "seen"),
    [(2, None, 1, "1"), (2, "4,6", 1, "6"), (2, "3", 3, "3"), (2, None, None, None), (0, None, 0, None), (4, "GPU-8932f937,GPU-1", 0, "GPU-8932f937"), (0, "", 0, "")],
)
def test_a_rank_sees_a_gpu_of_its_own(monkeypatch, gpus, visible, local_rank, seen):
    """There is none here: what is asked of PyTorch and said to it is all that can be seen."""
    from cogwheel import __main__ as program

    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    for name, value in {"LOCAL_RANK": local_rank, "CUDA_VISIBLE_DEVICES": visible}.items():
        monkeypatch.setenv(name, str(value))  # so that it is as before after the test
        if value is None:
            monkeypatch.delenv(name)
    program._take_own_gpu()
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == seen
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    assert program._backends() == ("cpu:gloo_of_one_thread,cuda:nccl" if gpus else "gloo_of_one_thread")


def test_more_threads_than_cores_are_said(cogwheel_in, work):
    threads = len(os.sched_getaffinity(0))
    done = cogwheel_in(work, OMP_NUM_THREADS=str(threads))("train", "nothing.toml", "--ranks", 2)
    assert done.returncode == 2 and "warning" not in done.stderr  # refused before anything starts
    done = cogwheel_in(work, OMP_NUM_THREADS=str(threads))("train", "gpt.toml", "--ranks", 2, "--set", "training.micro_batches=1", "--out", "many")
    assert f"warning: --ranks: 2 processes of {'one thread' if threads == 1 else f'{threads} threads'} share {threads} cores" in done.stderr


@pytest.mark.slow
def test_hosts_of_which_one_is_cut_off(work, of_one):
    longer = ("--set", "training.steps=160")
    alone = ["unshare", "--net", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*alone, "ip", "link", "add", "bridge", "type", "bridge"], capture_output=True).returncode:
        pytest.skip("no right to make networks, or no `ip`")
    command = [*alone, sys.executable, str(pathlib.Path(__file__).with_name("hosts.py")), "hosts", "40"]
    words = ["train", "gpt.toml", *longer, "--out", "hosts", "--resume"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COGWHEEL_RANK_TIMEOUT": "5"}
    done = subprocess.run([*command, *words], cwd=work, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(rank["code"] == 1 for rank in found["first"]), found
    assert found["waited"] < 5 + 60
    assert [rank["code"] for rank in found["again"]] == [0, 0, 0, 0], found
    expect_same(work / "hosts", of_one("gpt", *longer))
