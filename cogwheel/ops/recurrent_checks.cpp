#include "cogwheel/ops/recurrent_checks.h"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "cogwheel/core/nearest_names.h"
#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/checks.h"

namespace cogwheel {
namespace {

constexpr std::int64_t max_key_width = 256;

std::string of_recurrent(std::string_view argument) { return "recurrent: " + std::string(argument); }

void check_rank_and_type(std::string_view argument, const at::Tensor& tensor, const at::Tensor& query) {
  if (tensor.dim() != 4)
    refuse_recurrent(argument, "4 dimensions [batch, heads, tokens, width]",
                     std::to_string(tensor.dim()) + " " + shape_text(tensor));
  check_numbers("recurrent", argument, tensor);
  if (tensor.scalar_type() != query.scalar_type()) refuse_dtype(of_recurrent(argument), tensor, query, "query");
}

void check_device_of_query(std::string_view argument, const at::Tensor& tensor, const at::Tensor& query) {
  if (tensor.device() != query.device()) refuse_device(of_recurrent(argument), tensor, query, "query");
}

void check_recurrent_sizes(std::string_view argument, const at::Tensor& tensor, c10::SymIntArrayRef sizes) {
  if (tensor.sym_sizes() != sizes) refuse_recurrent(argument, shape_text(sizes), shape_text(tensor));
}

}  // namespace

void refuse_recurrent(std::string_view argument, const std::string& expected, const std::string& got) {
  refuse_argument(of_recurrent(argument), expected, got);
}

const RecurrentLaw& checked_recurrent_law(std::string_view mechanism) {
  if (const RecurrentLaw* law = find_recurrent_law(mechanism)) return *law;
  if (mechanism_or_null(mechanism))
    refuse_recurrent("mechanism", "a recurrent one (cogwheel.attention takes this one)", std::string(mechanism));
  std::vector<std::string> known;
  for (const Mechanism& each : mechanisms())
    if (each.recurrent() != nullptr) known.emplace_back(each.description.name);
  refuse_recurrent("mechanism", expected_names(mechanism, known), std::string(mechanism));
}

void check_recurrent(const RecurrentLaw& law, const at::Tensor& query, const std::optional<at::Tensor>& key,
                     const at::Tensor& value, const std::optional<at::Tensor>& gate) {
  check_rank_and_type("query", query, query);
  if (query.sym_size(3) < 1 || query.sym_size(3) > max_key_width)
    refuse_recurrent("query head_dim", "1 to " + std::to_string(max_key_width), size_text(query.sym_size(3)));
  if (key) {
    check_rank_and_type("key", *key, query);
    check_device_of_query("key", *key, query);
    check_recurrent_sizes("key", *key, query.sym_sizes());
  }
  check_rank_and_type("value", value, query);
  check_device_of_query("value", value, query);
  if (value.sym_size(3) < 1) refuse_recurrent("value width", "1 or more", size_text(value.sym_size(3)));
  check_recurrent_sizes("value", value, {query.sym_size(0), query.sym_size(1), query.sym_size(2), value.sym_size(3)});
  if (!gate) return;
  const at::ScalarType type = gate->scalar_type();
  if (type != query.scalar_type() && type != computed_type(query))
    refuse_dtype(of_recurrent(law.gate()), *gate, query, "query");
  check_device_of_query(law.gate(), *gate, query);
  const c10::SymInt heads = query.sym_size(1);
  if (law.transition == Transition::constant)
    check_recurrent_sizes(law.gate(), *gate, {heads});
  else if (law.transition == Transition::per_token)
    check_recurrent_sizes(law.gate(), *gate, {query.sym_size(0), heads, query.sym_size(2)});
  else
    check_recurrent_sizes(law.gate(), *gate, query.sym_sizes());
}

void check_recurrent_state(std::string_view name, const at::Tensor& state, const at::Tensor& query,
                           c10::SymIntArrayRef sizes) {
  if (state.scalar_type() != computed_type(query))
    refuse_recurrent(std::string(name) + " dtype", c10::toString(computed_type(query)),
                     c10::toString(state.scalar_type()));
  check_device_of_query(name, state, query);
  check_recurrent_sizes(name, state, sizes);
}

void check_gate_values(const RecurrentLaw& law, const at::Tensor& gate) {
  const bool constant = law.transition == Transition::constant;
  AT_DISPATCH_FLOATING_TYPES(gate.scalar_type(), "cogwheel::token_walk", [&] {
    const at::Tensor numbers = gate.contiguous();
    const scalar_t *begin = numbers.const_data_ptr<scalar_t>(), *end = begin + numbers.numel();
    // Written so that a NaN is none of them.
    const auto allowed = [constant](scalar_t x) { return constant ? x > 0 && x <= 1 : x <= 0; };
    const scalar_t* refused = std::find_if_not(begin, end, allowed);
    if (refused == end) return;
    std::ostringstream got;
    got << *refused;
    refuse_recurrent(law.gate(), constant ? "values above 0, up to 1" : "values of at most 0", got.str());
  });
}

}  // namespace cogwheel
