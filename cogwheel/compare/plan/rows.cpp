#include "cogwheel/compare/plan/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/compare/record/shared_configuration.h"
#include "cogwheel/compare/record/training_length.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/configuration/config_record.h"

namespace cogwheel::compare {
namespace {

constexpr std::string_view mechanism_key = "model.mechanism", width_key = "model.width";

bool sets_key(const MechanismPlan& plan, std::string_view key) {
  return std::any_of(plan.set.begin(), plan.set.end(), [&](const std::string& each) { return key_of(each) == key; });
}

// Shared by all runs of a comparison, but of no consequence for what is compared.
constexpr std::array pairing_keys{"task.name", "training.batch", "training.device", "training.curve_tokens"};
// Rows may differ in them though no comparison records them as shared.
constexpr std::array keys_of_rows{"model.form", "model.mechanism"};

bool contains(const auto& keys, std::string_view key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

// Throws UsageError for a key of what pairs the runs of a comparison.
void expect_key_of_a_row(const Comparison& comparison, const std::string& assignment, std::string_view option) {
  const std::string key = key_of(assignment);
  const runs::RunConfig& shared = comparison.configuration;
  if (key == "model.feed_forward") {
    if (comparison.match == "parameters")
      throw UsageError(
          expected_got(option, "no key that --match parameters decides, or --match tokens beside it", assignment));
    return;
  }
  if (contains(keys_of_rows, key)) return;
  if (key.starts_with("data.") || contains(pairing_keys, key) ||
      (runs::to_json(shared).contains(key) && !is_shared(shared, key)))
    throw UsageError(
        expected_got(option, "keys that leave the data and the budget of paired runs as they are", assignment));
}

// Whether hybrids, or one and a mechanism, are the same in each of so many layers: gla*2 is gla.
bool are_one_pattern(const std::string& one, const std::string& other, std::int64_t layers) {
  if ((one + other).find_first_of("+*") == std::string::npos) return one == other;
  const LayerPattern left(one), right(other);
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (&left.at(layer) != &right.at(layer)) return false;
  return true;
}

// Whether two rows train the same.
bool are_one_model(const runs::RunConfig& one, const runs::RunConfig& other) {
  nlohmann::ordered_json left = runs::to_json(one), right = runs::to_json(other);
  for (nlohmann::ordered_json* record : {&left, &right}) record->erase(std::string(mechanism_key));
  return left == right && are_one_pattern(runs::common(one.model).mechanism, runs::common(other.model).mechanism,
                                          runs::common(one.model).layers);
}

void expect_new(const Comparison& comparison, const MechanismPlan& plan, std::string_view option) {
  const std::string each = plan.set.empty() ? "each mechanism once" : "each name once";
  if (comparison.plan(plan.name) != nullptr) throw UsageError(expected_got(option, each, plan.name + " twice"));
  const runs::RunConfig config = row_configuration(comparison.configuration, plan);
  for (const MechanismPlan& before : comparison.mechanisms) {
    if (name_in_path(before.name) == name_in_path(plan.name))
      throw UsageError(expected_got(option, "names whose folders differ", plan.name + " and " + before.name));
    if (are_one_model(row_configuration(comparison.configuration, before), config))
      throw UsageError(expected_got(
          option, "each model once",
          plan.name + ", which is " + before.name + (plan.set.empty() && before.set.empty() ? " in each layer" : "")));
  }
}

}  // namespace

Variant of_mechanism(const std::string& name) {
  return {.name = name, .set = {std::string(mechanism_key) + "=" + name}};
}

void add_row(Comparison& comparison, const Variant& variant, std::string_view option) {
  MechanismPlan plan{.name = variant.name};
  if (variant.set != of_mechanism(variant.name).set) {
    plan.set = variant.set;
    for (const std::string& assignment : plan.set) expect_key_of_a_row(comparison, assignment, option);
    if (!sets_key(plan, mechanism_key)) {
      const runs::RunConfig own = row_configuration(comparison.configuration, plan);  // maybe of another model
      plan.set.insert(plan.set.begin(), std::string(mechanism_key) + "=" + runs::common(own.model).mechanism);
    }
  }
  const runs::RunConfig config = row_configuration(comparison.configuration, plan);
  const nn::MechanismText text = runs::mechanism_text(config.model, option);
  plan.title = plan.set.empty() ? text.title : plan.name;
  plan.formula = text.formula;
  plan.definition = text.definition;
  expect_new(comparison, plan, option);
  comparison.mechanisms.push_back(std::move(plan));
}

void add_row_at_widths(Comparison& comparison, const Variant& variant, std::string_view option) {
  if (comparison.settings.widths.empty()) return add_row(comparison, variant, option);
  const bool mechanism = variant.set == of_mechanism(variant.name).set;
  for (const std::string& assignment : variant.set)
    if (key_of(assignment) == width_key)
      throw UsageError(expected_got(option, "no model.width beside --widths", assignment));
  std::string title = variant.name;
  if (mechanism)
    title =
        runs::mechanism_text(row_configuration(comparison.configuration, {.name = variant.name}).model, option).title;
  for (const std::int64_t width : comparison.settings.widths) {
    Variant row{.name = variant.name + width_suffix(width), .set = variant.set};
    row.set.push_back(fmt::format("{}={}", width_key, width));
    try {
      add_row(comparison, row, option);
    } catch (const UsageError& error) {
      // What names no option is what such a model cannot be.
      if (std::string_view(error.what()).starts_with("--")) throw;
      throw UsageError(fmt::format("--widths {}: {}", width, error.what()));
    }
    MechanismPlan& plan = comparison.mechanisms.back();
    plan.series = variant.name;
    plan.width = width;
    plan.title = title + width_suffix(width);
  }
}

runs::RunConfig row_configuration(runs::RunConfig shared, const MechanismPlan& plan) {
  if (plan.set.empty()) {
    runs::common(shared.model).mechanism = plan.name;
  } else {
    const runs::TrainingOptions before = shared.training;
    runs::set_options(shared, plan.set, "--variant " + plan.name);
    // As of --learning-rate: the last rate keeps its distance.
    if (sets_key(plan, "training.learning_rate") && !sets_key(plan, "training.final_learning_rate"))
      shared.training.final_learning_rate = with_rate(before, shared.training.learning_rate).final_learning_rate;
  }
  if (plan.feed_forward != 0) runs::set_balanced_width(shared.model, plan.feed_forward);
  return shared;
}

bool sets_keys_of(const MechanismPlan& plan, std::string_view section) {
  return std::any_of(plan.set.begin(), plan.set.end(),
                     [&](const std::string& each) { return each.starts_with(section); });
}

}  // namespace cogwheel::compare
