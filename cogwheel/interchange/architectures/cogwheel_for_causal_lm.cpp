// `CogwheelForCausalLM`: any language model of this project, for transformers, by code that lies beside its weights and
// computes with the Python package (template/modeling_cogwheel.py). config.json has the keys of [model] under "model",
// but for the vocabulary, which is vocab_size.
#include <fmt/format.h>

#include <limits>
#include <type_traits>
#include <variant>

#include "cogwheel/interchange/language_architecture.h"
#include "cogwheel/interchange/modeling_code.h"
#include "cogwheel/interchange/parameter_shapes.h"
#include "cogwheel/interchange/transformers_config.h"

namespace cogwheel::interchange::own {
namespace {

constexpr const char *name = "CogwheelForCausalLM", *model_type = "cogwheel", *parts = "model.";
// What the keys of config.json mean: as `FORMAT` of template/modeling_cogwheel.py.
constexpr std::int64_t format = 1;

// Calls `each` with the name of each key of [model], without "model.", and a pointer to its value.
template <class Each>
void for_each_key(LanguageModelOptions& options, const Each& each) {
  for (const runs::ConfigField& field : tasks::language::config_fields(options))
    std::visit(
        [&](const auto& slot) {
          using Slot = std::decay_t<decltype(slot)>;
          if constexpr (std::is_same_v<Slot, std::string*> || std::is_same_v<Slot, std::int64_t*> ||
                        std::is_same_v<Slot, double*> || std::is_same_v<Slot, bool*>)
            if (static_cast<const void*>(slot) != &options.vocabulary)
              each(field.key.substr(std::string_view(parts).size()), slot);
        },
        field.slot);
}

void read_key(ForeignConfig& config, const std::string& key, std::string* value) { *value = config.text(key, *value); }
void read_key(ForeignConfig& config, const std::string& key, bool* value) { *value = config.yes(key, *value); }
void read_key(ForeignConfig& config, const std::string& key, std::int64_t* value) {
  *value =
      config.whole(key, *value, {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
}
void read_key(ForeignConfig& config, const std::string& key, double* value) {
  *value = config.number(key, *value,
                         {.min = std::numeric_limits<double>::lowest(), .max = std::numeric_limits<double>::max()});
}

bool is_of_kind(const runs::ModelOptions& model) { return language_options(model) != nullptr; }

std::string lack(const runs::ModelOptions&) { return {}; }

ForeignModel read(ForeignConfig& config, const std::filesystem::path& folder) {
  config.expect("model_type", model_type);
  if (const std::int64_t found = config.whole("cogwheel_format", {0, 1 << 20}); found != format)
    config.refuse("cogwheel_format", std::to_string(format), std::to_string(found));
  LanguageModelOptions options;
  options.vocabulary = config.whole("vocab_size", {1, 1 << 24});
  ForeignConfig model = config.part("model");
  for (const char* const key : {"mechanism", "layers", "heads", "width", "context"})
    if (!model.has(key)) model.refuse(key, "a value", "none");
  for_each_key(options, [&](const std::string& key, auto* value) { read_key(model, key, value); });
  model.finish();
  config.skip({"auto_map"});
  config.expect("tie_word_embeddings", false);  // the embedding is one parameter
  skip_language_keys(config);
  return language_run(options, folder);
}

TensorTable tensors(const runs::ModelOptions& model) {
  TensorTable table(name);
  for (const auto& [parameter, shape] : parameter_shapes(model)) table.add(parameter, shape, parts + parameter);
  return table;
}

WrittenModel write(ModelToWrite& model) {
  LanguageModelOptions options = *language_options(model.config.model);
  std::string why;
  for (const Architecture& other : architectures()) {
    if (other.name == name || !other.is(model.config.model)) continue;
    const std::string lack = other.lack(model.config.model);
    if (lack.empty()) {  // the name was asked for
      why.clear();
      break;
    }
    if (why.empty()) why = lack;
  }
  auto keys = nlohmann::ordered_json::object();
  for_each_key(options, [&](const std::string& key, const auto* value) { keys[key] = *value; });
  nlohmann::ordered_json config;
  const auto module = [](const char* of) { return std::string("modeling_cogwheel.") + of; };
  config["auto_map"] = {{"AutoConfig", module("CogwheelConfig")}, {"AutoModelForCausalLM", module(name)}};
  config["cogwheel_format"] = format;
  config["model"] = std::move(keys);
  WrittenModel written = written_language_model(name, model_type, std::move(config), model);
  written.files.push_back({modeling_file, std::string(embedded::modeling_cogwheel)});
  written.notes.push_back(
      fmt::format("{}the folder has code of its own: load it with trust_remote_code=True, where the package "
                  "cogwheel is installed",
                  why.empty() ? "" : why + "; so "));
  if (const nn::MechanismText mechanism = mechanism_text(options, "export"); !mechanism.definition.empty())
    written.notes.push_back(fmt::format(
        "{} is a mechanism of your own, which must be defined before the model is loaded", options.mechanism));
  return written;
}

}  // namespace
}  // namespace cogwheel::interchange::own

namespace cogwheel::interchange {

Architecture cogwheel_for_causal_lm() {
  return {own::name,       "any language model, by code beside its weights and the package cogwheel (transformers)",
          own::is_of_kind, own::lack,
          own::tensors,    own::read,
          own::write,      true};
}

}  // namespace cogwheel::interchange
