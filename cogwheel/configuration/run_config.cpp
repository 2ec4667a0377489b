#include "cogwheel/configuration/run_config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "cogwheel/authoring/authoring.h"
#include "cogwheel/configuration/config_table.h"
#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"
#include "cogwheel/data/tokenizer.h"
#include "cogwheel/data/utf8.h"
#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/models/language_model_form.h"

namespace cogwheel {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

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
                        [&](std::int64_t* target) {
                          if (!node.is_integer()) refuse("a whole number");
                          *target = **node.as_integer();
                        },
                        [&](std::uint64_t* target) {
                          if (!node.is_integer() || **node.as_integer() < 0) refuse("a whole number of at least 0");
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
                        [&](LanguageModelOptions* target) {
                          if (!node.is_string()) refuse("a string");
                          set_form(*target, **node.as_string(), what);
                        }},
             slot);
}

bool is_form(const ConfigSlot& slot) { return std::holds_alternative<LanguageModelOptions*>(slot); }

// Options of the model that the task names, where those in `config` are of another.
void choose_model(RunConfig& config) {
  ModelOptions model = model_of_task(config.task.name);
  if (model.index() != config.model.index()) config.model = std::move(model);
}

toml::table parse_toml(std::string_view text, std::string_view what) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw UsageError(expected_got(
        what, "TOML", std::string(error.description()) + " (line " + std::to_string(error.source().begin.line) + ")"));
  }
}

// What comes from the data cannot be checked here.
void check(const RunConfig& config) {
  ModelOptions model = config.model;
  stand_in_for_data(model);
  check(model);
  check(config.training);
  const auto tokenizers = tokenizer_names();
  if (std::find(tokenizers.begin(), tokenizers.end(), config.data.tokenizer) == tokenizers.end())
    throw UsageError(
        expected_got("data.tokenizer", expected_names(config.data.tokenizer, tokenizers), config.data.tokenizer));
  if (config.data.byte_limit < 0)
    throw UsageError(expected_got("data.byte_limit", "at least 0", std::to_string(config.data.byte_limit)));
  const bool control = std::any_of(config.name.begin(), config.name.end(),
                                   [](unsigned char character) { return character < 0x20 || character == 0x7f; });
  const bool text = find_non_text(config.name) == std::string::npos;
  if (config.name.empty() || config.name.find('/') != std::string::npos || control || !text)
    throw UsageError(
        expected_got("name", text ? "a name for a folder" : "a name in UTF-8",
                     nlohmann::json(config.name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

void set_option(RunConfig& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) throw UsageError(expected_got("--set", "key=value", assignment));
  const std::string key(assignment.substr(0, equals)), value(assignment.substr(equals + 1));
  const ConfigSlot slot = find_slot(config, key, "--set");
  // Strings may be given without quotes, paths too.
  const bool path = value.starts_with('/') || value.starts_with("./") || value.starts_with("../");
  const bool letter = !value.empty() && std::isalpha(static_cast<unsigned char>(value.front())) != 0;
  const bool word =
      std::holds_alternative<ConfigValue*>(slot) && (path || letter) && value != "true" && value != "false";
  const bool text = ((std::holds_alternative<std::string*>(slot) || is_form(slot)) && !value.starts_with('"')) || word;
  const bool list = std::holds_alternative<std::vector<std::string>*>(slot) && !value.starts_with('[');
  if (text)
    assign(slot, toml::value<std::string>(value), "--set " + key);
  else if (list)
    assign(slot, array_of({value}), "--set " + key);
  else
    assign(slot, *parse_toml("value = " + value, "--set " + key).get("value"), "--set " + key);
}

}  // namespace

ModelOptions model_of_task(std::string_view task) {
#define TASK(name, Options) \
  if (task == #name) return Options();
#include "cogwheel/configuration/tasks.def"
#undef TASK
  return {};
}

RunConfig parse_config(std::string_view text, std::string_view what) {
  RunConfig config;
  const toml::table given = parse_toml(text, what);
  // What decides about other keys comes first: the task about the model, then the form of the model, which keys given
  // beside it, in whatever order, override.
  if (const auto task = given.at_path("task.name"))
    assign(&config.task.name, *task.node(), std::string(what) + ": task.name");
  choose_model(config);
  if (const auto form = given.at_path("model.form"))
    assign(find_slot(config, "model.form", what), *form.node(), std::string(what) + ": model.form");
  for (const auto& [section_key, section] : given) {
    const std::string name(section_key.str());
    if (const toml::table* table = section.as_table(); table != nullptr) {
      for (const auto& [key, node] : *table) {
        const std::string path = name + "." + std::string(key.str());
        const ConfigSlot slot = find_slot(config, path, what);
        if (!is_form(slot)) assign(slot, node, std::string(what) + ": " + path);
      }
    } else {
      assign(find_slot(config, name, what), section, std::string(what) + ": " + name);
    }
  }
  require_mechanism(common(config.model).mechanism, config.definition, std::string(what) + ": model.mechanism");
  check(config);
  return config;
}

RunConfig load_config(const std::filesystem::path& path) { return parse_config(read_file(path), path.string()); }

void set_options(RunConfig& config, const std::vector<std::string>& assignments) {
  RunConfig changed = config;
  const auto names_task = [](const std::string& assignment) { return assignment.starts_with("task.name="); };
  for (const auto& assignment : assignments)
    if (names_task(assignment)) set_option(changed, assignment);
  choose_model(changed);
  for (const auto& assignment : assignments)
    if (!names_task(assignment)) set_option(changed, assignment);
  check(changed);
  config = std::move(changed);
}

std::string to_toml(const RunConfig& config) {
  RunConfig copy = config;
  std::ostringstream text;
  std::string section;
  for (const auto& [key, slot] : config_fields(copy)) {
    if (is_form(slot)) continue;
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
                          [](const LanguageModelOptions*) {}},
               slot);
  }
  return text.str();
}

}  // namespace cogwheel
