// What layouts cost, against numbers that were computed by hand.
#include "cogwheel/runs/forecast/layout_cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cogwheel/core/error.h"

namespace cogwheel::runs::layout_cost_test {
namespace {

constexpr double million = 1e6, tolerance = 1e-12;

// Four ranks a node; a millisecond of latency only where a test is about it.
Network nodes_of_four(double latency = 0) {
  return {.ranks_per_node = 4, .within = {latency, 1000 * million}, .between = {latency, 100 * million}};
}

TEST(Exchange, OnOneNodeSendsItsShareTwice) {
  // 2 MB for each of three others, and as much around the ring: 6 + 6 ms; 2 · 3 hops of 1 ms of each of two buckets.
  EXPECT_NEAR(seconds_of_sum(8 * million, {4, 1}, nodes_of_four(1e-3)), 0.024, tolerance);
  EXPECT_NEAR(seconds_of_sum(8 * million, {4, 1}, nodes_of_four()), 0.012, tolerance);
  EXPECT_EQ(seconds_of_sum(8 * million, {1, 1}, nodes_of_four(1e-3)), 0);
}

TEST(Exchange, OfANodeSharesWhatLeavesIt) {
  // Two nodes, shares of 1 MB: four ranks send 4 MB each to the other node, 16 MB at 100 MB/s; the ring crosses with
  // 7 MB.
  EXPECT_NEAR(seconds_of_sum(8 * million, {8, 1}, nodes_of_four()), 0.16 + 0.07, tolerance);
  // Two groups of every second rank, two of each on a node: 2 · 2 · 2 shares of 2 MB, and 2 · 6 MB around.
  EXPECT_NEAR(seconds_of_sum(8 * million, {4, 2}, nodes_of_four()), 0.16 + 0.12, tolerance);
  // A group that has one rank of each node, four such groups: 4 shares of 4 MB leave it, and 4 · 4 MB around.
  EXPECT_NEAR(seconds_of_sum(8 * million, {2, 4}, nodes_of_four()), 0.16 + 0.16, tolerance);
}

TEST(Exchange, OfEveryMessageHasItsHops) {
  // 1 GiB: 342 exchanges of 3 MiB, in which each of two ranks sends 1.5 twice.
  const Network fast{.ranks_per_node = 2, .within = {1e-3, 1e18}};
  EXPECT_NEAR(seconds_of_sum(1 << 30, {2, 1}, fast), 0.684, 1e-8);
}

TEST(Exchange, RingsSendTwiceOrOnce) {
  // 6 / 4 of 8 MB at 1 GB/s, and six hops.
  EXPECT_NEAR(seconds_of_all_reduce(8 * million, {4, 1}, nodes_of_four(1e-3)), 0.012 + 0.006, tolerance);
  EXPECT_NEAR(seconds_of_gather(8 * million, {4, 1}, nodes_of_four(1e-3)), 0.008 + 0.003, tolerance);
  EXPECT_EQ(seconds_of_gather(8 * million, {1, 1}, nodes_of_four(1e-3)), 0);
}

TEST(Exchange, OfMessagesToAllWaitsForOneAndTheirSpacing) {
  Network network = nodes_of_four(1e-3);
  EXPECT_NEAR(seconds_of_all_to_all(8 * million, {4, 1}, network), 0.008 + 0.003, tolerance);
  network.within.wake_up = 2e-3;  // of layers; those of gradients follow each other
  EXPECT_NEAR(seconds_of_all_to_all(8 * million, {4, 1}, network), 0.008 + 0.006, tolerance);
  EXPECT_NEAR(seconds_of_gather(8 * million, {4, 1}, network), 0.008 + 0.006, tolerance);
  EXPECT_NEAR(seconds_of_sum(8 * million, {4, 1}, network), 0.024, tolerance);
  network.within.spacing = 1e-4;
  EXPECT_NEAR(seconds_of_all_to_all(8 * million, {4, 1}, network), 0.008 + 0.002 + 0.0002, tolerance);
  EXPECT_NEAR(seconds_of_all_to_all(8 * million, {2, 1}, network), 0.008 + 0.002, tolerance);
  EXPECT_EQ(seconds_of_all_to_all(8 * million, {1, 1}, network), 0);
  EXPECT_NEAR(seconds_of_all_reduce(8 * million, {4, 1}, network), 0.012 + 0.0022 + 0.006, tolerance);
}

TEST(Exchange, OfTwoRanksOrFewBytesIsOne) {
  // Two send all of 8 MB, four 0.1 MB to each of three others.
  EXPECT_NEAR(seconds_of_all_reduce(8 * million, {2, 1}, nodes_of_four(1e-3)), 0.008 + 0.001, tolerance);
  EXPECT_NEAR(seconds_of_all_reduce(0.1 * million, {4, 1}, nodes_of_four(1e-3)), 0.0003 + 0.003, tolerance);
  EXPECT_NEAR(seconds_of_all_reduce(0.2 * million, {4, 1}, nodes_of_four(1e-3)), 0.0003 + 0.006, tolerance);
}

constexpr std::int64_t megabyte = 1'000'000;

StepFacts facts() {
  return {.slices = 8,
          .tokens_of_slice = 1000,
          .held = {.weights = 100 * megabyte,
                   .moments = 200 * megabyte,
                   .learned = 100 * megabyte,
                   .largest = 10 * megabyte,
                   .pass = {{.made = 0, .activations = 900 * megabyte, .logits = 50 * megabyte},
                            {.made = 50 * megabyte, .activations = 400 * megabyte},
                            {.made = 100 * megabyte}}},
          .divided = {{80 * megabyte, 1000}, {20 * megabyte, 500}},
          .program = 7 * megabyte,
          .slice_seconds = 1,
          .rest_seconds = 0.5,
          .shape = TransformerShape{.layers = 10,
                                    .width = 250,
                                    .heads = 8,
                                    .key_heads = 4,
                                    .head_dim = 32,
                                    .feed_forward = 1000,
                                    .vocabulary = 500,
                                    .context = 512}};
}

std::int64_t part(const LayoutCost& cost, const std::string& name) {
  const auto found =
      std::find_if(cost.memory.begin(), cost.memory.end(), [&](const MemoryPart& each) { return each.name == name; });
  return found == cost.memory.end() ? 0 : found->bytes;
}

TEST(LayoutCost, OfDataDividesSlicesAndNothingElse) {
  const LayoutCost one = layout_cost({}, facts(), nodes_of_four(1e-3)),
                   four = layout_cost({.data = 4}, facts(), nodes_of_four(1e-3));
  EXPECT_DOUBLE_EQ(one.computation, 8.5);
  EXPECT_DOUBLE_EQ(one.communication, 0);
  EXPECT_DOUBLE_EQ(four.computation, 2 * 1 + 0.5);
  // Of 100 MB, 75 twice at 1 GB/s and six hops of each of 16 buckets, 0.246 s, of which the last bucket alone is not
  // sent while the last slice goes backward; two gathers of three hops for losses.
  EXPECT_NEAR(four.communication, 0.246 / 16 + 0.006, tolerance);
  for (const char* name : {"weights", "moments", "activations of a slice", "logits of a slice", "program"})
    EXPECT_EQ(part(one, name), part(four, name)) << name;
  EXPECT_EQ(part(one, "gradients"), 300 * megabyte);  // sums of 4, 2 and 1 of its slices
  EXPECT_EQ(part(four, "gradients"), 100 * megabyte);
  EXPECT_EQ(part(four, "libraries and allocator"), (32 << 20) + 950 * megabyte * 12 / 100);
}

TEST(LayoutCost, IsOfTheMomentAtWhichMostIsHeld) {
  StepFacts small = facts();
  small.held.pass = {{.made = 0, .activations = 60 * megabyte, .logits = 10 * megabyte},
                     {.made = 60 * megabyte, .activations = 40 * megabyte},
                     {.made = 100 * megabyte, .activations = megabyte}};
  constexpr std::int64_t bucket = 100 * megabyte / 16;
  const auto parts = [&](const Layout& layout) {
    const LayoutCost cost = layout_cost(layout, small, nodes_of_four());
    std::vector<std::int64_t> bytes;
    for (const char* name :
         {"gradients", "exchange of gradients", "change of weights", "activations of a slice", "logits of a slice"})
      bytes.push_back(part(cost, name));
    return bytes;
  };
  using Parts = std::vector<std::int64_t>;
  small.slices = 1;  // 100 and two of the largest tensor, after all
  EXPECT_EQ(parts({}), (Parts{100 * megabyte, 0, 20 * megabyte, 0, 0}));
  small.slices = 4;  // one of each rank: 100 + 1 and six buckets, at the end
  EXPECT_EQ(parts({.data = 4}), (Parts{100 * megabyte, 6 * bucket, 0, megabyte, 0}));
  // A quarter of 60, and 40, and four buckets, on the way.
  EXPECT_EQ(parts({.data = 4, .divides_moments = true}), (Parts{15 * megabyte, 4 * bucket, 0, 40 * megabyte, 0}));
  small.slices = 8;  // a sum of 100 waits for the second slice, until it is part of the gradient
  EXPECT_EQ(parts({.data = 4}), (Parts{100 * megabyte, 6 * bucket, 0, 40 * megabyte, 0}));
  // What has not been made is whole still.
  EXPECT_EQ(parts({.data = 4, .divides_moments = true}), (Parts{100 * megabyte, 0, 0, 60 * megabyte, 10 * megabyte}));
  small.held.pass.clear();  // each owner has its stretches of gradients, and of what changed
  EXPECT_EQ(parts({.data = 4, .divides_moments = true}), (Parts{25 * megabyte, 0, 25 * megabyte, 0, 0}));
  // Ranks that share a text have a part of its activations, and whole gradients: three sums, and 50 of one being made.
  small.held.pass = {{.made = 0, .activations = 60 * megabyte, .unfinished = 50 * megabyte}};
  EXPECT_EQ(parts({.context = 4}), (Parts{350 * megabyte, 0, 0, 15 * megabyte, 0}));
}

TEST(LayoutCost, HidesWhatTravelsDuringTheBackwardPass) {
  StepFacts large = facts();
  large.held.learned = 1000 * megabyte;
  // 1.5 s for 40 buckets; two thirds of a second of backward, less the time until the first bucket is full.
  EXPECT_NEAR(layout_cost({.data = 4}, large, nodes_of_four()).communication, 1.5 - 2. / 3 * 39 / 40, tolerance);
  // Processors that send 1.5 GB at 0.5 ns a byte do nothing else meanwhile.
  Network busy = nodes_of_four();
  busy.within.work = 0.5e-9;
  EXPECT_NEAR(layout_cost({.data = 4}, large, busy).communication, 0.75 + (0.75 - 2. / 3 * 39 / 40), tolerance);
}

TEST(LayoutCost, OfMomentsDividesThemAndTheOptimiser) {
  const LayoutCost whole = layout_cost({.data = 4}, facts(), nodes_of_four()),
                   divided = layout_cost({.data = 4, .divides_moments = true}, facts(), nodes_of_four());
  EXPECT_EQ(part(divided, "moments"), 50 * megabyte);
  EXPECT_EQ(part(whole, "moments"), 200 * megabyte);
  EXPECT_DOUBLE_EQ(divided.computation, 2 + 0.5 / 4);
  // Gradients are hidden but for the last of 16 buckets, weights but for the first.
  EXPECT_NEAR(divided.communication, 2 * 0.075 / 16, tolerance);
  Network slow = nodes_of_four();
  slow.within.bandwidth /= 10;
  EXPECT_NEAR(layout_cost({.data = 4, .divides_moments = true}, facts(), slow).communication,
              0.75 - 2. / 3 * 15 / 16 + 0.75 - 1. / 3 * 15 / 16, tolerance);
}

TEST(LayoutCost, OfTensorsDividesWeightsAndSumsActivations) {
  const LayoutCost cost = layout_cost({.data = 2, .tensor = 2}, facts(), nodes_of_four());
  EXPECT_EQ(part(cost, "weights"), 50 * megabyte);
  EXPECT_EQ(part(cost, "moments"), 100 * megabyte);
  EXPECT_EQ(part(cost, "logits of a slice"), 25 * megabyte);
  // Four of 1000 · 250 numbers of each of ten blocks are whole, 40 MB; half of the other 860.
  EXPECT_EQ(part(cost, "activations of a slice"), (40 + 430) * megabyte);
  EXPECT_DOUBLE_EQ(cost.computation, 4 * 1 / 2. + 0.5 / 2);
  // 42 sums of 1 MB in each of four slices, each a millisecond, and 12 KB for losses; gradients of 50 MB: 25 out and
  // in, twice, of which the last of 12 buckets is not hidden.
  EXPECT_NEAR(cost.communication, 4 * (42 * 1e-3 + 12e-6) + 0.05 / 12, tolerance);
}

TEST(LayoutCost, OfTensorsWaitsForEveryBlockOfLogits) {
  StepFacts large = facts();
  large.shape->vocabulary = 50'000;  // 100 MB of half of them, in two blocks of 64 MiB at most
  const auto waits = [&](const StepFacts& of) {
    return layout_cost({.tensor = 2}, of, nodes_of_four(1e-6)).communication -
           layout_cost({.tensor = 2}, of, nodes_of_four()).communication;
  };
  EXPECT_NEAR(waits(large) - waits(facts()), 8 * 1e-6, tolerance);
  large.fixed_seconds = 0.4;  // divided with the weights
  EXPECT_DOUBLE_EQ(layout_cost({.tensor = 2}, large, nodes_of_four()).computation, 8 * 1 / 2. + 0.5 / 2);
}

// 20 of 100 MB are not divided by 8, nor by 16 are 80: a rank has a whole vocabulary, or all weights.
TEST(LayoutCost, OfTensorsLeavesWholeWhatTheyDoNotDivide) {
  StepFacts uneven = facts();
  uneven.shape->vocabulary = 501;
  uneven.divided = {{80 * megabyte, 1000}, {20 * megabyte, 501}};
  const LayoutCost cost = layout_cost({.data = 2, .tensor = 2}, uneven, nodes_of_four());
  EXPECT_EQ(part(cost, "weights"), 60 * megabyte);
  EXPECT_EQ(part(cost, "moments"), 120 * megabyte);
  EXPECT_DOUBLE_EQ(cost.computation, 4 * 1 / 2. + 0.5 * 0.6);
  // Two sums less of a slice; 40 MB between two ranks, of which the last of 9 buckets is not hidden, and 20 between
  // four, of which the last of 4 buckets of 4 MiB is not.
  EXPECT_NEAR(cost.communication, 4 * 40 * 1e-3 + 0.04 / 10 + 0.03 / 5, tolerance);
  // Whole weights are 80 MB, and steps have 470 of activations besides.
  EXPECT_EQ(part(cost, "whole weights of an evaluation"), 0);
  uneven.held.pass = {PassMoment{}};
  EXPECT_EQ(part(layout_cost({.tensor = 4}, uneven, nodes_of_four()), "gradients"), 3 * 40 * megabyte);
  uneven.slices = 1;
  EXPECT_EQ(part(layout_cost({.tensor = 4}, uneven, nodes_of_four()), "whole weights of an evaluation"),
            (80 - 40 - 2 * 4) * megabyte);
}

TEST(LayoutCost, OfContextPassesKeysAndValuesAround) {
  StepFacts small = facts();
  small.shape->heads = small.shape->key_heads = 6;  // which four do not divide
  const LayoutCost cost = layout_cost({.context = 4}, small, nodes_of_four());
  EXPECT_EQ(part(cost, "weights"), 100 * megabyte);
  EXPECT_EQ(part(cost, "activations of a slice"), 225 * megabyte);
  EXPECT_DOUBLE_EQ(cost.computation, 8 * 1 / 4. + 0.5);
  // Of 250 tokens 2 · 6 · 32 numbers, 0.384 MB, three times to three others in each of ten blocks of eight slices;
  // gradients travel 0.15 s, of which a slice on four ranks hides (1 - 1 / 16) · 2 / 3 of 0.25 s at most.
  constexpr double gradients = 0.15 / 16;
  EXPECT_NEAR(cost.communication, 8 * 10 * 9 * 0.384e-3 + gradients, tolerance);
  // Each waits for three messages, keys and values together; gradients for six in each of 16 buckets, losses for six.
  const double waiting = layout_cost({.context = 4}, small, nodes_of_four(1e-6)).communication - cost.communication;
  EXPECT_NEAR(waiting, 8 * 10 * 3 * 3e-6 + 6e-6 + 6e-6, tolerance);
  // 12.3 MB of all ranks, 15 texts: four pieces are wanted, of which six heads make six, one of them waited for;
  // backward eight, which are twelve of eleven or four texts, whose gradients are waited for. A rank's 0.5 and 0.3 MB
  // of a piece travel together, and 1 MB of its gradients.
  small.tokens_of_slice *= 8;
  const auto waits = [&] {
    return layout_cost({.context = 4}, small, nodes_of_four(1e-6)).communication -
           layout_cost({.context = 4}, small, nodes_of_four()).communication;
  };
  EXPECT_NEAR(waits(), 8 * 10 * (1 + 1 + 12) * 3e-6 + 6e-6 + 6e-6, tolerance);
  // 98 MB, 125 texts, in as many pieces: 4.1, 2.0 and 8.2 MB, which go apart.
  small.tokens_of_slice *= 8;
  EXPECT_NEAR(waits(), 8 * 10 * (2 + 2 + 12 * 2) * 3e-6 + 6e-6 + 6e-6, tolerance);
  // What slices take whatever their tokens is not divided.
  small.fixed_seconds = 0.2;
  EXPECT_DOUBLE_EQ(layout_cost({.context = 4}, small, nodes_of_four()).computation, 8 * (0.2 + 0.8 / 4) + 0.5);
  EXPECT_DOUBLE_EQ(layout_cost({.data = 8}, small, nodes_of_four()).computation, 1 + 0.5);
}

TEST(LayoutCost, OfContextSendsQueriesAndOutputsWhereRanksDivideHeads) {
  // Of 250 tokens 8 · 32 numbers of queries and of outputs, 2 · 4 · 32 of keys and values: 0.256 MB each, of which
  // three quarters go to others, forward and backward.
  const LayoutCost cost = layout_cost({.context = 4}, facts(), nodes_of_four());
  EXPECT_NEAR(cost.communication, 8 * 10 * 2 * 3 * 0.75 * 0.256e-3 + 0.15 / 16, tolerance);
  EXPECT_NEAR(layout_cost({.context = 4}, facts(), nodes_of_four(1e-6)).communication - cost.communication,
              8 * 10 * 4 * 3e-6 + 6e-6 + 6e-6, tolerance);
  // Two heads of a mechanism make one: two key heads four ranks cannot divide.
  StepFacts differential = facts();
  differential.shape->sub_heads = 2;
  EXPECT_NEAR(layout_cost({.context = 4}, differential, nodes_of_four()).communication,
              8 * 10 * 3 * 3 * 0.256e-3 + 0.15 / 16, tolerance);
  // Inputs of more than 1.5 MiB travel in three exchanges; half of the layers go forward again.
  StepFacts long_texts = facts();
  long_texts.tokens_of_slice *= 8;
  long_texts.shape->recompute = 2;
  EXPECT_NEAR(layout_cost({.context = 4}, long_texts, nodes_of_four(1e-6)).communication -
                  layout_cost({.context = 4}, long_texts, nodes_of_four()).communication,
              8 * 10 * 2.5 * 4 * 3e-6 + 6e-6 + 6e-6, tolerance);
}

std::vector<std::string> names(const LayoutForecast& forecast) {
  std::vector<std::string> names;
  for (const LayoutCost& each : forecast.layouts) names.push_back(each.layout.text());
  return names;
}

TEST(LayoutForecast, HasAllLayoutsFastestFirst) {
  const LayoutForecast found = layout_forecast(4, facts(), nodes_of_four(), std::nullopt);
  EXPECT_TRUE(found.refused.empty());
  const std::vector<std::string> all = names(found);
  EXPECT_EQ(all.size(), 11u);  // data, context and tensor of 1, 2 and 4, all but tensor 4 with moments divided too
  EXPECT_EQ(all.front(), "data 4, moments divided");
  for (std::size_t index = 1; index < found.layouts.size(); ++index)
    EXPECT_LE(found.layouts[index - 1].step_seconds(), found.layouts[index].step_seconds());
  for (const LayoutCost& each : found.layouts)
    EXPECT_EQ(each.layout.missing().empty(), !each.layout.divides_moments || each.layout.tensor == 1)
        << each.layout.text();
  StepFacts muon = facts();
  muon.moments_divide = false;
  for (const LayoutCost& each : layout_forecast(4, muon, nodes_of_four(), std::nullopt).layouts)
    EXPECT_FALSE(each.layout.divides_moments);
}

TEST(LayoutForecast, SaysOnceWhyNot) {
  StepFacts uneven = facts();
  uneven.slices = 2;
  uneven.shape->key_heads = 2;
  uneven.shape->context = 12;
  const LayoutForecast found = layout_forecast(4, uneven, nodes_of_four(), std::nullopt);
  std::vector<std::string> reasons;
  for (const Refusal& each : found.refused) reasons.push_back(each.layout + ": " + each.reason);
  EXPECT_EQ(reasons, (std::vector<std::string>{"data 4: training.micro_batches: expected a multiple of 4, got 2",
                                               "context 4: model.context: expected a multiple of 8, got 12",
                                               "tensor 4: model.key_value_heads: expected a multiple of 4, got 2"}));
}

TEST(LayoutForecast, DividesPairsOfHeadsWhereTwoMakeOne) {
  StepFacts differential = facts();  // eight heads over four key heads
  differential.shape->sub_heads = 2;
  const LayoutForecast found = layout_forecast(4, differential, nodes_of_four(), std::nullopt);
  const std::vector<std::string> all = names(found);
  EXPECT_EQ(std::count(all.begin(), all.end(), "data 2, tensor 2"), 1);
  EXPECT_EQ(std::count(all.begin(), all.end(), "tensor 4"), 0);
  EXPECT_EQ(found.refused.front().reason, "model.key_value_heads: expected a multiple of 8, got 4");
}

TEST(LayoutForecast, LeavesOutWhatDoesNotFit) {
  const std::int64_t room = layout_cost({.data = 4, .divides_moments = true}, facts(), nodes_of_four()).bytes();
  const LayoutForecast found = layout_forecast(4, facts(), nodes_of_four(), room);
  const std::vector<std::string> all = names(found);
  EXPECT_EQ(std::count(all.begin(), all.end(), "data 4"), 0);
  EXPECT_EQ(std::count(all.begin(), all.end(), "data 4, moments divided"), 1);
  EXPECT_EQ(found.refused.front().layout, "data 4");
  EXPECT_TRUE(found.refused.front().reason.starts_with("memory: expected at most ")) << found.refused.front().reason;
}

TEST(LayoutForecast, OfANumberThatIsNoPowerOfTwoHasTensorsAlone) {
  StepFacts seven = facts();
  seven.shape->heads = seven.shape->key_heads = 28;
  seven.shape->feed_forward = 700;
  seven.shape->vocabulary = 3500;
  const Network one_node{.ranks_per_node = 8, .within = {0, 1e9}};
  EXPECT_EQ(names(layout_forecast(7, seven, one_node, std::nullopt)), (std::vector<std::string>{"tensor 7"}));
  seven.shape.reset();
  EXPECT_TRUE(layout_forecast(7, seven, one_node, std::nullopt).layouts.empty());
}

}  // namespace
}  // namespace cogwheel::runs::layout_cost_test
