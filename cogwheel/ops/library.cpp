// The schemas of torch.ops.cogwheel, and the dispatching calls of C++.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/attention_schema.h"
#include "cogwheel/ops/operators.h"
#include "cogwheel/ops/pairwise_schema.h"
#include "cogwheel/ops/parameters.h"

namespace cogwheel {

TORCH_LIBRARY(cogwheel, library) {
  const std::string attention_options = attention_options_schema;
  library.def(("attention(Tensor query, Tensor key, Tensor value, " + attention_options + " -> Tensor").c_str(),
              UnbundledOptions<at::Tensor, at::Tensor, at::Tensor>::call<attention>);
  library.def(("attention_weights(Tensor query, Tensor key, " + attention_options + " -> Tensor").c_str(),
              UnbundledOptions<at::Tensor, at::Tensor>::call<attention_weights>);
  library.def(("cache_attend(Tensor query, Tensor cache_key, Tensor cache_value, Tensor cache_lengths, "
               "Tensor? query_lengths, " +
               attention_options + " -> Tensor")
                  .c_str());
  library.def(
      "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, str mechanism, *, Tensor? attn_mask=None, "
      "float dropout_p=0.0, Tensor? seed=None, bool is_causal=False, float? scale=None, bool enable_gqa=False) -> "
      "Tensor",
      operators::scaled_dot_product_attention);
  library.def(("attention_statistics(Tensor query, Tensor key, Tensor value, bool argmax, " + attention_options +
               " -> (Tensor output, Tensor statistics)")
                  .c_str(),
              UnbundledOptions<at::Tensor, at::Tensor, at::Tensor, bool>::call<attention_statistics>);
  library.def("mechanisms() -> str", operators::mechanisms);
  // A user's own mechanism; "" where n or the energy is not given. Each gives the name.
  library.def(
      "define_mechanism(str name, str f, str g, str n, str energy, str[] parameter_names, float[] parameter_values) -> "
      "str",
      operators::define_mechanism);
  library.def("define_mechanism_line(str line) -> str", operators::define_mechanism_line);
  library.def("load_mechanism(str path) -> str", operators::load_mechanism);
  library.def("mechanism_card(str name) -> str", operators::mechanism_card);
  // A library may load beside another torch than its own and go wrong later; Python compares.
  library.def("built_for_torch() -> str", [] { return std::string(TORCH_VERSION); });
  library.def(pairwise_schema);
  library.def(pairwise_backward_schema);
  library.def(mixture_statistics_schema);
}

// vmap makes fallbacks for operators with kernels alone; these fall apart into such.
TORCH_LIBRARY_IMPL(cogwheel, FuncTorchBatched, library) {
  library.impl("attention", UnbundledOptions<at::Tensor, at::Tensor, at::Tensor>::call<attention>);
  library.impl("attention_weights", UnbundledOptions<at::Tensor, at::Tensor>::call<attention_weights>);
  library.impl("attention_statistics",
               UnbundledOptions<at::Tensor, at::Tensor, at::Tensor, bool>::call<attention_statistics>);
  library.impl("scaled_dot_product_attention", operators::scaled_dot_product_attention);
}

namespace {

template <class Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

PairwiseOutputs pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const at::Tensor& parameters, std::string_view mechanism, const PairwiseOptions& options) {
  static const auto handle = find_operator<PairwiseSignature>("cogwheel::pairwise");
  const auto& o = options;
  return handle.call(query, key, value, parameters, mechanism, o.scale, o.mask, o.window, o.sub_heads, o.key_lengths,
                     o.ranges, o.bias, o.energy_bias, o.alibi, o.centers, o.sigma, o.dropout, o.seed, o.score_weight,
                     o.wide_output, o.first_positions, o.statistics, o.argmax);
}

PairwiseGradients pairwise_backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const at::Tensor& parameters, const PairwiseSaved& saved,
                                    std::string_view mechanism, const WantedGradients& wanted,
                                    const PairwiseOptions& options) {
  static const auto handle = find_operator<PairwiseBackwardSignature>("cogwheel::pairwise_backward");
  const auto& o = options;
  return handle.call(gradient, query, key, value, parameters, saved.output, saved.shift, saved.mass, mechanism,
                     wanted.bias, wanted.energy_bias, wanted.centers, o.scale, o.mask, o.window, o.sub_heads,
                     o.key_lengths, o.ranges, o.bias, o.energy_bias, o.alibi, o.centers, o.sigma, o.dropout, o.seed,
                     o.score_weight, o.first_positions);
}

at::Tensor mixture_statistics(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const at::Tensor& parameters, const MixtureMembers& members, std::string_view mechanism,
                              const PairwiseOptions& options) {
  static const auto handle = find_operator<MixtureStatisticsSignature>("cogwheel::mixture_statistics");
  const auto& o = options;
  return handle.call(query, key, value, parameters, members.shift, members.mass, members.coefficient, mechanism,
                     o.scale, o.mask, o.window, o.sub_heads, o.key_lengths, o.ranges, o.bias, o.energy_bias, o.alibi,
                     o.centers, o.sigma, o.dropout, o.seed, o.score_weight, o.argmax, o.first_positions);
}

std::string operators::mechanisms() {
  auto catalogue = nlohmann::json::array();
  for (const Mechanism& mechanism : all_mechanisms()) {
    const Description& d = mechanism.description;
    const auto or_null = [](std::string_view text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); };
    catalogue.push_back({{"name", d.name},
                         {"title", d.title},
                         {"family", d.family},
                         {"level", d.level},
                         {"form", or_null(mechanism.form)},
                         {"member", or_null(mechanism.member)},
                         {"parameters", parameter_names(mechanism)},
                         {"formula", d.formula},
                         {"range", d.range},
                         {"citation", d.citation},
                         {"definition", or_null(mechanism.definition)}});
  }
  return catalogue.dump();
}

}  // namespace cogwheel
