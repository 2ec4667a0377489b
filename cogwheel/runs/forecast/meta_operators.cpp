#include "cogwheel/runs/forecast/meta_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

namespace cogwheel::runs {
namespace {

at::Tensor selected(const at::Tensor& self, std::int64_t dimension, const at::Tensor& index) {
  std::vector<std::int64_t> sizes = self.sizes().vec();
  if (!sizes.empty()) sizes[static_cast<std::size_t>(at::maybe_wrap_dim(dimension, self.dim()))] = index.numel();
  return at::empty(sizes, self.options());
}

at::Tensor gradient_of_embedding(const at::Tensor& gradient, const at::Tensor&, c10::SymInt rows, c10::SymInt, bool) {
  return at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

at::Tensor chosen(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  return at::empty(at::infer_size(condition.sizes(), at::infer_size(self.sizes(), other.sizes())), self.options());
}

bool is_missing(const char* name, const char* overload) {
  return !c10::Dispatcher::singleton()
              .findSchemaOrThrow(name, overload)
              .hasKernelForDispatchKey(c10::DispatchKey::Meta);
}

}  // namespace

MetaOperators::MetaOperators() : library_(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__) {
  if (is_missing("aten::index_select", "")) library_.impl("index_select", selected);
  if (is_missing("aten::embedding_dense_backward", ""))
    library_.impl("embedding_dense_backward", gradient_of_embedding);
  if (is_missing("aten::where", "self")) library_.impl("where.self", chosen);
}

}  // namespace cogwheel::runs
