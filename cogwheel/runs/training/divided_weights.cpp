#include "cogwheel/runs/training/divided_weights.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <unordered_map>

#include "cogwheel/nn/ranks/divided_parameter.h"

namespace cogwheel::runs {

DividedWeights::DividedWeights(torch::nn::Module& model, std::int64_t rank, std::int64_t ranks)
    : rank_(rank), ranks_(ranks) {
  if (ranks == 1) return;
  const torch::NoGradGuard no_grad;
  const auto* const divides = dynamic_cast<const nn::DividesParameters*>(&model);
  if (divides == nullptr) return;
  std::unordered_map<const c10::TensorImpl*, nn::DividedParameter> divided;
  for (const nn::DividedParameter& each : divides->divided_parameters())
    if (std::all_of(each.parts.begin(), each.parts.end(), [&](std::int64_t part) { return part % ranks == 0; }))
      divided.emplace(each.value.unsafeGetTensorImpl(), each);
  for (const auto& parameter : model.named_parameters()) {
    const auto found = divided.find(parameter.value().unsafeGetTensorImpl());
    if (found == divided.end()) continue;
    at::Tensor value = parameter.value();
    places_.emplace(parameter.key(), Place{found->second.dim, found->second.parts, value.sizes().vec()});
    value.set_data(share(parameter.key(), value.detach()));
  }
}

const DividedWeights::Place* DividedWeights::find(const std::string& parameter) const {
  const auto found = places_.find(parameter);
  return found == places_.end() ? nullptr : &found->second;
}

std::vector<std::int64_t> DividedWeights::whole_sizes(const std::string& parameter, const at::Tensor& share) const {
  const Place* const place = find(parameter);
  return place == nullptr ? share.sizes().vec() : place->sizes;
}

at::Tensor DividedWeights::share(const std::string& parameter, const at::Tensor& whole) const {
  const Place* const place = find(parameter);
  if (place == nullptr) return whole;
  std::vector<at::Tensor> shares;
  for (const at::Tensor& part : whole.split_with_sizes(place->parts, place->dim)) {
    const std::int64_t size = part.size(place->dim) / ranks_;
    shares.push_back(part.narrow(place->dim, rank_ * size, size));
  }
  return at::cat(shares, place->dim);
}

at::Tensor DividedWeights::whole(const std::string& parameter, const at::Tensor& share, const std::string& what) const {
  const Place* const place = find(parameter);
  if (place == nullptr) return share;
  const at::Tensor of_ranks = group_().gather(share.contiguous(), what).result(what);
  std::vector<std::int64_t> sizes = place->parts;
  for (std::int64_t& size : sizes) size /= ranks_;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : of_ranks.split_with_sizes(sizes, place->dim + 1))
    for (std::int64_t rank = 0; rank < ranks_; ++rank) parts.push_back(part[rank]);
  return at::cat(parts, place->dim);
}

WidthScaling DividedWeights::shares(const WidthScaling& of_whole) const {
  WidthScaling scaling = of_whole;
  for (auto& [name, rows] : scaling) {
    const Place* const place = find(name);
    if (place == nullptr || place->dim != 0) continue;
    std::vector<ScaledRows> own;
    std::int64_t first = 0, first_own = 0;
    for (const std::int64_t part : place->parts) {
      const std::int64_t size = part / ranks_, begin = first + rank_ * size;
      for (const ScaledRows& each : of_whole.at(name)) {
        const std::int64_t from = std::max(begin, each.first), to = std::min(begin + size, each.first + each.count);
        if (from < to) own.push_back({first_own + from - begin, to - from, each.initial, each.rate});
      }
      first += part, first_own += size;
    }
    rows = std::move(own);
  }
  return scaling;
}

double DividedWeights::sum(double own, const std::string& what) const {
  if (empty()) return own;
  return group_().gather(at::full({1}, own, at::kDouble), what).result(what).sum().item<double>();
}

DividedWeights::WholeInModel::WholeInModel(const DividedWeights& weights, torch::nn::Module& model,
                                           const std::string& what)
    : WholeInModel() {  // what it has changed is undone where an exchange fails
  if (weights.empty()) return;
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model.named_parameters()) {
    if (!weights.contains(parameter.key())) continue;
    at::Tensor value = parameter.value(), share = value.detach();
    value.set_data(weights.whole(parameter.key(), share, what));
    parameters_and_shares_.emplace_back(value, share);
  }
}

DividedWeights::WholeInModel::~WholeInModel() {
  for (auto& [parameter, share] : parameters_and_shares_) parameter.set_data(share);
}

}  // namespace cogwheel::runs
