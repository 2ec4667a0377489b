#include "cogwheel/runs/training/run_changes.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/configuration/config_table.h"

namespace cogwheel::runs {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> assignments(const RunChange& change, std::string RunChange::Key::*value) {
  std::vector<std::string> all;
  for (const RunChange::Key& each : change.keys) all.push_back(each.key + "=" + each.*value);
  return all;
}

std::vector<std::string> changeable_keys() {
  RunConfig config;
  std::vector<std::string> keys;
  for (const ConfigField& field : config_fields(config))
    if (may_change(field.key)) keys.push_back(field.key);
  return keys;
}

std::string line_of(const RunChange& change) {
  Json keys = Json::object();
  for (const RunChange::Key& each : change.keys) keys[each.key] = {Json::parse(each.before), Json::parse(each.after)};
  return Json{{"step", change.step}, {"changes", std::move(keys)}}.dump() + "\n";
}

}  // namespace

bool may_change(std::string_view key) {
  constexpr std::array<std::string_view, 4> fixed{"training.seed", "training.optimizer", "training.frozen",
                                                  "training.base_width"};
  return (key.starts_with("training.") || key.starts_with("parallel.")) &&
         std::find(fixed.begin(), fixed.end(), key) == fixed.end();
}

RunChange change_between(const RunConfig& before, const RunConfig& after, std::int64_t step, const std::string& what) {
  const Json old = to_json(before), changed = to_json(after);
  RunChange change{.step = step, .keys = {}};
  for (const Json* record : {&old, &changed})
    for (const auto& [key, unused] : record->items()) {
      const Json from = old.value(key, Json()), to = changed.value(key, Json());
      const bool known = std::any_of(change.keys.begin(), change.keys.end(),
                                     [name = key](const RunChange::Key& each) { return each.key == name; });
      if (from == to || known) continue;
      if (!may_change(key))
        throw UsageError(expected_got(what + " " + key, from.dump() + ", as the run began", to.dump()));
      change.keys.push_back({key, from.dump(), to.dump()});
    }
  if ((before.training.ema > 0) != (after.training.ema > 0))
    throw UsageError(expected_got(what + " training.ema",
                                  before.training.ema > 0 ? "above 0, as the run began" : "0, as the run began",
                                  Json(after.training.ema).dump()));
  return change;
}

std::vector<RunChange> read_changes(const std::filesystem::path& path) {
  std::vector<RunChange> changes;
  std::error_code problem;
  if (!std::filesystem::exists(path, problem)) return changes;
  const std::vector<std::string> known = changeable_keys();
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const std::string place = path.string() + ", line " + std::to_string(changes.size() + 1);
    try {
      const Json json = Json::parse(line);
      for (const auto& [key, unused] : json.items())
        if (key != "step" && key != "changes") throw Error(expected_got(place + ": key", "step or changes", key));
      RunChange change{.step = json.at("step").get<std::int64_t>(), .keys = {}};
      for (const auto& [key, values] : json.at("changes").items()) {
        if (std::find(known.begin(), known.end(), key) == known.end())
          throw Error(expected_got(place + ": key", expected_names(key, known), key));
        change.keys.push_back({key, values.at(0).dump(), values.at(1).dump()});
      }
      changes.push_back(std::move(change));
    } catch (const nlohmann::json::exception&) {
      throw Error(expected_got(place, "a change", line));
    }
  }
  return changes;
}

void add_change(const std::filesystem::path& path, const RunChange& change) {
  std::string all;
  for (const RunChange& each : read_changes(path)) all += line_of(each);
  write_file(path, all + line_of(change));
}

std::vector<RunChange> changes_until(const std::filesystem::path& path, std::int64_t step) {
  std::vector<RunChange> changes = read_changes(path);
  std::string all;
  bool earlier = false;
  for (RunChange& change : changes) {
    earlier = earlier || change.step > step;
    change.step = std::min(change.step, step);
    all += line_of(change);
  }
  if (earlier) write_file(path, all);
  return changes;
}

std::set<std::string> changed_keys(const std::vector<RunChange>& changes) {
  std::set<std::string> keys;
  for (const RunChange& change : changes)
    for (const RunChange::Key& each : change.keys) keys.insert(each.key);
  return keys;
}

RunConfig with_changes(RunConfig config, const std::vector<RunChange>& changes, const std::filesystem::path& path) {
  try {
    for (const RunChange& change : changes) set_options(config, assignments(change, &RunChange::Key::after));
  } catch (const UsageError& error) {
    // Nobody typed it.
    const std::string message = error.what(), option = "--set ";
    throw Error(path.string() + ": " + (message.starts_with(option) ? message.substr(option.size()) : message));
  }
  return config;
}

std::vector<std::int64_t> reported_steps(const RunConfig& now, const std::vector<RunChange>& changes,
                                         std::int64_t until) {
  // Backwards through the changes, each of which ends a time with other options.
  std::vector<std::int64_t> all;
  RunConfig config = now;
  std::int64_t end = until;
  for (std::size_t left = changes.size() + 1; left > 0; --left) {
    const std::int64_t begin = left > 1 ? std::min(changes[left - 2].step, end) : 0;
    std::vector<std::int64_t> steps;
    for (const std::int64_t step : reported_steps(config.training, end))
      if (step > begin) steps.push_back(step);
    all.insert(all.begin(), steps.begin(), steps.end());
    end = begin;
    if (left > 1) set_options(config, assignments(changes[left - 2], &RunChange::Key::before));
  }
  return all;
}

}  // namespace cogwheel::runs
