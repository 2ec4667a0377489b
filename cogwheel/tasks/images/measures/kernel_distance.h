// The kernel distance between two sets of features, KID where they are those of Inception-v3.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::tasks::images {

struct KernelDistanceOptions {
  std::int64_t subsets = 100;
  std::int64_t subset_size = 1000;  // images of each set; all of the smaller set where it has fewer
  std::uint64_t seed = 1;           // of the subsets
};

struct KernelDistance {
  double mean = 0;       // over the subsets; below 0 by chance, where the sets are alike
  double deviation = 0;  // over the subsets, which share images: no standard error
  std::int64_t subsets = 0, subset_size = 0;
};

// The unbiased estimate of the squared maximum mean discrepancy (Gretton et al. 2012, eq. 3) with the kernel
// k(x, y) = (x·y / features + 1)³: Bińkowski et al., "Demystifying MMD GANs" (2018), section 4. Unlike a Fréchet
// distance it has the same mean for any number of images. In float64; subsets are drawn without replacement.
//
// `first` [images, features], `second` [images, features], at least two images each. Throws Error where shapes do not
// fit.
KernelDistance kernel_distance(const at::Tensor& first, const at::Tensor& second,
                               const KernelDistanceOptions& options = {});

}  // namespace cogwheel::tasks::images
