#include "cogwheel/authoring/numerics_card.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <thread>

#include "cogwheel/authoring/definition.h"
#include "cogwheel/authoring/jumps.h"
#include "cogwheel/authoring/slopes_check.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/parallel.h"
#include "cogwheel/core/philox.h"
#include "cogwheel/kernels/pairwise.h"
#include "cogwheel/mechanisms/scalar_map.h"

namespace cogwheel {
namespace {

std::string formatted(const char* format, double value) {
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}
// One digit, "3e-08" as "3e-8": more would be the noise of one draw.
std::string rounded(double value) {
  if (!std::isfinite(value)) return "overflow";
  if (value == 0) return "0";
  std::string text = formatted("%.0e", value);
  const std::size_t zero = text.find("e-0");
  if (zero != std::string::npos) text.erase(zero + 2, 1);
  return text;
}
// Three digits of a weight or a sum; what is 0 but for rounding is 0.
std::string number_text(double value) { return formatted("%.3g", std::abs(value) < 1e-9 ? 0.0 : value); }

// Approximately normal numbers, sums of twelve uniform ones, that are the same bits on every machine.
std::vector<double> drawn(std::size_t count, std::uint64_t seed) {
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    double sum = -6;
    for (std::uint32_t block = 0; block < 3; ++block)
      for (const std::uint32_t word : philox({static_cast<std::uint32_t>(i), block, 0, 0}, philox_key(seed)))
        sum += static_cast<double>(word >> 8) / (1 << 24);
    numbers[i] = sum;
  }
  return numbers;
}

class Subject {
 public:
  explicit Subject(const Mechanism& mechanism) : mechanism_(mechanism) {
    const auto given =
        mechanism.parameter_defaults.empty() ? mechanism.parameter_initial : mechanism.parameter_defaults;
    theta_.assign(given.begin(), given.end());
  }

  const ScalarMap& map() const { return *mechanism_.scalar; }
  const double* theta() const { return theta_.data(); }
  std::span<const double> scalars() const { return theta_; }
  std::string_view member() const { return mechanism_.member; }
  bool is_cosine() const { return mechanism_.description.score == "cosine"; }
  // Of scores; a cosine ends at 1.
  std::vector<double> scales() const { return is_cosine() ? std::vector{1.0} : std::vector{1.0, 10.0, 100.0}; }

  // The weights of a row in float64.
  std::vector<double> weights(const std::vector<double>& scores) const {
    Row<double> row{.visible = static_cast<double>(scores.size()), .shift = 0};
    if (map().energy != nullptr) {
      row.shift = map().initial_energy != nullptr ? map().initial_energy(theta()) : map().energy(theta(), scores[0]);
      for (const double s : scores) row.shift = std::max(row.shift, map().energy(theta(), s));
    }
    double mass = 0;
    for (const double s : scores) mass += map().terms(theta(), s, row).mass;
    const double total = map().normalizer(theta(), mass, row);
    std::vector<double> found;
    for (const double s : scores) found.push_back(map().terms(theta(), s, row).weight / total);
    return found;
  }

 private:
  const Mechanism& mechanism_;
  std::vector<double> theta_;
};

std::vector<double> scores_of(const Subject& subject, std::size_t keys, double scale, std::uint64_t seed) {
  std::vector<double> scores = drawn(keys, seed);
  for (double& s : scores) s = subject.is_cosine() ? std::tanh(s) : s * scale;
  return scores;
}

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void take(double value) { least = std::min(least, value), most = std::max(most, value); }
  std::string text() const {
    const std::string from = number_text(least), to = number_text(most);
    return from == to ? from : "[" + from + ", " + to + "]";
  }
};

// Of 64 rows of 64 keys.
void measure_ranges(const Subject& subject, NumericsCard& card) {
  Range weight, sum, size;
  for (std::uint64_t row = 0; row < 64; ++row) {
    const auto scales = subject.scales();
    double total = 0, absolute = 0;
    for (const double a : subject.weights(scores_of(subject, 64, std::min(10.0, scales[row % scales.size()]), row))) {
      weight.take(a);
      total += a;
      absolute += std::abs(a);
    }
    sum.take(total);
    size.take(absolute);
  }
  card.facts.emplace_back("weights seen", weight.text());
  card.facts.emplace_back("row sums", "Σa " + sum.text() + ", Σ|a| " + size.text());
}

// The largest |score| up to 1e4 at which float holds f and g; 1e4 where all are held.
double largest_held(const Subject& subject, double sign) {
  const auto is_held = [&](double size) {
    const Terms<double> terms = subject.map().terms(subject.theta(), sign * size, {.visible = 64, .shift = 0});
    constexpr double most = std::numeric_limits<float>::max();
    return std::abs(terms.weight) <= most && std::abs(terms.mass) <= most;
  };
  if (is_held(1e4)) return 1e4;
  double low = 0, high = 1e4;
  for (int halving = 0; halving < 60; ++halving) (is_held((low + high) / 2) ? low : high) = (low + high) / 2;
  return low;
}

void measure_overflow(const Subject& subject, NumericsCard& card) {
  if (subject.is_cosine()) return card.facts.emplace_back("overflow", "none: a cosine ends at 1"), void();
  if (subject.map().energy == nullptr) {
    const double held = std::min(largest_held(subject, 1), largest_held(subject, -1));
    card.facts.emplace_back("overflow", held == 1e4
                                            ? "none up to scores of ±1e4, without an energy"
                                            : "fp32 beyond |s| = " + formatted("%.3g", held) + ": there is no energy");
    return;
  }
  for (const std::vector<double>& scores : {std::vector<double>{-1e4, -100, 0, 1, 1e4},
                                            {1e4, 1, 0},
                                            {-1e4, -1, 0},
                                            {1e4, 9e3},
                                            {-1e4, -9e3},
                                            {-1e4},
                                            {1e4}})
    for (const double a : subject.weights(scores))
      if (!std::isfinite(a)) {
        card.facts.emplace_back("overflow", "weights that are no numbers within scores of ±1e4");
        card.problems.push_back(expected_got(card.mechanism + ": energy", "finite weights at scores of ±1e4",
                                             "one that does not bound f and g"));
        return;
      }
  card.facts.emplace_back("overflow", "none at scores of ±1e4: the energy bounds f and g");
}

// The plain formula in long double against what the compiler made of it.
void judge_formula(const Subject& subject, const Mechanism& mechanism, NumericsCard& card) {
  if (mechanism.definition.empty() || mechanism.definition.find(" sha256:") != std::string_view::npos) return;
  const MechanismDefinition plain = parse_definition(mechanism.definition);
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<double> scores = scores_of(subject, 32, 3, seed);
    const std::vector<double> found = subject.weights(scores);
    long double mass = 0, at = 0;
    const auto value_of = [&](std::string_view name) -> long double {
      for (const auto& [parameter, value] : plain.parameters)
        if (parameter == name) return value;
      return name == "s" ? at : name == "G" ? mass : 32;
    };
    for (const double s : scores) at = s, mass += evaluate(*plain.g, value_of);
    const long double total = evaluate(*plain.n, value_of);
    for (std::size_t j = 0; j < scores.size(); ++j) {
      at = scores[j];
      const long double expected = evaluate(*plain.f, value_of) / total;
      worst = std::max(worst, static_cast<double>(std::abs(expected - found[j]) / (1 + std::abs(expected))));
    }
  }
  card.facts.emplace_back("plain formula",
                          worst < 1e-12 ? "agrees within 1e-12 (long double)" : "differs by " + rounded(worst));
  if (!(worst < 1e-12))
    card.problems.push_back(expected_got(card.mechanism + ": compiled weights", "those of the plain formula",
                                         "a difference of " + rounded(worst)));
}

// One problem with all that its pointers point to; rows of one batch entry, [heads, rows, width].
template <class T>
struct Problem {
  PairwiseShape shape;
  std::vector<T> query, key, value, gradient, output, shift, mass, query_gradient, key_gradient, value_gradient;
  std::vector<double> theta, theta_gradient;
  T scale;
  bool causal;

  Problem(const Subject& subject, const PairwiseShape& of, double score_scale, bool is_causal)
      : shape(of), scale(static_cast<T>(score_scale)), causal(is_causal) {
    const auto fill = [&](std::vector<T>& rows, std::int64_t heads, std::int64_t count, std::int64_t width,
                          std::uint64_t seed, bool unit) {
      const std::vector<double> numbers = drawn(static_cast<std::size_t>(heads * count * width), seed);
      for (std::size_t i = 0; i < numbers.size(); ++i) rows.push_back(static_cast<T>(static_cast<float>(numbers[i])));
      if (!unit) return;
      for (std::size_t row = 0; row < rows.size(); row += static_cast<std::size_t>(width)) {
        double squares = 0;
        for (std::int64_t d = 0; d < width; ++d) squares += double(rows[row + d]) * double(rows[row + d]);
        for (std::int64_t d = 0; d < width; ++d)
          rows[row + d] = static_cast<T>(static_cast<float>(double(rows[row + d]) / std::sqrt(squares)));
      }
    };
    fill(query, shape.query_heads, shape.queries, shape.head_dim, 1, subject.is_cosine());
    fill(key, shape.key_heads(), shape.keys, shape.head_dim, 2, subject.is_cosine());
    fill(value, shape.value_heads, shape.keys, shape.value_dim, 3, false);
    fill(gradient, shape.query_heads, shape.queries, shape.value_dim, 4, false);
    output.resize(gradient.size());
    query_gradient.resize(query.size());
    key_gradient.resize(key.size());
    value_gradient.resize(value.size());
    shift.resize(static_cast<std::size_t>(shape.query_heads * shape.queries));
    mass.resize(shift.size());
    for (std::int64_t head = 0; head < shape.query_heads; ++head)
      theta.insert(theta.end(), subject.scalars().begin(), subject.scalars().end());
    theta_gradient.resize(theta.size());
  }

  template <class Element>
  HeadsView<Element> view(std::vector<T>& rows, std::int64_t heads, std::int64_t count, std::int64_t width) {
    return {rows.data(), heads * count * width, count * width, width};
  }

  void describe(PairwiseProblem<T>& problem) {
    problem.shape = shape;
    problem.visibility.rule = {.keys = shape.keys, .causal = causal, .diagonal = shape.keys - shape.queries};
    problem.scale = scale;
    problem.parameters = theta.empty() ? nullptr : theta.data();
    problem.query = view<const T>(query, shape.query_heads, shape.queries, shape.head_dim);
    problem.key = view<const T>(key, shape.key_heads(), shape.keys, shape.head_dim);
    problem.value = view<const T>(value, shape.value_heads, shape.keys, shape.value_dim);
  }

  void run_forward(std::string_view member, const Executor& executor) {
    PairwiseForward<T> problem;
    describe(problem);
    problem.output = view<T>(output, shape.query_heads, shape.queries, shape.value_dim);
    problem.shift = shift.data();
    problem.mass = mass.data();
    pairwise_kernel<T>(member).forward(problem, executor);
  }

  void run_backward(std::string_view member, const Executor& executor) {
    PairwiseBackward<T> problem;
    describe(problem);
    problem.output = view<const T>(output, shape.query_heads, shape.queries, shape.value_dim);
    problem.output_gradient = view<const T>(gradient, shape.query_heads, shape.queries, shape.value_dim);
    problem.shift = shift.data();
    problem.mass = mass.data();
    problem.query_gradient = view<T>(query_gradient, shape.query_heads, shape.queries, shape.head_dim);
    problem.key_gradient = view<T>(key_gradient, shape.key_heads(), shape.keys, shape.head_dim);
    problem.value_gradient = view<T>(value_gradient, shape.value_heads, shape.keys, shape.value_dim);
    problem.parameter_gradient = theta.empty() ? nullptr : theta_gradient.data();
    pairwise_kernel<T>(member).backward(problem, executor);
  }
};

// ‖fp32 − float64‖ / ‖float64‖ of the outputs of 16 queries.
double error_of(const Subject& subject, double scale, std::int64_t keys) {
  const PairwiseShape shape{.queries = 16, .keys = keys, .head_dim = 16, .value_dim = 16};
  const double score_scale = subject.is_cosine() ? 1 : scale / 4;  // q·k of 16 normal numbers has a deviation of 4
  Problem<float> single(subject, shape, score_scale, false);
  Problem<double> exact(subject, shape, score_scale, false);
  single.run_forward(subject.member(), SerialExecutor());
  exact.run_forward(subject.member(), SerialExecutor());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < exact.output.size(); ++i) {
    difference += std::pow(double(single.output[i]) - exact.output[i], 2);
    size += exact.output[i] * exact.output[i];
  }
  return std::sqrt(difference / size);
}

void measure_errors(const Subject& subject, NumericsCard& card) {
  for (const double scale : subject.scales()) {
    std::string errors;
    for (const std::int64_t keys : {16, 256, 4096})
      errors += (errors.empty() ? "" : ", ") + rounded(error_of(subject, scale, keys)) + " of " + std::to_string(keys) +
                " keys";
    const std::string label = subject.is_cosine() ? "" : ", scores of size " + formatted("%.0f", scale);
    card.facts.emplace_back("fp32 error" + label, errors);
  }
}

float to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

// The share of scores of normal vectors of 64 numbers whose sign is not that of the exact score. Flips are too rare to
// count: a score flips where it is nearer to 0 than its error, so the share is the mean error times the density at 0.
void measure_flips(const Subject& subject, bool jumps_at_zero, NumericsCard& card) {
  if (subject.is_cosine() || !jumps_at_zero) {
    card.facts.emplace_back("flipped signs", "do no harm: nothing jumps at a score of 0");
    return;
  }
  constexpr std::size_t width = 64, pairs = 4096;
  const std::vector<double> q = drawn(width * pairs, 5), k = drawn(width * pairs, 6);
  double single_error = 0, half_error = 0, near = 0;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    float single = 0;
    double exact = 0, half = 0;
    for (std::size_t d = pair * width; d < (pair + 1) * width; ++d) {
      const auto x = static_cast<float>(q[d]), y = static_cast<float>(k[d]);
      single = std::fma(x, y, single);
      exact += double(x) * double(y);
      half += double(to_bfloat16(x)) * double(to_bfloat16(y));
    }
    single_error += std::abs(double(single) - exact) / pairs;
    half_error += std::abs(half - exact) / pairs;
    near += std::abs(exact) < 2 ? 1.0 / (4 * pairs) : 0;  // a quarter of the deviation, 8
  }
  card.facts.emplace_back("flipped signs", rounded(single_error * near) + " of fp32 scores, " +
                                               rounded(half_error * near) + " where q and k are bf16 (64 wide)");
}

class ThreadsExecutor final : public Executor {
 public:
  explicit ThreadsExecutor(int workers) : workers_(workers) {}
  int workers() const override { return workers_; }
  void run(std::int64_t tasks, const Task& task) const override {
    std::atomic<std::int64_t> next = 0;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < workers_; ++worker)
      threads.emplace_back([&, worker] {
        for (std::int64_t index; (index = next.fetch_add(1)) < tasks;) task(index, worker);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int workers_;
};

void measure_determinism(const Subject& subject, NumericsCard& card) {
  const PairwiseShape shape{
      .query_heads = 4, .value_heads = 2, .queries = 131, .keys = 131, .head_dim = 16, .value_dim = 16};
  const auto bits = [&](int workers) {
    Problem<float> problem(subject, shape, subject.is_cosine() ? 1 : 0.25, true);
    const ThreadsExecutor executor(workers);
    problem.run_forward(subject.member(), executor);
    problem.run_backward(subject.member(), executor);
    std::string all;
    const auto append = [&](const auto& numbers) {
      all.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers[0]);
    };
    append(problem.output), append(problem.query_gradient), append(problem.key_gradient);
    append(problem.value_gradient), append(problem.theta_gradient);
    return all;
  };
  const std::string one = bits(1);
  const bool same = bits(2) == one && bits(3) == one && bits(5) == one;
  card.facts.emplace_back("determinism", same ? "the same bits with 1, 2, 3 and 5 threads, gradients too"
                                              : "bits depend on the number of threads");
  if (!same)
    card.problems.push_back(
        expected_got(card.mechanism + ": determinism", "the same bits for any number of threads", "others"));
}

void measure_jumps(const Subject& subject, NumericsCard& card, bool& at_zero) {
  std::string text;
  const double end = subject.is_cosine() ? 1 : 8;
  for (const bool mass : {false, true}) {
    const auto function = [&](double s) {
      const Terms<double> terms = subject.map().terms(subject.theta(), s, {.visible = 64, .shift = 0});
      return mass ? terms.mass : terms.weight;
    };
    for (const Jump& jump : find_jumps(function, -end, end)) {
      at_zero |= !mass && std::abs(jump.at) < 1e-6;
      text += std::string(text.empty() ? "" : "; ") + (mass ? "g" : "f") + " jumps at s = " + number_text(jump.at) +
              ", from " + number_text(jump.before) + " to " + number_text(jump.after);
    }
  }
  card.facts.emplace_back("jumps", text.empty() ? "none" : text);
}

}  // namespace

NumericsCard numerics_card(const Mechanism& mechanism) {
  if (mechanism.kind != MechanismKind::row_map || mechanism.scalar == nullptr)
    throw UsageError(expected_got("numerics card", "a row map (a form has that of its map)",
                                  std::string(mechanism.description.name)));
  NumericsCard card{.mechanism = std::string(mechanism.description.name), .facts = {}, .problems = {}};
  const Subject subject(mechanism);
  card.facts.emplace_back("weights", mechanism.description.formula);
  measure_ranges(subject, card);
  try {
    check_slopes(card.mechanism, subject.map(), subject.scalars());
    card.facts.emplace_back("slopes", "those of finite differences");
  } catch (const UsageError& error) {
    card.facts.emplace_back("slopes", "not those of finite differences");
    card.problems.emplace_back(error.what());
  }
  judge_formula(subject, mechanism, card);
  measure_overflow(subject, card);
  bool jumps_at_zero = false;
  measure_jumps(subject, card, jumps_at_zero);
  measure_errors(subject, card);
  measure_flips(subject, jumps_at_zero, card);
  measure_determinism(subject, card);
  return card;
}

std::string to_text(const NumericsCard& card) {
  std::size_t widest = 0;
  // Columns on a screen; labels are ASCII.
  for (const auto& [what, found] : card.facts) widest = std::max(widest, what.size());
  std::string text = card.mechanism + "\n";
  for (const auto& [what, found] : card.facts)
    text += std::string("  ").append(what).append(widest - what.size() + 2, ' ').append(found).append("\n");
  for (const std::string& problem : card.problems) text += std::string("  problem: ").append(problem).append("\n");
  return text;
}

}  // namespace cogwheel
