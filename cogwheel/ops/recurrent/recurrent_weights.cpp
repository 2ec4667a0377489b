// The weights of mechanisms with a state, and the operators of the family.
#include <ATen/ops/eye.h>
#include <torch/library.h>

#include "cogwheel/ops/pairwise/statistics_of_weights.h"
#include "cogwheel/ops/recurrent/recurrent.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/recurrent/recurrent_schema.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {

namespace {

at::Tensor identity_values(const at::Tensor& query) {
  const c10::SymInt tokens = query.sym_size(2);
  return at::eye_symint(tokens, query.options()).expand_symint({query.sym_size(0), query.sym_size(1), tokens, tokens});
}

// Each column of the state by itself, of which there are as many as in `of_columns` [B, H, N, Dv], as a head of its own
// whose columns all decay as that one: [B, H · Dv, …].
at::Tensor weights_of_columns(const at::Tensor& query, const OptionalTensor& key, const RecurrentLaw& law,
                              RecurrentOptions options, const at::Tensor& of_columns) {
  const std::int64_t columns = of_columns.size(3);
  const auto repeated = [&](const at::Tensor& x, std::int64_t dimension) {
    return x.repeat_interleave(columns, dimension);
  };
  const at::Tensor values = identity_values(repeated(query, 1));
  const c10::SymInt heads = query.sym_size(1), tokens = query.sym_size(2);
  // Of a head's columns [H or 1, …, Dv], to those of H · Dv heads, each alike in all its columns.
  const auto as_heads = [&](const at::Tensor& x, std::int64_t first) {
    const at::Tensor apart = x.movedim(-1, first + 1).flatten(first, first + 1).unsqueeze(-1);
    std::vector<c10::SymInt> sizes = apart.sym_sizes().vec();
    sizes.back() = tokens;
    return apart.expand_symint(sizes);
  };
  const auto of_every_head = [&](const at::Tensor& x) {
    std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
    sizes.insert(sizes.begin(), heads);
    return x.unsqueeze(0).expand_symint(sizes);
  };
  for (auto& [name, tensor] : options.parameters)
    for (const RecurrentParameter& parameter : law.parameters) {
      if (parameter.name != name || parameter.axes.empty()) continue;
      check_recurrent_axes(name, tensor, query, of_columns, parameter.axes);
      const std::string_view axes = chosen_axes(parameter.axes, tensor.dim());
      const std::size_t of_heads = axes.find('H');
      const bool has_heads = of_heads != std::string_view::npos;
      const auto first = has_heads ? static_cast<std::int64_t>(of_heads) : 0;
      if (axes.ends_with('V'))
        tensor = as_heads(has_heads ? tensor : of_every_head(tensor), first);
      else if (has_heads)
        tensor = repeated(tensor, first);
    }
  const OptionalTensor keys = key ? OptionalTensor(repeated(*key, 1)) : std::nullopt;
  const at::Tensor weights = std::get<0>(recurrent(repeated(query, 1), keys, values, law.name, options));
  return weights.unflatten(1, {query.size(1), columns});
}

}  // namespace

at::Tensor recurrent_weights(const OptionalTensor& query_, const OptionalTensor& key, std::string_view mechanism,
                             const RecurrentOptions& options) {
  const RecurrentLaw& law = checked_recurrent_law(mechanism);
  if (!law.has_query) refuse_recurrent("mechanism", "one with queries, for weights", std::string(law.name));
  if (!query_) refuse_recurrent("query", "a tensor", "nothing");
  const at::Tensor& query = *query_;
  if (!options.initial_state.empty()) refuse_recurrent("initial_state", "nothing, for weights", "a tensor");
  if (options.cu_seqlens) refuse_recurrent("cu_seqlens", "nothing, for weights", shape_text(*options.cu_seqlens));
  for (const auto& [name, tensor] : options.parameters)
    for (const RecurrentParameter& parameter : law.parameters)
      if (parameter.name == name && parameter.axes == "BHNV" && tensor.dim() == 4 && query.dim() == 4 &&
          key.has_value() == law.has_key)
        return weights_of_columns(query, key, law, options, tensor);
  if (query.dim() != 4)  // the check of `recurrent` says what is wrong, of values that are made of the query
    return std::get<0>(recurrent(query, key, query, mechanism, options));
  return std::get<0>(recurrent(query, key, identity_values(query), mechanism, options));
}

std::tuple<at::Tensor, at::Tensor> recurrent_statistics(const OptionalTensor& query, const OptionalTensor& key,
                                                        const at::Tensor& value, std::string_view mechanism,
                                                        const RecurrentOptions& options) {
  const at::Tensor output = std::get<0>(recurrent(query, key, value, mechanism, options));
  const at::NoGradGuard none;
  const at::Tensor weights = recurrent_weights(query, key, mechanism, options).to(computed_type(value));
  const c10::SymInt tokens = weights.sym_size(-1);
  const at::Tensor seen = keys_seen(tokens, tokens, options.causal, {}, weights);
  if (weights.dim() == 4) return {output, statistics_of_weights(weights, seen)};
  const at::Tensor rows = statistics_of_weights(weights.flatten(1, 2), seen);
  return {output, rows.unflatten(2, {weights.size(1), weights.size(2)})};
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  const std::string key_and_query = "Tensor? query, Tensor? key", and_value = key_and_query + ", Tensor value";
  library.def(recurrent_schema("recurrent", and_value, "(Tensor output, Tensor[] state)").c_str(),
              Unbundled<recurrent>::call);
  library.def(recurrent_schema("recurrent_weights", key_and_query, "Tensor").c_str(),
              Unbundled<recurrent_weights>::call);
  library.def(recurrent_schema("recurrent_statistics", and_value, "(Tensor output, Tensor statistics)").c_str(),
              Unbundled<recurrent_statistics>::call);
}

// As in library.cpp: vmap has a loop over the walk alone.
TORCH_LIBRARY_IMPL(cogwheel, FuncTorchBatched, library) {
  library.impl("recurrent", Unbundled<recurrent>::call);
  library.impl("recurrent_weights", Unbundled<recurrent_weights>::call);
  library.impl("recurrent_statistics", Unbundled<recurrent_statistics>::call);
}

}  // namespace cogwheel::ops
