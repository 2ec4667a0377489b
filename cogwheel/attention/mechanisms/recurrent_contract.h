// The recurrent contract: what a mechanism with a state must say of itself.
//
// Of one head, with a state S [D, Dv] that is 0 or given before the first token:
//   S′ = A_t ∘ S_{t−1},   S_t = S′ + k_t (w_t v_t − e_t S′ᵀk_t)ᵀ,   o_t = scale · S_tᵀ q_t
// with A = w = 1 and e = 0 unless the law says more. Normalised: o_t / (z_t·q_t), with z by the same law for v = 1, and
// 0 where z_t·q_t is 0.
//
// A law names where A comes from, how S is updated, the feature map of keys and queries, and the normaliser, and lists
// the tensors that users give it by name. What only its paper has, another key or another way to read, is a function of
// its own (recurrent_call.h). Engines are made per transition and not per law: what is written and read differs before
// and after the walk over the tokens, which itself meets q, k, v and A alone.
#pragma once
#include <span>
#include <string_view>

#include "cogwheel/attention/mechanisms/law_option.h"

namespace cogwheel {

// A, and the parameter that it is made of.
enum class Transition {
  none,         // 1
  constant,     // γ of the head: `decay` [H]
  per_token,    // α_t = exp(`log_decay` [B, H, N])
  per_channel,  // α_t 1ᵀ, α_t = exp(`log_decay` [B, H, N, D])
};
inline constexpr std::string_view transition_names[]{"none", "constant", "per_token", "per_channel"};

// The parameter of a transition, but of `none`.
constexpr std::string_view decay_name(Transition transition) {
  return transition == Transition::constant ? "decay" : "log_decay";
}

// What the walks over the tokens are, and S with them.
enum class Walks {
  one,    // as above
  delta,  // as above with e = w = `beta`, and A by the dimensions of `log_decay` where the law has that
  // A_t = exp(Δ_t ∘ a), a number for each element of S, with Δ = `delta` and `a`; w_t = Δ_t; o_t += `skip` ∘ v_t.
  // `scale` is 1 unless given.
  elements,
};

// φ of keys and queries.
enum class Features {
  identity,
  own,    // by the law's own function
  asked,  // as the caller asks
};

enum class Normalizer { never, asked, always };

// What values a parameter may have.
enum class Values { any, number, at_most_0, at_least_0, below_0, above_0, above_0_to_1, from_0_to_2 };

// A tensor that users give by name.
struct RecurrentParameter {
  std::string_view name;
  // Its dimensions, a letter each: Batch, Heads, tokens (N), key width (D), value width (V), Slots. Alternatives stand
  // between bars; nothing is a number.
  std::string_view axes;
  Values values = Values::any;
  bool required = true;
};

// A part of a state: its name, and its dimensions after those of sequences and heads, letters as above; one with a 2
// before it is twice as wide.
struct StatePart {
  std::string_view name, axes;
};

// Of a law that lists none: S, and z where its output is normalised.
inline constexpr StatePart sums_of_state[]{{"S", "DV"}, {"z", "D"}};

class LawCall;      // recurrent_call.h
struct LawOutcome;  // recurrent_call.h

struct RecurrentLaw {
  std::string_view name;   // as users type it
  std::string_view title;  // as a heading or a table shows it
  Transition transition = Transition::none;
  Walks walks = Walks::one;
  Features features = Features::identity;
  Normalizer normalizer = Normalizer::never;
  std::span<const RecurrentParameter> parameters = {};
  bool has_query = true, has_key = true;  // whether users give them; without, the function makes what is in their place
  // What the law computes; null: its walk as it stands.
  LawOutcome (*run)(const LawCall& call) = nullptr;
  // Of a law with a function: what it gives as the state; none: S, and z where it is normalised.
  std::span<const StatePart> state = {};
  bool over_all = false;  // of a law with a function: its walks may also be over all tokens at once
  std::string_view formula;
  std::string_view citation;
  std::span<const LawOption> options = {};

  constexpr bool has_parameter(std::string_view wanted) const {
    for (const RecurrentParameter& parameter : parameters)
      if (parameter.name == wanted) return true;
    return false;
  }
  // Whether every token may see all tokens, those after it too, which takes a sum that no token changes.
  constexpr bool may_see_all() const {
    return transition == Transition::none && walks == Walks::one && (run == nullptr || over_all);
  }
  // Whether it asks for a number, of which a layer gives the model's context.
  constexpr bool asks_for_number() const {
    for (const RecurrentParameter& parameter : parameters)
      if (parameter.required && parameter.axes.empty()) return true;
    return false;
  }
};

constexpr std::span<const StatePart> parts_of_state(const RecurrentLaw& law, bool normalized) {
  return law.state.empty() ? std::span(sums_of_state).first(normalized ? 2 : 1) : law.state;
}

}  // namespace cogwheel
