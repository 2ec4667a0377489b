// Muon: the momentum of a matrix, orthogonalised, is its update.
//
//   M = β M + (1 − β) G;   U = polar factor of (1 − β) G + β M, approximately, by five steps X = a X + (b A + c A²) X
//   with A = X Xᵀ;   W = (1 − η λ) W − 0.2 η √max(rows, columns) U
//
// Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024), for the steps and their
// coefficients; Liu et al., "Muon is Scalable for LLM Training" (2025), section 2.2, for the factor, with which AdamW's
// learning rate and weight decay serve.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <string>

#include "cogwheel/runs/configuration/training_options.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

// A step of a matrix that has a gradient: G goes into the momentum M, and what comes back is (1 − β) G + β M; its U;
// and the change of W by U. The first and the last are of each number by itself, so that a share of a matrix will do.
at::Tensor muon_direction(const at::Tensor& value, const at::Tensor& momentum, const TrainingOptions& options);
at::Tensor orthogonalized(const at::Tensor& matrix);  // by products in bfloat16, as published
// `longer_side`: of the whole matrix, its rows or columns.
void muon_update(const at::Tensor& value, const at::Tensor& orthogonal, std::int64_t longer_side, double learning_rate,
                 const TrainingOptions& options);

// The names of a model's hidden matrices: the weights of linear layers within its transformer blocks.
std::set<std::string> hidden_matrices(const torch::nn::Module& model);

}  // namespace cogwheel::runs
