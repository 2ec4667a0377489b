#include "cogwheel/runs/curves/curve_files.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/core/process/environment_python.h"
#include "cogwheel/core/process/process.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/curves/curve_files_script.h"

namespace cogwheel::runs {
namespace {

using CurvesJson = nlohmann::ordered_json;

CurvesJson numbers_json(const std::vector<double>& values) {
  CurvesJson json = CurvesJson::array();
  for (const double value : values) json.push_back(std::isfinite(value) ? CurvesJson(value) : CurvesJson(nullptr));
  return json;
}

CurvesJson run_json(const RunCurve& run) {
  CurvesJson numbers = CurvesJson::object();
  for (const CurveNumber& number : run.numbers) numbers[number.name] = numbers_json(number.values);
  std::error_code problem;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(run.folder, problem);
  return {{"name", run.name},
          {"id", sha256(whole.string()).substr(0, 12)},  // the same whenever it is written
          {"config", to_json(run.config)},
          {"steps", numbers_json(run.steps)},
          {"tokens", numbers_json(run.tokens)},
          {"seconds", numbers_json(run.seconds)},
          {"times", numbers_json(run.times)},
          {"numbers", numbers}};
}

}  // namespace

void write_curve_files(const std::vector<RunCurve>& runs, CurveFormat format, const std::filesystem::path& folder) {
  const std::string package = format == CurveFormat::tensorboard ? "tensorboard" : "wandb";
  make_folder(folder);
  CurvesJson given{
      {"format", package}, {"folder", std::filesystem::absolute(folder).string()}, {"runs", CurvesJson::array()}};
  for (const RunCurve& run : runs) given["runs"].push_back(run_json(run));
  const ScratchFolder scratch;
  const std::filesystem::path file = scratch / "curves.json";
  write_file(file, given.dump(-1, ' ', false, CurvesJson::error_handler_t::replace));
  std::vector<std::string> command = python_running(curve_files_script);
  command.push_back(file.string());
  const Finished finished = run_program(command);
  const std::string what = "--" + package;
  const CurvesJson answer = CurvesJson::parse(finished.output, nullptr, false);
  if (finished.status != 0 || !answer.is_object())
    throw Error(expected_got(what, "files by Python's " + package,
                             last_line(finished.errors.empty() ? "no answer" : finished.errors)));
  if (answer.contains("missing"))
    throw Error(expected_got(what,
                             fmt::format("Python's {0}, which `{1} -m pip install {0}` installs", package,
                                         answer.value("python", "python3")),
                             fmt::format("no module {}", answer.value("missing", package))));
}

}  // namespace cogwheel::runs
