// The engines that walk over tokens, on real threads: the same bits as on one, every element written, and, in the
// builds for sanitizers, nothing read or written beyond what there is. Numbers are judged elsewhere, by formulas in
// PyTorch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "cogwheel/attention/kernels/gated_sequence/gated_sequence.h"
#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/recurrent/recurrent.h"
#include "cogwheel/attention/kernels/recurrent/state_space.h"
#include "cogwheel/attention/kernels/soft_window/soft_window.h"
#include "cogwheel/core/threads_executor.h"

namespace cogwheel::sequence_threads_test {
namespace {

// Widths that leave tails of a vector, tokens that leave a tail of a chunk.
constexpr std::int64_t sequences = 2, heads = 3, tokens = 37, key_width = 5, value_width = 9;

// What a problem reads, and what its kernels write, of just the size that they are told; written memory begins as NaN.
template <class T>
class Buffers {
 public:
  const T* input(std::int64_t size, double from, double to) {
    std::vector<T>& numbers = inputs_.emplace_back(static_cast<std::size_t>(size));
    const double step = 0.7 + 0.3 * static_cast<double>(inputs_.size());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<T>(from + (to - from) * (0.5 + 0.5 * std::sin(1 + step * static_cast<double>(i))));
    return numbers.data();
  }
  T* output(std::int64_t size) {
    return outputs_.emplace_back(static_cast<std::size_t>(size), std::numeric_limits<T>::quiet_NaN()).data();
  }
  HeadsView<const T> input_rows(std::int64_t width, double from = -1, double to = 1) {
    return {input(sequences * heads * tokens * width, from, to), heads * tokens * width, tokens * width, width};
  }
  HeadsView<T> output_rows(std::int64_t width) {
    return {output(sequences * heads * tokens * width), heads * tokens * width, tokens * width, width};
  }
  // One row for each sequence and head.
  HeadsView<T> output_of_heads(std::int64_t width) {
    return {output(sequences * heads * width), heads * width, width, 0};
  }
  const std::deque<std::vector<T>>& outputs() const { return outputs_; }

 private:
  std::deque<std::vector<T>> inputs_, outputs_;
};

template <class T>
using Engine = void (*)(std::string_view isa, Buffers<T>&, const Executor&);

constexpr std::int64_t state_size = sequences * heads * key_width * value_width;

template <Transition transition, class T>
void describe_walk(RecurrentProblem<T>& problem, Buffers<T>& buffers) {
  problem.shape = {
      .sequences = sequences, .heads = heads, .tokens = tokens, .key_width = key_width, .value_width = value_width};
  problem.transition = transition;
  problem.scale = T(0.5);
  problem.query = buffers.input_rows(key_width), problem.key = buffers.input_rows(key_width);
  problem.value = buffers.input_rows(value_width);
  if constexpr (transition == Transition::constant) problem.gate = {buffers.input(heads, 0.5, 0.99), 0, 1, 0};
  if constexpr (transition == Transition::per_token) problem.gate = buffers.input_rows(1, -1, -0.01);
  if constexpr (transition == Transition::per_channel) problem.gate = buffers.input_rows(key_width, -1, -0.01);
  problem.initial_state = buffers.input(state_size, -1, 1);
}

template <Transition transition, class T>
void ask_for_gradients(RecurrentBackward<T>& backward, Buffers<T>& buffers) {
  backward.output_gradient = buffers.input_rows(value_width);
  backward.state_gradient = buffers.input(state_size, -1, 1);
  backward.query_gradient = buffers.output_rows(key_width), backward.key_gradient = buffers.output_rows(key_width);
  backward.value_gradient = buffers.output_rows(value_width);
  if constexpr (transition == Transition::constant) backward.gate_gradient = buffers.output_of_heads(1);
  if constexpr (transition == Transition::per_token) backward.gate_gradient = buffers.output_rows(1);
  if constexpr (transition == Transition::per_channel) backward.gate_gradient = buffers.output_rows(key_width);
  backward.initial_state_gradient = buffers.output(state_size);
}

template <Transition transition, class T>
void walk(std::string_view isa, Buffers<T>& buffers, const Executor& executor) {
  RecurrentForward<T> forward;
  describe_walk<transition>(forward, buffers);
  RecurrentBackward<T> backward;
  static_cast<RecurrentProblem<T>&>(backward) = forward;
  forward.output = buffers.output_rows(value_width), forward.state = buffers.output(state_size);
  ask_for_gradients<transition>(backward, buffers);
  recurrent_kernel<T>(isa).forward(forward, executor);
  recurrent_kernel<T>(isa).backward(backward, executor);
}

template <Transition transition, class T>
void delta_walk(std::string_view isa, Buffers<T>& buffers, const Executor& executor) {
  DeltaForward<T> forward;
  describe_walk<transition>(forward, buffers);
  DeltaBackward<T> backward;
  static_cast<RecurrentProblem<T>&>(backward) = forward;
  forward.beta = backward.beta = buffers.input_rows(1, 0, 1);
  forward.output = buffers.output_rows(value_width), forward.state = buffers.output(state_size);
  ask_for_gradients<transition>(backward, buffers);
  backward.beta_gradient = buffers.output_rows(1);
  recurrent_kernel<T>(isa).delta_forward(forward, executor);
  recurrent_kernel<T>(isa).delta_backward(backward, executor);
}

template <bool selective, class T>
void state_space(std::string_view isa, Buffers<T>& buffers, const Executor& executor) {
  constexpr std::int64_t table = key_width * value_width;
  StateSpaceForward<T> forward;
  forward.shape = {
      .sequences = sequences, .heads = heads, .tokens = tokens, .key_width = key_width, .value_width = value_width};
  forward.selective = selective;
  forward.scale = T(0.5);
  forward.value = buffers.input_rows(value_width);
  forward.rate = {buffers.input(heads * table, -1, -0.1), table};
  forward.skip = {buffers.input(heads * value_width, -1, 1), value_width};
  forward.initial_state = buffers.input(state_size, -1, 1);
  if constexpr (selective) {
    forward.query = buffers.input_rows(key_width), forward.key = buffers.input_rows(key_width);
    forward.delta = buffers.input_rows(value_width, 0.1, 1);
  } else {
    forward.delta = {buffers.input(heads * value_width, 0.1, 1), 0, value_width, 0};
    forward.write = {buffers.input(heads * table, -1, 1), table};
    forward.read = {buffers.input(heads * table, -1, 1), table};
  }
  StateSpaceBackward<T> backward;
  static_cast<StateSpaceProblem<T>&>(backward) = forward;
  forward.output = buffers.output_rows(value_width), forward.state = buffers.output(state_size);
  backward.output_gradient = buffers.input_rows(value_width);
  backward.state_gradient = buffers.input(state_size, -1, 1);
  backward.value_gradient = buffers.output_rows(value_width);
  backward.rate_gradient = buffers.output(sequences * heads * table);
  backward.skip_gradient = buffers.output(sequences * heads * value_width);
  backward.initial_state_gradient = buffers.output(state_size);
  if constexpr (selective) {
    backward.query_gradient = buffers.output_rows(key_width), backward.key_gradient = buffers.output_rows(key_width);
    backward.delta_gradient = buffers.output_rows(value_width);
  } else {
    backward.delta_gradient = buffers.output_of_heads(value_width);
    backward.write_gradient = buffers.output(sequences * heads * table);
    backward.read_gradient = buffers.output(sequences * heads * table);
  }
  state_space_kernel<T>(isa).forward(forward, executor);
  state_space_kernel<T>(isa).backward(backward, executor);
}

template <GatedCell cell, bool reverse, class T>
void gated_sequence(std::string_view isa, Buffers<T>& buffers, const Executor& executor) {
  constexpr std::int64_t batch = 7, width = 11, gates = gates_of(cell) * width, rows = tokens * batch;
  static constexpr std::int64_t lengths[batch]{tokens, 0, 1, 20, tokens - 1, 5, tokens};
  GatedForward<T> forward;
  forward.cell = cell, forward.reverse = reverse;
  forward.tokens = tokens, forward.batch = batch, forward.width = width;
  forward.lengths = lengths;
  forward.weight = buffers.input(gates * width, -0.5, 0.5);
  forward.hidden = buffers.input(batch * width, -1, 1);
  if constexpr (cell == GatedCell::lstm) forward.memory = buffers.input(batch * width, -1, 1);
  GatedBackward<T> backward;
  static_cast<GatedProblem<T>&>(backward) = forward;
  forward.x = buffers.input(rows * gates, -1, 1);
  forward.bias = buffers.input(gates, -1, 1);
  forward.output = buffers.output(rows * width), forward.last_hidden = buffers.output(batch * width);
  // Rows beyond a sequence are nobody's there, and stay as they are.
  std::vector<T> saved(static_cast<std::size_t>(rows * saved_per_unit * width)),
      memories(static_cast<std::size_t>(rows * width));
  forward.gates = saved.data();
  if constexpr (cell == GatedCell::lstm) {
    forward.memories = memories.data();
    forward.last_memory = buffers.output(batch * width);
  }
  gated_kernel<T>(isa).forward(forward, executor);
  backward.output = forward.output, backward.gates = forward.gates, backward.memories = forward.memories;
  backward.output_gradient = buffers.input(rows * width, -1, 1);
  backward.hidden_gradient = buffers.input(batch * width, -1, 1);
  backward.x_gradient = buffers.output(rows * gates);
  backward.initial_hidden_gradient = buffers.output(batch * width);
  if constexpr (cell == GatedCell::lstm) {
    backward.memory_gradient = buffers.input(batch * width, -1, 1);
    backward.initial_memory_gradient = buffers.output(batch * width);
  } else {
    backward.product_gradient = buffers.output(rows * gates);
  }
  gated_kernel<T>(isa).backward(backward, executor);
}

template <class T>
void soft_window(std::string_view isa, Buffers<T>& buffers, const Executor& executor) {
  constexpr std::int64_t batch = 3, components = 4, positions = 13, width = 9, numbers = batch * tokens * components;
  static constexpr std::int64_t lengths[batch]{positions, 0, 6};
  SoftWindowForward<T> forward;
  forward.batch = batch, forward.steps = tokens, forward.components = components, forward.positions = positions;
  forward.width = width, forward.lengths = lengths;
  forward.alpha = buffers.input(numbers, 0.1, 1), forward.beta = buffers.input(numbers, 0.1, 1);
  forward.kappa = buffers.input(numbers, 0, positions);
  forward.values = buffers.input(batch * positions * width, -1, 1);
  SoftWindowBackward<T> backward;
  static_cast<SoftWindowProblem<T>&>(backward) = forward;
  forward.window = buffers.output(batch * tokens * width);
  forward.weights = buffers.output(batch * tokens * (positions + 1));
  soft_window_kernel<T>(isa).forward(forward, executor);
  backward.weights = forward.weights;
  backward.window_gradient = buffers.input(batch * tokens * width, -1, 1);
  backward.weights_gradient = buffers.input(batch * tokens * (positions + 1), -1, 1);
  backward.alpha_gradient = buffers.output(numbers), backward.beta_gradient = buffers.output(numbers);
  backward.kappa_gradient = buffers.output(numbers);
  backward.values_gradient = buffers.output(batch * positions * width);
  soft_window_kernel<T>(isa).backward(backward, executor);
}

class SequenceThreads : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    for (const InstructionSet& set : instruction_sets())
      if (set.name == GetParam() && !set.supported) GTEST_SKIP() << "this machine has no " << set.name;
  }

  template <class T>
  void expect_bits_of_one(const char* name, Engine<T> engine) {
    Buffers<T> expected;
    engine(GetParam(), expected, SerialExecutor());
    for (std::size_t i = 0; i < expected.outputs().size(); ++i)
      for (const T number : expected.outputs()[i]) ASSERT_TRUE(std::isfinite(number)) << name << ", output " << i;
    for (int workers : {2, 5}) {
      Buffers<T> got;
      engine(GetParam(), got, ThreadsExecutor(workers));
      for (std::size_t i = 0; i < expected.outputs().size(); ++i)
        EXPECT_EQ(
            std::memcmp(got.outputs()[i].data(), expected.outputs()[i].data(), got.outputs()[i].size() * sizeof(T)), 0)
            << name << ", output " << i << " by " << workers << " workers";
    }
  }

  template <class T>
  void expect_bits_of_one() {
    expect_bits_of_one<T>("none", walk<Transition::none, T>);
    expect_bits_of_one<T>("constant", walk<Transition::constant, T>);
    expect_bits_of_one<T>("per_token", walk<Transition::per_token, T>);
    expect_bits_of_one<T>("per_channel", walk<Transition::per_channel, T>);
    expect_bits_of_one<T>("delta", delta_walk<Transition::none, T>);
    expect_bits_of_one<T>("delta per_token", delta_walk<Transition::per_token, T>);
    expect_bits_of_one<T>("delta per_channel", delta_walk<Transition::per_channel, T>);
    expect_bits_of_one<T>("selective state space", state_space<true, T>);
    expect_bits_of_one<T>("fixed state space", state_space<false, T>);
    expect_bits_of_one<T>("LSTM", gated_sequence<GatedCell::lstm, false, T>);
    expect_bits_of_one<T>("LSTM in reverse", gated_sequence<GatedCell::lstm, true, T>);
    expect_bits_of_one<T>("GRU", gated_sequence<GatedCell::gru, false, T>);
    expect_bits_of_one<T>("GRU in reverse", gated_sequence<GatedCell::gru, true, T>);
    expect_bits_of_one<T>("soft window", soft_window<T>);
  }
};

TEST_P(SequenceThreads, GiveTheBitsOfOneInFloat32) { expect_bits_of_one<float>(); }
TEST_P(SequenceThreads, GiveTheBitsOfOneInFloat64) { expect_bits_of_one<double>(); }

std::vector<std::string_view> instruction_set_names() {
  std::vector<std::string_view> names;
  for (const InstructionSet& set : instruction_sets()) names.push_back(set.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, SequenceThreads, ::testing::ValuesIn(instruction_set_names()),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace cogwheel::sequence_threads_test
