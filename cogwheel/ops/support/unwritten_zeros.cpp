#include "cogwheel/ops/support/unwritten_zeros.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/support/find_operator.h"

namespace cogwheel::ops {
namespace {

// Pages directly from the system: at::zeros writes to all of them, and an allocator may reuse memory that then has to
// be cleared. The system chooses the page size: where it uses huge pages everywhere, a token takes 2 MiB for each head
// at first, but decoding 16,384 tokens of 8 heads takes a sixth to a third less time.
at::Tensor zeros_of_the_system(c10::SymIntArrayRef given, at::ScalarType type, std::optional<at::Device> device) {
  const auto options = at::TensorOptions(type).device(device);
  if (device && device->is_meta()) return at::empty_symint(given, options);
  if (device && !device->is_cpu()) return at::zeros_symint(given, options);
  const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(given);
  const std::size_t bytes =
      std::max<std::size_t>(at::detail::computeStorageNbytesContiguous(sizes, at::elementSize(type)), 1);
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TORCH_CHECK(pages != MAP_FAILED,
              expected_got("cache: memory", std::to_string(bytes) + " bytes", std::strerror(errno)));
  return at::from_blob(
      pages, sizes, [bytes](void* from) { munmap(from, bytes); }, options);
}

}  // namespace

at::Tensor unwritten_zeros(c10::SymIntArrayRef sizes, at::ScalarType type, at::Device device) {
  static const auto handle = find_operator<decltype(zeros_of_the_system)>("cogwheel::unwritten_zeros");
  return handle.call(sizes, type, device);
}

// The signature of PyTorch's own factories, which fake tensors call with the device meta.
TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("unwritten_zeros(SymInt[] size, *, ScalarType dtype, Device? device=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("unwritten_zeros", zeros_of_the_system);
}

}  // namespace cogwheel::ops
