"""`cogwheel train --dry-run`: what a run would take, said without making one."""

import json
import os
import subprocess
import sys

import pytest

CONFIG = """
name = "small"
[model]
form = "llama"
mechanism = "cog"
vocabulary = 500
context = 64
layers = 4
heads = 4
width = 64
feed_forward = 192
[training]
steps = 1000
batch = 8
"""
WIDTH, LAYERS, HIDDEN, VOCABULARY, CONTEXT = 64, 4, 192, 500, 64
MATRICES = LAYERS * (4 * WIDTH**2 + 3 * WIDTH * HIDDEN) + VOCABULARY * WIDTH  # that multiply


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dry_run")
    (folder / "small.toml").write_text(CONFIG)
    (folder / "text.txt").write_text("the cat sat on a mat. " * 400)
    return cogwheel_in(folder)


def said(cogwheel, *words):
    done = cogwheel("train", *words, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def parts(found):
    return {part["name"]: part["bytes"] for part in found["memory"]["parts"]}


def test_says_what_a_run_would_take_and_writes_nothing(cogwheel):
    before = sorted(cogwheel.folder.rglob("*"))
    found = said(cogwheel, "small.toml")
    parameters = MATRICES + VOCABULARY * WIDTH + (2 * LAYERS + 1) * WIDTH
    assert found["parameters"] == parameters and found["tokens_per_step"] == 8 * CONTEXT
    assert parts(found)["weights"] == 4 * parameters and parts(found)["moments"] == 8 * parameters
    assert found["flops_per_token"]["products"] == 6 * MATRICES
    assert found["flops_per_token"]["attention"] == 12 * LAYERS * WIDTH * (CONTEXT + 1) / 2
    measured = found["measured"]
    assert found["seconds"] == pytest.approx(1000 * 8 * CONTEXT / measured["tokens_per_second"])
    assert sorted(cogwheel.folder.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    [[], *(pytest.param([mechanism], marks=pytest.mark.slow) for mechanism in ("model.mechanism=softmax", "model.mechanism=differential"))],
)
def test_memory_is_near_what_steps_take(cogwheel, words):
    sets = [word for each in ("model.context=256", "training.batch=64", *words) for word in ("--set", each)]
    found = said(cogwheel, "small.toml", *sets)["measured"]
    assert found["peak_bytes"] > 300e6  # most of it is what is counted
    assert found["peak_bytes"] == pytest.approx(found["said_bytes"], rel=0.15)


@pytest.mark.parametrize("task", ["diffusion", "images", "handwriting", "translation", "masked_words", "copying"])
def test_memory_of_other_tasks_is_known(cogwheel, cogwheel_in, task):
    # oneDNN keeps tens of megabytes where items differ in length (docs/long-runs.md).
    cogwheel = cogwheel_in(cogwheel.folder, COGWHEEL_MATRIX_PRODUCTS="mkl")
    (cogwheel.folder / "other.toml").write_text("[training]\nsteps = 10\nbatch = 8\n")
    small = ["model.layers=3", "model.width=64", "model.heads=2"] if task == "diffusion" else []
    found = said(cogwheel, "other.toml", *(word for each in (f"task.name={task}", *small) for word in ("--set", each)))
    assert "unknown" not in found["memory"]
    assert found["measured"]["peak_bytes"] == pytest.approx(found["measured"]["said_bytes"], rel=0.25)


def test_what_memory_cannot_hold_is_not_begun(cogwheel):
    refused = cogwheel("train", "small.toml", "--text", "text.txt", "--set", "model.vocabulary=0", "model.feed_forward=200000", "training.batch=8192", "--out", "never")
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1, refused.stderr
    assert refused.stderr.startswith("cogwheel: memory for a step of small: expected ") and " TiB of them activations of a slice " in refused.stderr
    assert not (cogwheel.folder / "never").exists()


def test_packed_documents_are_counted(cogwheel):
    (cogwheel.folder / "documents").mkdir()
    for number in range(60):  # each another, as equal ones are left out
        (cogwheel.folder / "documents" / f"{number}.txt").write_text(f"{number} cats sat on a mat. " * (1 + number % 7))
    assert cogwheel("data", "prepare", "documents", "--tokenizer", "byte", "--held-out", "0.2", "--out", "corpus").returncode == 0
    words = ["small.toml", "--corpus", "corpus", "--set", "model.vocabulary=0", "data.packing=documents"]
    found = [said(cogwheel, *words, f"model.mechanism={mechanism}") for mechanism in ("cog", "gla", "gated_deltanet", "mamba2+softmax")]
    assert all("unknown" not in each["memory"] and each["measured"]["said_bytes"] > 0 for each in found)


def test_activations_grow_with_the_batch_and_the_average_is_counted(cogwheel):
    one, two = (said(cogwheel, "small.toml", "--set", f"training.batch={batch}", "--set", "training.ema=0.99") for batch in (4, 8))
    assert 1.7 < parts(two)["activations of a slice"] / parts(one)["activations of a slice"] < 2.1
    assert parts(one)["average of the weights"] == parts(one)["weights"]


def test_slices_share_their_activations_and_hold_sums_of_gradients(cogwheel):
    found = {slices: parts(said(cogwheel, "small.toml", "--set", f"training.micro_batches={slices}")) for slices in (1, 8)}
    assert found[8]["gradients"] == 3 * found[8]["weights"]
    assert found[1]["activations of a slice"] > 4 * found[8]["activations of a slice"]
    one_window = parts(said(cogwheel, "small.toml", "--set", "training.batch=1"))  # the gradients that are held are none of it
    assert found[8]["activations of a slice"] == pytest.approx(one_window["activations of a slice"], rel=0.1)
    again = parts(said(cogwheel, "small.toml", "--set", "training.recompute=1"))
    assert again["activations of a slice"] < 0.6 * found[1]["activations of a slice"]
    muon = parts(said(cogwheel, "small.toml", "--set", "training.optimizer=muon"))
    matrices = LAYERS * (4 * WIDTH**2 + 3 * WIDTH * HIDDEN)
    assert muon["moments"] == 2 * muon["weights"] - 4 * matrices


def test_what_has_no_room_is_said_and_not_tried(cogwheel):
    found = said(cogwheel, "cogformer-1b", "--set", "training.batch=2048", "--set", "training.micro_batches=2", "--set", "training.recompute=0")
    assert found["parameters"] == 1_033_190_144 and found["measured"] is None and found["seconds"] is None
    assert "are free" in found["not_measured"] and found["memory"]["bytes"] > 1 << 40


def test_text_says_how_often_it_is_seen(cogwheel):
    done = cogwheel("train", "small.toml", "--text", "text.txt", "--set", "model.vocabulary=0", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "the data are seen 64.6 times" in done.stdout and "memory of a step" in done.stdout


MACHINE = """
name = "nodes of two"
devices_per_node = 2
[device]
flops_per_second = 1e12
achieved = 0.5
memory = 1e9
memory_bandwidth = 1e11
[network.within_node]
latency = 1e-5
bandwidth = 1e10
[network.between_nodes]
latency = 1e-4
bandwidth = 1e9
"""


def layouts(found):
    return {each["name"]: each for each in found["layouts"]}


def test_layouts_cost_what_the_machine_says(cogwheel):
    (cogwheel.folder / "machine.toml").write_text(MACHINE)
    words = ["small.toml", "--ranks", 4, "--machine", "machine.toml", "--set", "training.micro_batches=8"]
    found = said(cogwheel, *words)
    one = said(cogwheel, "small.toml", "--set", "training.micro_batches=8")
    assert found["flops_per_step"] == pytest.approx(8 * CONTEXT * sum(one["flops_per_token"].values()))
    gradient = 4 * one["parameters"]
    # Two thirds of a second of a device for 1e12; a sum of gradients passes through memory three times, the norm and AdamW eight.
    assert found["slice_seconds"] == pytest.approx(found["flops_per_step"] / 8 / 0.5e12 + 3 * gradient / 1e11)
    assert found["rest_seconds"] == pytest.approx(8 * gradient / 1e11)
    data = layouts(found)["data 4"]
    assert data["computation_seconds"] == pytest.approx(2 * found["slice_seconds"] + found["rest_seconds"])
    # Of four shares each rank of a node sends two to the other node, the ring three; six hops and twice three of losses.
    between = (2 * 2 + 3) * gradient / 4 / 1e9
    assert data["communication_seconds"] == pytest.approx(between + 12e-4)
    assert data["step_seconds"] == pytest.approx(data["computation_seconds"] + data["communication_seconds"])
    assert data["seconds"] == pytest.approx(1000 * data["step_seconds"])
    assert data["rank_hours"] == pytest.approx(4 * data["seconds"] / 3600)
    assert data["memory"]["moments"] == 2 * gradient and data["memory"]["gradients"] == gradient
    # Eight of its slices wait in three sums. At the end of a rank's last one its gradients are there and travel, twice as many bytes.
    assert parts(one)["gradients"] == 3 * gradient and parts(one)["activations of a slice"] > 1e6
    assert data["memory"]["exchange of gradients"] == 2 * gradient > parts(one)["activations of a slice"]
    steps = [each["step_seconds"] for each in found["layouts"]]
    assert steps == sorted(steps)
    running = {"data 4", "data 4, moments divided", "data 2, context 2", "data 2, context 2, moments divided", "data 2, tensor 2"}
    assert {each["name"] for each in found["layouts"] if each["runs"]} == running
    # Moments of a quarter; a text of 64 in two stretches for each of two ranks; four heads and 500 tokens in halves.
    divided, context, tensor = (layouts(found)[name] for name in ("data 4, moments divided", "data 2, context 2", "data 2, tensor 2"))
    # Squares of the gradient are gathered besides, in three hops.
    assert divided["memory"]["moments"] == gradient / 2 and divided["communication_seconds"] == pytest.approx(data["communication_seconds"] + 3e-4)
    assert context["memory"]["weights"] == gradient and tensor["memory"]["weights"] == gradient / 2 + 4 * 9 * 64 / 2  # gains of nine norms are whole
    assert not found["refused"]


def test_layouts_are_shown_best_first_with_why_others_are_not(cogwheel):
    tight = cogwheel.folder / "tight.toml"
    tight.write_text(MACHINE)
    words = ["small.toml", "--ranks", 4, "--machine", "tight.toml", "--set", "training.micro_batches=2"]
    needed = layouts(said(cogwheel, *words))["data 2, context 2"]["bytes"]
    tight.write_text(MACHINE.replace("memory = 1e9", f"memory = {needed - 1}.0"))
    done = cogwheel("train", *words, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "4 ranks of nodes of two" in done.stdout and "no: moments divided" in done.stdout and "no: divided" not in done.stdout
    assert "  data 4: training.micro_batches: expected a multiple of 4, got 2\n" in done.stdout
    assert "  data 2, context 2: memory: expected at most " in done.stdout


@pytest.mark.parametrize(
    ("words", "reasons"),
    [
        (["model.mechanism=gla"], {"context 2": "runs, but what it takes", "tensor 2": "runs, but what it takes"}),
        # Ranks that share a text take a polynomial's heads, of which there are four: two with two others.
        (["model.mechanism=polynomial", "model.context=64"], {"context 2, tensor 4": "model.heads: expected a multiple of 8 for polynomial"}),
    ],
)  # fmt: skip
def test_layouts_that_training_refuses_are_left_out(cogwheel, words, reasons):
    (cogwheel.folder / "machine.toml").write_text(MACHINE.replace("devices_per_node = 2", "devices_per_node = 8"))
    found = said(cogwheel, "small.toml", "--ranks", 8, "--machine", "machine.toml", "--set", "training.micro_batches=8", *words)
    expect_left_out(found, reasons)


def test_layouts_beside_a_teacher_are_left_out(cogwheel):
    (cogwheel.folder / "machine.toml").write_text(MACHINE)
    text = ["small.toml", "--text", "text.txt", "--set", "model.vocabulary=0"]
    done = cogwheel("train", *text, "training.steps=1", "--out", "teacher")
    assert done.returncode == 0, done.stderr
    found = said(cogwheel, *text, "task.teacher=teacher", "training.micro_batches=2", "--ranks", 2, "--machine", "machine.toml")
    expect_left_out(found, {f"{key} 2": f"parallel.{key}: expected 1 beside task.teacher, got 2" for key in ("context", "tensor")})


def expect_left_out(found, reasons):
    refused = {each["name"]: each["reason"] for each in found["refused"]}
    for name, reason in reasons.items():
        assert refused[name].startswith(reason), refused
        assert name not in layouts(found)


def test_layouts_of_this_machine_are_measured(cogwheel):
    done = cogwheel("bench", "network", "--ranks", 2, "--seconds", 0, "--out", "network.toml")
    assert done.returncode == 0, done.stderr
    network = (cogwheel.folder / "network.toml").read_text()
    assert "64 MiB" in done.stdout and "[network.within_node]" in network and "wake_up" in network
    sixteen_rows = ["--set", "training.micro_batches=4", "--set", "training.batch=16"]
    found = said(cogwheel, "small.toml", "--ranks", 2, "--machine", "network.toml", *sixteen_rows)
    data, context, fixed = layouts(found)["data 2"], layouts(found)["context 2"], found["fixed_seconds"]
    assert 0 <= fixed <= found["slice_seconds"]  # a slice of four rows, beside one of one
    half = fixed + (found["slice_seconds"] - fixed) / 2
    assert context["computation_seconds"] == pytest.approx(4 * half + found["rest_seconds"])
    assert data["runs"] and data["computation_seconds"] == pytest.approx(2 * found["slice_seconds"] + found["rest_seconds"])
    assert data["communication_seconds"] > 0 and data["memory"]["program"] > 100e6


def test_a_rank_that_has_a_node_to_itself_is_measured_alone(cogwheel):
    (cogwheel.folder / "far.toml").write_text("[network.between_nodes]\nlatency = 1e-4\nbandwidth = 1e8\n")
    found = said(cogwheel, "small.toml", "--ranks", 8, "--machine", "far.toml", "--set", "training.micro_batches=8")
    assert found["network"]["ranks_per_node"] == 1
    [computation] = found["sources"]  # the network is said
    assert computation.startswith("computation: ") and "at once" not in computation and "share" not in computation


def test_ranks_of_a_launcher_measure_together(cogwheel):
    words = ["train", "small.toml", "--dry-run", "--set", "training.micro_batches=4"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    torchrun += ["-m", "cogwheel"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run([*torchrun, *words, "--json"], cwd=cogwheel.folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ranks"] == 2 and {"data 2", "context 2", "tensor 2"} <= layouts(found).keys()
    at_once = " of each of 2 ranks at once" if os.cpu_count() > 1 else ""
    assert any(source.startswith("computation: ") and f"on 1 thread{at_once}" in source for source in found["sources"])
    assert "communication: 2 ranks here, as `cogwheel bench network` measures them" in found["sources"]
    done = subprocess.run([*torchrun, *words, "--ranks", "3"], cwd=cogwheel.folder, env=environment, capture_output=True, text=True)
    assert done.stdout == "" and done.stderr.count("cogwheel: --ranks: expected a number of ranks that can share the step") == 1


@pytest.mark.parametrize(
    ("words", "machine", "message"),
    [
        ([], MACHINE.replace("devices_per", "device_per"), "machine.toml: key: expected devices_per_node (the nearest of 4 names), got device_per_node"),
        ([], MACHINE.replace("1e12", "-1"), "machine.toml: device: flops_per_second: expected at least 1e+06, got -1"),
        ([], MACHINE.split("[network.between")[0], "machine.toml: network.between_nodes: expected latency and bandwidth, for 4 ranks on nodes of 2, got none"),
        ([], "[device", "machine.toml: expected TOML, got Error while parsing table header: encountered end-of-file (line 1)"),
        (["--ranks", 3], MACHINE, "--ranks: expected a number of ranks that can share the step, got 3 (data 3: ranks that share a batch: expected a power of two, as their sums are a binary tree, got 3)"),
        (["--set", "task.name=images"], MACHINE, "--machine: device: expected a language model, whose work is counted, got task images"),
    ],
)  # fmt: skip
def test_refusals_of_layouts_are_one_line(cogwheel, words, machine, message):
    (cogwheel.folder / "machine.toml").write_text(machine)
    config = "small.toml"
    if "task.name=images" in words:
        config, words = "other.toml", [*words, "--set", "training.micro_batches=8"]
        (cogwheel.folder / config).write_text("[training]\nsteps = 10\nbatch = 8\n")
    done = cogwheel("train", config, "--dry-run", "--machine", "machine.toml", *(words if "--ranks" in words else ["--ranks", 4, *words]))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cogwheel: {message}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--ranks: expected 2 or more, unless a launcher has started them, got none"),
        (["--ranks", 2, "--seconds", -1], "--seconds: expected at least 0, got -1"),
    ],
)
def test_refusals_of_the_network_are_one_line(cogwheel, words, message):
    done = cogwheel("bench", "network", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cogwheel: {message}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json"], "--json: expected --dry-run with it, got none"),
        (["--machine", "machine.toml"], "--machine: expected --dry-run with it, got none"),
        (["--dry-run", "--out", "run"], "--out: expected no --dry-run, which writes nothing, got run"),
        (["--dry-run", "--overwrite"], "--overwrite: expected no --dry-run, which writes nothing, got both"),
    ],
)
def test_refusals_are_one_line(cogwheel, words, message):
    done = cogwheel("train", "small.toml", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cogwheel: {message}\n")
