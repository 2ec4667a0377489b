#include "cogwheel/interchange/foreign_weights.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/interchange/export_run.h"
#include "cogwheel/interchange/foreign_config.h"
#include "cogwheel/runs/foreign_file.h"

namespace cogwheel::interchange {
namespace {

constexpr const char* index_file = "model.safetensors.index.json";
constexpr const char* conversion =
    "import sys, torch, safetensors.torch as s; w = torch.load(sys.argv[1], map_location='cpu'); "
    "s.save_file({k: v.clone() for k, v in w.items()}, sys.argv[2])";

// By part, the names of its tensors.
std::map<std::string, std::set<std::string>> parts_of(const std::filesystem::path& index) {
  const nlohmann::json json = json_object(index);
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty())
    throw Error(expected_got(index.string() + ": weight_map", "an object of names of tensors and files",
                             map == json.end() ? "none" : "something else"));
  std::map<std::string, std::set<std::string>> parts;
  for (const auto& [tensor, file] : map->items()) {
    // Of this folder: a name that leads out of it is no part of the model.
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos)
      throw Error(
          expected_got(index.string() + ": weight_map: " + tensor, "the name of a file beside it", file.dump()));
    parts[name].insert(tensor);
  }
  return parts;
}

NamedTensors read_parts(const std::filesystem::path& index) {
  NamedTensors all;
  for (const auto& [name, expected] : parts_of(index)) {
    const std::filesystem::path path = index.parent_path() / name;
    NamedTensors tensors = runs::load_safetensors_or_say(path, conversion).tensors;
    for (const std::string& tensor : expected)
      if (!tensors.contains(tensor))
        throw Error(expected_got(path.string(), tensor + ", as its index says", "no such tensor"));
    for (const auto& [tensor, value] : tensors)
      if (!expected.contains(tensor))
        throw Error(expected_got(path.string(), "the tensors of its index", "another, " + tensor));
    all.merge(tensors);
  }
  return all;
}

}  // namespace

ForeignWeights read_foreign_weights(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / foreign_weights_file, index = folder / index_file;
  if (std::filesystem::exists(path)) return {runs::load_safetensors_or_say(path, conversion).tensors, path};
  if (std::filesystem::exists(index)) return {read_parts(index), index};
  if (std::filesystem::exists(folder / "pytorch_model.bin"))
    throw Error(
        expected_got(path.string(), "a safetensors file",
                     fmt::format("pytorch_model.bin alone, a pickle; to convert it where it is trusted, with the "
                                 "package safetensors: python3 -c \"{}\" pytorch_model.bin {}",
                                 conversion, foreign_weights_file)));
  throw Error(
      expected_got(folder.string(), fmt::format("{}, or parts with {}", foreign_weights_file, index_file), "neither"));
}

}  // namespace cogwheel::interchange
