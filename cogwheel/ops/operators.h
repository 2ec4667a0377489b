// The operators of torch.ops.cogwheel with the arguments of their schemas (library.cpp).
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/string_view.h>

#include <optional>
#include <string>
#include <vector>

namespace cogwheel::operators {

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     c10::string_view mechanism, bool causal, std::optional<double> scale,
                     std::optional<std::int64_t> window, const std::optional<at::Tensor>& key_lengths,
                     const std::optional<at::Tensor>& cu_seqlens, const std::optional<at::Tensor>& bias,
                     const std::optional<at::Tensor>& energy_bias, const std::optional<at::Tensor>& alibi,
                     std::optional<double> local_radius, const std::optional<at::Tensor>& local_centers, double dropout,
                     const std::optional<at::Tensor>& seed, c10::string_view score,
                     const std::optional<at::Tensor>& score_weight, const std::optional<at::Tensor>& score_projection,
                     at::TensorList parameters, const std::vector<std::string>& parameter_names);

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, c10::string_view mechanism, bool causal,
                             std::optional<double> scale, std::optional<std::int64_t> window,
                             const std::optional<at::Tensor>& key_lengths, const std::optional<at::Tensor>& cu_seqlens,
                             const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& energy_bias,
                             const std::optional<at::Tensor>& alibi, std::optional<double> local_radius,
                             const std::optional<at::Tensor>& local_centers, double dropout,
                             const std::optional<at::Tensor>& seed, c10::string_view score,
                             const std::optional<at::Tensor>& score_weight,
                             const std::optional<at::Tensor>& score_projection, at::TensorList parameters,
                             const std::vector<std::string>& parameter_names);

// torch's semantics: is_causal aligns the first query with the first key; a mask of bool lets through what is true, one
// of numbers is added to the scores; [B, N, D] stands for one head.
at::Tensor scaled_dot_product_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        c10::string_view mechanism, const std::optional<at::Tensor>& attn_mask,
                                        double dropout_p, const std::optional<at::Tensor>& seed, bool is_causal,
                                        std::optional<double> scale, bool enable_gqa);

// The catalogue as JSON.
std::string mechanisms();

}  // namespace cogwheel::operators
