#include "cogwheel/attention/authoring/card/measured_map.h"

#include <algorithm>
#include <type_traits>

#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

// "beta, gamma"
std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(name.size() + 1, list.size()));
    const std::size_t begin = name.find_first_not_of(' ');
    if (begin != std::string_view::npos) names.emplace_back(name.substr(begin));
  }
  return names;
}

const Mechanism& a_row_map(const Mechanism& mechanism) {
  if (mechanism.is_row_map() && mechanism.pairwise()->scalar != nullptr) return mechanism;
  throw UsageError(
      expected_got("numerics card", "a row map (a form has that of its map)", std::string(mechanism.description.name)));
}

}  // namespace

MeasuredMap::MeasuredMap(const Mechanism& mechanism)
    : MeasuredMap(mechanism, row_map_values<float>(a_row_map(mechanism).pairwise()->member),
                  row_map_values<double>(a_row_map(mechanism).pairwise()->member)) {}

MeasuredMap::MeasuredMap(const Mechanism& mechanism, const RowMapValues<float>& of_float,
                         const RowMapValues<double>& of_double)
    : name_(mechanism.description.name),
      member_(mechanism.pairwise()->member),
      functions_(mechanism.pairwise()->scalar),
      scalar_names_(names_in(mechanism.description.parameters)),
      of_float_(of_float),
      of_double_(of_double),
      is_cosine_(mechanism.takes_cosines()) {
  const auto defaults = mechanism.pairwise()->parameter_defaults;
  const auto given = defaults.empty() ? mechanism.parameter_initial : defaults;
  scalars_.assign(given.begin(), given.end());
  scalars_.resize(functions_->parameters, 1.0);
  for (std::size_t i = scalar_names_.size(); i < scalars_.size(); ++i)
    scalar_names_.push_back("scalar " + std::to_string(i + 1));
  scalar_names_.resize(scalars_.size());
}

double MeasuredMap::shift_of(std::span<const double> scores) const {
  if (!has_energy()) return 0;
  double shift = functions_->initial_energy != nullptr ? functions_->initial_energy(theta())
                                                       : functions_->energy(theta(), scores[0]);
  for (const double s : scores) shift = std::max(shift, functions_->energy(theta(), s));
  return shift;
}

std::vector<double> MeasuredMap::weights(std::span<const double> scores) const {
  const Row<double> row{.visible = static_cast<double>(scores.size()), .shift = shift_of(scores)};
  double mass = 0;
  for (const double s : scores) mass += functions_->terms(theta(), s, row).mass;
  const double total = functions_->normalizer(theta(), mass, row);
  std::vector<double> found;
  for (const double s : scores) found.push_back(functions_->terms(theta(), s, row).weight / total);
  return found;
}

template <class T>
const RowMapValues<T>& MeasuredMap::values() const {
  if constexpr (std::is_same_v<T, float>)
    return of_float_;
  else
    return of_double_;
}

template <class T>
std::vector<T> MeasuredMap::evaluate(RowMapFunction function, int order, T argument, Row<double> row) const {
  const std::size_t channels = function == RowMapFunction::terms ? 2 : 1;
  std::vector<T> out(channels * (order == 0 ? 1 : 1 + scalars_.size()));
  const T shift = static_cast<T>(row.shift), visible = static_cast<T>(row.visible);
  values<T>().evaluate({.function = function,
                        .order = order,
                        .count = 1,
                        .argument = &argument,
                        .shift = &shift,
                        .visible = &visible,
                        .theta = scalars_.data(),
                        .out = out.data(),
                        .channel_stride = 1});
  return out;
}

template <class T>
TermsAtScore<T> MeasuredMap::terms(double score, Row<double> row) const {
  const auto argument = static_cast<T>(score);
  const std::vector<T> value = evaluate(RowMapFunction::terms, 0, argument, row),
                       derivatives = evaluate(RowMapFunction::terms, 1, argument, row);
  TermsAtScore<T> at{.value = {.weight = value[0], .mass = value[1]}, .derivatives = {}};
  const std::size_t variables = derivatives.size() / 2;
  for (std::size_t i = 0; i < variables; ++i)
    at.derivatives.push_back({.weight = derivatives[i], .mass = derivatives[variables + i]});
  return at;
}
template TermsAtScore<float> MeasuredMap::terms(double, Row<double>) const;
template TermsAtScore<double> MeasuredMap::terms(double, Row<double>) const;

template <class T>
NormalizerAtMass<T> MeasuredMap::normalizer(T mass, Row<double> row) const {
  return {.value = evaluate(RowMapFunction::normalizer, 0, mass, row)[0],
          .derivatives = evaluate(RowMapFunction::normalizer, 1, mass, row)};
}
template NormalizerAtMass<float> MeasuredMap::normalizer(float, Row<double>) const;
template NormalizerAtMass<double> MeasuredMap::normalizer(double, Row<double>) const;

}  // namespace cogwheel::authoring
