// A row map as the checks of a numerics card use it: as functions of numbers, with its learnable scalars at their
// defaults, or at a layer's initial values.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/row_map_values.h"
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/attention/mechanisms/scalar_map.h"

namespace cogwheel::authoring {

// f and g at a score; derivatives along the score, then along each scalar.
template <class T>
struct TermsAtScore {
  Terms<T> value;
  std::vector<Terms<T>> derivatives;
};
// N at a row's total; derivatives along the total, then along each scalar.
template <class T>
struct NormalizerAtMass {
  T value;
  std::vector<T> derivatives;
};

class MeasuredMap {
 public:
  // Throws UsageError where the mechanism is no row map.
  explicit MeasuredMap(const Mechanism& mechanism);
  // For a map whose kernels are not in the table.
  MeasuredMap(const Mechanism& mechanism, const RowMapValues<float>& of_float, const RowMapValues<double>& of_double);

  const std::string& name() const { return name_; }
  const ScalarMap& functions() const { return *functions_; }
  // One value for each name: 1 where neither a default nor an initial value is given.
  std::span<const double> scalars() const { return scalars_; }
  const double* theta() const { return scalars_.data(); }
  const std::vector<std::string>& scalar_names() const { return scalar_names_; }
  std::string_view member() const { return member_; }
  bool has_energy() const { return functions_->energy != nullptr; }
  bool is_cosine() const { return is_cosine_; }
  double largest_score() const { return is_cosine_ ? 1 : 1e4; }

  // The row maximum of the exponents; 0 for a map without an energy.
  double shift_of(std::span<const double> scores) const;
  // The weights of a row in float64.
  std::vector<double> weights(std::span<const double> scores) const;

  // As kernels of type T compute them, at one score or row total. T is float or double.
  template <class T>
  TermsAtScore<T> terms(double score, Row<double> row) const;
  template <class T>
  NormalizerAtMass<T> normalizer(T mass, Row<double> row) const;

 private:
  template <class T>
  std::vector<T> evaluate(RowMapFunction function, int order, T argument, Row<double> row) const;
  template <class T>
  const RowMapValues<T>& values() const;

  std::string name_;
  std::string_view member_;
  const ScalarMap* functions_;
  std::vector<double> scalars_;
  std::vector<std::string> scalar_names_;
  RowMapValues<float> of_float_;
  RowMapValues<double> of_double_;
  bool is_cosine_;
};

}  // namespace cogwheel::authoring
