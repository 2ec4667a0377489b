// The recurrent contract: what a mechanism with a state must say of itself.
//
// Of one head, with a state S [D, Dv] that is 0 or given before the first token:
//   S′ = A_t ∘ S_{t−1},   S_t = S′ + k_t (w_t v_t − e_t S′ᵀk_t)ᵀ,   o_t = scale · S_tᵀ q_t
// with A = w = 1 and e = 0 unless the law says more. Normalised: o_t / (z_t·q_t), with z by the same law for v = 1, and
// 0 where z_t·q_t is 0.
//
// A law names where A comes from, how S is updated, what is written and read, the feature map of keys and queries, and
// the normaliser, and lists the tensors that users give it by name. Engines are made per transition and not per law:
// what is written and read differs before and after the walk over the tokens (ops/recurrent/recurrent.cpp), which
// itself meets q, k, v and A alone.
#pragma once
#include <span>
#include <string_view>

namespace cogwheel {

// A, and the parameter that it is made of.
enum class Transition {
  none,         // 1
  constant,     // γ of the head: `decay` [H]
  per_token,    // α_t = exp(`log_decay` [B, H, N])
  per_channel,  // α_t 1ᵀ, α_t = exp(`log_decay` [B, H, N, D])
};
inline constexpr std::string_view transition_names[]{"none", "constant", "per_token", "per_channel"};

// k and w.
enum class Write {
  key,                // k as given, w = 1
  key_by_complement,  // k as given, w = 1 − α
  key_by_input_gate,  // k as given, w = exp(`input_gate`), and α = σ(`forget_gate`)
  complement,         // k = 1 − α, w = 1: there is no key
  of_head,            // `b` [H, D, Dv] of every token in the place of k: there is no key
};

enum class Read {
  after,              // o_t = Sᵀ_t q_t
  before_with_bonus,  // o_t = Sᵀ_{t−1} q_t + (q_t·(u ∘ k_t)) v_t, with u the `bonus`
  of_head,            // `c` [H, D, Dv] of every token in the place of q: there is no query
};

// What the walks over the tokens are, and S with them.
enum class Walks {
  one,     // as above
  phases,  // keys and queries turn with their positions, by π/2 in `horizon` tokens: S is [2 D, Dv]
  delta,   // as above with e = w = `beta`, and A by the dimensions of `log_decay` where the law has that
  slots,  // K += k φᵀ and V += φ vᵀ with φ = `phi`, o = Vᵀ softmax(Kᵀq): S is K [D, slots] and V [slots, Dv]
  // A_t = exp(Δ_t ∘ a), a number for each element of S, with Δ = `delta` and `a`; w_t = Δ_t where Δ is of every token;
  // o_t += `skip` ∘ v_t. `scale` is 1 unless given.
  elements,
};

// φ of keys and queries: of the law, or as the caller asks.
enum class Features { identity, relu, asked };

enum class Normalizer {
  never,
  asked,
  always,
  at_least_one,  // o / max(1, |z·q|)
};

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

struct RecurrentLaw {
  std::string_view name;   // as users type it
  std::string_view title;  // as a heading or a table shows it
  Transition transition = Transition::none;
  Write write = Write::key;
  Read read = Read::after;
  Walks walks = Walks::one;
  Features features = Features::identity;
  Normalizer normalizer = Normalizer::never;
  std::span<const RecurrentParameter> parameters = {};
  std::string_view formula;
  std::string_view citation;

  constexpr bool has_key() const { return write != Write::complement && write != Write::of_head; }
  constexpr bool has_query() const { return read != Read::of_head; }
  constexpr bool has_parameter(std::string_view wanted) const {
    for (const RecurrentParameter& parameter : parameters)
      if (parameter.name == wanted) return true;
    return false;
  }
  // Whether every token may see all tokens, those after it too, which takes a sum that no token changes.
  constexpr bool may_see_all() const {
    return transition == Transition::none && read == Read::after && (walks == Walks::one || walks == Walks::phases);
  }
};

}  // namespace cogwheel
