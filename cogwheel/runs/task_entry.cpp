#include "cogwheel/runs/task_entry.h"

#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/configuration/config_table.h"

namespace cogwheel::runs {

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskEntry& entry : tasks()) names.push_back(entry.description.name);
  return names;
}

const TaskEntry& find_task(const std::string& name) {
  for (const TaskEntry& entry : tasks())
    if (entry.description.name == name) return entry;
  throw UsageError(expected_got("task", expected_names(name, task_names()), name));
}

namespace {

// What would read such a key and is missing; empty where nothing is.
std::string missing_reader(ReadBy reader, const TaskEntry& entry, const DataOptions& data) {
  if (reader == ReadBy::every_task) return "";
  if (!entry.reads_text)
    return "none for the task " + entry.description.name +
           (entry.data_keys.empty() ? "" : ", which learns from " + std::string(entry.data_keys));
  if (reader == ReadBy::corpora && data.corpus.empty()) return "none without data.corpus";
  if (reader == ReadBy::several_corpora && data.corpus.size() < 2) return "none without several of data.corpus";
  if (reader == ReadBy::byte_pairs && (!data.corpus.empty() || data.tokenizer != "bpe"))
    return "none without a text whose data.tokenizer is bpe";
  return "";
}

void expect_keys_are_read(const TaskEntry& entry, const RunConfig& config) {
  RunConfig copy = config;
  const nlohmann::ordered_json given = to_json(config), defaults = to_json(RunConfig());
  for (const ConfigField& field : config_fields(copy)) {
    const std::string missing = missing_reader(field.read_by, entry, config.data);
    if (missing.empty() || given[field.key] == defaults[field.key]) continue;
    const nlohmann::ordered_json& value = given[field.key];
    const nlohmann::ordered_json& got = value.is_array() ? value.front() : value;
    throw UsageError(expected_got(field.key, missing, got.is_string() ? got.get<std::string>() : got.dump()));
  }
}

}  // namespace

std::shared_ptr<const Task> make_task(const RunConfig& config, const std::filesystem::path& folder) {
  const TaskEntry& entry = find_task(config.task.name);
  if (folder.empty()) expect_keys_are_read(entry, config);
  return entry.make(config, folder);
}

std::shared_ptr<const Task> make_random_task(const RunConfig& config, const RandomItems& items) {
  const TaskEntry& entry = find_task(config.task.name);
  expect_keys_are_read(entry, config);
  if (entry.random != nullptr) return entry.random(config, items);
  std::vector<std::string> known;
  for (const TaskEntry& each : tasks())
    if (each.random != nullptr) known.push_back(each.description.name);
  throw UsageError(expected_got("task", expected_names(config.task.name, known), config.task.name));
}

}  // namespace cogwheel::runs
