// A problem that owns its numbers, for callers without tensors: contiguous, [batch, heads, rows, width]. Rows are of T
// or, for float, of 16-bit elements.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"

namespace cogwheel {

template <class T, class Element = T>
class ContiguousProblem {
  using Elements = std::vector<Element>;

 public:
  // All numbers are 0, for the caller to fill.
  explicit ContiguousProblem(const PairwiseShape& shape, std::int64_t parameters_of_a_head = 0) {
    rest.shape = shape;
    const auto rows = [&](std::int64_t heads, std::int64_t count, std::int64_t width) {
      return static_cast<std::size_t>(shape.batch * heads * count * width);
    };
    query = query_gradient = Elements(rows(shape.query_heads, shape.queries, shape.head_dim));
    key = key_gradient = Elements(rows(shape.key_heads(), shape.keys, shape.head_dim));
    value = value_gradient = Elements(rows(shape.value_heads, shape.keys, shape.value_dim));
    output = output_gradient = Elements(rows(shape.query_heads, shape.queries, shape.value_dim));
    shift = mass = std::vector<T>(rows(shape.query_heads, shape.queries, 1));
    parameters.resize(static_cast<std::size_t>(shape.query_heads * parameters_of_a_head));
    parameter_gradient.resize(parameters.size());
  }

  const PairwiseShape& shape() const { return rest.shape; }

  // Pointers into the vectors, valid until one of them is resized.
  PairwiseForward<T> forward() {
    PairwiseForward<T> problem;
    describe(problem);
    problem.output = of_queries(output, shape().value_dim);
    problem.shift = shift.data();
    problem.mass = mass.data();
    return problem;
  }
  PairwiseBackward<T> backward() {
    PairwiseBackward<T> problem;
    describe(problem);
    problem.output = of_queries<const T>(output, shape().value_dim);
    problem.output_gradient = of_queries<const T>(output_gradient, shape().value_dim);
    problem.shift = shift.data();
    problem.mass = mass.data();
    problem.query_gradient = of_queries(query_gradient, shape().head_dim);
    problem.key_gradient = view(key_gradient, shape().key_heads(), shape().keys, shape().head_dim);
    problem.value_gradient = view(value_gradient, shape().value_heads, shape().keys, shape().value_dim);
    problem.parameter_gradient = parameters.empty() ? nullptr : parameter_gradient.data();
    return problem;
  }

  Elements query, key, value, output_gradient;
  std::vector<double> parameters;  // [query heads, parameters of a head]
  Elements output, query_gradient, key_gradient, value_gradient;
  std::vector<T> shift, mass;
  std::vector<double> parameter_gradient;
  PairwiseProblem<T> rest;  // scale, visibility, modifiers and score weight

 private:
  template <class Viewed = T>
  static HeadsView<Viewed> view(Elements& rows, std::int64_t heads, std::int64_t count, std::int64_t width) {
    return {rows.data(), heads * count * width, count * width, width};
  }
  template <class Viewed = T>
  HeadsView<Viewed> of_queries(Elements& rows, std::int64_t width) {
    return view<Viewed>(rows, shape().query_heads, shape().queries, width);
  }

  void describe(PairwiseProblem<T>& problem) {
    problem = rest;
    problem.parameters = parameters.empty() ? nullptr : parameters.data();
    problem.query = of_queries<const T>(query, shape().head_dim);
    problem.key = view<const T>(key, shape().key_heads(), shape().keys, shape().head_dim);
    problem.value = view<const T>(value, shape().value_heads, shape().keys, shape().value_dim);
  }
};

}  // namespace cogwheel
