"""`--ranks N` and torchrun: several processes train one model, with the bits of one, and end together."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import pytest
import torch
from processes import ended_with_test, wait_for
from rank_runs import KINDS, MANY_BUCKETS, begin, cogwheel, expect_all_end, expect_same, of_one, one_line, ranks_of, trained, wait_for_step, work  # noqa: F401  some are fixtures


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


@pytest.mark.parametrize("slices", [2, 4])
def test_gradients_of_many_buckets_have_the_bits_of_one_rank(cogwheel, work, of_one, slices):
    words = ("--set", *MANY_BUCKETS, f"training.micro_batches={slices}")
    trained(cogwheel("train", "gpt.toml", *words, "--ranks", 2, "--out", f"buckets-{slices}"))
    expect_same(work / f"buckets-{slices}", of_one("gpt", *words))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_more_ranks_give_the_bits_of_one(cogwheel, work, of_one, kind, ranks):
    trained(cogwheel("train", f"{kind}.toml", "--ranks", ranks, "--out", f"{ranks}-{kind}"))
    expect_same(work / f"{ranks}-{kind}", of_one(kind))


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
        ("MASTER_ADDR", "localhost", "MASTER_PORT: expected one for each of 2 ranks, got none"),
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


def on_hosts(script, *words, timeout, cwd, **environment):
    """What a script says that makes hosts, in a network of its own."""
    alone = ["unshare", "--net", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*alone, "ip", "link", "add", "bridge", "type", "bridge"], capture_output=True).returncode:
        pytest.skip("no right to make networks, or no `ip`")
    command = [*alone, sys.executable, str(pathlib.Path(__file__).with_name(script)), *map(str, words)]
    done = subprocess.run(command, cwd=cwd, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_hosts_of_which_one_is_cut_off(work, of_one):
    longer = ("--set", "training.steps=160")
    words = ["train", "gpt.toml", *longer, "--out", "hosts", "--resume"]
    found = on_hosts("hosts.py", "hosts", 40, *words, timeout=280, cwd=work, COGWHEEL_RANK_TIMEOUT="5")
    assert all(rank["code"] == 1 for rank in found["first"]), found
    assert found["waited"] < 5 + 60
    assert [rank["code"] for rank in found["again"]] == [0, 0, 0, 0], found
    expect_same(work / "hosts", of_one("gpt", *longer))


@pytest.mark.slow
def test_hosts_to_which_something_happens(work, of_one):
    """Once of each kind here; docs/results/scale.md has twenty events."""
    longer = ("--set", "training.steps=1200")
    words = ["train", "gpt.toml", *longer, "--out", "disturbed-hosts", "--resume"]
    found = on_hosts("disturbed_hosts.py", 5, 5, *words, timeout=900, cwd=work, COGWHEEL_RANK_TIMEOUT="6")
    assert all(event["left"] == 0 and event["waited"] < 6 + 60 for event in found["events"]), found
    assert found["codes"] == [0, 0, 0, 0]
    expect_same(work / "disturbed-hosts", of_one("gpt", *longer))
