#include "cogwheel/attention/authoring/header_text.h"

namespace cogwheel::authoring {

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
// and this header names what A, e and the feature map are. What is more than the walk is a function, `run`: here keys
// times 1 - α_t. Engine, gradients and layers are there for every law.
//
//   cogwheel mechanism check --mechanism-file @name@.h     compiles it, checks it, prints its card
//   cogwheel compare --mechanism-file @name@.h --attention softmax,@name@
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_call.h"

namespace cogwheel {

// Named after the file.
struct @Struct@ {
  // What users give by name, as recurrent(…, log_decay=tensor): with its axes (Batch, Heads, tokens N, key width D,
  // value width V, Slots) and its values. The walk reads some of them itself:
  //
  //   decay "H", above_0_to_1                    of Transition::constant
  //   log_decay "BHN" or "BHND", at_most_0       of Transition::per_token or per_channel
  //   log_value_decay "BHNV", at_most_0          if wanted, beside per_channel: A is also times exp(it)ᵀ
  //   beta "BHN", from_0_to_2                    of Walks::delta
  //   delta "BHNV", at_least_0; a "HDV|DV", below_0; skip "HV|V" if wanted                of Walks::elements
  //   projection "HDR", required = false         of Features::asked, for random_fourier
  //
  // and `run` any others, as call["gate"]. A number has no axes: "".
  static constexpr RecurrentParameter parameters[]{
      {"log_decay", "BHN", Values::at_most_0},
  };

  // What the law computes: leave it out where that is the walk as it stands. recurrent_call.h says what a function may
  // do; the headers of rwkv6 (another way to read), hgrn2 (no key) and abc (two walks) are examples.
  static LawOutcome run(const LawCall& call) {
    LawWalk walk = call.walk();
    walk.key = weighted(walk.key, -expm1(walk.decay));
    return call.walked(walk);
  }

  static constexpr RecurrentLaw law{
      .name = "@name@",  // what --attention and recurrent(…) take
      .title = "@Title@",
      // A: none (1), constant (γ of the head), per_token (α_t), per_channel (α_t 1ᵀ)
      .transition = Transition::per_token,
      // one, as above; delta (e = w = β); elements (a decay for each element of S: state spaces)
      .walks = Walks::one,
      // φ of keys and queries: identity, own (of the function below), asked (recurrent(…, feature_map="…"))
      .features = Features::identity,
      // o / (z·q), with z by the same law for v = 1: never, asked (normalize=True), always
      .normalizer = Normalizer::never,
      .parameters = parameters,
      .run = run,
      .formula = "S_t = α_t S_{t-1} + (1 - α_t) k_t v_tᵀ",
      .citation = "where it comes from",
  };
};

}  // namespace cogwheel
)",
                    name);
}

}  // namespace cogwheel::authoring
