// The engine of state spaces: mechanisms with a state whose every element has a transition of its own,
// A_t[d,c] = exp(Δ_t[c] a[d,c]). Of one head:
//   selective:  S_t = A_t ∘ S_{t−1} + k_t (Δ_t ∘ v_t)ᵀ,   o_t = scale · S_tᵀ q_t + skip ∘ v_t
//   fixed:      S_t = A ∘ S_{t−1} + b ∘ (1 v_tᵀ),         o_t = scale · (c ∘ S_t)ᵀ 1 + skip ∘ v_t
// Fixed, Δ, b and c take the places of Δ_t, k_t and q_t for every token: exponentials are made once for a head.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/recurrent/recurrent.h"

namespace cogwheel {

// Numbers of every head, or of all of them alike.
template <class T>
struct HeadTable {
  T* data = nullptr;
  std::int64_t head_stride = 0;  // 0: alike

  T* of(std::int64_t head) const { return data + head * head_stride; }
  explicit operator bool() const { return data != nullptr; }
};

// What both directions share. Views are of elements of type T; a sequence's state is [heads, key_width, value_width].
template <class T>
struct StateSpaceProblem {
  RecurrentShape shape = {};
  bool selective = false;
  T scale = 1;
  HeadsView<const T> query = {}, key = {};  // selective
  HeadsView<const T> value = {};
  HeadsView<const T> delta = {};             // fixed: one row for the head, whichever the token
  HeadTable<const T> rate = {};              // a [key_width, value_width], below 0
  HeadTable<const T> write = {}, read = {};  // fixed: b and c, alike
  HeadTable<const T> skip = {};              // [value_width], or none
  const T* initial_state = nullptr;          // [sequences, …]; null: 0
};

template <class T>
struct StateSpaceForward : StateSpaceProblem<T> {
  HeadsView<T> output = {};
  T* state = nullptr;  // after the last token of each sequence
};

// Gradients are the same bit for bit, whatever the number of workers. Those of what a head has for all its tokens are
// given for each sequence: [sequences, heads, …].
template <class T>
struct StateSpaceBackward : StateSpaceProblem<T> {
  HeadsView<const T> output_gradient = {};
  const T* state_gradient = nullptr;  // null: 0
  HeadsView<T> query_gradient = {}, key_gradient = {}, value_gradient = {};
  HeadsView<T> delta_gradient = {};  // fixed: one row for each sequence and head
  T *rate_gradient = nullptr, *write_gradient = nullptr, *read_gradient = nullptr, *skip_gradient = nullptr;
  T* initial_state_gradient = nullptr;  // null: not asked for
};

template <class T>
struct StateSpaceKernel {
  void (*forward)(const StateSpaceForward<T>&, const Executor&);
  void (*backward)(const StateSpaceBackward<T>&, const Executor&);
};

// The kernel for an instruction set, by default the one that this process runs. T is float or double. Throws
// UsageError: "no kernel for …".
template <class T>
StateSpaceKernel<T> state_space_kernel(std::string_view isa = chosen_isa());

}  // namespace cogwheel
