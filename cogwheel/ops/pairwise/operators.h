// The operators of torch.ops.cogwheel that C++ has under no other name, with the arguments of their schemas
// (library.cpp).
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/string_view.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::ops {

// torch's semantics: is_causal aligns the first query with the first key; a bool mask keeps the keys where it is true,
// a floating-point mask is added to the scores; [B, N, D] stands for one head.
at::Tensor scaled_dot_product_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        c10::string_view mechanism, const std::optional<at::Tensor>& attn_mask,
                                        double dropout_p, const std::optional<at::Tensor>& seed, bool is_causal,
                                        std::optional<double> scale, bool enable_gqa);

// The catalogue as JSON.
std::string mechanisms();

// A user's own mechanism (cogwheel/authoring); "" means not given. Each returns the name.
std::string define_mechanism(c10::string_view name, c10::string_view f, c10::string_view g, c10::string_view n,
                             c10::string_view energy, const std::vector<std::string>& parameter_names,
                             at::ArrayRef<double> parameter_values);
std::string define_mechanism_line(c10::string_view line);  // as --define takes it
std::string load_mechanism(c10::string_view path);
// The numerics card as JSON.
std::string mechanism_card(c10::string_view name);

}  // namespace cogwheel::ops
