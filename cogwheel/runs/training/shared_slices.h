// Neighbouring ranks that have the same slices of a step: some share texts, some heads (nn/ranks/shared_pass.h).
#pragma once
#include <cstdint>
#include <memory>

#include "cogwheel/distributed/ranks.h"
#include "cogwheel/nn/ranks/shared_pass.h"

namespace cogwheel::runs {

class SharedSlices {
 public:
  // `texts` ranks share each text; `heads` of them, next to each other, share each one's part. The ranks outlive it.
  SharedSlices(const distributed::Ranks& ranks, std::int64_t texts, std::int64_t heads)
      : ranks_(ranks), ranks_of_text_(texts), ranks_of_heads_(heads) {}

  // Each of these is collective of all ranks where the first of them is called, which makes the groups.
  const distributed::Group& all() const { return groups().all; }
  // The ranks that share heads; and those that have the same share of them, whichever slices and texts they have, of
  // which `ranks_of_text` have each text.
  const distributed::Group& of_heads() const { return groups().of_heads; }
  const distributed::Group& same_heads() const { return groups().same_heads; }
  const nn::SharedTexts* texts() const { return groups().texts.get(); }  // null: not shared
  const nn::SharedHeads* heads() const { return groups().heads.get(); }

  std::int64_t ranks_of_text() const { return ranks_of_text_; }
  std::int64_t ranks_of_heads() const { return ranks_of_heads_; }

 private:
  struct Groups {
    distributed::Group all, of_heads, same_heads;
    std::unique_ptr<const nn::SharedTexts> texts;
    std::unique_ptr<const nn::SharedHeads> heads;
  };
  const Groups& groups() const;

  const distributed::Ranks& ranks_;
  std::int64_t ranks_of_text_, ranks_of_heads_;
  mutable std::unique_ptr<const Groups> groups_;
};

}  // namespace cogwheel::runs
