"""What docs/architecture.md says that a task and a measure cost, shown in a copy of the tree: one file and one line of a
list for the task, one file for the measure; nothing else is touched. (A row map: test_documentation.py.)"""

import json
import math
import os
import shutil
import subprocess

import pytest

# A task of which more is better, with an answer at every bit.
TASK = r"""
#include "cogwheel/tasks/synthetic/drawn_task.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/runs/task_entry.h"

namespace cogwheel {
namespace {

const TaskDescription& describe_majority() {
  static const TaskDescription description{
      .name = "majority",
      .summary = "say at every bit whether most so far are ones",
      .item = "bit",
      .data = "Random bits.",
      .measures = {{.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false},
                   {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per bit"}}};
  return description;
}

class Majority : public DrawnTask {
 public:
  explicit Majority(const TaskOptions& options) : DrawnTask(TaskOptionReader(options).finish()) {}
  const TaskDescription& description() const override { return describe_majority(); }

 protected:
  std::int64_t vocabulary() const override { return 2; }
  std::string label(Token token) const override { return std::to_string(token); }
  std::shared_ptr<DrawnTask> copy() const override { return std::make_shared<Majority>(*this); }
  Difficulty difficulty(std::int64_t context) const override { return {"length", context, context}; }
  std::int64_t tokens(std::int64_t length) const override { return length; }
  void write(const Draws& draws, std::int64_t length, const Sequence& sequence) const override {
    std::int64_t ones = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto place = static_cast<std::size_t>(i);
      ones += sequence.inputs[place] = draws.at(i) & 1;
      sequence.targets[place] = 2 * ones > i + 1 ? 1 : 0;
    }
  }
};

}  // namespace

TaskEntry majority_task() {
  return {describe_majority(), [](const RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const Task> {
            return std::make_shared<Majority>(config.task);
          }};
}

}  // namespace cogwheel
"""


MEASURED = r"""
  MeasuredValues evaluate(torch::nn::Module& model, const TrainingOptions& training, EvaluationPart part,
                          StatisticsOfHeads* heads) const override {
    MeasuredValues values = DrawnTask::evaluate(model, training, part, heads);
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
    for folder in ("cmake", "cogwheel", "experiments", "python"):
        shutil.copytree(repository / folder, copy / folder)
    os.symlink(repository / ".venv", copy / ".venv")

    tasks = copy / "cogwheel/tasks/synthetic"
    (tasks / "majority.cpp").write_text(TASK)
    with (copy / "cogwheel/tasks/tasks.def").open("a") as definitions:
        definitions.write("TASK(majority, language_model)\n")

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
    run("ninja", "-C", copy / "build", "cogwheel", env=environment)
    return copy / "build/cogwheel/cli/cogwheel"


def compare(executable, folder, task, *words):
    run(executable, "compare", "--task", task, "--preset", "tiny", "--steps", "60", "--seeds", "2", "--attention",
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
