#include "cogwheel/runs/configuration/run_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "cogwheel/attention/authoring/authoring.h"
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/configuration/config_table.h"
#include "cogwheel/runs/configuration/toml_text.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::runs {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // for compilers that deduce no arguments of aggregates

std::string text_of(const toml::node& node) {
  std::ostringstream text;
  if (const auto* string = node.as_string())
    text << '"' << string->get() << '"';  // quoted, or the string "2" would look like the expected number
  else if (const auto* integer = node.as_integer())
    text << integer->get();
  else if (const auto* number = node.as_floating_point())
    text << *number;  // 2.0, for the same reason
  else if (const auto* boolean = node.as_boolean())
    text << *boolean;
  else
    text << "a value of type " << node.type();
  return text.str();
}

toml::array array_of(const std::vector<std::string>& strings) {
  toml::array array;
  for (const auto& string : strings) array.push_back(string);
  return array;
}

void assign(const ConfigSlot& slot, const toml::node& node, const std::string& what) {
  const auto refuse = [&](const char* expected) -> void {
    throw UsageError(expected_got(what, expected, text_of(node)));
  };
  // Of a number that TOML cannot hold, the command line has made a text.
  constexpr const char* largest = "a whole number up to 9223372036854775807";
  const bool beyond = node.is_string() && node.as_string()->get().size() > 18 &&
                      node.as_string()->get().find_first_not_of("0123456789") == std::string::npos;
  std::visit(Overloaded{[&](std::string* target) {
                          if (!node.is_string()) refuse("a string");
                          *target = **node.as_string();
                        },
                        [&](std::vector<std::string>* target) {
                          std::vector<std::string> strings;
                          if (!node.is_array()) refuse("an array of strings");
                          for (const auto& entry : *node.as_array()) {
                            if (!entry.is_string()) refuse("an array of strings");
                            strings.push_back(**entry.as_string());
                          }
                          *target = std::move(strings);
                        },
                        [&](std::vector<double>* target) {
                          std::vector<double> numbers;
                          if (!node.is_array()) refuse("an array of numbers");
                          for (const auto& entry : *node.as_array()) {
                            if (!entry.is_integer() && !entry.is_floating_point()) refuse("an array of numbers");
                            numbers.push_back(entry.is_integer() ? static_cast<double>(**entry.as_integer())
                                                                 : **entry.as_floating_point());
                          }
                          *target = std::move(numbers);
                        },
                        [&](std::int64_t* target) {
                          if (!node.is_integer()) refuse(beyond ? largest : "a whole number");
                          *target = **node.as_integer();
                        },
                        [&](std::uint64_t* target) {
                          if (!node.is_integer() || **node.as_integer() < 0)
                            refuse(beyond ? largest : "a whole number of at least 0");
                          *target = static_cast<std::uint64_t>(**node.as_integer());
                        },
                        [&](double* target) {
                          if (node.is_integer())
                            *target = static_cast<double>(**node.as_integer());
                          else if (node.is_floating_point())
                            *target = **node.as_floating_point();
                          else
                            refuse("a number");
                        },
                        [&](bool* target) {
                          if (!node.is_boolean()) refuse("true or false");
                          *target = **node.as_boolean();
                        },
                        [&](ConfigValue* target) {
                          if (node.is_boolean())
                            *target = **node.as_boolean();
                          else if (node.is_integer())
                            *target = **node.as_integer();
                          else if (node.is_floating_point())
                            *target = **node.as_floating_point();
                          else if (node.is_string())
                            *target = **node.as_string();
                          else
                            refuse("true or false, a number or a string");
                        },
                        [&](const NamesOtherKeys& names) {
                          if (!node.is_string()) refuse("a string");
                          names.set(**node.as_string(), what);
                        }},
             slot);
}

bool names_others(const ConfigSlot& slot) { return std::holds_alternative<NamesOtherKeys>(slot); }

// Options of the model that the task names, where those in `config` are of another; of one that learns the same task
// as before, what the data and the size of the model decide stays.
void choose_model(RunConfig& config, std::string_view task_before = {}) {
  ModelOptions model = model_of_task(config.task);
  if (model.same_topology(config.model)) return;
  if (config.task.name == task_before) {
    const CommonOptions now = common(model);
    const ConstCommonOptions before = common(std::as_const(config.model));
    if (now.vocabulary != nullptr) *now.vocabulary = before.vocabulary_or_none();
    now.context = before.context;
    now.width = before.width;
    now.dropout = before.dropout;
  }
  config.model = std::move(model);
}

// What comes from the data cannot be checked here.
void check(const RunConfig& config) {
  ModelOptions model = config.model;
  stand_in_for_data(model);
  check(model);
  check(config.training);
  const auto tokenizers = text::tokenizer_names();
  // A corpus has its own, whose kind a run records.
  if (config.data.corpus.empty() &&
      std::find(tokenizers.begin(), tokenizers.end(), config.data.tokenizer) == tokenizers.end())
    throw UsageError(
        expected_got("data.tokenizer", expected_names(config.data.tokenizer, tokenizers), config.data.tokenizer));
  expect_within("data.vocabulary", config.data.vocabulary, text::byte_pair_vocabularies);
  if (config.data.byte_limit < 0)
    throw UsageError(expected_got("data.byte_limit", "at least 0", std::to_string(config.data.byte_limit)));
  if (config.data.packing != "windows" && config.data.packing != "documents")
    throw UsageError(expected_got("data.packing", expected_names(config.data.packing, {"windows", "documents"}),
                                  config.data.packing));
  if (config.data.held_out_tokens < 0)
    throw UsageError(expected_got("data.held_out_tokens", "at least 0", std::to_string(config.data.held_out_tokens)));
  for (const double weight : config.data.weights)
    if (constexpr Range<double> weights{.min = 0, .max = 1e30, .min_excluded = true}; !weights.holds(weight))
      throw UsageError(expected_got("data.weights", "numbers " + weights.text(), number_text(weight)));
  const bool control = std::any_of(config.name.begin(), config.name.end(),
                                   [](unsigned char character) { return character < 0x20 || character == 0x7f; });
  const bool text = find_non_text(config.name) == std::string::npos;
  if (config.name.empty() || config.name.find('/') != std::string::npos || control || !text)
    throw UsageError(
        expected_got("name", text ? "a name for a folder" : "a name in UTF-8",
                     nlohmann::json(config.name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

void set_option(RunConfig& config, std::string_view assignment, std::string_view option = "--set") {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) throw UsageError(expected_got(option, "key=value", assignment));
  const std::string key(assignment.substr(0, equals)), value(assignment.substr(equals + 1));
  const ConfigSlot slot = find_slot(config, key, std::string(option));
  const std::string what = std::string(option) + " " + key;
  // Strings may be given without quotes, paths too.
  const bool text = (std::holds_alternative<std::string*>(slot) || names_others(slot)) && !value.starts_with('"');
  const bool list = std::holds_alternative<std::vector<std::string>*>(slot) && !value.starts_with('[');
  if (text) return assign(slot, toml::value<std::string>(value), what);
  if (list) return assign(slot, array_of({value}), what);
  try {
    // What follows # would be left out as a comment.
    const bool whole = value.find('#') == std::string::npos || value.starts_with('"') || value.starts_with('[');
    const toml::table given = whole ? parse_toml("value = " + value, what) : toml::table();
    // inf and dates are names to those who write no TOML, and a line break begins another key.
    const auto is_word = [&](const toml::node& node) {
      return std::holds_alternative<ConfigValue*>(slot) && !node.is_string() && !node.is_boolean() &&
             !node.is_integer() && !(node.is_floating_point() && std::isfinite(**node.as_floating_point()));
    };
    if (given.size() == 1 && !is_word(*given.get("value"))) return assign(slot, *given.get("value"), what);
  } catch (const UsageError&) {
    if (value.starts_with('"')) throw;
  }
  assign(slot, toml::value<std::string>(value), what);
}

bool sets(const std::string& assignment, std::string_view key) {
  return assignment.starts_with(key) && assignment.substr(key.size()).starts_with('=');
}

constexpr std::string_view name_key = "task.name", model_key = "task.model";
bool names_model(const std::string& assignment) { return sets(assignment, name_key) || sets(assignment, model_key); }

// Every key that such a text gives, without a check of what their values are together. `task` takes the place of what
// it says of the task's name and model, where it says so itself.
RunConfig read_config(std::string_view text, const std::string& what, const TaskOptions& task) {
  RunConfig config;
  const toml::table given = parse_toml(text, what);
  // What decides about other keys comes first: the task about the model, then the form of the model, which keys given
  // beside it, in whatever order, override.
  const bool other_name = !task.name.empty(), other_model = !task.values.empty();
  if (other_name)
    config.task.name = task.name;
  else if (const auto named = given.at_path(name_key))
    assign(&config.task.name, *named.node(), what + ": task.name");
  if (other_model)
    config.task.values = task.values;
  else if (const auto named = given.at_path(model_key))
    assign(&config.task.values["model"], *named.node(), what + ": task.model");
  choose_model(config);
  // A key that only the model of another task has is refused by name.
  const std::string whose = other_name ? what + ", for the task " + task.name : what;
  for (const auto& [key, slot, unused] : config_fields(config))
    if (const auto named = given.at_path(key); named && names_others(slot))
      assign(slot, *named.node(), what + ": " + key);
  for (const auto& [section_key, section] : given) {
    const std::string name(section_key.str());
    if (const toml::table* table = section.as_table(); table != nullptr) {
      for (const auto& [key, node] : *table) {
        const std::string path = name + "." + std::string(key.str());
        const ConfigSlot slot = find_slot(config, path, whose);
        if (!names_others(slot) && !(other_name && path == name_key) && !(other_model && path == model_key))
          assign(slot, node, what + ": " + path);
      }
    } else {
      assign(find_slot(config, name, whose), section, what + ": " + name);
    }
  }
  authoring::require_mechanism(common(config.model).mechanism, config.definition, what + ": model.mechanism");
  return config;
}

}  // namespace

ModelOptions model_of_task(const TaskOptions& task) {
  const auto named = task.values.find("model");
  const auto* const word = named == task.values.end() ? nullptr : std::get_if<std::string>(&named->second);
  return model_of_task(task.name, word == nullptr ? std::string_view() : *word);
}

RunConfig parse_config(std::string_view text, std::string_view what, const std::vector<std::string>& assignments) {
  RunConfig named;
  named.task.name.clear();
  for (const auto& assignment : assignments)
    if (names_model(assignment)) set_option(named, assignment);
  RunConfig config = read_config(text, std::string(what), named.task);
  set_options(config, assignments);
  return config;
}

RunConfig load_config(const std::filesystem::path& path, const std::vector<std::string>& assignments) {
  return parse_config(read_file(path), path.string(), assignments);
}

void set_options(RunConfig& config, const std::vector<std::string>& assignments, std::string_view option) {
  RunConfig changed = config;
  // What decides about other keys comes first, as in a file.
  const auto set_if = [&](auto wanted) {
    for (const auto& assignment : assignments)
      if (wanted(assignment)) set_option(changed, assignment, option);
  };
  set_if(names_model);
  choose_model(changed, config.task.name);
  std::vector<std::string> naming;
  for (const auto& [key, slot, unused] : config_fields(changed))
    if (names_others(slot)) naming.push_back(key);
  const auto names_set = [&](const std::string& each) {
    return std::any_of(naming.begin(), naming.end(), [&](const std::string& key) { return sets(each, key); });
  };
  set_if(names_set);
  set_if([&](const std::string& each) { return !names_model(each) && !names_set(each); });
  check(changed);
  config = std::move(changed);
}

std::string to_toml(const RunConfig& config) {
  RunConfig copy = config;
  std::ostringstream text;
  std::string section;
  for (const auto& [key, slot, unused] : config_fields(copy)) {
    if (names_others(slot)) continue;
    const std::size_t dot = key.find('.');
    if (dot != std::string::npos && key.substr(0, dot) != section) {
      section = key.substr(0, dot);
      text << "\n[" << section << "]\n";
    }
    text << (dot == std::string::npos ? key : key.substr(dot + 1)) << " = ";
    // JSON's strings, numbers and arrays are valid TOML too, and its numbers round-trip bit for bit.
    std::visit(Overloaded{[&](const auto* value) { text << nlohmann::json(*value).dump() << "\n"; },
                          [&](const ConfigValue* value) {
                            std::visit([&](const auto& held) { text << nlohmann::json(held).dump() << "\n"; }, *value);
                          },
                          [](const NamesOtherKeys&) {}},
               slot);
  }
  return text.str();
}

}  // namespace cogwheel::runs
