#include "cogwheel/attention/kernels/pairwise/product_choice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

TEST(ProductChoice, AnotherMustBeAheadByATenth) {
  const auto best = [](double usual, double other) {
    const ProductRate rates[] = {{"usual", usual}, {"other", other}};
    return best_product(rates).product;
  };
  EXPECT_EQ(best(100, 50), "usual");
  EXPECT_EQ(best(100, 109), "usual");
  EXPECT_EQ(best(100, 111), "other");
}

TEST(ProductChoice, TheFastestOfThoseAheadIsTaken) {
  const ProductRate rates[] = {{"usual", 100}, {"second", 120}, {"fastest", 130}};
  EXPECT_EQ(best_product(rates).product, "fastest");
}

TEST(ProductChoice, RatesAreTheBestOfTheTurns) {
  int calls = 0;
  const auto rates = rates_in_turns({"even", "odd"}, 6, [&](std::string_view product) {
    ++calls;
    return product == "even" ? 3.0 : 3.0 / calls;
  });
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].product, "even");
  EXPECT_DOUBLE_EQ(rates[0].flops, 2);
  EXPECT_DOUBLE_EQ(rates[1].flops, 2.0 * calls);
}

// What slowed the usual one down in its first turns must do so in many.
TEST(ProductChoice, ALeadOfAnotherIsLookedAtAgain) {
  const auto chosen = [](int slow_turns) {
    int turn = 0;
    return best_product(rates_in_turns({"usual", "other"}, 1,
                                       [&](std::string_view product) {
                                         return product == "other" ? 2.0 : ++turn <= slow_turns ? 4.0 : 1.0;
                                       }))
        .product;
  };
  EXPECT_EQ(chosen(0), "usual");
  EXPECT_EQ(chosen(12), "usual");
  EXPECT_EQ(chosen(1000), "other");
}

TEST(ProductChoice, IsOneOfTheMachinesAndCanBeChanged) {
  const auto here = products_of_machine();
  EXPECT_TRUE(std::find(here.begin(), here.end(), widened) != here.end());
  const std::string before(product_choice().product);
  EXPECT_TRUE(std::find(here.begin(), here.end(), before) != here.end());
  for (const std::string_view product : here) {
    choose_product(product, "a test");
    EXPECT_EQ(product_choice().product, forced_product().empty() ? product : forced_product());
    EXPECT_EQ(chosen_pair_product() == nullptr, product_choice().product == widened);
  }
  if (forced_product().empty()) {
    EXPECT_THROW(choose_product("abacus", "a test"), UsageError);
  }
  choose_product(before, "as before");
}

TEST(ProductChoice, EveryProductOfTheMachineHasARate) {
  const auto here = products_of_machine();
  const auto rates = measure_products();
  ASSERT_EQ(rates.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(rates[i].product, here[i]);
    EXPECT_GT(rates[i].flops, 0);
  }
}

}  // namespace
}  // namespace cogwheel
