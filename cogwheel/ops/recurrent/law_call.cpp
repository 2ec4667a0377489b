#include "cogwheel/ops/recurrent/law_call.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cogwheel/attention/mechanisms/recurrent_call.h"
#include "cogwheel/ops/recurrent/delta_walk.h"
#include "cogwheel/ops/recurrent/exponential_gates.h"
#include "cogwheel/ops/recurrent/feature_maps.h"
#include "cogwheel/ops/recurrent/normalized_sums.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/recurrent/state_space.h"
#include "cogwheel/ops/recurrent/token_rows.h"
#include "cogwheel/ops/recurrent/token_walk.h"
#include "cogwheel/ops/support/bundle.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {
namespace {

struct HeldAtTensor : LawTensor::Held {
  at::Tensor tensor;

  explicit HeldAtTensor(at::Tensor given) : tensor(std::move(given)) {}
  LawTensor made(LawOperation operation, std::span<const LawTensor> others, double number) const override;
};

LawTensor in_law(at::Tensor tensor) { return LawTensor(std::make_shared<HeldAtTensor>(std::move(tensor))); }
LawTensor in_law(const OptionalTensor& tensor) { return tensor ? in_law(*tensor) : LawTensor(); }
const at::Tensor& of_law(const LawTensor& tensor) { return static_cast<const HeldAtTensor&>(tensor.held()).tensor; }
OptionalTensor if_any(const LawTensor& tensor) { return tensor ? OptionalTensor(of_law(tensor)) : std::nullopt; }

// Of rows [B, H, N, D] those dimensions.
void expect_sizes(std::string_view what, const at::Tensor& tensor, const at::Tensor& rows,
                  std::initializer_list<std::int64_t> dimensions) {
  if (rows.dim() != 4) refuse_recurrent(what, "rows of 4 dimensions", shape_text(rows));
  std::vector<c10::SymInt> sizes;
  for (const std::int64_t dimension : dimensions) sizes.push_back(rows.sym_size(dimension));
  if (tensor.sym_sizes() != c10::SymIntArrayRef(sizes)) refuse_recurrent(what, shape_text(sizes), shape_text(tensor));
}

at::Tensor outcome_of(LawOperation operation, const at::Tensor& x, std::span<const LawTensor> others, double number) {
  switch (operation) {
    case LawOperation::add:
      return x + of_law(others[0]);
    case LawOperation::subtract:
      return x - of_law(others[0]);
    case LawOperation::multiply:
      return x * of_law(others[0]);
    case LawOperation::multiply_by_number:
      return number * x;
    case LawOperation::divide_number:
      return number / x;
    case LawOperation::negate:
      return x.neg();
    case LawOperation::exp:
      return x.exp();
    case LawOperation::expm1:
      return x.expm1();
    case LawOperation::sigmoid:
      // ATen's rounds by the place of a number in memory, and a text cut in two would have other bits. Beyond -80
      // neither the value nor its derivative is more than 1e-34.
      return 1 / (x.clamp_min(-80).neg().exp() + 1);
    case LawOperation::tanh:
      return x.tanh();
    case LawOperation::relu:
      return x.relu();
    case LawOperation::cos:
      return x.cos();
    case LawOperation::sin:
      return x.sin();
    case LawOperation::softmax:
      return at::softmax(x, -1);
    case LawOperation::sum:
      return x.sum(-1, true);
    case LawOperation::for_each_token:
      return x.unsqueeze(1);
    case LawOperation::for_states: {
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(of_law(others[0]).dim()), 1);
      sizes[0] = -1;
      return x.view(sizes);
    }
    case LawOperation::first_half:
      return x.narrow_symint(2, 0, x.sym_size(2) / 2);
    case LawOperation::second_half:
      return x.narrow_symint(2, x.sym_size(2) / 2, x.sym_size(2) / 2);
    case LawOperation::join_halves:
      return at::cat({x, of_law(others[0])}, 2);
    case LawOperation::weighted:
      expect_sizes("weights of rows", of_law(others[0]), x, {0, 1, 2});
      return weighted_rows(x, of_law(others[0]));
    case LawOperation::turned:
      for (const LawTensor& each : others) expect_sizes("angles of rows", of_law(each), x, {2});
      return turned_rows(x, of_law(others[0]), of_law(others[1]), number != 0);
  }
  return {};
}

LawTensor HeldAtTensor::made(LawOperation operation, std::span<const LawTensor> others, double number) const {
  return in_law(outcome_of(operation, tensor, others, number));
}

at::Tensor with_ones(const at::Tensor& value) {
  return at::cat(
      {value, at::ones_symint({value.sym_size(0), value.sym_size(1), value.sym_size(2), 1}, value.options())}, -1);
}

// Of every token over all tokens, which no state can be cut from but the sum over all of them.
std::tuple<at::Tensor, at::Tensor> walk_over_all(const TokenWalk& walk) {
  at::Tensor state = walk.key.mT().matmul(walk.value);
  if (walk.initial_state) state = state + *walk.initial_state;
  return {(walk.scale * walk.query).matmul(state), state};
}

// Where the tokens of packed sequences belong, all int64.
struct PackedTokens {
  at::Tensor begins, ends;         // of each sequence
  at::Tensor positions, sequence;  // of each token

  PackedTokens(const at::Tensor& cu_seqlens, const c10::SymInt& tokens)
      : begins(cu_seqlens.slice_symint(0, 0, cu_seqlens.sym_size(0) - 1)),
        ends(cu_seqlens.slice_symint(0, 1)),
        positions(at::arange(tokens, cu_seqlens.options())),
        sequence(at::searchsorted(ends, positions, false, true)) {}
};

class CallOfTensors : public LawCall {
 public:
  explicit CallOfTensors(const RecurrentCall& call) : LawCall(call.law), call_(call) {
    if (call.law.has_query) query = in_law(call.query);
    key = in_law(call.key);
    value = in_law(call.value);
    for (const at::Tensor& part : call.initial_state) initial_state.push_back(in_law(part));
    scale = call.scale;
    normalized = call.normalized;
  }

  LawOutcome walked(const LawWalk& given_walk) const override {
    TokenWalk walk;
    walk.query = of_law(given_walk.query), walk.key = of_law(given_walk.key), walk.value = of_law(given_walk.value);
    walk.gate = if_any(given_walk.decay), walk.value_gate = if_any(given_walk.column_decay);
    walk.initial_state = if_any(given_walk.initial_state), walk.cu_seqlens = call_.cu_seqlens;
    walk.transition = transition_names[static_cast<int>(given_walk.transition)];
    walk.reads_before = given_walk.reads_before, walk.scale = given_walk.scale;
    if (!given_walk.normalized) {
      const auto [sums, last] = call_.causal ? token_walk(walk) : walk_over_all(walk);
      return {in_law(sums), {in_law(last)}};
    }
    // z obeys the law of S for v = 1, so it is one more column of the state, and o·z one more of the output.
    const c10::SymInt width = walk.value.sym_size(3);
    walk.counts = call_.causal && walk.transition != "per_channel" && !walk.value_gate;
    if (!walk.counts) walk.value = with_ones(walk.value);
    if (walk.initial_state)
      walk.initial_state = at::cat({*walk.initial_state, of_law(given_walk.initial_total).unsqueeze(-1)}, -1);
    const auto [sums, last] = call_.causal ? token_walk(walk) : walk_over_all(walk);
    return {
        in_law(normalized_sums(sums, if_any(given_walk.least))),
        {in_law(last.narrow_symint(-1, 0, width).contiguous()), in_law(last.select_symint(-1, width).contiguous())}};
  }

  LawOutcome walked(const ElementWalk& walk) const override {
    StateSpace space;
    space.value = of_law(walk.value), space.delta = of_law(walk.delta), space.a = of_law(walk.a);
    space.query = if_any(walk.query), space.key = if_any(walk.key);
    space.b = if_any(walk.b), space.c = if_any(walk.c), space.skip = if_any(walk.skip);
    space.initial_state = if_any(walk.initial_state), space.cu_seqlens = call_.cu_seqlens, space.scale = walk.scale;
    const auto [output, last] = state_space(space);
    return {in_law(output), {in_law(last)}};
  }

  LawTensor features(const LawTensor& x) const override { return in_law(call_.mapped(of_law(x))); }
  LawTensor computed(const LawTensor& x) const override { return in_law(of_law(x).to(call_.value.scalar_type())); }

  LawTensor positions() const override {
    const c10::SymInt tokens = call_.value.sym_size(2);
    const at::Tensor positions = at::arange(tokens, in_double()) + 1;
    if (!call_.cu_seqlens) return in_law(positions);
    const PackedTokens packed(*call_.cu_seqlens, tokens);
    return in_law(positions - packed.begins.index_select(0, packed.sequence).to(at::kDouble));
  }
  LawTensor lengths() const override {
    const c10::SymInt tokens = call_.value.sym_size(2);
    if (!call_.cu_seqlens) return in_law(at::zeros({1}, in_double()) + tokens);
    const PackedTokens packed(*call_.cu_seqlens, tokens);
    return in_law((packed.ends - packed.begins).to(at::kDouble));
  }

  ExponentialWeights exponential_weights(const LawTensor& input, const LawTensor& forget,
                                         const LawTensor& initial) const override {
    const ExponentialGates gates = exponential_gates(of_law(input), of_law(forget), if_any(initial), call_.cu_seqlens);
    return {in_law(gates.log_decay), in_law(gates.weight), in_law(gates.least), in_law(gates.last)};
  }

 protected:
  LawTensor given(std::string_view name) const override {
    const OptionalTensor found = call_.parameter(name);
    if (!found || found->dim() > 0) return in_law(found);
    return in_law(found->to(at::kDouble).to(call_.value.device()));  // a number
  }

 private:
  at::TensorOptions in_double() const { return call_.value.options().dtype(at::kDouble); }

  const RecurrentCall& call_;
};

RecurrentOutcome delta_rule(const RecurrentCall& call) {
  DeltaWalk walk;
  walk.query = call.query, walk.key = *call.key, walk.value = call.value;
  walk.beta = *call.parameter("beta"), walk.log_decay = call.parameter("log_decay");
  if (!call.initial_state.empty()) walk.initial_state = call.initial_state[0];
  walk.cu_seqlens = call.cu_seqlens, walk.scale = call.scale;
  const auto [output, last] = delta_walk(walk);
  return {output, {last}};
}

}  // namespace

OptionalTensor RecurrentCall::parameter(std::string_view name) const {
  for (const auto& [given, tensor] : parameters)
    if (given == name) return tensor;
  return std::nullopt;
}

at::Tensor RecurrentCall::mapped(const at::Tensor& x) const {
  return feature_map(features, x, parameter("projection"));
}

c10::SymInt RecurrentCall::feature_width() const {
  if (features == "random_fourier") return parameter("projection")->sym_size(2) * 2;
  return query.sym_size(3) + (features == "unit" ? 1 : 0);
}

c10::SymInt RecurrentCall::slots() const {
  for (const RecurrentParameter& listed : law.parameters)
    if (const OptionalTensor found = parameter(listed.name); found && listed.axes.ends_with('S'))
      return found->sym_size(-1);
  return query.sym_size(3);
}

RecurrentOutcome outcome_of_law(const RecurrentCall& call) {
  if (call.law.walks == Walks::delta) return delta_rule(call);
  const CallOfTensors tensors(call);
  const LawOutcome outcome = call.law.run != nullptr             ? call.law.run(tensors)
                             : call.law.walks == Walks::elements ? tensors.walked(tensors.element_walk())
                                                                 : tensors.walked(tensors.walk());
  RecurrentOutcome made{of_law(outcome.output), {}};
  for (const LawTensor& part : outcome.state) made.state.push_back(of_law(part));
  return made;
}

}  // namespace cogwheel::ops
