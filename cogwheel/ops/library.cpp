// The schemas of torch.ops.cogwheel, and the dispatching calls of C++.
#include <torch/library.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/attention/mechanisms/recurrent_law_check.h"
#include "cogwheel/ops/bfloat16_products.h"
#include "cogwheel/ops/pairwise/attention_schema.h"
#include "cogwheel/ops/pairwise/operators.h"
#include "cogwheel/ops/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/parameters.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/plain_call.h"

namespace cogwheel::ops {

namespace {

std::string pairwise_schema() {
  return "pairwise(Tensor query, Tensor key, Tensor value, Tensor parameters, str mechanism, " +
         schema_of<PairwiseOptions>() + ", " + schema_of<WantedOutputs>() +
         ") -> (Tensor output, Tensor shift, Tensor mass, Tensor statistics)";
}

std::string pairwise_backward_schema() {
  std::string results = "Tensor";
  for (std::size_t i = 1; i < std::tuple_size_v<PairwiseGradients>; ++i) results += ", Tensor";
  return "pairwise_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor parameters, " +
         schema_of<PairwiseSaved>() + ", str mechanism, " + schema_of<WantedGradients>() + ", " +
         schema_of<PairwiseOptions>() + ") -> (" + results + ")";
}

// Whether any option of a call is a tensor.
bool has_tensors(const PairwiseOptions& options) {
#define PAIRWISE_DIFFERENTIABLE(name, extent) \
  if (options.name) return true;
#define PAIRWISE_TENSOR(name) \
  if (options.name) return true;
#include "cogwheel/ops/pairwise/pairwise_options.def"
  return false;
}

std::string mixture_statistics_schema() {
  return "mixture_statistics(Tensor query, Tensor key, Tensor value, Tensor parameters, Tensor shift, Tensor mass, "
         "Tensor? coefficient, str mechanism, " +
         schema_of<PairwiseOptions>() + ", bool argmax=False) -> Tensor";
}

at::Tensor plain_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           c10::string_view mechanism, bool causal) {
  AttentionOptions options;
  options.causal = causal;
  return attention(query, key, value, mechanism, options);
}

}  // namespace

TORCH_LIBRARY(cogwheel, library) {
  const std::string query_key_value = "Tensor query, Tensor key, Tensor value";
  library.def(attention_schema("attention", query_key_value, "Tensor").c_str(), Unbundled<attention>::call);
  // The same without options: reading two dozen arguments would cost as much as the attention of a few tokens.
  library.def(("attention.plain(" + query_key_value + ", str mechanism, bool causal) -> Tensor").c_str(),
              plain_attention);
  library.def(attention_schema("attention_weights", "Tensor query, Tensor key", "Tensor").c_str(),
              Unbundled<attention_weights>::call);
  library.def(attention_schema("cache_attend",
                               "Tensor query, Tensor cache_key, Tensor cache_value, Tensor cache_lengths, "
                               "Tensor? query_lengths",
                               "Tensor")
                  .c_str());
  library.def(
      attention_schema("attention_statistics", query_key_value + ", bool argmax", "(Tensor output, Tensor statistics)")
          .c_str(),
      Unbundled<attention_statistics>::call);
  library.def(
      "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, str mechanism, *, Tensor? attn_mask=None, "
      "float dropout_p=0.0, Tensor? seed=None, bool is_causal=False, float? scale=None, bool enable_gqa=False) -> "
      "Tensor",
      ops::scaled_dot_product_attention);
  library.def("mechanisms() -> str", ops::mechanisms);
  library.def("bfloat16_products() -> str", ops::measured_products_json);
  // A user's own mechanism; "" where n or the energy is not given. Each returns the name.
  library.def(
      "define_mechanism(str name, str f, str g, str n, str energy, str[] parameter_names, float[] parameter_values) -> "
      "str",
      ops::define_mechanism);
  library.def("define_mechanism_line(str line) -> str", ops::define_mechanism_line);
  library.def("load_mechanism(str path) -> str", ops::load_mechanism);
  library.def("mechanism_card(str name) -> str", ops::mechanism_card);
  // The library may load with another version of torch than its own and fail later; Python compares the two.
  library.def("built_for_torch() -> str", [] { return std::string(TORCH_VERSION); });
  library.def(pairwise_schema().c_str());
  library.def(pairwise_backward_schema().c_str());
  library.def(mixture_statistics_schema().c_str());
}

// vmap has a loop only over operators with kernels (vmap.cpp); these decompose into such.
TORCH_LIBRARY_IMPL(cogwheel, FuncTorchBatched, library) {
  library.impl("attention", Unbundled<attention>::call);
  library.impl("attention.plain", plain_attention);
  library.impl("attention_weights", Unbundled<attention_weights>::call);
  library.impl("attention_statistics", Unbundled<attention_statistics>::call);
  library.impl("scaled_dot_product_attention", ops::scaled_dot_product_attention);
}

PairwiseOutputs pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const at::Tensor& parameters, std::string_view mechanism, const PairwiseOptions& options,
                         const WantedOutputs& wanted) {
  if (!has_tensors(options) && is_plain_call({&query, &key, &value, &parameters}))
    return pairwise_on_device(query, key, value, parameters, mechanism, options, wanted);
  static const auto handle = find_operator<Unbundled<pairwise>::Signature>("cogwheel::pairwise");
  return Unbundled<pairwise>::dispatch(handle, query, key, value, parameters, mechanism, options, wanted);
}

PairwiseGradients pairwise_backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const at::Tensor& parameters, const PairwiseSaved& saved,
                                    std::string_view mechanism, const WantedGradients& wanted,
                                    const PairwiseOptions& options) {
  static const auto handle = find_operator<Unbundled<pairwise_backward>::Signature>("cogwheel::pairwise_backward");
  return Unbundled<pairwise_backward>::dispatch(handle, gradient, query, key, value, parameters, saved, mechanism,
                                                wanted, options);
}

at::Tensor mixture_statistics(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              const at::Tensor& parameters, const MixtureMembers& members, std::string_view mechanism,
                              const PairwiseOptions& options, bool argmax) {
  static const auto handle = find_operator<Unbundled<mixture_statistics>::Signature>("cogwheel::mixture_statistics");
  return Unbundled<mixture_statistics>::dispatch(handle, query, key, value, parameters, members, mechanism, options,
                                                 argmax);
}

std::string mechanisms() {
  auto catalogue = nlohmann::ordered_json::array();
  for (const Mechanism& mechanism : all_mechanisms()) {
    const Description& d = mechanism.description;
    const PairwiseMechanism pairwise = mechanism.pairwise() ? *mechanism.pairwise() : PairwiseMechanism();
    const auto or_null = [](std::string_view text) {
      return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
    };
    auto axes = nlohmann::ordered_json::object(), values = nlohmann::ordered_json::object(),
         state = nlohmann::ordered_json::object();
    auto optional = nlohmann::ordered_json::array();
    if (const RecurrentLaw* law = mechanism.recurrent()) {
      for (const RecurrentParameter& parameter : law->parameters) {
        axes[std::string(parameter.name)] = parameter.axes;
        values[std::string(parameter.name)] = name_in(values_names, parameter.values);
        if (!parameter.required) optional.push_back(parameter.name);
      }
      for (const StatePart& part : parts_of_state(*law, law->normalizer == Normalizer::always))
        state[std::string(part.name)] = part.axes;
    }
    const auto parameters = parameter_names(mechanism);
    for (std::size_t i = 0; i < pairwise.parameter_defaults.size(); ++i) optional.push_back(parameters[i]);
    auto inputs = nlohmann::ordered_json::array();
    if (mechanism.recurrent() == nullptr || mechanism.recurrent()->has_query) inputs.push_back("query");
    if (mechanism.recurrent() == nullptr || mechanism.recurrent()->has_key) inputs.push_back("key");
    inputs.push_back("value");
    catalogue.push_back({{"name", d.name},
                         {"title", d.title},
                         {"family", d.family},
                         {"level", d.level},
                         {"form", or_null(pairwise.form)},
                         {"member", or_null(pairwise.member)},
                         {"inputs", std::move(inputs)},
                         {"parameters", parameter_names(mechanism)},
                         {"parameter_axes", std::move(axes)},
                         {"parameter_values", std::move(values)},
                         {"optional_parameters", std::move(optional)},
                         {"state", std::move(state)},
                         {"score", mechanism.recurrent() ? nlohmann::ordered_json() : nlohmann::ordered_json(d.score)},
                         {"formula", d.formula},
                         {"range", d.range},
                         {"citation", d.citation},
                         {"definition", or_null(mechanism.definition)}});
  }
  return catalogue.dump();
}

}  // namespace cogwheel::ops
