#include "cogwheel/distributed/alike.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

#include "cogwheel/ops/support/checks.h"

namespace cogwheel::distributed {
namespace {

constexpr std::int64_t longest = 1024;

std::string described(const std::vector<at::Tensor>& tensors) {
  std::string text;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    text += (text.empty() ? "" : ", ") + std::string(c10::toString(tensor.scalar_type())) + " " +
            ops::shape_text(tensor) + (tensor.requires_grad() ? " with a gradient" : "");
  }
  text.resize(std::min<std::size_t>(text.size(), longest));
  return text;
}

}  // namespace

void expect_alike(const Group& group, const std::string& operation, const std::vector<at::Tensor>& tensors) {
  if (group.count() == 1) return;
  const std::string own = described(tensors);
  const at::Tensor bytes = at::zeros({longest}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), own.data(), own.size());
  const std::string what = "sizes of " + operation;
  // On the device of the tensors, which is the one that the group serves.
  const at::Tensor all = group.gather(bytes.to(tensors.front().device()), what).result(what).cpu();
  const auto text_of = [&](std::int64_t rank) {
    const auto* const text = static_cast<const char*>(all[rank].const_data_ptr());
    return std::string(text, strnlen(text, longest));
  };
  for (std::int64_t rank = 1; rank < group.count(); ++rank)
    if (text_of(rank) != text_of(0))
      ops::refuse_argument(operation + ": tensors of rank " + std::to_string(rank), text_of(0) + " (as rank 0)",
                           text_of(rank));
}

void expect_alike(const Group& group, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const ops::AttentionOptions& options) {
  std::vector<at::Tensor> alike{query, key, value};
#define ATTENTION_DIFFERENTIABLE(name) alike.push_back(options.name.value_or(at::Tensor()));
#include "cogwheel/ops/pairwise/attention_options.def"
  for (const auto& [name, tensor] : options.parameters) alike.push_back(tensor);
  expect_alike(group, "attention", alike);
}

void expect_alike(const Group& group, const std::optional<at::Tensor>& query, const std::optional<at::Tensor>& key,
                  const at::Tensor& value, const ops::RecurrentOptions& options) {
  std::vector<at::Tensor> alike{value, query.value_or(at::Tensor()), key.value_or(at::Tensor())};
  for (const auto& [name, tensor] : options.parameters) alike.push_back(tensor);
  expect_alike(group, "recurrent", alike);
}

}  // namespace cogwheel::distributed
