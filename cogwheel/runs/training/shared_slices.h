// Neighbouring ranks that have the same slices of a step: some share texts, some heads (nn/ranks/shared_pass.h).
#pragma once
#include <cstdint>
#include <memory>

#include "cogwheel/distributed/ranks.h"
#include "cogwheel/nn/ranks/shared_pass.h"

namespace cogwheel::runs {

class SharedSlices {
 public:
  // Collective of all ranks. `texts` ranks share each text; `heads` of them, next to each other, share each one's part.
  SharedSlices(const distributed::Ranks& ranks, std::int64_t texts, std::int64_t heads);

  const distributed::Group& all() const { return all_; }
  const nn::SharedTexts* texts() const { return texts_.get(); }  // null: not shared
  const nn::SharedHeads* heads() const { return heads_.get(); }

 private:
  distributed::Group all_;
  std::unique_ptr<const nn::SharedTexts> texts_;
  std::unique_ptr<const nn::SharedHeads> heads_;
};

}  // namespace cogwheel::runs
