#include "cogwheel/compare/run_store.h"

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "cogwheel/compare/record/results_json.h"
#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/runs/weights.h"

namespace cogwheel::compare {
namespace fs = std::filesystem;
namespace {

constexpr const char *result_file = "result.json", *wish_file = "made-anew-for", *trials_folder = "trials";
constexpr std::size_t digits_of_hash = 24;

fs::path made(fs::path place) {
  make_folder(place);
  return place;
}

}  // namespace

StoredRun::StoredRun(fs::path place, const std::function<void()>& waiting)
    : place_(made(std::move(place))), lock_(place_, stored_run_kind, waiting) {
  remove_leftovers(place_, {result_file, wish_file});
}

std::optional<RunResult> StoredRun::result(const runs::RunConfig& config, const runs::TaskDescription& task) const {
  const fs::path file = place_ / result_file, record = run_path() / "config.toml";
  std::error_code problem;
  if (!fs::exists(file, problem)) return std::nullopt;
  RunResult result = parse_run(read_file(file), file.string(), task);
  runs::expect_same(config, runs::to_json(runs::load_config(record)), record.string());
  if (result.status != RunStatus::done) return result;
  if (runs::find_value(result.measured, task.decisive().name) == nullptr)
    throw Error(expected_got(file.string(), task.decisive().name, "none"));
  if (result.curve.empty()) throw Error(expected_got(file.string(), "a curve", "none"));
  runs::expect_whole(runs::SafeTensorsFile(runs::find_checkpoint(run_path()).file));
  return result;
}

void StoredRun::keep(const RunResult& result) const { write_file(place_ / result_file, run_to_json(result)); }

void StoredRun::clear() const {
  std::error_code problem;
  fs::remove(place_ / result_file, problem);
  if (fs::exists(run_path(), problem)) runs::remove_run_files(run_path());
}

void StoredRun::clear_for(const std::string& wish) const {
  std::error_code problem;
  const fs::path file = place_ / wish_file;
  if (!wish.empty() && fs::exists(file, problem) && read_file(file) == wish) return;
  clear();
  if (!wish.empty()) write_file(file, wish);
}

RunStore::RunStore(const fs::path& folder, std::string version, bool retrain, std::string wish)
    : name_(folder.string()),
      folder_(fs::weakly_canonical(fs::absolute(folder))),
      version_(std::move(version)),
      retrain_(retrain),
      wish_(std::move(wish)) {
  expect_makable(folder_);
}

std::string RunStore::hash(const runs::RunConfig& config, std::int64_t evaluated_items) const {
  nlohmann::ordered_json record = runs::to_json(config);
  for (const char* key : {"name", "data.text", "data.corpus"}) record.erase(key);  // data.sha256 says which it is
  const nlohmann::ordered_json whole{
      {"configuration", std::move(record)}, {"evaluated", evaluated_items}, {"version", version_}};
  return sha256(whole.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)).substr(0, digits_of_hash);
}

fs::path RunStore::place(const runs::RunConfig& config, std::int64_t evaluated_items) const {
  return folder_ / hash(config, evaluated_items);
}

bool RunStore::holds(const runs::RunConfig& config, std::int64_t evaluated_items) const {
  std::error_code problem;
  return !retrain_ && fs::exists(place(config, evaluated_items) / result_file, problem);
}

fs::path RunStore::trial_file(const runs::RunConfig& config, std::int64_t evaluated_items) const {
  return folder_ / trials_folder / (hash(config, evaluated_items) + ".json");
}

std::optional<TuningTrial> RunStore::trial(const runs::RunConfig& config, std::int64_t evaluated_items) const {
  const fs::path file = trial_file(config, evaluated_items);
  std::error_code problem;
  if (retrain_ || !fs::exists(file, problem)) return std::nullopt;
  try {
    return parse_trial(read_file(file), file.string());
  } catch (const Error&) {
    return std::nullopt;
  }
}

void RunStore::keep(const runs::RunConfig& config, std::int64_t evaluated_items, const TuningTrial& trial) const {
  make_folder(folder_ / trials_folder);
  write_file(trial_file(config, evaluated_items), trial_to_json(trial));
}

}  // namespace cogwheel::compare
