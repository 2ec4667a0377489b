// The pairwise kernels of one build behind a C function, so that bench/builds.py can load several builds into one
// process. It names only what every build has had since kernels left libtorch.
#include <cstdint>
#include <string>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/core/openmp_executor.h"

namespace {

// [batch, heads, length, head_dim], contiguous.
struct Tensors {
  void *query, *key, *value, *output, *output_gradient, *query_gradient, *key_gradient, *value_gradient;
  float *shift, *mass;  // [batch, heads, length]
  const float* bias;    // [length, length], or null
};

struct Sizes {
  std::int64_t batch, heads, length, head_dim, causal, is_bfloat16;
  double dropout;
};

template <class Viewed, class Element>
cogwheel::HeadsView<Viewed> view(void* data, const Sizes& of) {
  return {static_cast<Element*>(data), of.heads * of.length * of.head_dim, of.length * of.head_dim, of.head_dim};
}

template <class Element>
void run(const char* mechanism, const Sizes& of, const Tensors& x, bool backward) {
  const auto kernel = cogwheel::pairwise_kernel<float>(mechanism);
  const auto describe = [&](auto problem) {
    problem.shape = {.batch = of.batch,
                     .query_heads = of.heads,
                     .value_heads = of.heads,
                     .queries = of.length,
                     .keys = of.length,
                     .head_dim = of.head_dim,
                     .value_dim = of.head_dim};
    problem.visibility.rule = {.keys = of.length, .causal = of.causal != 0};
    problem.scale = 1.0f / __builtin_sqrtf(static_cast<float>(of.head_dim));
    problem.query = view<const float, Element>(x.query, of);
    problem.key = view<const float, Element>(x.key, of);
    problem.value = view<const float, Element>(x.value, of);
    problem.modifiers.bias = {.data = x.bias, .query_stride = of.length, .key_stride = 1};
    problem.modifiers.dropout = of.dropout;
    problem.shift = x.shift;
    problem.mass = x.mass;
    return problem;
  };
  const cogwheel::OpenMPExecutor executor;
  auto forward = describe(cogwheel::PairwiseForward<float>{});
  forward.output = view<float, Element>(x.output, of);
  kernel.forward(forward, executor);
  if (!backward) return;
  auto gradients = describe(cogwheel::PairwiseBackward<float>{});
  gradients.output = view<const float, Element>(x.output, of);
  gradients.output_gradient = view<const float, Element>(x.output_gradient, of);
  gradients.query_gradient = view<float, Element>(x.query_gradient, of);
  gradients.key_gradient = view<float, Element>(x.key_gradient, of);
  gradients.value_gradient = view<float, Element>(x.value_gradient, of);
  kernel.backward(gradients, executor);
}

}  // namespace

// One pass of a row map without scalars of its own, or forward and backward. Returns null, or what went wrong.
extern "C" __attribute__((visibility("default"))) const char* attend(const char* mechanism, const Sizes* sizes,
                                                                     const Tensors* tensors, bool backward) {
  thread_local std::string error;
  try {
    if (sizes->is_bfloat16)
      run<cogwheel::BFloat16>(mechanism, *sizes, *tensors, backward);
    else
      run<float>(mechanism, *sizes, *tensors, backward);
    return nullptr;
  } catch (const std::exception& caught) {
    error = caught.what();
    return error.c_str();
  }
}
