#include "cogwheel/interchange/foreign_weights.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/interchange/exported_weights.h"
#include "cogwheel/interchange/foreign_config.h"
#include "cogwheel/runs/foreign_file.h"

namespace cogwheel::interchange {
namespace {

constexpr const char* conversion =
    "import sys, torch, safetensors.torch as s; w = torch.load(sys.argv[1], map_location='cpu'); "
    "s.save_file({k: v.clone() for k, v in w.items()}, sys.argv[2])";

struct Index {
  std::map<std::string, std::set<std::string>> parts;  // by file, the names of its tensors
  nlohmann::json total_size;                           // null: it does not say
};

// Messages say names.
void expect_one_line(const std::filesystem::path& path, const std::string& name) {
  if (std::any_of(name.begin(), name.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }))
    throw Error(expected_got(path.string(), "names of tensors without control characters",
                             nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
}

Index read_index(const std::filesystem::path& path) {
  const nlohmann::json json = json_object(path);
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty())
    throw Error(expected_got(path.string() + ": weight_map", "an object of names of tensors and files",
                             map == json.end() ? "none" : "something else"));
  Index index;
  for (const auto& [tensor, file] : map->items()) {
    expect_one_line(path, tensor);
    // Of this folder: a name that leads out of it is no part of the model.
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string_view("/\\\0", 3)) != name.npos)
      throw Error(expected_got(path.string() + ": weight_map: " + tensor, "the name of a file beside it", file.dump()));
    index.parts[name].insert(tensor);
  }
  const auto metadata = json.find("metadata");
  if (metadata == json.end() || metadata->is_null()) return index;
  if (!metadata->is_object()) throw Error(expected_got(path.string() + ": metadata", "an object", metadata->dump()));
  index.total_size = metadata->value("total_size", nlohmann::json());
  return index;
}

}  // namespace

bool ForeignTensor::is_float() const {
  return entry->type == at::kFloat || entry->type == at::kHalf || entry->type == at::kBFloat16;
}

std::string ForeignTensor::type_text() const {
  switch (entry->type) {
    case at::kDouble:
      return "float64";
    case at::kLong:
      return "int64";
    default:
      return at::toString(entry->type);
  }
}

void ForeignWeights::add(const std::filesystem::path& path) {
  runs::expect_no_pickle(path, conversion);
  files_.push_back(std::make_unique<const runs::SafeTensorsFile>(path));
  const runs::SafeTensorsFile& file = *files_.back();
  for (const runs::SafeTensorsFile::Entry& entry : file.entries()) {
    expect_one_line(path, entry.name);
    if (const auto [place, is_new] = tensors_.emplace(entry.name, ForeignTensor{&file, &entry}); !is_new)
      throw Error(
          expected_got(path.string(), "no tensor of " + place->second.file->path().string(), "another " + entry.name));
  }
}

ForeignWeights::ForeignWeights(const std::filesystem::path& folder) : path_(folder / foreign_weights_file) {
  if (path_exists(path_)) {
    add(path_);
    return;
  }
  if (!path_exists(folder / foreign_index_file)) {
    if (path_exists(folder / "pytorch_model.bin") || path_exists(folder / "pytorch_model.bin.index.json"))
      throw Error(
          expected_got(path_.string(), "a safetensors file",
                       fmt::format("pytorch_model.bin alone, a pickle; to convert it where it is trusted, with the "
                                   "package safetensors: python3 -c \"{}\" pytorch_model.bin {}",
                                   conversion, foreign_weights_file)));
    throw Error(expected_got(folder.string(),
                             fmt::format("{}, or parts with {}", foreign_weights_file, foreign_index_file), "neither"));
  }
  path_ = folder / foreign_index_file;
  const Index index = read_index(path_);
  std::uint64_t bytes = 0;
  for (const auto& [name, expected] : index.parts) {
    const std::filesystem::path path = folder / name;
    add(path);
    const runs::SafeTensorsFile& file = *files_.back();
    for (const std::string& tensor : expected)
      if (file.find(tensor) == nullptr)
        throw Error(expected_got(path.string(), tensor + ", as its index says", "no such tensor"));
    for (const runs::SafeTensorsFile::Entry& entry : file.entries()) {
      if (!expected.contains(entry.name))
        throw Error(expected_got(path.string(), "the tensors of its index", "another, " + entry.name));
      bytes += entry.end - entry.begin;
    }
  }
  if (!index.total_size.is_null() && index.total_size != bytes)
    throw Error(expected_got(path_.string() + ": metadata: total_size",
                             fmt::format("{}, the bytes of its tensors", bytes), index.total_size.dump()));
}

}  // namespace cogwheel::interchange
