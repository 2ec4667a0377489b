#include "cogwheel/interchange/tensor_table.h"

#include <torch/types.h>

#include <algorithm>
#include <set>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::interchange {
namespace {

std::string text_of(const std::string& name, const Shape& shape) { return name + " of shape " + shape_text(shape); }

const at::Tensor& tensor_at(const NamedTensors& tensors, const std::string& name, const Shape& shape,
                            const std::filesystem::path& path) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw Error(expected_got(path.string(), text_of(name, shape), "no such tensor"));
  if (found->second.sizes() != at::IntArrayRef(shape))
    throw Error(expected_got(path.string(), text_of(name, shape), "shape " + shape_text(found->second.sizes().vec())));
  return found->second;
}

void expect_numbers(const std::string& name, const at::Tensor& tensor, const std::filesystem::path& path) {
  if (tensor.scalar_type() != at::kFloat)
    throw Error(expected_got(path.string() + ": " + name, "float32, float16 or bfloat16",
                             tensor.scalar_type() == at::kDouble ? "float64" : "int64"));
  if (!tensor.isfinite().all().item<bool>())
    throw Error(expected_got(path.string() + ": " + name, "finite numbers", "NaN or infinity"));
}

}  // namespace

void TensorTable::add(const std::string& ours, const Shape& our_shape, const std::string& theirs,
                      const Shape& their_shape) {
  pairs_.push_back({ours, our_shape, {theirs}, their_shape.empty() ? our_shape : their_shape});
}

void TensorTable::linear(const std::string& ours, const std::vector<std::string>& theirs, std::int64_t inputs,
                         std::int64_t outputs, bool bias) {
  const auto add_part = [&](const std::string& part, Shape our_shape, Shape their_shape) {
    std::vector<std::string> names;
    for (const std::string& name : theirs) names.push_back(name + part);
    pairs_.push_back({ours + part, std::move(our_shape), std::move(names), std::move(their_shape)});
  };
  const std::int64_t rows = outputs / std::ssize(theirs);
  add_part(".weight", {outputs, inputs}, {rows, inputs});
  if (bias) add_part(".bias", {outputs}, {rows});
}

void TensorTable::norm(const std::string& ours, const std::string& theirs, std::int64_t width) {
  add(ours + ".weight", {width}, theirs + ".weight");
  add(ours + ".bias", {width}, theirs + ".bias");
}

void TensorTable::tied(const std::string& theirs, const std::string& to) { tied_.emplace_back(theirs, to); }

NamedTensors TensorTable::under_present_names(const NamedTensors& theirs, const std::filesystem::path& path) const {
  NamedTensors present;
  for (const auto& [name, tensor] : theirs) {
    std::string now = name;
    for (const auto& [old_ending, ending] : renamed_)
      if (now.ends_with(old_ending)) now.replace(now.size() - old_ending.size(), std::string::npos, ending);
    if (!present.emplace(now, tensor).second)
      throw Error(expected_got(path.string(), now + " once", "it under an older name too"));
  }
  return present;
}

void TensorTable::expect_known(const NamedTensors& theirs, const std::filesystem::path& path,
                               std::vector<std::string>& left_out) const {
  std::set<std::string> known;
  for (const TensorPair& pair : pairs_) known.insert(pair.theirs.begin(), pair.theirs.end());
  for (const auto& [name, to] : tied_) {
    const auto found = theirs.find(name);
    if (found != theirs.end() && !found->second.equal(theirs.at(to)))
      throw Error(
          expected_got(path.string() + ": " + name, "the numbers of " + to + ", to which it is tied", "others"));
    known.insert(name);
  }
  for (const auto& [name, tensor] : theirs) {
    if (known.contains(name)) continue;
    const std::string& unknown = name;
    if (std::none_of(unused_.begin(), unused_.end(),
                     [&](const std::string& each) { return unknown.starts_with(each); }))
      throw Error(expected_got(path.string(), "the tensors of " + architecture_, "another, " + name));
    left_out.push_back(name);
  }
}

NamedTensors TensorTable::to_ours(const NamedTensors& given, const std::filesystem::path& path,
                                  std::vector<std::string>& left_out) const {
  const NamedTensors theirs = under_present_names(given, path);
  NamedTensors ours;
  for (const TensorPair& pair : pairs_) {
    std::vector<at::Tensor> parts;
    for (const std::string& name : pair.theirs) {
      parts.push_back(tensor_at(theirs, name, pair.their_shape, path));
      expect_numbers(name, parts.back(), path);
    }
    ours[pair.ours] = (parts.size() == 1 ? parts[0] : at::cat(parts)).reshape(pair.our_shape);
  }
  expect_known(theirs, path, left_out);
  return ours;
}

NamedTensors TensorTable::to_theirs(const NamedTensors& ours, const std::filesystem::path& path) const {
  NamedTensors theirs;
  for (const TensorPair& pair : pairs_) {
    const at::Tensor& tensor = tensor_at(ours, pair.ours, pair.our_shape, path);
    const auto parts = tensor.chunk(std::ssize(pair.theirs), 0);
    for (std::size_t part = 0; part < parts.size(); ++part)
      theirs[pair.theirs[part]] = parts[part].reshape(pair.their_shape).contiguous();
  }
  for (const auto& [name, tensor] : ours)
    if (std::none_of(pairs_.begin(), pairs_.end(), [&](const TensorPair& pair) { return pair.ours == name; }))
      throw Error(expected_got(path.string(), "the parameters that " + architecture_ + " has", "another, " + name));
  return theirs;
}

}  // namespace cogwheel::interchange
