"""What docs/architecture.md says that additions cost, shown in a copy of the tree in which nothing else is touched: a file and a
line of a list for a task, a folder and a line for one with a model of its own, a file and a line for a subcommand and for an
architecture of another program, one file for a measure. (A row map: test_documentation.py.)"""

import json
import math
import os
import pathlib
import shutil
import subprocess

import pytest

ADDITIONS = pathlib.Path(__file__).with_name("additions")

MEASURED = r"""
  MeasuredValues evaluate(torch::nn::Module& model, const TrainingOptions& training, EvaluationPart part,
                          StatisticsOfHeads* heads) const override {
    MeasuredValues values = SampledTask::evaluate(model, training, part, heads);
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
    add_line("tasks/tasks.def", "TASK(majority, language_model)")
    shutil.copytree(ADDITIONS / "averages", library / "tasks/averages")
    add_line("tasks/tasks.def", "TASK(averages, averager)")
    shutil.copy(ADDITIONS / "averager_exchange.cpp", library / "interchange")
    add_line("interchange/architectures.def", "ARCHITECTURE(averager_of_tests)")
    shutil.copy(ADDITIONS / "greet.cpp", library / "cli/verbs")
    add_line("cli/verbs.def", "VERB(greet)")

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
    run(executable, "compare", "--task", task, "--preset", preset, "--steps", "60", "--seeds", "2", "--attention",
        "softmax,cog", "--out", folder / task, *words, cwd=folder)
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
    build = with_additions.parents[2]
    environment = {**os.environ, "PYTHONPATH": str(repository / "python"),
                   "COGWHEEL_OPERATORS": str(build / "cogwheel/ops/libcogwheel_ops.so")}  # fmt: skip
    names = run(repository / ".venv/bin/python", "-c", LOADED, trained, env=environment)
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
