// The operators of torch.ops.cogwheel with the arguments of their schemas (library.cpp).
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/string_view.h>

#include <optional>
#include <string>

namespace cogwheel::operators {

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     c10::string_view mechanism, bool causal, std::optional<double> scale,
                     const std::optional<at::Tensor>& lam);

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, c10::string_view mechanism, bool causal,
                             std::optional<double> scale, const std::optional<at::Tensor>& lam);

// torch's semantics: is_causal aligns the first query with the first key; [B, N, D] stands for one head.
at::Tensor scaled_dot_product_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        c10::string_view mechanism, bool is_causal, std::optional<double> scale,
                                        bool enable_gqa);

// The catalogue as JSON.
std::string mechanisms();

}  // namespace cogwheel::operators
