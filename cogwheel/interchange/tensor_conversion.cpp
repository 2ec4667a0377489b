// Both directions of a table. What the table says is in tensor_table.cpp, without libtorch.
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/interchange/foreign_weights.h"
#include "cogwheel/interchange/tensor_table.h"

namespace cogwheel::interchange {
namespace {

std::string text_of(const std::string& name, const Shape& shape) { return name + " of shape " + shape_text(shape); }

const ForeignTensor& tensor_at(const std::map<std::string, ForeignTensor>& tensors, const std::string& name,
                               const Shape& shape, const std::filesystem::path& path) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw Error(expected_got(path.string(), text_of(name, shape), "no such tensor"));
  const ForeignTensor& tensor = found->second;
  if (tensor.shape() != shape)
    throw Error(expected_got(path.string(), text_of(name, shape), "shape " + shape_text(tensor.shape())));
  if (!tensor.is_float())
    throw Error(expected_got(path.string() + ": " + name, "float32, float16 or bfloat16", tensor.type_text()));
  return tensor;
}

const at::Tensor& parameter_at(const NamedTensors& tensors, const std::string& name, const Shape& shape,
                               const std::filesystem::path& path) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw Error(expected_got(path.string(), text_of(name, shape), "no such tensor"));
  if (found->second.sizes() != at::IntArrayRef(shape))
    throw Error(expected_got(path.string(), text_of(name, shape), "shape " + shape_text(found->second.sizes().vec())));
  return found->second;
}

}  // namespace

TensorTable::ForeignTensors TensorTable::under_present_names(const ForeignWeights& theirs) const {
  const std::set<std::string> known = names_of_theirs();
  ForeignTensors present;
  for (const auto& [name, tensor] : theirs.tensors()) {
    std::string now = name;
    for (const auto& [old_ending, ending] : renamed_)
      if (now.ends_with(old_ending)) now.replace(now.size() - old_ending.size(), std::string::npos, ending);
    if (!now.starts_with(optional_beginning_) && known.contains(optional_beginning_ + now))
      now = optional_beginning_ + now;
    if (!present.emplace(now, tensor).second)
      throw Error(expected_got(theirs.path().string(), now + " once", "it under an older name too"));
  }
  return present;
}

void TensorTable::expect_layout(const ForeignTensors& theirs, const std::filesystem::path& path,
                                std::vector<std::string>& left_out) const {
  for (const TensorPair& pair : pairs_)
    for (const ForeignPart& part : pair.parts) tensor_at(theirs, part.name, part.shape, path);
  for (const Constant& each : theirs_alone_) tensor_at(theirs, each.name, each.shape, path);
  std::set<std::string> known = names_of_theirs();
  for (const auto& [name, to] : tied_) known.insert(name);
  for (const auto& [name, tensor] : theirs) {
    if (known.contains(name)) continue;
    const std::string& unknown = name;
    const auto begins = [&](const std::string& each) { return unknown.starts_with(each); };
    const auto ends = [&](const std::string& each) { return unknown.ends_with(each); };
    if (std::none_of(unused_.begin(), unused_.end(), begins) &&
        std::none_of(unused_endings_.begin(), unused_endings_.end(), ends))
      throw Error(expected_got(path.string(), "the tensors of " + architecture_, "another, " + name));
    left_out.push_back(name);
  }
}

NamedTensors TensorTable::to_ours(const ForeignWeights& given, std::vector<std::string>& left_out) const {
  const std::filesystem::path& path = given.path();
  const ForeignTensors theirs = under_present_names(given);
  expect_layout(theirs, path, left_out);
  NamedTensors ours;
  const auto read = [&](const TensorPair& pair) {
    at::Tensor tensor = at::empty(pair.our_shape);
    std::int64_t row = 0;
    for (const ForeignPart& part : pair.parts) {
      if (!read_part(theirs.at(part.name), pair, part, row, tensor))
        throw Error(expected_got(path.string() + ": " + part.name, "finite numbers", "NaN or infinity"));
      row += part.rows;
    }
    return tensor;
  };
  for (const TensorPair& pair : pairs_) ours[pair.ours] = read(pair);
  for (const Constant& each : theirs_alone_) {
    const TensorPair pair{.ours = {}, .our_shape = each.shape, .parts = {{each.name, each.shape.front(), each.shape}}};
    if (!read(pair).eq(each.value).all().item<bool>())
      throw Error(expected_got(path.string() + ": " + each.name,
                               fmt::format("{} everywhere, as the models here have none", each.value), "others"));
  }
  for (const Constant& each : ours_alone_) ours[each.name] = at::full(each.shape, each.value);
  for (const auto& [name, width] : gains_) ours[name] = at::ones({width});
  for (const auto& [name, to] : tied_) {
    if (!theirs.contains(name)) continue;
    const ForeignTensor& tensor = tensor_at(theirs, name, theirs.at(to).shape(), path);
    if (!same_numbers(tensor, theirs.at(to)))
      throw Error(
          expected_got(path.string() + ": " + name, "the numbers of " + to + ", to which it is tied", "others"));
  }
  return ours;
}

void TensorTable::expect_ours(const NamedTensors& ours, const std::filesystem::path& path) const {
  std::set<std::string> known;
  for (const TensorPair& pair : pairs_) {
    parameter_at(ours, pair.ours, pair.our_shape, path);
    known.insert(pair.ours);
  }
  for (const auto& [name, width] : gains_) {
    parameter_at(ours, name, {width}, path);
    known.insert(name);
  }
  for (const Constant& each : ours_alone_) {
    if (!parameter_at(ours, each.name, each.shape, path).eq(each.value).all().item<bool>())
      throw Error(expected_got(path.string() + ": " + each.name,
                               fmt::format("{} everywhere, as {} has none", each.value, architecture_), "others"));
    known.insert(each.name);
  }
  for (const auto& [name, tensor] : ours)
    if (!known.contains(name))
      throw Error(expected_got(path.string(), "the parameters that " + architecture_ + " has", "another, " + name));
}

std::vector<OutgoingTensor> TensorTable::to_theirs(const NamedTensors& ours, const std::filesystem::path& path) const {
  expect_ours(ours, path);
  std::vector<OutgoingTensor> theirs;
  for (const TensorPair& pair : pairs_) {
    const at::Tensor tensor = ours.at(pair.ours), gain = pair.gain.empty() ? at::Tensor() : ours.at(pair.gain);
    std::int64_t row = 0;
    for (const ForeignPart& part : pair.parts) {
      theirs.push_back({part.name, part.shape, [=] { return written_part(tensor, gain, pair, part, row); }});
      row += part.rows;
    }
  }
  for (const Constant& each : theirs_alone_)
    theirs.push_back({each.name, each.shape, [=] { return at::full(each.shape, each.value); }});
  return theirs;
}

}  // namespace cogwheel::interchange
