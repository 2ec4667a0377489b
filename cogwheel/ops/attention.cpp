#include "cogwheel/ops/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <sstream>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/checks.h"
#include "cogwheel/ops/mixture.h"
#include "cogwheel/ops/operators.h"
#include "cogwheel/ops/pairwise.h"

namespace cogwheel {
namespace {

const Mechanism& find_operator(std::string_view name) {
  const Mechanism* mechanism = nullptr;
  try {
    mechanism = &find_mechanism(name, "attention: mechanism");
  } catch (const UsageError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
  if (mechanism->description.level == "layer")
    refuse("mechanism", "an operator",
           std::string(name) + ", a layer (it makes its own queries and keys): use it in a model");
  return *mechanism;
}

void check_parameters(const Mechanism& mechanism, const std::optional<at::Tensor>& lam) {
  const bool takes_lam = mechanism.description.parameters == "lam";
  if (lam && !takes_lam)
    refuse("lam", "nothing (" + std::string(mechanism.description.name) + " has no such parameter)",
           "a tensor " + shape_text(*lam));
  if (!lam && takes_lam) refuse("lam", "λ, [H] or broadcastable to [B, H, N]", "nothing");
}

// λ as [B or 1, H or 1, N or 1], for an output [B, 2H, N, Dv] of adjacent sub-heads.
at::Tensor coefficient_of(const at::Tensor& lam, const at::Tensor& output) {
  if (lam.scalar_type() != output.scalar_type())
    refuse("lam dtype", std::string(c10::toString(output.scalar_type())) + " (as query)",
           c10::toString(lam.scalar_type()));
  if (lam.device() != output.device()) refuse("lam device", output.device().str() + " (as query)", lam.device().str());
  const c10::SymInt wanted[] = {output.sym_size(2), output.sym_size(1) / 2, output.sym_size(0)};  // N, H, B
  const auto check_size = [&](std::int64_t dimension, const c10::SymInt& size) {
    if (lam.sym_size(dimension) == 1 || lam.sym_size(dimension) == size) return;
    std::ostringstream expected;
    expected << "[" << wanted[1] << "] or broadcastable to [" << wanted[2] << ", " << wanted[1] << ", " << wanted[0]
             << "]";
    refuse("lam", expected.str(), shape_text(lam));
  };
  if (lam.dim() == 1) {  // of the heads, not of the queries
    check_size(0, wanted[1]);
    return lam.unsqueeze(0).unsqueeze(-1);
  }
  if (lam.dim() > 3) refuse("lam", "up to 3 dimensions, broadcastable to [B, H, N]", shape_text(lam));
  for (std::int64_t back = 1; back <= lam.dim(); ++back) check_size(-back, wanted[back - 1]);
  at::Tensor coefficient = lam;
  while (coefficient.dim() < 3) coefficient = coefficient.unsqueeze(0);
  return coefficient;
}

at::Tensor attend(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  std::string_view mask, double scale, const std::optional<at::Tensor>& lam) {
  const auto [output, shift, mass] = pairwise(query, key, value, mechanism.member, scale, mask, mechanism.sub_heads);
  if (mechanism.kind == MechanismKind::row_map) return output;
  // 1 and −λ are the coefficients of adjacent sub-heads.
  return subtract_sub_heads(output, coefficient_of(*lam, output));
}

double scale_of(const at::Tensor& query, std::optional<double> scale) {
  if (!scale) return 1.0 / std::sqrt(static_cast<double>(query.sym_size(3).guard_int(__FILE__, __LINE__)));
  if (!std::isfinite(*scale)) refuse("scale", "a finite number", std::to_string(*scale));
  return *scale;
}

std::string_view mask_of(bool is_causal) { return is_causal ? mask::causal : mask::full; }

}  // namespace

namespace operators {

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     c10::string_view mechanism, bool causal, std::optional<double> scale,
                     const std::optional<at::Tensor>& lam) {
  const Mechanism& found = find_operator(mechanism);
  check_attention(query, key, value, found.sub_heads);
  check_parameters(found, lam);
  return attend(found, query, key, value, mask_of(causal), scale_of(query, scale), lam);
}

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, c10::string_view mechanism, bool causal,
                             std::optional<double> scale, const std::optional<at::Tensor>& lam) {
  const Mechanism& found = find_operator(mechanism);
  check_query_key(query, key, found.sub_heads);
  check_parameters(found, lam);
  const c10::SymInt keys = key.sym_size(2);
  if (keys == 0)
    return query.new_zeros_symint({query.sym_size(0), query.sym_size(1) / found.sub_heads, query.sym_size(2), 0});
  const at::Tensor identity = at::eye_symint(keys, query.options())
                                  .expand_symint({key.sym_size(0), key.sym_size(1) / found.sub_heads, keys, keys});
  return attend(found, query, key, identity, mask_of(causal), scale_of(query, scale), lam);
}

at::Tensor scaled_dot_product_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        c10::string_view mechanism, bool is_causal, std::optional<double> scale,
                                        bool enable_gqa) {
  if (query.dim() == 3 && key.dim() == 3 && value.dim() == 3)
    return scaled_dot_product_attention(query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1), mechanism, is_causal,
                                        scale, enable_gqa)
        .squeeze(1);
  const Mechanism& found = find_operator(mechanism);
  check_attention(query, key, value, found.sub_heads);
  check_parameters(found, std::nullopt);
  if (!enable_gqa && query.sym_size(1) != key.sym_size(1)) {
    std::ostringstream heads;
    heads << query.sym_size(1);
    const std::string expected = heads.str() + " (as query; enable_gqa=True allows fewer)";
    heads.str("");
    heads << key.sym_size(1);
    refuse("key heads", expected, heads.str());
  }
  return attend(found, query, key, value, is_causal ? mask::causal_first : mask::full, scale_of(query, scale),
                std::nullopt);
}

}  // namespace operators

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     std::string_view mechanism, const AttentionOptions& options) {
  return operators::attention(query, key, value, mechanism, options.causal, options.scale, options.lam);
}

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, std::string_view mechanism,
                             const AttentionOptions& options) {
  return operators::attention_weights(query, key, mechanism, options.causal, options.scale, options.lam);
}

}  // namespace cogwheel
