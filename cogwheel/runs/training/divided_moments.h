// Moments that ranks with the same weights divide (parallel.divide_moments): each has those of its stretch of every
// parameter, updates that, and gets the rest of the weights from the others. Rajbhandari et al., "ZeRO: Memory
// Optimizations Toward Training Trillion Parameter Models" (2020), section 5.1.
//
// Norms over all weights are added in units of numbers, whichever rank has them, so that the number of ranks changes no
// bit; they are others than those of whole tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cogwheel/distributed/ranks.h"
#include "cogwheel/distributed/stretches_to_all.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

class DividedMoments {
 public:
  // Numbers that stay together.
  static constexpr std::int64_t unit = 4096;

  // `in_blocks`: parameters that a pass reads block by block (nn/ranks/awaited_weights.h), in that order.
  explicit DividedMoments(const distributed::Ranks& ranks, const std::vector<at::Tensor>& in_blocks = {});

  // This rank's stretch of a contiguous tensor, flat: its first number's place, its size, and itself.
  std::int64_t first(std::int64_t numbers) const { return owners_.first(numbers, ranks_.rank()); }
  std::int64_t size(std::int64_t numbers) const { return owners_.size(numbers, ranks_.rank()); }
  at::Tensor own(const at::Tensor& whole) const { return owners_.own(whole, ranks_.rank()); }

  // Collective: on the first rank, the whole of all stretches; on others undefined.
  at::Tensor whole(const at::Tensor& own, at::IntArrayRef sizes, const std::string& what) const;
  // Collective: Σ of the squares of all numbers of tensors of so many, of which each rank has its stretches.
  double sum_of_squares(const std::vector<at::Tensor>& own, const std::vector<std::int64_t>& numbers,
                        const std::string& what);
  // Collective: of each weight, all stretches become those of their owners, while this rank goes on. It waits for what
  // it reads next: what is outside of blocks, then each block, or all. Until all are there nothing else may be sent
  // through the ranks but in the same order on each.
  void send_to_all(std::vector<at::Tensor> weights, const std::string& what);
  void wait_for_rest_of_model();
  void wait_for(const torch::nn::Module& block);
  void wait_for_all();
  bool are_coming() const { return coming_ != nullptr; }

  // Seconds in which this rank has waited for others.
  double waited() const { return waited_ + (coming_ ? coming_->waited() : 0); }

 private:
  std::int64_t units_of(std::int64_t numbers, std::int64_t rank) const;

  const distributed::Ranks& ranks_;
  distributed::Owners owners_;
  std::unique_ptr<distributed::StretchesToAll> coming_;
  std::unordered_map<const c10::TensorImpl*, std::size_t> in_blocks_;  // their order
  std::unordered_map<const c10::TensorImpl*, std::size_t> places_;     // of the weights that come
  std::size_t outside_blocks_ = 0;                                     // of these, the first ones
  double waited_ = 0;
};

}  // namespace cogwheel::runs
