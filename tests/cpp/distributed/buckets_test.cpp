#include "cogwheel/distributed/buckets.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include "cogwheel/distributed/group.h"

namespace cogwheel::distributed {
namespace {

constexpr std::int64_t megabyte_of_numbers = (1 << 20) / 4;

TEST(Owners, HaveEachNumberOnce) {
  for (const std::int64_t numbers : {1, 4, 7, 4096, 10'000})
    for (const std::int64_t ranks : {1, 2, 3, 8, 64})
      for (const std::int64_t unit : {1, 16, 4096}) {
        const Owners owners(ranks, unit);
        const at::Tensor all = torch::arange(numbers);
        std::vector<at::Tensor> parts;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          parts.push_back(owners.own(all, rank));
          EXPECT_EQ(parts.back().numel(), owners.size(numbers, rank));
          if (parts.back().numel() > 0) {
            EXPECT_EQ(owners.first(numbers, rank) % unit, 0);
          }
        }
        EXPECT_TRUE(at::equal(torch::cat(parts), all)) << numbers << " on " << ranks << " in units of " << unit;
        // Nobody has more than one unit beyond an equal share.
        EXPECT_LT(owners.stretch(numbers), numbers / ranks + unit + 1);
      }
}

// What ranks put into buckets for each owner is what comes out, in its place, and the sum of owners' rows is a sum of
// whole tensors.
TEST(Buckets, HoldEveryNumberOfEachTensor) {
  torch::manual_seed(3);
  std::vector<at::Tensor> tensors;
  for (const std::int64_t numbers : {std::int64_t{3}, std::int64_t{5000}, std::int64_t{1}, 3 * megabyte_of_numbers + 5,
                                     std::int64_t{4096}, std::int64_t{700'001}})
    tensors.push_back(torch::randn(numbers));
  std::vector<std::int64_t> numbers;
  for (const at::Tensor& each : tensors) numbers.push_back(each.numel());
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.rbegin(), order.rend(), 0);
  for (const std::int64_t ranks : {2, 3, 4, 16})
    for (const std::int64_t unit : {1, 4096}) {
      const Owners owners(ranks, unit);
      std::vector<ExchangePlan> plans;
      const std::vector<std::vector<ExchangePlan>> buckets = planned_buckets(order, numbers, owners);
      const std::int64_t all = 4 * std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
      for (const std::vector<ExchangePlan>& bucket : buckets) {
        for (const ExchangePlan& plan : bucket) {
          EXPECT_LE(plan.length * 4, largest_message);
          EXPECT_LE(plan.length, buckets.front().front().length);
          plans.push_back(plan);
        }
        if (&bucket == &buckets.back()) continue;
        // As many exchanges as are said, equally long, which the bucket's bytes fill.
        EXPECT_EQ(std::ssize(bucket), exchanges_of_a_bucket(all, ranks));
        const std::int64_t bytes = 4 * ranks * bucket.front().length * std::ssize(bucket);
        EXPECT_EQ(bucket.back().length, bucket.front().length);
        EXPECT_GE(bytes, bytes_of_a_bucket(all, ranks));
        EXPECT_LT(bytes, bytes_of_a_bucket(all, ranks) + 4 * ranks * std::ssize(bucket));
      }
      std::vector<at::Tensor> found;
      std::vector<std::int64_t> owned(static_cast<std::size_t>(ranks), 0);
      for (const at::Tensor& each : tensors) found.push_back(torch::full_like(each, NAN));
      for (const ExchangePlan& plan : plans) {
        const at::Tensor exchanged = torch::full({ranks, plan.length}, NAN);
        for (const ExchangePiece& piece : plan.pieces) {
          put_piece(exchanged, piece, tensors[piece.tensor], owners);
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const std::int64_t size = owned_of_piece(piece, numbers[piece.tensor], rank, owners);
            owned[static_cast<std::size_t>(rank)] += size;
            if (size == 0) continue;
            const at::Tensor own = owners.own(tensors[piece.tensor], rank).narrow(0, piece.of_stretch, size);
            EXPECT_TRUE(at::equal(exchanged[rank].narrow(0, piece.column, size), own));
          }
        }
        // What nobody owns is −0, which adds nothing to −0 either.
        EXPECT_FALSE(exchanged.isnan().any().item<bool>());
        EXPECT_TRUE(exchanged.masked_select(exchanged == 0).signbit().all().item<bool>());
        for (const ExchangePiece& piece : plan.pieces) take_piece(found[piece.tensor], piece, exchanged, owners);
      }
      for (std::size_t index = 0; index < tensors.size(); ++index)
        EXPECT_TRUE(at::equal(found[index], tensors[index])) << index << " on " << ranks << " in units of " << unit;
      EXPECT_EQ(std::accumulate(owned.begin(), owned.end(), std::int64_t{0}),
                std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}));
    }
}

TEST(Buckets, AreASixteenthWithinLimits) {
  EXPECT_EQ(bytes_of_a_bucket(1 << 20, 2), 4 << 20);
  EXPECT_EQ(bytes_of_a_bucket(16 * (10 << 20), 2), 10 << 20);
  EXPECT_EQ(bytes_of_a_bucket(std::int64_t{1} << 40, 2), 24 << 20);
  EXPECT_EQ(bytes_of_a_bucket(std::int64_t{1} << 40, 1024), 64 << 20);
}

TEST(Buckets, TravelInMessagesThatSocketsHold) {
  EXPECT_EQ(exchanges_of_a_bucket(1 << 20, 2), 2);  // of 2 MiB, half of which is for each rank
  EXPECT_EQ(exchanges_of_a_bucket(std::int64_t{1} << 40, 2), 8);
  EXPECT_EQ(exchanges_of_a_bucket(std::int64_t{1} << 40, 1024), 1);
}

}  // namespace
}  // namespace cogwheel::distributed
