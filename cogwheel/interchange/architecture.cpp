#include "cogwheel/interchange/architecture.h"

#include <fmt/format.h>

#include <array>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/interchange/language_architecture.h"
#include "cogwheel/runs/class_names.h"

namespace cogwheel::interchange {

#define ARCHITECTURE(name) Architecture name();
#include "cogwheel/interchange/architectures.def"
#undef ARCHITECTURE

std::span<const Architecture> architectures() {
  static const std::array all{
#define ARCHITECTURE(name) name(),
#include "cogwheel/interchange/architectures.def"
#undef ARCHITECTURE
  };
  return all;
}

const Architecture& find_architecture(std::string_view name, std::string_view what) {
  std::vector<std::string> names;
  for (const Architecture& each : architectures()) {
    if (each.name == name) return each;
    names.emplace_back(each.name);
  }
  throw Error(expected_got(what, expected_names(name, names), one_line(name)));
}

const Architecture& architecture_of(const runs::ModelOptions& model, std::string_view what, std::string_view name) {
  std::string lack;
  for (const Architecture& each : architectures()) {
    if (!name.empty() && each.name != name) continue;
    const bool asked = !name.empty() && each.is_language_model && language_options(model) != nullptr;
    if (!each.is(model) && !asked) continue;
    const std::string of_this = each.lack(model);
    if (of_this.empty()) return each;
    if (lack.empty()) lack = of_this;
  }
  if (!lack.empty()) throw Error(fmt::format("{}: {}", what, lack));
  if (!name.empty()) throw Error(expected_got(what, fmt::format("a model of the form of {}", name), "one of another"));
  throw Error(expected_got(what,
                           "a language model, an encoder, a vision transformer or a U-ViT, which other programs know",
                           "a model of another kind"));
}

runs::RunFile class_names_file(const std::vector<std::string>& given, std::int64_t count) {
  std::vector<std::string> names = given;
  for (std::int64_t label = 0; given.empty() && label < count; ++label) names.push_back(std::to_string(label));
  return runs::class_names_file(names);
}

void add_class_names(nlohmann::ordered_json& config, const std::vector<std::string>& names) {
  auto by_id = nlohmann::ordered_json::object(), by_name = nlohmann::ordered_json::object();
  for (std::size_t label = 0; label < names.size(); ++label) {
    by_id[std::to_string(label)] = names[label];
    by_name[names[label]] = label;
  }
  config["id2label"] = by_id;
  // Of classes of one name, as the two cranes of ImageNet, it could tell only one.
  if (by_name.size() == names.size()) config["label2id"] = by_name;
}

}  // namespace cogwheel::interchange
