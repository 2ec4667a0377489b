// The recurrent contract: what a mechanism with a state must say of itself.
//
// Of one head, with a state S [D, Dv] that is 0 or given before the first token:
//   S_t = A_t ∘ S_{t−1} + k_t (w_t v_t)ᵀ,   o_t = scale · S_tᵀ q_t
// Normalised: o_t / (z_t·q_t), with z by the same law for v = 1, and 0 where z_t·q_t is 0.
//
// A law names where A comes from, what is written, the feature map of keys and queries, and whether it is normalised.
// Engines are made per transition and not per law: what is written and read differs before and after the walk over the
// tokens (ops/recurrent.cpp), which itself meets q, k, v and A alone.
#pragma once
#include <span>
#include <string_view>

namespace cogwheel {

// A, and the argument from which users give it.
enum class Transition {
  none,         // 1
  constant,     // γ of the head: `decay` [H]
  per_token,    // α_t = exp(`log_decay` [B, H, N])
  per_channel,  // α_t 1ᵀ, α_t = exp(`log_decay` [B, H, N, D])
};

// k and w.
enum class Write {
  key,                // k as given, w = 1
  key_by_complement,  // k as given, w = 1 − α
  complement,         // k = 1 − α, w = 1: there is no key
};

// φ of keys and queries, and z: of the law, or as the caller asks.
enum class Choice { never, asked, always };

// What values a parameter may have.
enum class Values { any, number, at_most_0, above_0, above_0_to_1 };

// A tensor that users give by name.
struct RecurrentParameter {
  std::string_view name;
  // Its dimensions, a letter each: Batch, Heads, tokens (N), key width (D), value width (V), Slots. Alternatives stand
  // between bars; nothing is a number.
  std::string_view axes;
  Values values = Values::any;
  bool required = true;
};

struct RecurrentLaw {
  std::string_view name;   // as users type it
  std::string_view title;  // as a heading or a table shows it
  Transition transition = Transition::none;
  Write write = Write::key;
  Choice feature_map = Choice::never, normalized = Choice::never;
  std::span<const RecurrentParameter> parameters = {};
  std::string_view formula;
  std::string_view citation;

  // What the caller names A by; empty where there is nothing to name.
  constexpr std::string_view gate() const {
    switch (transition) {
      case Transition::none:
        return "";
      case Transition::constant:
        return "decay";
      default:
        return "log_decay";
    }
  }
  constexpr bool has_key() const { return write != Write::complement; }
};

}  // namespace cogwheel
