#include "cogwheel/ops/numerics_card.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/attention/authoring/card/drawn_numbers.h"
#include "cogwheel/attention/authoring/numbers_as_text.h"
#include "cogwheel/attention/mechanisms/recurrent_law_check.h"
#include "cogwheel/core/error.h"
#include "cogwheel/ops/recurrent/recurrent.h"
#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {
namespace {

struct DrawnSizes {
  std::int64_t tokens = 33, heads = 2, key_width = 8, value_width = 6;

  std::vector<std::int64_t> of(std::string_view axes) const {
    std::vector<std::int64_t> sizes;
    for (const char axis : axes.substr(0, axes.find('|')))
      sizes.push_back(axis == 'B'   ? 1
                      : axis == 'H' ? heads
                      : axis == 'N' ? tokens
                      : axis == 'V' ? value_width
                                    : key_width);
    return sizes;
  }
};

// A tensor that a call takes by name.
struct NamedTensor {
  std::string name;
  std::string_view axes;
  at::Tensor tensor;
  Values values = Values::any;
};
using Arguments = std::vector<NamedTensor>;

// Normal numbers made what a parameter may be, in the middle of its range.
at::Tensor drawn_values(const at::Tensor& x, Values values, std::int64_t tokens) {
  switch (values) {
    case Values::at_most_0:
      return -0.01 - 0.2 * x.abs();
    case Values::at_least_0:
      return 0.2 * x.sigmoid();
    case Values::below_0:
      return -x.exp();
    case Values::above_0:
      return at::full_like(x, 2.0 * static_cast<double>(tokens));
    case Values::above_0_to_1:
      return 1 - 0.1 * x.sigmoid();
    case Values::from_0_to_2:
      return 2 * x.sigmoid();
    default:
      return x;
  }
}

// float64, of numbers that float32 has too.
Arguments drawn_arguments(const RecurrentLaw& law, const DrawnSizes& sizes) {
  std::uint64_t seed = 1;
  const auto drawn = [&](std::string_view axes) {
    const std::vector<std::int64_t> shape = sizes.of(axes);
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    return at::tensor(authoring::drawn_numbers(count, seed++), at::kDouble).view(shape);
  };
  Arguments arguments;
  const auto add = [&](std::string_view name, std::string_view axes, const at::Tensor& x, Values values) {
    arguments.push_back({std::string(name), axes, axes.empty() ? x : x.to(at::kFloat).to(at::kDouble), values});
  };
  const bool divides = law.normalizer == Normalizer::always;  // by sums that are to stay away from 0
  if (law.has_query) {
    const at::Tensor query = drawn("BHND");
    add("query", "BHND", divides ? query.abs() + 0.1 : query, Values::any);
  }
  if (law.has_key) {
    at::Tensor key = drawn("BHND");
    if (divides) key = key.abs() + 0.1;
    if (law.walks == Walks::delta) key = key / at::linalg_vector_norm(key, 2, {-1}, true);
    add("key", "BHND", key, Values::any);
  }
  add("value", "BHNV", drawn("BHNV"), Values::any);
  for (const RecurrentParameter& parameter : law.parameters)
    if (parameter.name != "projection")  // of a feature map that is not asked for
      add(parameter.name, parameter.axes, drawn_values(drawn(parameter.axes), parameter.values, sizes.tokens),
          parameter.values);
  return arguments;
}

template <class Change>
Arguments changed(Arguments arguments, const Change& change) {
  for (NamedTensor& argument : arguments) argument.tensor = change(argument);
  return arguments;
}

Arguments in_float32(const Arguments& arguments) {
  return changed(arguments, [](const NamedTensor& each) {
    return each.axes.empty() ? each.tensor : each.tensor.to(at::kFloat);  // a number stays as it is
  });
}

struct Call {
  OptionalTensor query, key;
  at::Tensor value;
  RecurrentOptions options;
};

Call call_of(const Arguments& arguments) {
  Call call;
  for (const NamedTensor& each : arguments)
    if (each.name == "query")
      call.query = each.tensor;
    else if (each.name == "key")
      call.key = each.tensor;
    else if (each.name == "value")
      call.value = each.tensor;
    else
      call.options.parameters.emplace_back(each.name, each.tensor);
  return call;
}

using Outcome = std::tuple<at::Tensor, std::vector<at::Tensor>>;

Outcome outcome_of(const RecurrentLaw& law, const Arguments& arguments, std::vector<at::Tensor> state = {}) {
  Call call = call_of(arguments);
  call.options.initial_state = std::move(state);
  return recurrent(call.query, call.key, call.value, law.name, call.options);
}

// The output, and the gradient of each argument but numbers for an output gradient of drawn numbers.
std::vector<at::Tensor> output_and_gradients(const RecurrentLaw& law, const Arguments& arguments) {
  const c10::AutoGradMode recorded(true);
  std::vector<at::Tensor> leaves;
  const Arguments with_leaves = changed(arguments, [&](const NamedTensor& each) {
    return each.axes.empty() ? each.tensor : leaves.emplace_back(each.tensor.detach().clone()).requires_grad_();
  });
  const at::Tensor output = std::get<0>(outcome_of(law, with_leaves));
  const at::Tensor gradient =
      at::tensor(authoring::drawn_numbers(static_cast<std::size_t>(output.numel()), 99), at::kDouble)
          .view(output.sizes());
  output._backward(leaves, gradient.to(output.scalar_type()), false, false);
  std::vector<at::Tensor> found{output.detach()};
  for (const at::Tensor& leaf : leaves) found.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  return found;
}

double largest_of(const at::Tensor& x) { return x.numel() == 0 ? 0 : x.abs().max().item().toDouble(); }

// The largest difference over the largest number.
double distance(const at::Tensor& found, const at::Tensor& expected) {
  return largest_of(found - expected) / std::max(largest_of(expected), std::numeric_limits<double>::min());
}

constexpr double exact = 1e-9;  // of float64, where sums are added in another order

// Where `found` is not at most `exact`; NaN neither.
void expect_exact(double found, const std::string& what, const std::string& expected, authoring::NumericsCard& card) {
  if (!(found <= exact))
    card.problems.push_back(
        expected_got(card.mechanism + ": " + what, expected, "a difference of " + authoring::error_text(found)));
}

void measure_cut(const RecurrentLaw& law, const Arguments& arguments, authoring::NumericsCard& card) {
  const auto [whole, last] = outcome_of(law, arguments);
  const std::int64_t tokens = whole.size(2), first = tokens / 3;
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    return changed(arguments, [&](const NamedTensor& each) {
      return each.axes.starts_with("BHN") ? each.tensor.narrow(2, begin, count) : each.tensor;
    });
  };
  const auto [begun, between] = outcome_of(law, part(0, first));
  const auto [rest, end] = outcome_of(law, part(first, tokens - first), between);
  double error = distance(at::cat({begun, rest}, 2), whole);
  for (std::size_t i = 0; i < last.size(); ++i) error = std::max(error, distance(end[i], last[i]));
  card.facts.emplace_back("cut in two", "the whole within " + authoring::error_text(error));
  expect_exact(error, "a text cut in two, the second part from the state of the first", "the whole", card);
}

void measure_weights(const RecurrentLaw& law, const Arguments& arguments, authoring::NumericsCard& card) {
  if (!law.has_query) return card.facts.emplace_back("weights seen", "none: there are no queries"), void();
  const Call call = call_of(arguments);
  const at::Tensor weights = recurrent_weights(call.query, call.key, law.name, call.options);
  const bool apart = weights.dim() == 5;  // a matrix for each column of the values
  const at::Tensor summed =
      apart ? weights.matmul(call.value.mT().unsqueeze(-1)).squeeze(-1).mT() : weights.matmul(call.value);
  const double error = distance(summed, std::get<0>(outcome_of(law, arguments)));
  const auto range = [](const at::Tensor& x) {
    return std::string("[")
        .append(authoring::number_text(x.min().item().toDouble()))
        .append(", ")
        .append(authoring::number_text(x.max().item().toDouble()))
        .append("]");
  };
  card.facts.emplace_back("weights seen", range(weights) + (apart ? ", of each column of the values its own" : ""));
  card.facts.emplace_back("row sums", range(weights.sum(-1)));
  card.facts.emplace_back("weights · v", "the output within " + authoring::error_text(error));
  expect_exact(error, "the output", "what recurrent_weights gives of the values", card);
}

// Of Σ o∘g along a drawn direction of each argument, g drawn too.
void check_derivatives_of_law(const RecurrentLaw& law, const Arguments& arguments, authoring::NumericsCard& card) {
  constexpr double step = 1e-5, tolerance = 1e-5;
  const std::vector<at::Tensor> found = output_and_gradients(law, arguments);
  const at::Tensor& output = found.front();
  const at::Tensor weight =
      at::tensor(authoring::drawn_numbers(static_cast<std::size_t>(output.numel()), 99), at::kDouble)
          .view(output.sizes());
  std::size_t index = 0;
  for (const NamedTensor& argument : arguments) {
    if (argument.axes.empty()) continue;
    const at::Tensor& gradient = found[++index];
    const at::Tensor direction =
        at::tensor(authoring::drawn_numbers(static_cast<std::size_t>(gradient.numel()), 7), at::kDouble)
            .view(gradient.sizes());
    const auto at_step = [&](double size) {
      const Arguments moved = changed(arguments, [&](const NamedTensor& each) {
        return each.name == argument.name ? each.tensor + size * direction.clamp(-3, 3) : each.tensor;
      });
      return (std::get<0>(outcome_of(law, moved)) * weight).sum().item().toDouble();
    };
    const double expected = (at_step(step) - at_step(-step)) / (2 * step);
    const at::Tensor terms = gradient * direction.clamp(-3, 3);
    const double got = terms.sum().item().toDouble(), size = terms.abs().sum().item().toDouble();
    if (!(std::abs(got - expected) <= tolerance * std::max(size, 1e-3)))
      card.problems.push_back(expected_got(card.mechanism + ": derivative along " + argument.name,
                                           authoring::number_text(expected) + " (by finite differences)",
                                           authoring::number_text(got)));
  }
  card.facts.emplace_back("derivatives", card.problems.empty() ? "agree with finite differences, of every tensor"
                                                               : "disagree with finite differences");
}

void measure_errors_of_law(const RecurrentLaw& law, authoring::NumericsCard& card) {
  std::string outputs, gradients;
  for (const std::int64_t tokens : {16, 256, 2048}) {
    const Arguments arguments = drawn_arguments(law, {.tokens = tokens, .key_width = 16, .value_width = 16});
    const std::vector<at::Tensor> expected = output_and_gradients(law, arguments),
                                  found = output_and_gradients(law, in_float32(arguments));
    double of_gradients = 0;
    for (std::size_t i = 1; i < found.size(); ++i)
      of_gradients = std::max(of_gradients, distance(found[i].to(at::kDouble), expected[i]));
    const std::string between = outputs.empty() ? "" : ", ", with = " with " + std::to_string(tokens);
    outputs += between + authoring::error_text(distance(found[0].to(at::kDouble), expected[0])) + with;
    gradients += between + authoring::error_text(of_gradients) + with;
  }
  card.facts.emplace_back("fp32 error, outputs", outputs + " tokens");
  card.facts.emplace_back("fp32 error, gradients", gradients + " tokens");
}

std::vector<double> edges_of(Values values) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (values) {
    case Values::at_most_0:
      return {0, -50, -1e3, -infinity};
    case Values::from_0_to_2:
      return {0, 2};
    case Values::number:
      return {-80, 80};
    case Values::above_0_to_1:
      return {1e-30, 1};
    case Values::at_least_0:
      return {0, 1e3};
    case Values::below_0:
      return {-1e-30, -1e3};
    default:
      return {};
  }
}

// At the ends of what parameters may be, and for keys, queries and values of 0, in fp32.
void check_edges(const RecurrentLaw& law, const Arguments& arguments, authoring::NumericsCard& card) {
  const std::size_t before = card.problems.size();
  const Arguments single = in_float32(arguments);
  for (const NamedTensor& argument : single) {
    std::vector<double> edges = edges_of(argument.values);
    if (argument.name == "query" || argument.name == "key" || argument.name == "value") edges = {0};
    for (const double edge : edges) {
      const Arguments moved = changed(single, [&](const NamedTensor& each) {
        return each.name == argument.name ? at::full_like(each.tensor, edge) : each.tensor;
      });
      const std::vector<at::Tensor> found = output_and_gradients(law, moved);
      if (std::all_of(found.begin(), found.end(),
                      [](const at::Tensor& x) { return x.isfinite().all().item().toBool(); }))
        continue;
      card.problems.push_back(expected_got(card.mechanism + ": " + argument.name + " of " + authoring::exact_text(edge),
                                           "finite outputs and gradients in fp32", "others"));
      break;
    }
  }
  if (card.problems.size() == before)
    card.facts.emplace_back("edges", "finite outputs and gradients in fp32 at the ends of every tensor's values");
}

void measure_determinism_of_law(const RecurrentLaw& law, authoring::NumericsCard& card) {
  const Arguments arguments =
      in_float32(drawn_arguments(law, {.tokens = 131, .heads = 3, .key_width = 16, .value_width = 40}));
  const int before = at::get_num_threads();
  const auto with_threads = [&](int threads) {
    at::set_num_threads(threads);
    return output_and_gradients(law, arguments);
  };
  const std::vector<at::Tensor> one = with_threads(1);
  bool same = true;
  for (const int threads : {2, 3, 5}) {
    const std::vector<at::Tensor> other = with_threads(threads);
    for (std::size_t i = 0; i < one.size(); ++i) {
      const at::Tensor x = one[i].contiguous(), y = other[i].contiguous();
      same &= std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
    }
  }
  at::set_num_threads(before);
  card.facts.emplace_back("determinism", same ? "the same bits with 1, 2, 3 and 5 threads, gradients too"
                                              : "bits depend on the number of threads");
  if (!same)
    card.problems.push_back(
        expected_got(card.mechanism + ": determinism", "the same bits for any number of threads", "others"));
}

std::string axes_text(std::string_view axes) {
  std::string text;
  for (const char axis : axes) {
    if (axis == '|')
      text += "] or [";
    else
      text.append(text.empty() || text.ends_with('[') ? "" : ", ").append(1, axis);
  }
  return axes.empty() ? "a number" : "[" + text + "]";
}

void describe(const RecurrentLaw& law, const Arguments& arguments, authoring::NumericsCard& card) {
  card.facts.emplace_back("state", std::string(law.formula));
  std::string inputs, own;
  for (const NamedTensor& each : arguments)
    if (each.name == "query" || each.name == "key" || each.name == "value")
      inputs += (inputs.empty() ? "" : ", ") + each.name;
  for (const RecurrentParameter& parameter : law.parameters) {
    own += (own.empty() ? "" : "; ") + std::string(parameter.name) + " " + axes_text(parameter.axes);
    if (parameter.values != Values::any) own += ", " + std::string(name_in(values_names, parameter.values));
    if (!parameter.required) own += ", if wanted";
  }
  card.facts.emplace_back("takes", inputs + (own.empty() ? "" : "; " + own));
  const auto [output, state] =
      outcome_of(law, drawn_arguments(law, {.tokens = 1, .heads = 1, .key_width = 64, .value_width = 64}));
  std::int64_t numbers = 0;
  for (const at::Tensor& each : state) numbers += each.numel();
  card.facts.emplace_back("size", std::to_string(numbers) + " numbers for a head of 64 after any number of tokens");
}

// What is measured whenever a law is loaded; adds facts and problems.
void check_law(const RecurrentLaw& law, const Arguments& arguments, authoring::NumericsCard& card) {
  measure_cut(law, arguments, card);
  measure_weights(law, arguments, card);
  check_derivatives_of_law(law, arguments, card);
}

}  // namespace

authoring::NumericsCard numerics_card(const Mechanism& mechanism) {
  const RecurrentLaw* const law = mechanism.recurrent();
  if (law == nullptr) return authoring::numerics_card(mechanism);
  const c10::AutoGradMode recorded(false);
  authoring::NumericsCard card{.mechanism = std::string(law->name), .facts = {}, .problems = {}};
  const Arguments arguments = drawn_arguments(*law, {});
  describe(*law, arguments, card);
  check_law(*law, arguments, card);
  measure_errors_of_law(*law, card);
  check_edges(*law, arguments, card);
  measure_determinism_of_law(*law, card);
  return card;
}

void check_recurrent_numbers(const RecurrentLaw& law) {
  const c10::AutoGradMode recorded(false);
  authoring::NumericsCard card{.mechanism = std::string(law.name), .facts = {}, .problems = {}};
  check_law(law, drawn_arguments(law, {.tokens = 11, .key_width = 4, .value_width = 3}), card);
  if (!card.problems.empty()) throw UsageError(card.problems.front());
}

const Mechanism& load_checked_mechanism(const std::filesystem::path& header,
                                        const authoring::CompileProgress& progress) {
  const Mechanism& mechanism = authoring::load_mechanism(header, progress);
  if (mechanism.recurrent() != nullptr) check_recurrent_numbers(*mechanism.recurrent());
  return mechanism;
}

}  // namespace cogwheel::ops
