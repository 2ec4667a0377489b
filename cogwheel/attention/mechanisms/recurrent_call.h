// What the function of a law (RecurrentLaw::run) computes with: the tensors of a call, what may be done with them, and
// the engine's walks over the tokens.
//
// A law that is more than its walk, because its keys are made of its decays, say, brings a function:
//
//   static LawOutcome run(const LawCall& call) {
//     LawWalk walk = call.walk();                       // of what was given, as the law's parts say
//     walk.key = weighted(walk.key, -expm1(walk.decay));  // k_t times 1 − α_t
//     return call.walked(walk);
//   }
//
// No tensor is here: the host holds them, and each operation is one of its operators, so that derivatives follow by
// themselves (ops/recurrent/law_call.cpp). The check of a law runs its function without any numbers.
#pragma once
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

enum class LawOperation {
  add,
  subtract,
  multiply,
  multiply_by_number,
  divide_number,  // a number by the tensor
  negate,
  exp,
  expm1,
  sigmoid,
  tanh,
  relu,
  cos,
  sin,
  softmax,
  sum,
  for_each_token,
  for_states,
  first_half,
  second_half,
  join_halves,
  weighted,
  turned,
};

// A tensor of a call, or none. Binary operations broadcast as PyTorch's.
class LawTensor {
 public:
  class Held {  // by the host
   public:
    virtual ~Held() = default;
    virtual LawTensor made(LawOperation operation, std::span<const LawTensor> others, double number) const = 0;
  };

  LawTensor() = default;
  explicit LawTensor(std::shared_ptr<const Held> held) : held_(std::move(held)) {}
  explicit operator bool() const { return held_ != nullptr; }
  // Throws where there is none.
  const Held& held() const {
    if (held_ == nullptr) throw std::invalid_argument("a law's function: expected a tensor, got none");
    return *held_;
  }
  LawTensor made(LawOperation operation, std::initializer_list<LawTensor> others = {}, double number = 0) const {
    return held().made(operation, {others.begin(), others.size()}, number);
  }

  // Found by their arguments alone, as other names are those of numbers.
  friend LawTensor operator+(const LawTensor& x, const LawTensor& y) { return x.made(LawOperation::add, {y}); }
  friend LawTensor operator-(const LawTensor& x, const LawTensor& y) { return x.made(LawOperation::subtract, {y}); }
  friend LawTensor operator*(const LawTensor& x, const LawTensor& y) { return x.made(LawOperation::multiply, {y}); }
  friend LawTensor operator*(double number, const LawTensor& x) {
    return x.made(LawOperation::multiply_by_number, {}, number);
  }
  friend LawTensor operator/(double number, const LawTensor& x) {
    return x.made(LawOperation::divide_number, {}, number);
  }
  friend LawTensor operator-(const LawTensor& x) { return x.made(LawOperation::negate); }
  friend LawTensor exp(const LawTensor& x) { return x.made(LawOperation::exp); }
  friend LawTensor expm1(const LawTensor& x) { return x.made(LawOperation::expm1); }
  friend LawTensor sigmoid(const LawTensor& x) { return x.made(LawOperation::sigmoid); }
  friend LawTensor tanh(const LawTensor& x) { return x.made(LawOperation::tanh); }
  friend LawTensor relu(const LawTensor& x) { return x.made(LawOperation::relu); }
  friend LawTensor cos(const LawTensor& x) { return x.made(LawOperation::cos); }
  friend LawTensor sin(const LawTensor& x) { return x.made(LawOperation::sin); }
  // Over the last dimension.
  friend LawTensor softmax(const LawTensor& x) { return x.made(LawOperation::softmax); }
  // [..., D] → [..., 1]
  friend LawTensor sum(const LawTensor& x) { return x.made(LawOperation::sum); }
  // [H, D] → [H, 1, D], which broadcasts over tokens.
  friend LawTensor for_each_token(const LawTensor& x) { return x.made(LawOperation::for_each_token); }
  // [sequences], so that it broadcasts over a part of a state, [sequences, H, …].
  friend LawTensor for_states(const LawTensor& x, const LawTensor& state) {
    return x.made(LawOperation::for_states, {state});
  }
  // Of the rows of a part of a state, [sequences, H, 2 D, …].
  friend LawTensor first_half(const LawTensor& state) { return state.made(LawOperation::first_half); }
  friend LawTensor second_half(const LawTensor& state) { return state.made(LawOperation::second_half); }
  friend LawTensor join_halves(const LawTensor& first, const LawTensor& second) {
    return first.made(LawOperation::join_halves, {second});
  }
  // Rows [B, H, N, D], each times its token's number of [B, H, N], in one pass.
  friend LawTensor weighted(const LawTensor& rows, const LawTensor& weights) {
    return rows.made(LawOperation::weighted, {weights});
  }
  // Rows [B, H, N, D], or what is above 0 of them, times cosines [N] beside them times sines [N]: [B, H, N, 2 D], in
  // one pass. The product of two such rows is theirs times the cosine of the angle between them.
  friend LawTensor turned(const LawTensor& rows, const LawTensor& cosines, const LawTensor& sines, bool relu = false) {
    return rows.made(LawOperation::turned, {cosines, sines}, relu ? 1 : 0);
  }

 private:
  std::shared_ptr<const Held> held_;
};

// S_t = A_t ∘ S_{t−1} + k_t v_tᵀ, o_t = scale · S_tᵀ q_t.
struct LawWalk {
  LawTensor query = {}, key = {}, value = {};  // [B, H, N, D], alike, [B, H, N, V]
  Transition transition = Transition::none;
  LawTensor decay = {};         // γ [H], or the log of α_t
  LawTensor column_decay = {};  // [B, H, N, V], log decays of the state's columns
  LawTensor initial_state = {};
  bool reads_before = false;  // o_t = scale · S_{t−1}ᵀ q_t, of a decay per channel
  double scale = 1;
  // Divides by z·q, z by the same walk for v = 1, and after S gives z as a part of the state.
  bool normalized = false;
  LawTensor initial_total = {};  // z before the first token
  LawTensor least = {};          // [B, H, N], a constant: divides by max(|z·q|, least)
};

// S_t = exp(Δ_t ∘ a) ∘ S_{t−1} + k_t (Δ_t ∘ v_t)ᵀ, o_t = scale · S_tᵀ q_t + skip ∘ v_t, with queries and keys of every
// token; or with `b` and `c` in their places and Δ of the head: S_t = exp(Δ ∘ a) ∘ S_{t−1} + b ∘ 1 v_tᵀ,
// o_t = scale · (c ∘ S_t)ᵀ 1 + skip ∘ v_t.
struct ElementWalk {
  LawTensor query = {}, key = {}, value = {};
  LawTensor b = {}, c = {};  // [H, D, V]
  LawTensor delta = {}, a = {}, skip = {};
  LawTensor initial_state = {};
  double scale = 1;
};

struct LawOutcome {
  LawTensor output;              // [B, H, N, V]
  std::vector<LawTensor> state;  // after the last token, in the order of RecurrentLaw::state
};

// Weights that grow as exp(input) and are kept in the units of their running maximum, m_t = max(log σ(forget_t) +
// m_{t−1}, input_t, 0), in which all sums up to token t are times exp(−m_t).
struct ExponentialWeights {
  LawTensor log_decay;  // log σ(forget_t) + m_{t−1} − m_t, at most 0
  LawTensor weight;     // exp(input_t − m_t), of what is written
  LawTensor least;      // exp(−m_t), what 1 is in these units; without a gradient
  LawTensor last;       // [sequences, H]: m after the last token; without a gradient, as a choice of units
};

class LawCall {
 public:
  explicit LawCall(const RecurrentLaw& law) : law_(law) {}
  virtual ~LawCall() = default;

  LawTensor query, key, value;           // in the dtype that is computed in; none where the law takes none
  std::vector<LawTensor> initial_state;  // none, or all parts
  double scale = 1;
  bool normalized = false;

  // What users give by that name, which the law must list; none where it is not required and was not given.
  LawTensor operator[](std::string_view name) const {
    if (!law_.has_parameter(name))
      throw std::invalid_argument("a law's function: expected one of its parameters, got " + std::string(name));
    return given(name);
  }
  // A part of the state before the first token; none where that is 0.
  LawTensor state(std::size_t part) const { return initial_state.empty() ? LawTensor() : initial_state.at(part); }

  // The walks of this call, as the parts of the law say.
  LawWalk walk() const {
    const Transition transition = law_.transition;
    return {.query = query ? features(query) : query,
            .key = key ? features(key) : key,
            .value = value,
            .transition = transition,
            .decay = transition == Transition::none ? LawTensor() : given(decay_name(transition)),
            .column_decay = given("log_value_decay"),
            .initial_state = state(0),
            .scale = scale,
            .normalized = normalized,
            .initial_total = normalized ? state(1) : LawTensor()};
  }
  ElementWalk element_walk() const {
    return {.query = query,
            .key = key,
            .value = value,
            .delta = given("delta"),
            .a = given("a"),
            .skip = given("skip"),
            .initial_state = state(0),
            .scale = scale};
  }
  virtual LawOutcome walked(const LawWalk& walk) const = 0;
  virtual LawOutcome walked(const ElementWalk& walk) const = 0;

  // φ of keys or queries, where callers choose it (Features::asked).
  virtual LawTensor features(const LawTensor& x) const = 0;
  // In the dtype that is computed in, such as what was made of positions.
  virtual LawTensor computed(const LawTensor& x) const = 0;
  // [N], of each token its place in its sequence, from 1; and [sequences], how many tokens each has. float64.
  virtual LawTensor positions() const = 0;
  virtual LawTensor lengths() const = 0;
  // input and forget [B, H, N], initial [sequences, H] or none.
  virtual ExponentialWeights exponential_weights(const LawTensor& input, const LawTensor& forget,
                                                 const LawTensor& initial) const = 0;

 protected:
  // None where the law does not list it, or it was not given.
  virtual LawTensor given(std::string_view name) const = 0;

  const RecurrentLaw& law_;
};

}  // namespace cogwheel
