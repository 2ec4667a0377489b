#include "cogwheel/interpret/score_symmetry.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <string>

#include "cogwheel/nn/token_mixer.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {

at::Tensor asymmetry(const at::Tensor& matrices) {
  const at::Tensor turned = matrices.transpose(-1, -2);
  return ((matrices - turned).square().sum({-2, -1}) / (matrices + turned).square().sum({-2, -1})).sqrt();
}

at::Tensor symmetric_share(const at::Tensor& matrices) {
  const at::Tensor symmetric = (matrices + matrices.transpose(-1, -2)) / 2;
  return symmetric.square().sum({-2, -1}) / matrices.square().sum({-2, -1});
}

std::vector<at::Tensor> query_key_matrices(const tasks::language::LanguageModelImpl& model, bool with_gains) {
  const torch::NoGradGuard no_gradient;
  const auto modules = model.named_modules();
  std::vector<at::Tensor> found;
  for (std::size_t layer = 0; layer < model.layers().size(); ++layer) {
    found.emplace_back();
    if (!model.layers()[layer]->has_hook(nn::HookPlace::scores)) continue;
    const auto& mixer = dynamic_cast<const nn::TokenMixer&>(*modules["layers." + std::to_string(layer) + ".attention"]);
    const auto parameters = mixer.named_parameters();
    // [heads of queries, width of a head, width]
    const auto matrices_of = [&](const nn::Projection& of) {
      const at::Tensor rows =
          parameters[of.module + ".weight"].to(at::kCPU, at::kDouble).narrow(0, of.first, of.size());
      return rows.unflatten(0, {of.heads, of.head_dim}).index_select(0, torch::tensor(of.read, at::kLong));
    };
    at::Tensor query, key;
    for (const nn::Projection& each : mixer.projections()) {
      if (each.role == nn::ProjectionRole::query) query = matrices_of(each);
      if (each.role == nn::ProjectionRole::key) key = matrices_of(each);
    }
    if (!query.defined()) continue;
    if (!key.defined()) key = query;  // tied
    if (with_gains) {
      const at::Tensor gain = model.layers()[layer]->attention_norm()->gain().to(at::kCPU, at::kDouble);
      query = query * gain;
      key = key * gain;
    }
    found.back() = query.transpose(1, 2).matmul(key);
  }
  return found;
}

}  // namespace cogwheel::interpret
