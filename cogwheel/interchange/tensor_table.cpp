#include "cogwheel/interchange/tensor_table.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::interchange {
namespace {

std::string text_of(const std::string& name, const Shape& shape) { return name + " of shape " + shape_text(shape); }

std::int64_t numbers_in(const Shape& shape) {
  std::int64_t numbers = 1;
  for (const std::int64_t size : shape) numbers *= size;
  return numbers;
}

// Of a table, not of files.
void expect_order(const Order& order, std::int64_t count, const std::string& name) {
  Order sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t place = 0; place < std::ssize(sorted); ++place)
    if (std::ssize(sorted) != count || sorted[static_cast<std::size_t>(place)] != place)
      throw std::logic_error(
          expected_got("table of tensors: " + name, fmt::format("an order of {} rows or columns", count), "another"));
}

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

void TensorTable::add(TensorPair pair) {
  std::int64_t rows = 0;
  for (const ForeignPart& part : pair.parts) {
    if (numbers_in(part.shape) != part.rows * pair.row_numbers())
      throw std::logic_error(expected_got("table of tensors: " + part.name,
                                          fmt::format("{} rows of {} numbers", part.rows, pair.row_numbers()),
                                          shape_text(part.shape)));
    if (!part.order.empty()) expect_order(part.order, part.rows, part.name);
    rows += part.rows;
  }
  if (rows != pair.rows())
    throw std::logic_error(
        expected_got("table of tensors: " + pair.ours, fmt::format("{} rows", pair.rows()), std::to_string(rows)));
  if (!pair.columns.empty()) expect_order(pair.columns, pair.row_numbers(), pair.ours);
  pairs_.push_back(std::move(pair));
}

void TensorTable::add(const std::string& ours, const Shape& our_shape, const std::string& theirs,
                      const Shape& their_shape, const Order& order) {
  add({.ours = ours,
       .our_shape = our_shape,
       .parts = {{.name = theirs,
                  .rows = our_shape.front(),
                  .shape = their_shape.empty() ? our_shape : their_shape,
                  .order = order}}});
}

void TensorTable::linear(const std::string& ours, const std::vector<RowsOf>& theirs, std::int64_t inputs,
                         const LinearLayout& layout) {
  TensorPair weight{.ours = ours + ".weight",
                    .our_shape = {0, inputs},
                    .parts = {},
                    .transposed = layout.transposed,
                    .columns = layout.columns,
                    .gain = layout.gain},
      bias{.ours = ours + ".bias", .our_shape = {0}, .parts = {}};
  for (const RowsOf& each : theirs) {
    const Shape shape = layout.transposed ? Shape{inputs, each.rows} : Shape{each.rows, inputs};
    weight.parts.push_back({.name = each.module + ".weight", .rows = each.rows, .shape = shape, .order = each.order});
    weight.our_shape.front() += each.rows;
    if (layout.bias == Bias::theirs) theirs_alone(each.module + ".bias", {each.rows}, 0);
    bias.parts.push_back({.name = each.module + ".bias", .rows = each.rows, .shape = {each.rows}, .order = each.order});
  }
  bias.our_shape = {weight.rows()};
  add(std::move(weight));
  if (layout.bias == Bias::both) add(std::move(bias));
}

void TensorTable::linear(const std::string& ours, const std::vector<std::string>& theirs, std::int64_t inputs,
                         std::int64_t outputs, const LinearLayout& layout) {
  std::vector<RowsOf> modules;
  for (const std::string& name : theirs) modules.push_back({.module = name, .rows = outputs / std::ssize(theirs)});
  linear(ours, modules, inputs, layout);
}

void TensorTable::norm(const std::string& ours, const std::string& theirs, std::int64_t width, Bias bias) {
  add(ours + ".weight", {width}, theirs + ".weight");
  if (bias == Bias::both) add(ours + ".bias", {width}, theirs + ".bias");
  if (bias == Bias::theirs) theirs_alone(theirs + ".bias", {width}, 0);
}

void TensorTable::ours_alone(const std::string& ours, const Shape& shape, double value) {
  ours_alone_.push_back({ours, shape, value});
}

void TensorTable::theirs_alone(const std::string& theirs, const Shape& shape, double value) {
  theirs_alone_.push_back({theirs, shape, value});
}

void TensorTable::gain(const std::string& ours, std::int64_t width) { gains_[ours] = width; }

void TensorTable::tied(const std::string& theirs, const std::string& to) { tied_.emplace_back(theirs, to); }

std::set<std::string> TensorTable::names_of_theirs() const {
  std::set<std::string> names;
  for (const TensorPair& pair : pairs_)
    for (const ForeignPart& part : pair.parts) names.insert(part.name);
  for (const Constant& each : theirs_alone_) names.insert(each.name);
  return names;
}

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
