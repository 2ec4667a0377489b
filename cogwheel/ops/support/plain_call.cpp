#include "cogwheel/ops/support/plain_call.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace cogwheel::ops {

bool is_plain_call(std::initializer_list<const at::Tensor*> tensors) {
  const c10::impl::LocalDispatchKeySet of_thread = c10::impl::tls_local_dispatch_key_set();
  c10::DispatchKeySet keys = of_thread.included_;
  const bool records = at::GradMode::is_enabled();
  for (const at::Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    if (!tensor->is_cpu() || (records && tensor->requires_grad())) return false;
    if (tensor->_fw_grad(/*level=*/0).defined()) return false;
    keys = keys | tensor->key_set();
  }
  // Autograd has nothing to record, and the other two lead to the kernel.
  constexpr c10::DispatchKeySet passed_on({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU,
                                           c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::BackendSelect});
  return (keys - of_thread.excluded_ - passed_on).highestFunctionalityKey() == c10::DispatchKey::Undefined &&
         !at::hasCallbacks();
}

}  // namespace cogwheel::ops
