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

#include <set>
#include <string>

#include "cogwheel/runs/configuration/training_options.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

// One step of a matrix that has a gradient. The five steps are products in bfloat16, as published.
void muon_update(const at::Tensor& value, const at::Tensor& momentum, double learning_rate,
                 const TrainingOptions& options);

// The names of a model's hidden matrices: the weights of linear layers within its transformer blocks.
std::set<std::string> hidden_matrices(const torch::nn::Module& model);

}  // namespace cogwheel::runs
