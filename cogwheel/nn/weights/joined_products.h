// Passes of several sequences that read each weight once.
#pragma once
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cogwheel/core/process/fiber.h"

namespace cogwheel::nn {

// A pass over one token of one sequence spends its time reading weights, which passes of others read as well. So each
// sequence has a pass of its own, with a state of its own, and passes meet at every product of one row and a weight:
// the product is made for the rows of all (ops/layers/row_product.h), and each goes on with its row. What a sequence
// gets follows from the sequence alone, to the bit, whatever else runs beside it: all but the product is computed as if
// there were no others, and in the product rows do not mix. Layers need not know.
//
// Passes are fibers of the calling thread, so that they find its dispatch state, and no lock is needed.
class JoinedProducts {
 public:
  // Runs the passes, of one pass without a fiber, and returns what each threw, or null. Products with several rows,
  // other types than float32, and those on other devices are made by each pass for itself. Without gradients.
  std::vector<std::exception_ptr> run(std::span<const std::function<void()>> passes);

 private:
  std::vector<std::unique_ptr<Fiber>> fibers_;  // kept for their stacks
};

}  // namespace cogwheel::nn
