// The engine of mechanisms with a state (attention/mechanisms/recurrent_contract.h): one walk over the tokens per
// direction.
//
// The caller has applied feature maps and what is written; the walk meets q, k, v and the transition:
//   S_t = A_t ∘ S_{t−1} + k_t v_tᵀ,   o_t = scale · S_tᵀ q_t, or scale · S_{t−1}ᵀ q_t
// or, by a delta rule, S'_t = A_t ∘ S_{t−1}, S_t = S'_t + β_t k_t (v_t − S'_tᵀ k_t)ᵀ.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/heads_view.h"
#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/core/parallel.h"

namespace cogwheel {

// The tokens of one sequence: those of a batch entry, or some of them where sequences are packed into one entry.
struct TokenSpan {
  std::int64_t batch, begin, count;
};

struct RecurrentShape {
  std::int64_t sequences, heads, tokens, key_width, value_width;
  // Of packed sequences: sequence i is the tokens from first_tokens[i] up to first_tokens[i + 1] of batch entry 0.
  // Null: each batch entry is a sequence.
  const std::int64_t* first_tokens = nullptr;

  TokenSpan span(std::int64_t sequence) const {
    if (!first_tokens) return {sequence, 0, tokens};
    return {0, first_tokens[sequence], first_tokens[sequence + 1] - first_tokens[sequence]};
  }
};

// What both directions share. Views are of elements of type T.
template <class T>
struct RecurrentProblem {
  RecurrentShape shape = {};
  Transition transition = Transition::none;
  bool decays_columns = false;  // A is also multiplied by exp(value_gate), a number for each column
  bool reads_before = false;    // a token reads the state that those before it have left
  bool counts = false;  // the last of value_width columns is of ones and none of `value`: decays are of tokens, or none
  T scale = 1;
  HeadsView<const T> query = {}, key = {}, value = {};
  HeadsView<const T> gate = {};        // rows of γ or of log α, by the transition; only there does log α become α
  HeadsView<const T> value_gate = {};  // rows of value_width
  const T* initial_state = nullptr;    // [sequences, heads, key_width, value_width]; null: 0
};

template <class T>
struct RecurrentForward : RecurrentProblem<T> {
  HeadsView<T> output = {};
  T* state = nullptr;  // after the last token
};

// Gradients are the same bit for bit, whatever the number of workers.
template <class T>
struct RecurrentBackward : RecurrentProblem<T> {
  HeadsView<const T> output_gradient = {};
  const T* state_gradient = nullptr;  // null: 0
  HeadsView<T> query_gradient = {}, key_gradient = {}, value_gradient = {};
  HeadsView<T> gate_gradient = {};  // of `gate`; of a constant one row for each sequence and head
  HeadsView<T> value_gate_gradient = {};
  T* initial_state_gradient = nullptr;  // null: not asked for
};

// By a delta rule: rows of β, of width 1, and of its gradient.
template <class T>
struct DeltaForward : RecurrentForward<T> {
  HeadsView<const T> beta = {};
};
template <class T>
struct DeltaBackward : RecurrentBackward<T> {
  HeadsView<const T> beta = {};
  HeadsView<T> beta_gradient = {};
};

template <class T>
struct RecurrentKernel {
  void (*forward)(const RecurrentForward<T>&, const Executor&);
  void (*backward)(const RecurrentBackward<T>&, const Executor&);
  void (*delta_forward)(const DeltaForward<T>&, const Executor&);
  void (*delta_backward)(const DeltaBackward<T>&, const Executor&);
};

// The kernel for an instruction set, by default the one that this process runs. T is float or double. Throws
// UsageError: "no kernel for …".
template <class T>
RecurrentKernel<T> recurrent_kernel(std::string_view isa = chosen_isa());

}  // namespace cogwheel
