// How the tokens of a text are cut over ranks: into stretches, one or two of which a rank has, one after the other.
//
//   contiguous  rank r of P has stretch r of P
//   zigzag      rank r of P has stretches r and 2P − 1 − r of 2P, so that causal attention is equal work for each
//               (Llama Team, "The Llama 3 Herd of Models" (2024), section 3.3.2)
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::distributed {

// Tokens [begin, end) of the text, which lie from `place` among those of their rank.
struct Stretch {
  std::int64_t begin, end, place;
  std::int64_t size() const { return end - begin; }
};

class SequenceCut {
 public:
  // Throws c10::ValueError for another name of a layout.
  SequenceCut(std::string_view layout, std::int64_t rank, std::int64_t ranks);

  std::int64_t rank() const { return rank_; }
  std::int64_t ranks() const { return ranks_; }
  // Of all ranks.
  std::int64_t stretches() const { return ranks_ * per_rank_; }
  // Which rank has a stretch.
  std::int64_t owner(std::int64_t stretch) const;
  // The numbers of a rank's stretches, rising.
  std::vector<std::int64_t> stretches_of(std::int64_t rank) const;
  // Where they lie, for ranks that have `local` tokens each. Throws c10::ValueError unless they divide.
  std::vector<Stretch> places(std::int64_t rank, std::int64_t local) const;

  // [ranks, …], each rank's own part, whose dimension `dim` (from 0) has its tokens → […] with those of the text in
  // their order.
  at::Tensor whole(const at::Tensor& of_ranks, std::int64_t dim) const;
  // The inverse.
  at::Tensor parts(const at::Tensor& whole, std::int64_t dim) const;
  // One rank's part of a text. Throws c10::ValueError unless its tokens divide.
  at::Tensor part(const at::Tensor& whole, std::int64_t dim, std::int64_t rank) const;

 private:
  std::int64_t rank_, ranks_, per_rank_;
};

}  // namespace cogwheel::distributed
