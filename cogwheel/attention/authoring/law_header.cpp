#include "cogwheel/attention/authoring/header_text.h"

namespace cogwheel {

std::string law_to_start_from(std::string_view name) {
  return named_text(R"(// @name@: its purpose in one line.
//
//   S_t = α_t S_{t-1} + (1 - α_t) k_t v_tᵀ, o_t = scale · S_tᵀ q_t
//   Where it comes from: authors, title (year), equation.
//
// A mechanism with a state is a law (cogwheel/attention/mechanisms/recurrent_contract.h): of one head, with a state S [D, Dv],
//
//   S′ = A_t ∘ S_{t-1},   S_t = S′ + k_t (w_t v_t - e_t S′ᵀ k_t)ᵀ,   o_t = scale · S_tᵀ q_t
//
// and this header names what A, k, w, e and o are. It holds no code: engine, gradients and layers are there for every
// law.
//
//   cogwheel mechanism check --mechanism-file @name@.h     compiles it, checks it, prints its card
//   cogwheel compare --mechanism-file @name@.h --attention softmax,@name@
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

// Named after the file.
struct @Struct@ {
  // What users give by name, as recurrent(…, log_decay=tensor). The parts of the law below decide which tensors it
  // reads, with which axes (Batch, Heads, tokens N, key width D, value width V, Slots) and which values:
  //
  //   decay "H", above_0_to_1                    of Transition::constant
  //   log_decay "BHN" or "BHND", at_most_0       of Transition::per_token or per_channel
  //   log_value_decay "BHNV", at_most_0          if wanted, beside per_channel: A is also times exp(it)ᵀ
  //   bonus "HD"                                 of Read::before_with_bonus
  //   input_gate, forget_gate "BHN", number      of Write::key_by_input_gate, in the place of log_decay
  //   horizon "", above_0                        of Walks::phases, a number
  //   beta "BHN", from_0_to_2                    of Walks::delta
  //   phi "BHNS"                                 of Walks::slots; also log_decay "BHNS", at_most_0, if wanted
  //   delta "BHNV", at_least_0; a "HDV|DV", below_0; skip "HV|V" if wanted                of Walks::elements
  //   projection "HDR", required = false         of Features::asked, for random_fourier
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHN", Values::at_most_0},
  };

  static constexpr RecurrentLaw law{
      .name = "@name@",  // what --attention and recurrent(…) take
      .title = "@Title@",
      // A: none (1), constant (γ of the head), per_token (α_t), per_channel (α_t 1ᵀ)
      .transition = Transition::per_token,
      // k and w: key (w = 1), key_by_complement (w = 1 - α), key_by_input_gate (w = exp(i), α = σ(f)),
      // complement (k = 1 - α, there is no key), of_head (`b` in the place of k, there is no key)
      .write = Write::key_by_complement,
      // o: after (S_tᵀ q), before_with_bonus (S_{t-1}ᵀ q + (q·(u ∘ k)) v), of_head (`c` in the place of q)
      .read = Read::after,
      // one, as above; phases (keys and queries turn with their positions), delta (e = w = β), slots (keys and values
      // in slots, read by a softmax), elements (a decay for each element of S: state spaces)
      .walks = Walks::one,
      // φ of keys and queries: identity, relu, asked (recurrent(…, feature_map="…"))
      .features = Features::identity,
      // o / (z·q), with z by the same law for v = 1: never, asked (normalize=True), always, at_least_one
      // (o / max(1, |z·q|))
      .normalizer = Normalizer::never,
      .parameters = parameters,
      .formula = "S_t = α_t S_{t-1} + (1 - α_t) k_t v_tᵀ",
      .citation = "where it comes from",
  };
};

}  // namespace cogwheel
)",
                    name);
}

}  // namespace cogwheel
