#include "cogwheel/interchange/exported_weights.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/runs/safetensors.h"

namespace cogwheel::interchange {
namespace {

struct Dtype {
  std::string_view name, torch_name;
  at::ScalarType type;
};
constexpr std::array<Dtype, 3> dtypes{
    {{"fp32", "float32", at::kFloat}, {"bf16", "bfloat16", at::kBFloat16}, {"fp16", "float16", at::kHalf}}};

const Dtype& dtype_of(const WeightsFormat& format) {
  std::vector<std::string> names;
  for (const Dtype& each : dtypes) {
    if (each.name == format.dtype) return each;
    names.emplace_back(each.name);
  }
  throw UsageError(expected_got("dtype", expected_names(format.dtype, names), format.dtype));
}

// Numbers that are too large would be infinite.
at::Tensor rounded(const at::Tensor& numbers, const Dtype& dtype, const std::string& name,
                   const std::filesystem::path& path) {
  const at::Tensor narrow = numbers.to(dtype.type);
  if (narrow.numel() == 0 || dtype.type == at::kFloat) return narrow;
  const auto [least, greatest] = narrow.to(at::kFloat).aminmax();
  for (const at::Tensor& extreme : {least, greatest})
    if (!std::isfinite(extreme.item<float>()))
      throw Error(expected_got(path.string() + ": " + name, fmt::format("numbers that {} holds", dtype.name),
                               fmt::format("{}", numbers.abs().max().item<float>())));
  return narrow;
}

using Shard = std::vector<runs::TensorToWrite>;

std::vector<Shard> shards_of(const std::vector<OutgoingTensor>& weights, const Dtype& dtype,
                             const WeightsFormat& format, const std::filesystem::path& folder) {
  std::vector<Shard> shards(1);
  std::uint64_t bytes = 0;
  for (const OutgoingTensor& each : weights) {
    runs::TensorToWrite tensor{each.name, dtype.type, each.shape,
                               [=, &dtype] { return rounded(each.numbers(), dtype, each.name, folder); }};
    if (format.shard_bytes > 0 && bytes + tensor.bytes() > static_cast<std::uint64_t>(format.shard_bytes) &&
        !shards.back().empty()) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes();
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

}  // namespace

bool is_weights_file(std::string_view name) {
  if (name == foreign_weights_file || name == foreign_index_file) return true;
  // model-00001-of-00002.safetensors
  constexpr std::string_view digits = "0123456789", start = "model-", middle = "-of-", end = ".safetensors";
  const auto cut = [&](std::string_view what) {
    const bool there = name.starts_with(what);
    name.remove_prefix(there ? what.size() : 0);
    return there;
  };
  const auto cut_digits = [&] {
    const std::size_t count = std::min(name.find_first_not_of(digits), name.size());
    name.remove_prefix(count);
    return count >= 5;
  };
  return cut(start) && cut_digits() && cut(middle) && cut_digits() && name == end;
}

void check(const WeightsFormat& format) { dtype_of(format); }

std::string_view torch_name(const WeightsFormat& format) { return dtype_of(format).torch_name; }

std::vector<std::unique_ptr<AtomicFile>> write_weights(const std::vector<OutgoingTensor>& weights,
                                                       const std::filesystem::path& folder,
                                                       const WeightsFormat& format) {
  const std::vector<Shard> shards = shards_of(weights, dtype_of(format), format, folder);
  std::vector<std::unique_ptr<AtomicFile>> files;
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  std::uint64_t total = 0;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string name = shards.size() == 1
                                 ? foreign_weights_file
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards.size());
    files.push_back(std::make_unique<AtomicFile>(folder / name));
    // transformers reads files only that say whose numbers they hold.
    runs::write_safetensors(*files.back(), shards[shard], {{"format", "pt"}});
    files.back()->finish();
    for (const runs::TensorToWrite& each : shards[shard]) {
      map[each.name] = name;
      total += each.bytes();
    }
  }
  if (shards.size() == 1) return files;
  const nlohmann::ordered_json index{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  files.push_back(std::make_unique<AtomicFile>(folder / foreign_index_file));
  files.back()->write(index.dump(2) + "\n");
  files.back()->finish();
  return files;
}

}  // namespace cogwheel::interchange
