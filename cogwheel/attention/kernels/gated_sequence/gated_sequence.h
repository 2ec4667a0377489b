// The engine of gated recurrent cells, LSTM and GRU: a walk over the tokens of padded sequences in either direction.
// What the cell makes of a token's input, W x + b, is given; the walk adds the product with the state before it.
//
//   LSTM (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000), p = x_t + U h_{t−1} + b:
//     i, f, o = σ(p_i), σ(p_f), σ(p_o),  g = tanh(p_g),  c_t = f∘c_{t−1} + i∘g,  h_t = o∘tanh(c_t)
//   GRU (Cho et al. 2014, with the reset gate behind the product, as cuDNN and PyTorch have it), m = U_n h_{t−1} + b_n:
//     r, z = σ(x_r + U_r h_{t−1} + b_r), σ(x_z + U_z h_{t−1} + b_z),  n = tanh(x_n + r∘m),  h_t = (1−z)∘n + z∘h_{t−1}
//
// Gates lie in the order of torch.nn: i, f, g, o and r, z, n. Rows at and beyond the length of their sequence are not
// computed: their output and the gradient of their input are 0, and the state passes them unchanged. Entries of the
// batch never meet, so that each element is the same bits for any number of threads and any other entries.
#pragma once
#include <cstdint>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/core/parallel.h"

namespace cogwheel {

enum class GatedCell { lstm, gru };

constexpr std::int64_t gates_of(GatedCell cell) { return cell == GatedCell::lstm ? 4 : 3; }
// Numbers per unit that backward reads of forward: i, f, g, o, or r, z, n, m.
constexpr std::int64_t saved_per_unit = 4;

// What both directions share. Tokens come first: [tokens, batch, …], all contiguous.
template <class T>
struct GatedProblem {
  GatedCell cell = GatedCell::lstm;
  std::int64_t tokens = 0, batch = 0, width = 0;
  bool reverse = false;                          // from the last token of each sequence to its first
  const std::int64_t* lengths = nullptr;         // [batch]; null: all are `tokens` long
  const T* weight = nullptr;                     // U [gates · width, width]
  const T *hidden = nullptr, *memory = nullptr;  // h and c before the first token [batch, width]; null: 0
};

template <class T>
struct GatedForward : GatedProblem<T> {
  const T* x = nullptr;         // [tokens, batch, gates · width]
  const T* bias = nullptr;      // [gates · width], or null
  const T* products = nullptr;  // of a single token: U h of every row, which is then not computed; else null
  T* output = nullptr;          // [tokens, batch, width]
  // [batch, width]; null: not asked for. Memory is of an LSTM alone.
  T *last_hidden = nullptr, *last_memory = nullptr;
  T *gates = nullptr,
    *memories = nullptr;  // for backward, or null: [tokens, batch, 4 · width]; c [tokens, batch, width]
};

template <class T>
struct GatedBackward : GatedProblem<T> {
  const T *output = nullptr, *gates = nullptr, *memories = nullptr;  // of forward
  const T* output_gradient = nullptr;
  const T *hidden_gradient = nullptr, *memory_gradient = nullptr;  // of the last state; null: 0
  // Of a single token: without the product with U, so that the gradient of h is what it has beside it (a GRU's dh∘z).
  bool leaves_product = false;
  T* x_gradient = nullptr;
  T* product_gradient = nullptr;  // of U h + b, as x; null for an LSTM, where it is that of x
  T *initial_hidden_gradient = nullptr, *initial_memory_gradient = nullptr;  // [batch, width]; null: not asked for
};

template <class T>
struct GatedKernel {
  void (*forward)(const GatedForward<T>&, const Executor&);
  void (*backward)(const GatedBackward<T>&, const Executor&);
};

// The kernel for an instruction set, by default the one that this process runs. T is float or double. Throws
// UsageError: "no kernel for …".
template <class T>
GatedKernel<T> gated_kernel(std::string_view isa = chosen_isa());

}  // namespace cogwheel
