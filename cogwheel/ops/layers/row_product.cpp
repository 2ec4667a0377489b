#include "cogwheel/ops/layers/row_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {
namespace {

template <class T, int Lanes>
struct Vector {
  typedef T type __attribute__((vector_size(Lanes * sizeof(T))));
};
template <int Lanes>
using Floats = typename Vector<float, Lanes>::type;

// `count` of up to Lanes numbers, and zeros after them. Vectors are passed by reference, because how they are passed
// otherwise depends on the instruction set.
template <int Lanes>
[[gnu::always_inline]] inline void read(Floats<Lanes>& lanes, const float* from, std::int64_t count) {
  lanes = Floats<Lanes>{};
  std::memcpy(&lanes, from, static_cast<std::size_t>(count) * sizeof(float));
}
template <int Lanes>
[[gnu::always_inline]] inline void read(Floats<Lanes>& lanes, const std::uint16_t* bfloat16, std::int64_t count) {
  typename Vector<std::uint16_t, Lanes>::type narrow = {};
  std::memcpy(&narrow, bfloat16, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
  const auto bits = __builtin_convertvector(narrow, typename Vector<std::uint32_t, Lanes>::type) << 16;
  std::memcpy(&lanes, &bits, sizeof lanes);
}
template <int Lanes>
[[gnu::always_inline]] inline void read(Floats<Lanes>& lanes, const std::int8_t* integers, std::int64_t count) {
  typename Vector<std::int8_t, Lanes>::type narrow = {};
  std::memcpy(&narrow, integers, static_cast<std::size_t>(count));
  // In steps of twice the width, which GCC has instructions for; in one it takes lane after lane.
  const auto twice = __builtin_convertvector(narrow, typename Vector<std::int16_t, Lanes>::type);
  lanes = __builtin_convertvector(__builtin_convertvector(twice, typename Vector<std::int32_t, Lanes>::type),
                                  Floats<Lanes>);
}

template <int Lanes>
[[gnu::always_inline]] inline float sum_of(const Floats<Lanes>& lanes) {
  float halves[Lanes];
  std::memcpy(halves, &lanes, sizeof halves);
  for (int half = Lanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) halves[lane] += halves[lane + half];
  return halves[0];
}

template <class Weight>
struct Problem {
  const float* x;  // [rows, inputs]
  const Weight* weight;
  const float *scale, *bias;  // or null
  float* result;              // [rows, outputs]
  std::int64_t rows, inputs, outputs;
};

// Rows and Outputs sums side by side; each runs over the inputs in one chain of vectors.
template <int Lanes, int Rows, int Outputs, class Weight>
[[gnu::always_inline]] inline void block(const Problem<Weight>& problem, std::int64_t row, std::int64_t output) {
  Floats<Lanes> sums[Rows][Outputs] = {};
  const float* const x = problem.x + row * problem.inputs;
  const Weight* const weight = problem.weight + output * problem.inputs;
  const auto add = [&](std::int64_t from, std::int64_t count) __attribute__((always_inline)) {
    Floats<Lanes> weights[Outputs];
    for (int o = 0; o < Outputs; ++o) read<Lanes>(weights[o], weight + o * problem.inputs + from, count);
    for (int r = 0; r < Rows; ++r) {
      Floats<Lanes> inputs;
      read<Lanes>(inputs, x + r * problem.inputs + from, count);
      for (int o = 0; o < Outputs; ++o) sums[r][o] += inputs * weights[o];
    }
  };
  std::int64_t from = 0;
  // A cache line of each weight at a time, and beside other outputs a prefetch of the line that the next ones read: the
  // processor follows no row across the end of a page, and rows of narrow weights are short. Past the last output it
  // asks for nothing that is read, which is no fault.
  constexpr int line = std::max<int>(Lanes, static_cast<int>(64 / sizeof(Weight)));
  for (; from + line <= problem.inputs; from += line) {
    for (int o = 0; o < Outputs && Outputs > 1; ++o) __builtin_prefetch(weight + (Outputs + o) * problem.inputs + from);
    for (int part = 0; part < line; part += Lanes) add(from + part, Lanes);
  }
  for (; from + Lanes <= problem.inputs; from += Lanes) add(from, Lanes);
  if (from < problem.inputs) add(from, problem.inputs - from);
  for (int r = 0; r < Rows; ++r)
    for (int o = 0; o < Outputs; ++o) {
      float sum = sum_of<Lanes>(sums[r][o]);
      if (problem.scale != nullptr) sum *= problem.scale[output + o];
      if (problem.bias != nullptr) sum += problem.bias[output + o];
      problem.result[(row + r) * problem.outputs + output + o] = sum;
    }
}

template <int Lanes, int Outputs, class Weight>
[[gnu::always_inline]] inline void all_rows(const Problem<Weight>& problem, std::int64_t output) {
  // Two registers for inputs and weights beside the sums.
  constexpr int rows_at_once = 4;
  std::int64_t row = 0;
  for (; row + rows_at_once <= problem.rows; row += rows_at_once)
    block<Lanes, rows_at_once, Outputs>(problem, row, output);
  switch (problem.rows - row) {
    case 3:
      return block<Lanes, 3, Outputs>(problem, row, output);
    case 2:
      return block<Lanes, 2, Outputs>(problem, row, output);
    case 1:
      return block<Lanes, 1, Outputs>(problem, row, output);
    default:
      return;
  }
}

template <int Lanes, int Outputs, class Weight>
[[gnu::always_inline]] inline void outputs_from(const Problem<Weight>& problem, std::int64_t begin, std::int64_t end) {
  std::int64_t output = begin;
  // Memory is the limit of so few rows, and gives most where weights are read in the order in which they lie.
  const bool in_order = problem.rows <= (std::is_same_v<Weight, float> ? 2 : 1);
  for (; !in_order && output + Outputs <= end; output += Outputs) all_rows<Lanes, Outputs>(problem, output);
  for (; output < end; ++output) all_rows<Lanes, 1>(problem, output);
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
template <class Weight>
__attribute__((target("arch=x86-64-v4,prefer-vector-width=512"))) void with_avx512(const Problem<Weight>& problem,
                                                                                   std::int64_t begin,
                                                                                   std::int64_t end) {
  outputs_from<16, 4>(problem, begin, end);
}
template <class Weight>
__attribute__((target("arch=x86-64-v3"))) void with_avx2(const Problem<Weight>& problem, std::int64_t begin,
                                                         std::int64_t end) {
  outputs_from<8, 2>(problem, begin, end);
}
#endif
template <class Weight>
void with_baseline(const Problem<Weight>& problem, std::int64_t begin, std::int64_t end) {
  outputs_from<4, 2>(problem, begin, end);
}

template <class Weight>
auto best_kernel() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  if (__builtin_cpu_supports("x86-64-v4")) return with_avx512<Weight>;
  if (__builtin_cpu_supports("x86-64-v3")) return with_avx2<Weight>;
#endif
  return with_baseline<Weight>;
}

template <class Weight>
void multiply(const Problem<Weight>& problem) {
  static const auto kernel = best_kernel<Weight>();
  constexpr std::int64_t least = 1 << 16;  // products of weights and inputs that are worth a thread
  const std::int64_t grain = std::max<std::int64_t>(16, least / std::max<std::int64_t>(1, problem.inputs));
  at::parallel_for(0, problem.outputs, grain,
                   [&](std::int64_t begin, std::int64_t end) { kernel(problem, begin, end); });
}

}  // namespace

at::Tensor row_product(const at::Tensor& given_x, const at::Tensor& given_weight, const OptionalTensor& scale,
                       const OptionalTensor& bias) {
  if (given_x.dim() != 2 || given_x.scalar_type() != at::kFloat)
    refuse_argument("row_product: x", "float32 [rows, inputs]", shape_text(given_x));
  if (given_weight.dim() != 2 || given_weight.size(1) != given_x.size(1))
    refuse_argument("row_product: weight", "[outputs, " + std::to_string(given_x.size(1)) + "]",
                    shape_text(given_weight));
  const at::Tensor x = given_x.contiguous(), weight = given_weight.contiguous();
  const at::Tensor result = at::empty({x.size(0), weight.size(0)}, x.options());
  const at::Tensor scales = scale ? scale->contiguous() : at::Tensor(),
                   biases = bias ? bias->contiguous() : at::Tensor();
  const auto run = [&](const auto* numbers) {
    multiply(Problem<std::remove_const_t<std::remove_pointer_t<decltype(numbers)>>>{
        x.const_data_ptr<float>(), numbers, scales.defined() ? scales.const_data_ptr<float>() : nullptr,
        biases.defined() ? biases.const_data_ptr<float>() : nullptr, result.mutable_data_ptr<float>(), x.size(0),
        x.size(1), weight.size(0)});
  };
  switch (weight.scalar_type()) {
    case at::kFloat:
      run(weight.const_data_ptr<float>());
      break;
    case at::kBFloat16:
      run(reinterpret_cast<const std::uint16_t*>(weight.const_data_ptr<at::BFloat16>()));
      break;
    case at::kChar:
      run(weight.const_data_ptr<std::int8_t>());
      break;
    default:
      refuse_argument("row_product: weight dtype", "float32, bfloat16 or int8", c10::toString(weight.scalar_type()));
  }
  return result;
}

}  // namespace cogwheel::ops
