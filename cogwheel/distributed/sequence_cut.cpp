#include "cogwheel/distributed/sequence_cut.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include "cogwheel/ops/support/checks.h"

namespace cogwheel::distributed {
namespace {

constexpr std::string_view contiguous = "contiguous", zigzag = "zigzag";

}  // namespace

SequenceCut::SequenceCut(std::string_view layout, std::int64_t rank, std::int64_t ranks)
    : rank_(rank), ranks_(ranks), per_rank_(layout == zigzag ? 2 : 1) {
  if (layout != contiguous && layout != zigzag)
    ops::refuse_argument("distributed: layout", "contiguous or zigzag", std::string(layout));
}

std::int64_t SequenceCut::owner(std::int64_t stretch) const {
  return stretch < ranks_ ? stretch : stretches() - 1 - stretch;
}

std::vector<std::int64_t> SequenceCut::stretches_of(std::int64_t rank) const {
  if (per_rank_ == 1) return {rank};
  return {rank, stretches() - 1 - rank};
}

std::vector<Stretch> SequenceCut::places(std::int64_t rank, std::int64_t local) const {
  if (local % per_rank_ != 0)
    ops::refuse_argument("distributed: tokens of a rank", "an even number (layout zigzag)", std::to_string(local));
  const std::int64_t size = local / per_rank_;
  std::vector<Stretch> places;
  for (const std::int64_t stretch : stretches_of(rank))
    places.push_back({stretch * size, (stretch + 1) * size, static_cast<std::int64_t>(places.size()) * size});
  return places;
}

at::Tensor SequenceCut::whole(const at::Tensor& of_ranks, std::int64_t dim) const {
  if (ranks_ == 1) return of_ranks[0];
  std::vector<at::Tensor> in_order(static_cast<std::size_t>(stretches()));
  const std::int64_t local = of_ranks.size(dim + 1);
  for (std::int64_t rank = 0; rank < ranks_; ++rank) {
    const std::vector<Stretch> stretches = places(rank, local);
    const std::vector<std::int64_t> numbers = stretches_of(rank);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      in_order[static_cast<std::size_t>(numbers[i])] =
          of_ranks[rank].narrow(dim, stretches[i].place, stretches[i].size());
  }
  return at::cat(in_order, dim);
}

at::Tensor SequenceCut::parts(const at::Tensor& whole, std::int64_t dim) const {
  if (ranks_ == 1) return whole.unsqueeze(0);
  std::vector<at::Tensor> parts;
  for (std::int64_t rank = 0; rank < ranks_; ++rank) parts.push_back(part(whole, dim, rank));
  return at::stack(parts);
}

at::Tensor SequenceCut::part(const at::Tensor& whole, std::int64_t dim, std::int64_t rank) const {
  const std::int64_t tokens = whole.size(dim);
  if (tokens % stretches() != 0)
    ops::refuse_argument(
        "distributed: tokens",
        "a multiple of " + std::to_string(stretches()) + " (stretches of " + std::to_string(ranks_) + " ranks)",
        std::to_string(tokens));
  std::vector<at::Tensor> own;
  for (const Stretch& stretch : places(rank, tokens / ranks_))
    own.push_back(whole.narrow(dim, stretch.begin, stretch.size()));
  return own.size() == 1 ? own[0] : at::cat(own, dim);
}

}  // namespace cogwheel::distributed
