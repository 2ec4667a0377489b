"""What docs/architecture.md says that additions cost, shown in a copy of the tree in which nothing else is touched: a file and a
line of a list for a task, a folder and a line for one with a model of its own, a file and a line for a subcommand and for an
architecture of another program, one file for a measure, a folder and a line for the forward pass of attention on a device; a header,
a line and its reference for a row map and for a law with a state. (A row map beside the kernels alone: test_documentation.py.)"""

import json
import math
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ADDITIONS = pathlib.Path(__file__).with_name("additions")

MEASURED = r"""
  runs::MeasuredValues evaluate(torch::nn::Module& model, const runs::TrainingOptions& training, runs::EvaluationPart part,
                          nn::StatisticsOfHeads* heads) const override {
    runs::MeasuredValues values = SampledTask::evaluate(model, training, part, heads);
    values.push_back({"perplexity", std::exp(*find_value(values, "held_out_loss"))});
    return values;
  }

"""


def run(*command, **options):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def with_additions(repository, tmp_path_factory):
    """The command line of a copy of the tree with the task and a measure in it."""
    copy = tmp_path_factory.mktemp("additions") / "copy"
    copy.mkdir()
    for name in ("CMakeLists.txt", "CMakePresets.json", "pyproject.toml"):
        shutil.copy(repository / name, copy)
    for folder in ("cmake", "cogwheel", "experiments", "python", "setup"):
        shutil.copytree(repository / folder, copy / folder)
    os.symlink(repository / ".venv", copy / ".venv")

    library = copy / "cogwheel"

    def add_line(name, line):
        with (library / name).open("a") as definitions:
            definitions.write(line + "\n")

    tasks = library / "tasks/synthetic"
    shutil.copy(ADDITIONS / "majority.cpp", tasks)
    add_line("tasks/tasks.def", "TASK(synthetic, majority, language, language_model)")
    shutil.copytree(ADDITIONS / "averages", library / "tasks/averages")
    add_line("tasks/tasks.def", "TASK(averages, averages, averages, averager)")
    shutil.copy(ADDITIONS / "averager_exchange.cpp", library / "interchange/architectures")
    add_line("interchange/architectures.def", "ARCHITECTURE(averager_of_tests)")
    shutil.copy(ADDITIONS / "greet.cpp", library / "cli/verbs")
    add_line("cli/verbs.def", "VERB(greet)")
    shutil.copytree(ADDITIONS / "emulated", library / "ops/pairwise/engines/emulated")
    add_line("ops/pairwise/engines/engines.def", "PAIRWISE_ENGINE(emulated)")

    mechanisms = library / "attention/mechanisms"
    shutil.copy(ADDITIONS / "soft_square.h", mechanisms / "pairwise")
    add_line("attention/mechanisms/mechanisms.def", "ROW_MAP(soft_square, SoftSquare)")
    shutil.copy(ADDITIONS / "gated_keys.h", mechanisms / "recurrent")
    add_line("attention/mechanisms/mechanisms.def", "RECURRENT(gated_keys, GatedKeys)")

    # A measure: its description, and its value.
    copying = (tasks / "copying.cpp").read_text()
    described, begins = '.label = "accuracy", .unit = "", .lower_is_better = false}', " protected:\n"
    assert described in copying and begins in copying
    copying = copying.replace(
        described, described + ', {.name = "perplexity", .title = "perplexity", .label = "perplexity", .unit = "symbols"}'
    )
    copying = copying.replace(begins, MEASURED + begins)
    (tasks / "copying.cpp").write_text("#include <cmath>\n" + copying)

    environment = {**os.environ, "CCACHE_BASEDIR": str(copy), "CCACHE_NOHASHDIR": "1"}
    configure = ["cmake", "-G", "Ninja", "-S", copy, "-B", copy / "build", "-DCMAKE_BUILD_TYPE=Release", "-DCOGWHEEL_TESTS=OFF"]
    configure += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run(*configure, f"-DPython_EXECUTABLE={repository / '.venv/bin/python'}", env=environment)
    run("ninja", "-C", copy / "build", "cogwheel", "cogwheel_bindings", env=environment)
    return copy / "build/cogwheel/cli/cogwheel"


def compare(executable, folder, task, *words, preset="tiny"):
    words = words if "--attention" in words else ("--attention", "softmax,cog", *words)
    run(executable, "compare", "--task", task, "--preset", preset, "--steps", "60", "--seeds", "2", "--out", folder / task, *words,
        cwd=folder)
    return json.loads((folder / task / "results.json").read_text()), (folder / task / "report.html").read_text()


@pytest.mark.slow
def test_a_task_is_one_file_and_one_line(with_additions, tmp_path):
    assert "most so far" in run(with_additions, "list", "tasks")
    results, report = compare(with_additions, tmp_path, "majority", "--tune", "2")
    assert results["task"]["name"] == "majority"
    assert all(0.4 < run["accuracy"] <= 1 and run["status"] == "done" for run in results["runs"])
    assert "Accuracy; higher is better." in report and "← worse" in report
    for mechanism in ("softmax", "cog"):  # the best of the tuning is the highest
        trials = [trial for trial in results["tuning"] if trial["mechanism"] == mechanism]
        chosen = next(trial for trial in trials if trial["chosen"])
        assert chosen["validation_loss"] == max(trial["validation_loss"] for trial in trials)


@pytest.mark.slow
def test_a_measure_is_one_file(with_additions, tmp_path):
    results, report = compare(with_additions, tmp_path, "copying")
    for run in results["runs"]:
        assert run["perplexity"] == pytest.approx(math.exp(run["held_out_loss"]))
    assert "perplexity" in (tmp_path / "copying/results.csv").read_text().splitlines()[0]
    assert "<small>perplexity " in report


def of_copy(executable, repository):
    """The environment of Python with the operators of the copy."""
    operators = executable.parents[2] / "cogwheel/ops/libcogwheel_ops.so"
    return {**os.environ, "PYTHONPATH": str(repository / "python"), "COGWHEEL_OPERATORS": str(operators)}


# Loads the run with the bindings of the copy, which need not be those of this process.
LOADED = """
import sys, torch, cogwheel
model = cogwheel.load(sys.argv[1])
numbers = torch.randn(3, 8)
same = model(numbers), model(numbers=numbers)
assert torch.equal(*same) and same[0].shape == (3,) and type(model).__name__ == "Model", model
print(model.options["width"], sorted(name for name, _ in model.named_parameters()))
"""


@pytest.mark.slow
def test_a_task_with_a_model_of_its_own_is_a_folder_and_one_line(with_additions, tmp_path, repository):
    results, report = compare(with_additions, tmp_path, "averages", "--tune", "2", preset="averages")
    assert len(results["runs"]) == 4 and all(run["status"] == "done" for run in results["runs"])
    curve = results["runs"][0]["curve"]
    assert curve[-1]["held_out_loss"] < curve[0]["held_out_loss"]
    assert results["data"]["vocabulary"] == 0 and "squared error" in report
    trained = tmp_path / "averages/trained/softmax-seed-1"
    names = run(repository / ".venv/bin/python", "-c", LOADED, trained, env=of_copy(with_additions, repository))
    assert names == "16 ['in.bias', 'in.weight', 'out.bias', 'out.weight']\n"
    assert "Held-out loss" in run(with_additions, "evaluate", trained, "--out", tmp_path / "page", cwd=tmp_path)


@pytest.mark.slow
def test_an_architecture_is_one_file_and_one_line(with_additions, tmp_path):
    assert "MeanOfNumbers" in run(with_additions, "list", "architectures")
    (tmp_path / "averages.toml").write_text('[task]\nname = "averages"\n[training]\nsteps = 2\n')
    run(with_additions, "train", tmp_path / "averages.toml", "--out", tmp_path / "run", cwd=tmp_path)
    run(with_additions, "export", tmp_path / "run", "--out", tmp_path / "exported")
    run(with_additions, "import", tmp_path / "exported", "--out", tmp_path / "imported")
    assert json.loads((tmp_path / "exported/config.json").read_text())["width"] == 16
    assert (tmp_path / "imported/checkpoint.safetensors").is_file()


@pytest.mark.slow
def test_a_subcommand_is_one_file_and_one_line(with_additions):
    assert run(with_additions, "greet") == "hello\n"
    assert "greet" in run(with_additions, "--help")


# Attention on the device of emulated_device.py, whose engine computes softmax in float64 with some of the options, and no
# gradients. Prints what ran.
ATTENDED = """
import torch, cogwheel
from attention_options import CASES, KEY_HEADS, drawn, tensors_of
from emulated_device import behind, on_device

moved = lambda value: on_device(value) if isinstance(value, torch.Tensor) else value
calls = torch.ops.cogwheel.forward_calls_of_emulated

def results(mechanism, tensors, options, there):
    leaves = {name: (on_device(each) if there else each.clone()).requires_grad_() for name, each in tensors.items()}
    options = {name: moved(each) if there and name != "seed" else each for name, each in options.items()}
    output = cogwheel.attention(**leaves, mechanism=mechanism, **options)
    upstream = drawn(*output.shape, seed=9).to(tensors["query"].dtype)
    output.backward(on_device(upstream) if there else upstream)
    each = [output.detach(), *(leaf.grad for leaf in leaves.values())]
    return [behind(one) for one in each] if there else each

def served(mechanism, case, dtype=torch.float64):
    tensors = {name: each.to(dtype) for name, each in tensors_of(case).items()}
    if mechanism == "differential":
        tensors["value"] = tensors["value"][:, :1].clone()
    options = {**CASES[case], **({"lam": torch.tensor(0.3, dtype=dtype)} if mechanism == "differential" else {})}
    before = calls()
    for ours, theirs in zip(results(mechanism, tensors, options, True), results(mechanism, tensors, options, False)):
        torch.testing.assert_close(ours, theirs, rtol=1e-5 if dtype == torch.float32 else 1e-10, atol=1e-6)
    return calls() - before

print("served:", ", ".join(case for case in CASES if served("softmax", case)))
print("calls:", served("differential", "causal"), served("cog", "causal"), served("centered", "causal"),
      served("softmax", "causal", torch.float32))

query, key, value = tensors_of("nothing").values()
scores = query @ key.repeat_interleave(2, 1).mT / 8**0.5
expected = scores.masked_fill(torch.ones(5, 7).tril(2) == 0, -torch.inf).softmax(-1) @ value.repeat_interleave(2, 1)
output = cogwheel.attention(on_device(query), on_device(key), on_device(value), "softmax", causal=True)
torch.testing.assert_close(behind(output), expected)

before = calls()
for device, move in (("cpu", lambda tensor: tensor), ("emulated", on_device)):
    cache = cogwheel.KeyValueCache(2, KEY_HEADS, 9, 8, value_dim=3, dtype=torch.float64, device=device)
    cache.append(move(key), move(value), torch.tensor([7, 2]))
    step = cache.attend(move(query[:, :, :1]), "softmax", window=3)
    decoded = behind(step) if device == "emulated" else step
    torch.testing.assert_close(decoded, globals().setdefault("on_cpu", decoded))
weights = cogwheel.attention_weights(on_device(query), on_device(key), "softmax")
torch.testing.assert_close(behind(weights), cogwheel.attention_weights(query, key, "softmax"))
print("decoded:", calls() - before)
"""


@pytest.mark.slow
def test_a_forward_pass_of_a_device_is_a_folder_and_one_line(with_additions, repository):
    """On an emulated device, as no GPU is at hand: PyTorch's dispatcher takes its tensors for those of another device, and
    the added kernel, which is plain C++, reads them through copies on the host."""
    assert "emulated" in run(with_additions, "list", "kernels")
    environment = of_copy(with_additions, repository)
    environment["PYTHONPATH"] += f"{os.pathsep}{repository / 'tests/python'}"
    done = subprocess.run([repository / ".venv/bin/python", "-c", ATTENDED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        # Its options, and scores that are products of other queries and keys.
        "served: nothing, causal, scale, window, key_lengths, score, general score",
        "calls: 1 0 1 0",  # both halves of a form at once, another map, a map subtracted from softmax, another type
        "decoded: 1",  # and no weights
    ]
    notes = [line for line in done.stderr.splitlines() if line.startswith("cogwheel:")]
    assert notes == ["cogwheel: attention on emulated: composed of ATen's operators (its kernels lack gradients), slower than "
                     "fused kernels"]  # fmt: skip


# What docs/generate_mechanisms.py writes, but for numerics cards, which are of portable kernels.
GENERATED = """
import pathlib, runpy, sys
docs = pathlib.Path(sys.argv[1])
generator = runpy.run_path(str(docs / "generate_mechanisms.py"), run_name="generator")
(docs / "mechanisms.md").write_text(generator["document"](with_cards=False))
(docs / "recurrent.md").write_text(generator["with_law_table"]((docs / "recurrent.md").read_text()))
"""
DOCUMENTS = ("tests/python/test_mechanisms_document.py", "-k", "is_current or links")


@pytest.fixture(scope="module")
def tests_of_copy(with_additions, repository):
    """Runs tests of the copy, which have a reference for what was added, or have none, and its generated documents."""
    copy = with_additions.parents[3]
    build = copy / "build"
    for folder in ("docs", "tests/python"):
        shutil.copytree(repository / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(copy / "python"), "COGWHEEL_BUILD": str(build),
                   "COGWHEEL_OPERATORS": str(build / "cogwheel/ops/libcogwheel_ops.so")}  # fmt: skip
    python = repository / ".venv/bin/python"

    def test(*words):
        command = [python, "-m", "pytest", "-p", "no:cacheprovider", *words]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=copy, env=environment)

    run(python, "-c", GENERATED, copy / "docs", env=environment)
    return copy / "tests/python", test


def expect_passed(done, at_least):
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) >= at_least, done.stdout


@pytest.mark.slow
def test_a_row_map_is_a_header_a_line_and_its_reference(with_additions, tests_of_copy, tmp_path):
    folder, test = tests_of_copy
    assert "soft_square" in run(with_additions, "list", "mechanisms")
    assert run(with_additions, "mechanism", "card", "soft_square").startswith("soft_square")
    asks = "tests/python/test_attention.py::test_every_operator_mechanism_has_a_row_in_the_table"
    assert "soft_square" in test(asks).stdout  # which is missing
    reference = folder / "reference.py"
    table = "TABLE: dict[str, Row] = {\n"
    text = reference.read_text()
    assert text.count(table) == 1
    reference.write_text(text.replace(table, table + (ADDITIONS / "soft_square_reference.py").read_text()))
    expect_passed(test(asks), 1)
    expect_passed(test("tests/python/test_attention.py", "-k", "soft_square"), 5)
    expect_passed(test(*DOCUMENTS), 3)
    results, _ = compare(with_additions, tmp_path, "copying", "--attention", "softmax,soft_square,centered_soft_square")
    assert [run["status"] for run in results["runs"]] == 6 * ["done"]


@pytest.mark.slow
def test_a_law_is_a_header_a_line_and_its_reference(with_additions, tests_of_copy, tmp_path):
    folder, test = tests_of_copy
    assert "gated_keys" in run(with_additions, "list", "mechanisms")
    assert "agree with finite differences" in run(with_additions, "mechanism", "card", "gated_keys")
    asks = "tests/python/test_recurrent_refusals.py::test_every_law_is_documented_and_has_a_reference"
    assert "gated_keys" in test(asks).stdout  # which is missing
    with (folder / "recurrent_reference.py").open("a") as reference:
        reference.write((ADDITIONS / "gated_keys_reference.py").read_text())
    expect_passed(test(asks), 1)
    of_laws = [folder / f"test_recurrent{which}.py" for which in ("", "_properties", "_autograd")]
    expect_passed(test(*of_laws, "-k", "gated_keys"), 15)
    expect_passed(test(*DOCUMENTS), 3)
    results, _ = compare(with_additions, tmp_path, "copying", "--attention", "softmax,gated_keys,gated_keys+softmax")
    assert [run["status"] for run in results["runs"]] == 6 * ["done"]
