#include "cogwheel/distributed/alike.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cstring>

#include "cogwheel/ops/support/checks.h"

namespace cogwheel::distributed {
namespace {

constexpr std::int64_t longest = 256;

std::string described(std::initializer_list<const at::Tensor*> tensors) {
  std::string text;
  for (const at::Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    text += (text.empty() ? "" : ", ") + std::string(c10::toString(tensor->scalar_type())) + " " +
            ops::shape_text(*tensor) + (tensor->requires_grad() ? " with a gradient" : "");
  }
  text.resize(std::min<std::size_t>(text.size(), longest));
  return text;
}

}  // namespace

void expect_alike(const Group& group, const std::string& operation, std::initializer_list<const at::Tensor*> tensors) {
  if (group.count() == 1) return;
  const std::string own = described(tensors);
  const at::Tensor bytes = at::zeros({longest}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), own.data(), own.size());
  const std::string what = "sizes of " + operation;
  const at::Tensor all = group.gather(bytes, what).result(what);
  for (std::int64_t rank = 0; rank < group.count(); ++rank) {
    const auto* const text = static_cast<const char*>(all[rank].const_data_ptr());
    const std::string other(text, strnlen(text, longest));
    const auto* const first_text = static_cast<const char*>(all[0].const_data_ptr());
    const std::string first(first_text, strnlen(first_text, longest));
    if (other != first)
      ops::refuse_argument(operation + ": tensors of rank " + std::to_string(rank), first + " (as rank 0)", other);
  }
}

}  // namespace cogwheel::distributed
