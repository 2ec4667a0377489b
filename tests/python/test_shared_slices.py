"""Ranks that have the same slices of a step: of texts, whose tokens they share, or heads, with the weights that belong to them."""

import random
import signal

import pytest
from rank_runs import MANY_BUCKETS, SHARED, begin, cogwheel, expect_nearly_same, expect_same, killed_at_random, of_one, one_line, trained, wait_for_step, work  # noqa: F401  some are fixtures
from resumed_runs import metrics
from tensor_files import read_tensors

FEW = ("training.steps=12", "training.micro_batches=2")
IN_TWO = ("--set", "parallel.context=2", *FEW)


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
# from the width. Muon rounds its steps to bfloat16, where a last bit of the gradient now and then makes a difference of 2^-9: eight steps
# of it stay well within 1e-5, more need not.
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("softmax", ()), ("documents", ()), ("dropout", ()),
        ("softmax", ("training.optimizer=muon", "training.steps=8")), ("dropout", ("training.base_width=32", "model.form=llama")),
        ("softmax", ('training.frozen=["token_embedding", "layers.0.feed_forward"]', "training.checkpoint_minutes=1e-6")),
    ],
)  # fmt: skip
def test_ranks_that_share_heads_learn_what_one_does(cogwheel, work, of_one, kind, words):
    words, out = (*FEW, *OF_HEADS, *words), "-".join(("heads", kind, *words[:1]))
    trained(cogwheel("train", f"shared {kind}.toml", "--set", "parallel.tensor=2", *words, "--ranks", 2, "--out", out, "--overwrite"))
    expect_nearly_same(work / out, of_one(f"shared {kind}", "--set", *words))
    expect_nearly_same_tensors(work / out, of_one(f"shared {kind}", "--set", *words))


@pytest.mark.parametrize("shared", ["tensor", "context"])
def test_what_is_exchanged_is_cut_into_messages(cogwheel, work, of_one, shared):
    """Activations of a slice are 8 MB for each rank, six messages; queries, keys and values half of it, which go apart (distributed/group.h)."""
    large = ("training.steps=2", "training.batch=64", "training.micro_batches=1", "model.context=100", "model.width=320", "model.layers=1")
    trained(cogwheel("train", "shared softmax.toml", "--set", f"parallel.{shared}=2", *large, "--ranks", 2, "--out", f"messages-{shared}"))
    expect_nearly_same(work / f"messages-{shared}", of_one("shared softmax", "--set", *large))


@pytest.mark.parametrize("texts", [10, 11])
def test_four_ranks_add_few_activations_at_once_and_more_by_shares(cogwheel, work, of_one, texts):
    """Activations of a slice are 128,000 bytes, of which each rank gets those of all, or 140,800, of which it adds a quarter (distributed/exchanges.h)."""
    size = ("training.steps=3", f"training.batch={texts}", "training.micro_batches=1", "model.context=50", "model.heads=4", "model.width=64", "model.layers=1")
    trained(cogwheel("train", "shared softmax.toml", "--set", "parallel.tensor=4", *size, "--ranks", 4, "--out", f"four-{texts}"))
    expect_nearly_same(work / f"four-{texts}", of_one("shared softmax", "--set", *size))


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


@pytest.mark.parametrize("shared", ["context", "tensor"])
def test_how_many_share_slices_changes_no_bit_where_others_share_texts_or_heads(cogwheel, work, shared):
    for ranks in (2, 4):  # in bfloat16, with dropout and an average of weights
        trained(cogwheel("train", "shared dropout.toml", "--set", f"parallel.{shared}=2", "model.heads=4", *FEW, "--ranks", ranks, "--out", f"{shared}-{ranks}"))
    expect_same(work / f"{shared}-4", work / f"{shared}-2")


def test_buckets_of_shares_and_of_whole_weights_take_turns(cogwheel, work):
    for ranks in (2, 4):
        words = ("--set", "parallel.tensor=2", *MANY_BUCKETS, "training.micro_batches=2")
        trained(cogwheel("train", "shared softmax.toml", *words, "--ranks", ranks, "--out", f"turns-{ranks}"))
    expect_same(work / "turns-4", work / "turns-2")


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words", "steps"),
    [("dropout", ["parallel.context=2"], 400), ("hybrid", ["parallel.context=4"], 80), ("softmax", ["parallel.context=2", "parallel.tensor=2"], 400)],
)  # fmt: skip
def test_ranks_that_share_are_killed_at_random(begin, cogwheel, work, kind, words, steps):
    """One of four, eight times, whatever it then does; the bits are those of a run that nobody disturbed."""
    train = ("train", f"shared {kind}.toml", "--set", *words, "training.micro_batches=2", "model.heads=4", "model.width=64", f"training.steps={steps}", "--ranks", 4, "--out")
    assert killed_at_random(begin, random.Random(kind), *train, f"disturbed-{kind}", "--resume") > 2
    trained(cogwheel(*train, f"disturbed-{kind}", "--resume"))
    trained(cogwheel(*train, f"undisturbed-{kind}"))
    expect_same(work / f"disturbed-{kind}", work / f"undisturbed-{kind}")
