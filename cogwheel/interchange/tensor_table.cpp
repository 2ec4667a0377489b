#include "cogwheel/interchange/tensor_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::interchange {
namespace {

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

}  // namespace

std::int64_t TensorPair::row_numbers() const {
  std::int64_t numbers = 1;
  for (std::size_t dimension = 1; dimension < our_shape.size(); ++dimension) numbers *= our_shape[dimension];
  return numbers;
}

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

}  // namespace cogwheel::interchange
