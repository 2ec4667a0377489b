#include "cogwheel/text/prepared/in_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"
#include "cogwheel/text/prepared/seen_documents.h"

namespace cogwheel::text {
namespace {

// The numbers that were taken of 200, of which one may be refused when it is read or worked on.
struct Numbers {
  int refused_when_read = -1, refused_when_worked_on = -1;
  std::vector<int> taken = {};
  std::string refusal = {};

  void on(int threads) {
    taken.clear();
    refusal.clear();
    int read = 0;
    std::atomic<int> working = 0;
    InOrder<std::unique_ptr<int>> in_order;
    in_order.room = 20;
    in_order.read = [&]() -> std::optional<std::unique_ptr<int>> {
      if (read == refused_when_read) throw Error("read " + std::to_string(read));
      return read == 200 ? std::nullopt : std::optional(std::make_unique<int>(read++));
    };
    in_order.work = [&](std::unique_ptr<int>& number, int worker) {
      EXPECT_LT(worker, threads);
      EXPECT_LE(++working, threads);
      std::uint64_t value = 0;  // some take longer than others
      for (std::uint64_t round = 0; round < 1000 * (mix(static_cast<std::uint64_t>(*number)) % 50); ++round)
        value = mix(value);
      --working;
      if (*number == refused_when_worked_on || value == 1) throw Error("work " + std::to_string(*number));
    };
    in_order.take = [&](std::unique_ptr<int>&& number) { taken.push_back(*number); };
    in_order.size = [](const std::unique_ptr<int>& number) { return static_cast<std::size_t>(*number % 30); };
    try {
      in_order.run(threads);
    } catch (const Error& error) {
      refusal = error.what();
    }
  }
};

std::vector<int> numbers_below(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(InOrder, TakesAllInOrderAndStopsAtTheFirstThatIsRefused) {
  for (const int threads : {1, 2, 3, 8}) {
    Numbers whole;
    whole.on(threads);
    EXPECT_EQ(whole.taken, numbers_below(200));
    EXPECT_EQ(whole.refusal, "");
    Numbers refused{.refused_when_read = 120, .refused_when_worked_on = 70};
    refused.on(threads);
    EXPECT_EQ(refused.taken, numbers_below(70));
    EXPECT_EQ(refused.refusal, "work 70");
    refused.refused_when_worked_on = -1;
    refused.on(threads);
    EXPECT_EQ(refused.taken, numbers_below(120));
    EXPECT_EQ(refused.refusal, "read 120");
  }
}

TEST(SeenDocuments, KnowsEachAndTakesLittleMoreThanItsHash) {
  SeenDocuments seen;
  constexpr std::uint64_t count = 200'000;
  const auto hash_of = [](std::uint64_t number) { return DocumentHash{mix(number), mix(mix(number) + 1)}; };
  for (std::uint64_t number = 0; number < count; ++number) ASSERT_TRUE(seen.insert(hash_of(number)));
  for (std::uint64_t number = 0; number < count; number += 7) ASSERT_FALSE(seen.insert(hash_of(number)));
  // One of zeros is like any other, and half of a hash decides nothing.
  EXPECT_TRUE(seen.insert({}));
  EXPECT_FALSE(seen.insert({}));
  EXPECT_TRUE(seen.insert({hash_of(3).high, hash_of(4).low}));
  EXPECT_EQ(seen.size(), count + 2);
  const double each = static_cast<double>(seen.bytes()) / static_cast<double>(seen.size());
  EXPECT_GE(each, 16 / 0.85);
  EXPECT_LE(each, 24.5);
}

}  // namespace
}  // namespace cogwheel::text
