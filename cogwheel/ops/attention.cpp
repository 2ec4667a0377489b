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

// λ as [B or 1, H or 1, N or 1, 1], beside an output [B, H, N, Dv].
at::Tensor broadcast_lam(const at::Tensor& lam, const at::Tensor& output) {
  if (lam.scalar_type() != output.scalar_type())
    refuse("lam dtype", std::string(c10::toString(output.scalar_type())) + " (as query)",
           c10::toString(lam.scalar_type()));
  if (lam.device() != output.device()) refuse("lam device", output.device().str() + " (as query)", lam.device().str());
  const auto wrong_shape = [&] {
    const auto sizes = output.sym_sizes();
    std::ostringstream expected;
    expected << "[" << sizes[1] << "] or broadcastable to [" << sizes[0] << ", " << sizes[1] << ", " << sizes[2] << "]";
    refuse("lam", expected.str(), shape_text(lam));
  };
  if (lam.dim() == 1) {
    if (lam.sym_size(0) != output.sym_size(1) && lam.sym_size(0) != 1) wrong_shape();
    return lam.unsqueeze(-1).unsqueeze(-1);
  }
  if (lam.dim() > 3) wrong_shape();
  for (std::int64_t back = 1; back <= lam.dim(); ++back)
    if (lam.sym_size(-back) != 1 && lam.sym_size(-back) != output.sym_size(3 - back)) wrong_shape();
  return lam.unsqueeze(-1);
}

// λ as [B, H, N, 1], in steps of which none has a gradient that sums many elements into one: only there does at::sum
// split by the number of threads, and gradients are to be the same bits for any number of them.
at::Tensor by_row(const at::Tensor& lam, const at::Tensor& output) {
  const auto sizes = output.sym_sizes();
  at::Tensor rows = lam;
  while (rows.dim() < 4) rows = rows.unsqueeze(0);
  if (rows.sym_size(2) == 1) {
    const c10::SymInt batch = rows.sym_size(0), heads = rows.sym_size(1), half = (sizes[2] + 1) / 2;
    rows = rows.expand_symint({batch, heads, 2, 1}).expand_symint({batch, heads, 2, half});
    rows = rows.flatten(2, 3).narrow_symint(2, 0, sizes[2]).unsqueeze(-1);
  }
  return rows.expand_symint({sizes[0], sizes[1], sizes[2], 1});
}

at::Tensor attend(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  std::string_view mask, double scale, const std::optional<at::Tensor>& lam) {
  const auto [output, shift, mass] = pairwise(query, key, value, mechanism.member, scale, mask, mechanism.sub_heads);
  if (mechanism.kind == MechanismKind::row_map) return output;
  // Σ coefficient · member over adjacent sub-heads, with coefficients 1 and −λ.
  const at::Tensor first = output.slice_symint(1, 0, c10::nullopt, 2),
                   second = output.slice_symint(1, 1, c10::nullopt, 2);
  return first - by_row(broadcast_lam(*lam, first), first) * second;
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
