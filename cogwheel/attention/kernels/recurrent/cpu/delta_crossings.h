// Passes over a block of columns of a delta rule's state [rows][vectors · lanes], from one token to the next: S' of a
// token and what it needs become S' of the one after it, or their gradients become those of the one before. Included
// inside the region of a target.
#pragma once
#include "cogwheel/attention/kernels/cpu/vector_sums.h"
#include "cogwheel/attention/kernels/recurrent/cpu/token_walk.h"

namespace cogwheel::HWY_NAMESPACE {
namespace {

template <class T>
struct ForwardCrossing {
  const T *left_key = nullptr, *left_update = nullptr, *left_query = nullptr;  // k, u, q of the token that is left
  T* output = nullptr;                                                         // Sᵀq
  const T *met_key = nullptr, *met_decay = nullptr;  // k, and α by Decay, of the token that is met
  T* recalled = nullptr;                             // S'ᵀk
};

// From the state before (`writes`: S' of the token that is left) to the one after (`meets`: S' of the one that is met).
// Each column is one chain of additions over the rows.
template <class T, Decay decay, int vectors, bool writes, bool reads, bool meets>
HWY_NOINLINE void cross_forward(std::int64_t rows, const ForwardCrossing<T>& x, const T* from, T* to) {
  using V = Vector<T>;
  V update[vectors], output[vectors], recalled[vectors], multiplier;
  if constexpr (meets && decay == Decay::scalar) multiplier = V(*x.met_decay);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    if constexpr (writes) update[v] = V::load(x.left_update + v * V::lanes);
    output[v] = recalled[v] = V(T(0));
  }
  for (std::int64_t row = 0; row < rows; ++row, from += vectors * V::lanes, to += vectors * V::lanes) {
    V left_key, left_query, met_key;
    if constexpr (writes) left_key = V(x.left_key[row]);
    if constexpr (reads) left_query = V(x.left_query[row]);
    if constexpr (meets) met_key = V(x.met_key[row]);
    if constexpr (meets && decay == Decay::rows) multiplier = V(x.met_decay[row]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      V s = V::load(from + v * V::lanes);
      if constexpr (writes) s = V::fma(left_key, update[v], s);
      if constexpr (reads) output[v] = V::fma(left_query, s, output[v]);
      if constexpr (meets) {
        if constexpr (decay != Decay::none) s = multiplier * s;
        recalled[v] = V::fma(met_key, s, recalled[v]);
      }
      s.store(to + v * V::lanes);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    if constexpr (reads) output[v].store(x.output + v * V::lanes);
    if constexpr (meets) recalled[v].store(x.recalled + v * V::lanes);
  }
}

template <class T>
struct BackwardCrossing {
  // Of the token that is left: k, u, −β du, α by Decay, and S' or (`derives`) that of the token before and what it
  // wrote.
  const T *left_key = nullptr, *left_update = nullptr, *left_recalled = nullptr, *left_decay = nullptr,
          *left_state = nullptr;
  const T *key_before = nullptr, *update_before = nullptr;
  // Before their sum over lanes, dk [rows][lanes] and d log α: for Decay::rows alike, for Decay::scalar [lanes].
  T *key_gradients = nullptr, *decay_gradients = nullptr;
  // Of the token that is met: k, q, do and Gᵀk.
  const T *met_key = nullptr, *met_query = nullptr, *met_output = nullptr;
  T* update_gradient = nullptr;
};

// From G of the token that is left to G of the one that is met.
template <class T, Decay decay, int vectors, bool leaves, bool derives, bool meets>
HWY_NOINLINE void cross_backward(std::int64_t rows, const BackwardCrossing<T>& given, T* gradient) {
  const BackwardCrossing<T> x = given;  // not memory that a store through a T* might change
  using V = Vector<T>;
  V update[vectors], before[vectors], recalled[vectors], of_output[vectors], of_update[vectors];
  V multiplier, of_multiplier(T(0));
  if constexpr (leaves && decay == Decay::scalar) multiplier = V(*x.left_decay);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    if constexpr (leaves) {
      update[v] = V::load(x.left_update + v * V::lanes);
      recalled[v] = V::load(x.left_recalled + v * V::lanes);
    }
    if constexpr (derives) before[v] = V::load(x.update_before + v * V::lanes);
    if constexpr (meets) {
      of_output[v] = V::load(x.met_output + v * V::lanes);
      of_update[v] = V(T(0));
    }
  }
  for (std::int64_t row = 0; row < rows; ++row, gradient += vectors * V::lanes) {
    const T* state = leaves ? x.left_state + row * vectors * V::lanes : nullptr;
    V of_key(T(0)), of_decay(T(0)), left_key, key_before, met_query, met_key;
    if constexpr (derives) key_before = V(x.key_before[row]);
    if constexpr (leaves) left_key = V(x.left_key[row]);
    if constexpr (leaves && decay == Decay::rows) multiplier = V(x.left_decay[row]);
    if constexpr (meets) {
      met_query = V(x.met_query[row]);
      met_key = V(x.met_key[row]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      V g = V::load(gradient + v * V::lanes);
      if constexpr (leaves) {
        V s = V::load(state + v * V::lanes);
        if constexpr (derives) {
          s = V::fma(key_before, before[v], s);
          if constexpr (decay != Decay::none) s = multiplier * s;
        }
        of_key = V::fma(g, update[v], of_key);
        of_key = V::fma(s, recalled[v], of_key);
        g = V::fma(left_key, recalled[v], g);
        if constexpr (decay != Decay::none) {
          of_decay = V::fma(g, s, of_decay);
          g = multiplier * g;
        }
      }
      if constexpr (meets) {
        g = V::fma(met_query, of_output[v], g);
        of_update[v] = V::fma(met_key, g, of_update[v]);
      }
      g.store(gradient + v * V::lanes);
    }
    if constexpr (leaves) {
      of_key.store(x.key_gradients + row * V::lanes);
      if constexpr (decay == Decay::rows) of_decay.store(x.decay_gradients + row * V::lanes);
      if constexpr (decay == Decay::scalar) of_multiplier = of_multiplier + of_decay;
    }
  }
  if constexpr (leaves && decay == Decay::scalar) of_multiplier.store(x.decay_gradients);
  if constexpr (meets)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) of_update[v].store(x.update_gradient + v * V::lanes);
}

// From S' of a token to S of the last of `tokens`, and with `meets` to S' of the next one. Arrays for each token, α by
// Decay of the one after it; dq of each before its sum over lanes [rows][lanes].
template <class T>
struct Replay {
  const T *key, *update, *output_gradient, *next_decay;
  T* query_gradients;
};

template <class T, Decay decay, int vectors, int tokens, bool meets>
HWY_NOINLINE void replay_tokens(std::int64_t rows, const Replay<T> (&x)[2], const T* from, T* to) {
  using V = Vector<T>;
  V update[tokens][vectors], of_output[tokens][vectors], multiplier[tokens];
#pragma GCC unroll 2
  for (int t = 0; t < tokens; ++t) {
    if constexpr (decay == Decay::scalar)
      if (meets || t + 1 < tokens) multiplier[t] = V(*x[t].next_decay);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      update[t][v] = V::load(x[t].update + v * V::lanes);
      of_output[t][v] = V::load(x[t].output_gradient + v * V::lanes);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row, from += vectors * V::lanes) {
    V s[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) s[v] = V::load(from + v * V::lanes);
#pragma GCC unroll 2
    for (int t = 0; t < tokens; ++t) {
      const V key(x[t].key[row]);
      V of_query(T(0));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        s[v] = V::fma(key, update[t][v], s[v]);
        of_query = V::fma(s[v], of_output[t][v], of_query);
      }
      of_query.store(x[t].query_gradients + row * V::lanes);
      if (decay == Decay::none || !(meets || t + 1 < tokens)) continue;
      if constexpr (decay == Decay::rows) multiplier[t] = V(x[t].next_decay[row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) s[v] = multiplier[t] * s[v];
    }
    if constexpr (meets)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) s[v].store(to + (row * vectors + v) * V::lanes);
  }
}

}  // namespace
}  // namespace cogwheel::HWY_NAMESPACE
