"""`parallel.divide_moments`: each rank has the moments of a part of the weights, and the bits are those of one rank."""

import random
import signal

import pytest
import torch
from rank_runs import (  # noqa: F401  some are fixtures
    begin, cogwheel, expect_nearly_same, expect_same, killed_at_random, of_one, one_line, trained, wait_for_step, work,
)  # fmt: skip
from resumed_runs import metrics
from tensor_files import read_tensors

DIVIDED = "parallel.divide_moments=true"
# Parameters of more numbers than stay together; rates that are those of rows, which stretches cut.
WIDE = ("model.width=96", "model.heads=2")
LARGE = (*WIDE, "training.base_width=32")
# With encoder and decoder; with parameters that do not learn, and blocks that are made again.
KINDS = [("gpt", LARGE), ("cog", WIDE), ("translation", ("model.width=64",)), ("gpt", (*WIDE, "training.recompute=1", 'training.frozen=["token_embedding", "layers.0.feed_forward"]'))]


@pytest.mark.parametrize(("kind", "words"), KINDS)
def test_two_ranks_give_the_bits_of_one(cogwheel, work, of_one, kind, words):
    out = f"two-divided-{kind}-{len(words)}"
    trained(cogwheel("train", f"{kind}.toml", "--set", DIVIDED, *words, "--ranks", 2, "--out", out))
    expect_same(work / out, of_one(kind, "--set", DIVIDED, *words))
    # Norms are added in another order than those of whole tensors, which rounding to bfloat16 makes more of.
    whole = of_one(kind, "--set", *words, "training.precision=fp32")
    if kind != "cog":
        expect_nearly_same(work / out, whole)
    assert read_tensors(work / out / "checkpoint.safetensors").keys() == read_tensors(whole / "checkpoint.safetensors").keys()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [4, 8])
@pytest.mark.parametrize(("kind", "words"), KINDS)
def test_more_ranks_give_the_bits_of_one(cogwheel, work, of_one, kind, words, ranks):
    out = f"{ranks}-divided-{kind}-{len(words)}"
    trained(cogwheel("train", f"{kind}.toml", "--set", DIVIDED, *words, "--ranks", ranks, "--out", out))
    expect_same(work / out, of_one(kind, "--set", DIVIDED, *words))


def test_beside_ranks_that_share_texts(cogwheel, work):
    for ranks in (2, 4):
        words = ("--set", "parallel.context=2", DIVIDED, "training.steps=12", "training.micro_batches=2", "--ranks", ranks)
        trained(cogwheel("train", "shared dropout.toml", *words, "--out", f"divided-dropout-{ranks}"))
    expect_same(work / "divided-dropout-4", work / "divided-dropout-2")


def test_other_ranks_go_on_with_what_four_began(begin, cogwheel, work, of_one):
    """With two, and with one that has all moments; and with whole moments on two from there."""
    longer = ("--set", DIVIDED, *WIDE, "training.steps=160", "training.checkpoint_minutes=1e-3", "training.keep_best=true")
    process = begin("train", "cog.toml", *longer, "--ranks", 4, "--out", "divided-parts")
    wait_for_step(work / "divided-parts", 8)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    process = begin("resume", "divided-parts", "--ranks", 2)
    wait_for_step(work / "divided-parts", 80)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    trained(cogwheel("resume", "divided-parts"))
    expect_same(work / "divided-parts", of_one("cog", *longer))
    trained(cogwheel("resume", "divided-parts", "--set", "parallel.divide_moments=false", "training.steps=170", "--ranks", 2))
    assert metrics(work / "divided-parts")[-1]["step"] == 170


@pytest.mark.parametrize(("kind", "words"), [("cog", (DIVIDED, *WIDE)), ("shared softmax", ("parallel.tensor=2", "training.micro_batches=2"))])
def test_a_damaged_checkpoint_is_not_used(cogwheel, work, kind, words):
    """Nor the parts of it that other ranks would take: all go on from the one before."""
    out = work / f"damaged-{kind}"
    trained(cogwheel("train", f"{kind}.toml", "--set", *words, "--ranks", 2, "--out", out))
    before = read_tensors(out / "checkpoint.safetensors")
    contents = bytearray((out / "checkpoint.safetensors").read_bytes())
    contents[-5] ^= 1  # of a number
    (out / "checkpoint.safetensors").write_bytes(contents)  # also checkpoints/24.safetensors, which is the same file
    done = trained(cogwheel("resume", out, "--ranks", 2))
    assert "expected the contents that were written" in done.stderr and "16.safetensors, step 16" in done.stderr
    after = read_tensors(out / "checkpoint.safetensors")
    assert [name for name in before if not torch.equal(before[name], after[name])] == []


@pytest.mark.parametrize(("kind", "words"), [("gpt", (DIVIDED, *WIDE)), ("shared softmax", ("parallel.tensor=2", "training.micro_batches=2"))])
def test_weights_that_are_no_numbers_end_all(cogwheel, work, kind, words):
    """A rate at which they overflow: none is kept, whichever rank has them."""
    out = work / f"overflow-{kind}"
    rates = ("training.learning_rate=1e30", "training.final_learning_rate=1e30", "training.warm_up=0", "training.clip=0", "training.checkpoint_every=1", "training.evaluate_every=0")
    done = cogwheel("train", f"{kind}.toml", "--set", *words, *rates, "--ranks", 2, "--out", out)
    assert done.returncode == 1 and "expected" in one_line(done.stderr) and ("NaN" in done.stderr or "infinity" in done.stderr)
    assert all(tensor.isfinite().all() for name, tensor in read_tensors(out / "checkpoint.safetensors").items() if name.startswith("model."))


def test_all_return_from_a_spike(cogwheel, work, of_one):
    """Each takes its part of the moments from the checkpoint that the first one reads."""
    words = (DIVIDED, *WIDE, "training.spike_deviations=1.2", "training.spike_returns=2", "training.learning_rate=0.3", "training.steps=400")
    said = []
    for ranks in (1, 2):
        done = cogwheel("train", "gpt.toml", "--set", *words, "--ranks", ranks, "--out", f"divided-spikes-{ranks}")
        assert done.returncode == 1 and done.stderr.count("back to step") == 2
        said.append([line for line in done.stderr.splitlines() if "back to step" in line] + [one_line(done.stderr).split("; the last")[0]])
    assert said[0] == said[1]


@pytest.mark.slow
def test_ranks_are_killed_at_random(begin, cogwheel, work):
    train = ("train", "cog.toml", "--set", DIVIDED, *WIDE, "training.steps=600", "--ranks", 4, "--out")
    assert killed_at_random(begin, random.Random(9), *train, "divided-disturbed", "--resume") > 2
    trained(cogwheel(*train, "divided-disturbed", "--resume"))
    trained(cogwheel(*train, "divided-undisturbed"))
    expect_same(work / "divided-disturbed", work / "divided-undisturbed")


@pytest.mark.parametrize(
    ("kind", "words", "says"),
    [
        ("hybrid", (), "parallel.divide_moments: expected false with training.optimizer = muon, got true"),
        ("gpt", ("parallel.tensor=2",), "parallel.divide_moments: expected false with parallel.tensor, whose ranks divide moments with the weights, got true"),
        ("gpt", ("parallel.divide_moments=2",), "parallel.divide_moments: expected true or false"),
    ],
)
def test_what_cannot_be_divided_is_said_once(cogwheel, work, kind, words, says):
    refused = cogwheel("train", f"{kind}.toml", "--set", DIVIDED, *words, "--ranks", 2, "--out", "refused")
    assert refused.returncode == 2 and says in one_line(refused.stderr)
    assert not (work / "refused").exists()
