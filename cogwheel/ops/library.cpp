// The schemas of torch.ops.cogwheel, and the dispatching calls of C++.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/operators.h"
#include "cogwheel/ops/pairwise.h"

namespace cogwheel {

TORCH_LIBRARY(cogwheel, library) {
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, str mechanism, *, bool causal=False, float? scale=None, "
      "Tensor? lam=None) -> Tensor",
      operators::attention);
  library.def(
      "attention_weights(Tensor query, Tensor key, str mechanism, *, bool causal=False, float? scale=None, "
      "Tensor? lam=None) -> Tensor",
      operators::attention_weights);
  library.def(
      "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, str mechanism, *, bool is_causal=False, "
      "float? scale=None, bool enable_gqa=False) -> Tensor",
      operators::scaled_dot_product_attention);
  library.def("mechanisms() -> str", operators::mechanisms);
  // A library may load beside another torch than its own and go wrong later; Python compares.
  library.def("built_for_torch() -> str", [] { return std::string(TORCH_VERSION); });
  library.def(
      "pairwise(Tensor query, Tensor key, Tensor value, str mechanism, float scale, str mask, int sub_heads) -> "
      "(Tensor output, Tensor shift, Tensor mass)");
  library.def(
      "pairwise_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor output, Tensor shift, "
      "Tensor mass, str mechanism, float scale, str mask, int sub_heads) -> (Tensor, Tensor, Tensor)");
}

namespace {

template <class Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

PairwiseOutputs pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         std::string_view mechanism, double scale, std::string_view mask, std::int64_t sub_heads) {
  static const auto handle =
      find_operator<PairwiseOutputs(const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::string_view, double,
                                    c10::string_view, std::int64_t)>("cogwheel::pairwise");
  return handle.call(query, key, value, mechanism, scale, mask, sub_heads);
}

PairwiseOutputs pairwise_backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const at::Tensor& output, const at::Tensor& shift,
                                  const at::Tensor& mass, std::string_view mechanism, double scale,
                                  std::string_view mask, std::int64_t sub_heads) {
  static const auto handle = find_operator<PairwiseOutputs(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
      const at::Tensor&, c10::string_view, double, c10::string_view, std::int64_t)>("cogwheel::pairwise_backward");
  return handle.call(gradient, query, key, value, output, shift, mass, mechanism, scale, mask, sub_heads);
}

std::string operators::mechanisms() {
  auto catalogue = nlohmann::json::array();
  for (const Mechanism& mechanism : cogwheel::mechanisms()) {
    const Description& d = mechanism.description;
    auto parameters = nlohmann::json::array();
    for (std::string_view rest = d.parameters; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      parameters.push_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      while (rest.starts_with(' ')) rest.remove_prefix(1);
    }
    catalogue.push_back({{"name", d.name},
                         {"title", d.title},
                         {"family", d.family},
                         {"level", d.level},
                         {"parameters", parameters},
                         {"formula", d.formula},
                         {"range", d.range},
                         {"citation", d.citation}});
  }
  return catalogue.dump();
}

}  // namespace cogwheel
