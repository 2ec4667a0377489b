// recall, parity, permutations and ioi, against their descriptions: every label is computed again in another way.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/synthetic/ioi_data.h"
#include "support/usage_error_of.h"
#include "tasks/synthetic/made_task.h"

namespace cogwheel::tasks::synthetic::sampled_tasks_test {
namespace {

std::string refusal(const runs::RunConfig& config) {
  return usage_error_of([&] { runs::make_task(config)->completed(config); });
}

TEST(Recall, AsksForTheValueThatWasWrittenLast) {
  const std::int64_t keys = 24, values = 5, separator = keys + values;
  const Made made(
      config_of("recall", {{"pairs", std::int64_t{8}}, {"keys", keys}, {"values", values}, {"overwritten", 0.5}}));
  const runs::Batch batch = made.batch();
  EXPECT_EQ(batch.inputs.size(1), 2 * (8 + 4) + 1 + 8);
  std::map<std::size_t, int> rows_with;
  std::size_t overwritten_in_all = 0;
  for (std::int64_t row = 0; row < batch.inputs.size(0); ++row) {
    const Numbers inputs = row_of(batch.inputs, row), targets = row_of(batch.targets, row);
    std::map<std::int64_t, std::int64_t> last;
    std::size_t place = 0, overwritten = 0;
    for (; inputs[place] != separator; place += 2) {
      const std::int64_t key = inputs[place], value = inputs[place + 1];
      ASSERT_LT(key, keys);
      ASSERT_TRUE(value >= keys && value < separator);
      if (last.contains(key)) {
        ++overwritten;
        EXPECT_NE(last[key], value);
      }
      last[key] = value;
    }
    for (std::size_t before = 0; before <= place; ++before) EXPECT_EQ(targets[before], ignored_target);
    EXPECT_EQ(overwritten, last.size() / 2);
    // Round by round, each key once in a round.
    std::set<std::int64_t> asked;
    std::size_t answers = 0;
    for (++place; place < inputs.size() && inputs[place] != separator; ++place, ++answers) {
      EXPECT_TRUE(asked.insert(inputs[place]).second);
      EXPECT_EQ(targets[place], last.at(inputs[place]));
      if (asked.size() == last.size()) asked.clear();
    }
    EXPECT_GE(answers, last.size());
    for (; place < inputs.size(); ++place) {
      EXPECT_EQ(inputs[place], separator);
      EXPECT_EQ(targets[place], ignored_target);
    }
    ++rows_with[last.size()];
    overwritten_in_all += overwritten;
  }
  EXPECT_EQ(rows_with.begin()->first, 1u);
  EXPECT_EQ(rows_with.rbegin()->first, 8u);
  EXPECT_EQ(rows_with.size(), 8u);
  EXPECT_GT(overwritten_in_all, 0u);
}

// So that a run that is resumed goes on where it was: the pairs follow from the step.
TEST(Recall, BeginsWithFewPairs) {
  const Made made(config_of("recall", {{"pairs", std::int64_t{16}}, {"doubled_after", std::int64_t{10}}}));
  const auto most_pairs = [&](std::int64_t step) {
    const runs::Batch batch = made.batch(step);
    std::int64_t most = 0;
    for (std::int64_t row = 0; row < batch.inputs.size(0); ++row) {
      const Numbers inputs = row_of(batch.inputs, row);
      const std::set<std::int64_t> keys(inputs.begin(), inputs.end());
      most = std::max<std::int64_t>(most, std::distance(keys.begin(), keys.lower_bound(64)));
    }
    return most;
  };
  EXPECT_EQ(most_pairs(9), 4);
  EXPECT_EQ(most_pairs(19), 8);
  EXPECT_GT(most_pairs(20), 8);
  EXPECT_GT(most_pairs(1000), 8);
}

TEST(Parity, CountsTheOnesSoFar) {
  const Made made(config_of("parity", {{"length", std::int64_t{20}}}));
  const runs::Batch batch = made.batch();
  EXPECT_EQ(batch.inputs.size(1), 20);
  EXPECT_EQ(batch.tokens, 64 * 20);
  EXPECT_TRUE(batch.targets.equal(batch.inputs.cumsum(1).remainder(2)));
  const auto ones = batch.inputs.sum().item<double>() / (64 * 20);
  EXPECT_NEAR(ones, 0.5, 0.05);
}

// The permutation of a place in lexicographic order, by its digits in the factorial number system.
Numbers permutation_at(std::int64_t place, std::int64_t objects) {
  Numbers left(static_cast<std::size_t>(objects)), permutation;
  std::iota(left.begin(), left.end(), 0);
  std::int64_t block = 1;
  for (std::int64_t i = 2; i < objects; ++i) block *= i;
  for (std::int64_t i = objects - 1; i >= 0; --i) {
    const auto digit = static_cast<std::ptrdiff_t>(place / block);
    permutation.push_back(left[static_cast<std::size_t>(digit)]);
    left.erase(left.begin() + digit);
    place %= block;
    if (i > 0) block /= i;
  }
  return permutation;
}

at::Tensor matrix_of(const Numbers& permutation) {
  const auto size = static_cast<std::int64_t>(permutation.size());
  at::Tensor matrix = at::zeros({size, size}, at::kDouble);
  for (std::int64_t from = 0; from < size; ++from) matrix[permutation[static_cast<std::size_t>(from)]][from] = 1;
  return matrix;
}

void expect_running_products(const std::string& group, std::int64_t objects, bool even, std::size_t order) {
  const Made made(config_of("permutations", {{"group", group}, {"length", std::int64_t{10}}}));
  EXPECT_EQ(made.completed.model.as<language::LanguageModelOptions>().vocabulary, static_cast<std::int64_t>(order));
  std::vector<at::Tensor> elements;
  std::int64_t all = 1;
  for (std::int64_t i = 2; i <= objects; ++i) all *= i;
  for (std::int64_t place = 0; place < all; ++place) {
    const at::Tensor matrix = matrix_of(permutation_at(place, objects));
    if (!even || matrix.det().item<double>() > 0) elements.push_back(matrix);
  }
  ASSERT_EQ(elements.size(), order);
  const runs::Batch batch = made.batch();
  std::set<std::int64_t> seen;
  for (std::int64_t row = 0; row < batch.inputs.size(0); ++row) {
    const Numbers inputs = row_of(batch.inputs, row), targets = row_of(batch.targets, row);
    at::Tensor product = at::eye(objects, at::kDouble);
    for (std::size_t place = 0; place < inputs.size(); ++place) {
      seen.insert(inputs[place]);
      product = elements.at(static_cast<std::size_t>(inputs[place])).matmul(product);
      ASSERT_TRUE(product.equal(elements.at(static_cast<std::size_t>(targets[place])))) << group << " " << row;
    }
  }
  EXPECT_GT(seen.size(), order * 9 / 10);
}

TEST(Permutations, GiveTheRunningProduct) {
  expect_running_products("S5", 5, false, 120);
  expect_running_products("A5", 5, true, 60);
  expect_running_products("S4", 4, false, 24);
  expect_running_products("A4", 4, true, 12);
  expect_running_products("S3", 3, false, 6);
}

TEST(IndirectObjects, AreTheNameThatComesOnce) {
  const Made made(config_of("ioi", {}));
  const auto tokenizer = ioi_tokenizer();
  const std::span<const std::string_view> names = ioi_names();
  std::set<std::pair<std::string, std::string>> training, held_out;
  const auto read = [&](const runs::Batch& batch, auto& pairs) {
    for (std::int64_t row = 0; row < batch.inputs.size(0); ++row) {
      std::map<std::string, int> seen;
      std::string answer;
      for (std::int64_t place = 0; place < batch.inputs.size(1); ++place) {
        const std::string word = tokenizer->piece(static_cast<Token>(batch.inputs[row][place].item<std::int64_t>()));
        if (std::find(names.begin(), names.end(), word) != names.end()) ++seen[word];
        if (const auto target = batch.targets[row][place].item<std::int64_t>(); target != ignored_target) {
          EXPECT_EQ(answer, "");
          EXPECT_EQ(word, "to");
          answer = tokenizer->piece(static_cast<Token>(target));
        }
      }
      ASSERT_EQ(seen.size(), 2u);
      EXPECT_EQ(seen.at(answer), 1);
      pairs.emplace(seen.begin()->first, seen.rbegin()->first);
    }
  };
  for (std::int64_t step = 0; step < 20; ++step) read(made.batch(step), training);
  for (std::uint64_t number = 0; number < 300; ++number) {
    NumberedDraws draws(1, 2, number);
    const IoiPrompt prompt = draw_ioi_prompt(draws, IoiPairs::unseen, static_cast<std::int64_t>(number % 2));
    EXPECT_EQ(prompt.tokens[prompt.io_at], prompt.io);
    EXPECT_EQ(prompt.tokens[prompt.s1_at], prompt.subject);
    EXPECT_EQ(prompt.tokens[prompt.s2_at], prompt.subject);
    EXPECT_EQ(prompt.io_at < prompt.s1_at, prompt.io_first);
    EXPECT_LE(std::ssize(prompt.tokens), longest_ioi_prompt(1));
    std::pair<std::string, std::string> pair{tokenizer->piece(prompt.io), tokenizer->piece(prompt.subject)};
    if (pair.second < pair.first) std::swap(pair.first, pair.second);
    held_out.insert(pair);
    const IoiPrompt other = with_other_names(prompt, draws);
    std::set<Token> three{other.tokens[other.io_at], other.tokens[other.s1_at], other.tokens[other.s2_at]};
    EXPECT_EQ(three.size(), 3u);
    EXPECT_FALSE(three.contains(prompt.io) || three.contains(prompt.subject));
    for (std::size_t place = 0; place < prompt.tokens.size(); ++place) {
      const bool of_name = place == prompt.io_at || place == prompt.s1_at || place == prompt.s2_at;
      EXPECT_EQ(other.tokens[place] == prompt.tokens[place], !of_name);
    }
  }
  EXPECT_GE(ioi_templates(), 15u);
  EXPECT_GT(held_out.size(), 50u);
  for (const auto& pair : held_out) EXPECT_FALSE(training.contains(pair)) << pair.first << " " << pair.second;
}

TEST(SampledTasks, FollowFromSeedAndStep) {
  for (const char* name : {"recall", "parity", "permutations", "copying"}) {
    Made made(config_of(name, {}));
    const runs::Batch batch = made.batch();
    EXPECT_TRUE(batch.inputs.equal(Made(config_of(name, {})).batch().inputs)) << name;
    EXPECT_FALSE(batch.inputs.equal(made.batch(1).inputs)) << name;
    ++made.training.seed;
    EXPECT_FALSE(batch.inputs.equal(made.batch().inputs)) << name;
    EXPECT_LE(batch.inputs.size(1), 64) << name;  // by default as much as fits
    EXPECT_GT(batch.inputs.size(1), 56) << name;
  }
}

TEST(SampledTasks, MeasureAccuracyByDifficultyUpToTheContext) {
  struct Case {
    const char* name;
    Values values;
    std::int64_t trained;
    Numbers difficulties, answers;
  };
  const Case cases[] = {
      {"recall", {{"pairs", std::int64_t{4}}}, 4, {1, 2, 4, 8, 16, 18}, {1, 2, 4, 8, 16, 18}},
      {"parity", {{"length", std::int64_t{12}}}, 12, {3, 6, 12, 24, 48, 64}, {2, 3, 6, 12, 24, 32}},
      {"permutations", {{"length", std::int64_t{16}}, {"group", "S3"}}, 16, {4, 8, 16, 32, 64}, {2, 4, 8, 16, 32}},
      {"copying", {{"length", std::int64_t{8}}}, 8, {2, 4, 8, 16, 32}, {2, 4, 8, 16, 32}}};
  for (const Case& each : cases) {
    const Made made(config_of(each.name, each.values));
    made.task->initialize(*made.model, 1);
    const runs::Inspection seen = made.task->inspect(*made.model, 1, nullptr);
    ASSERT_EQ(seen.by_difficulty.size(), 1u) << each.name;
    const runs::MeasuresByDifficulty& measures = seen.by_difficulty.front();
    EXPECT_EQ(measures.trained, each.trained) << each.name;
    Numbers difficulties, answers;
    for (const auto& point : measures.points) {
      difficulties.push_back(point.difficulty);
      answers.push_back(point.answers / 128);
      EXPECT_EQ(point.answers % 128, 0);
      const double right = point.measured.at(0).value * static_cast<double>(point.answers);
      EXPECT_NEAR(right, std::round(right), 1e-6) << each.name;
    }
    EXPECT_EQ(difficulties, each.difficulties) << each.name;
    EXPECT_EQ(answers, each.answers) << each.name;
    ASSERT_EQ(seen.tables.size(), 1u) << each.name;
    EXPECT_EQ(seen.tables[0].rows.size(), difficulties.size()) << each.name;
    EXPECT_FALSE(seen.maps.empty()) << each.name;
    EXPECT_FALSE(seen.sample.empty()) << each.name;
  }
}

// Of up to four tokens the difficulties 1, 2 and 4 have every answer once.
TEST(SampledTasks, AccuracyIsTheSumOfThatByDifficulty) {
  for (const char* name : {"parity", "permutations"}) {
    const Made made(config_of(name, name == std::string("parity") ? Values{} : Values{{"group", "S3"}}, 4));
    made.task->initialize(*made.model, 1);
    double right = 0, answers = 0;
    const runs::Inspection seen = made.task->inspect(*made.model, 1, nullptr);
    for (const auto& point : seen.by_difficulty.front().points) {
      right += point.measured.at(0).value * static_cast<double>(point.answers);
      answers += static_cast<double>(point.answers);
    }
    EXPECT_EQ(answers, 128 * 4);
    const auto whole =
        made.task->limited(128 * 4)->evaluate(*made.model, made.training, runs::EvaluationPart::whole, nullptr);
    EXPECT_GT(right, 0);
    EXPECT_NEAR(*runs::find_value(whole, "accuracy"), right / answers, 1e-9) << name;
  }
}

TEST(SampledTasks, RefuseWhatCannotBe) {
  const auto refused = [](const char* task, Values values, std::int64_t context = 64) {
    return refusal(config_of(task, std::move(values), context));
  };
  EXPECT_EQ(refused("recall", {{"pairs", std::int64_t{65}}}), "task.pairs: expected at most 64, got 65");
  EXPECT_EQ(refused("recall", {{"keys", std::int64_t{8}}, {"pairs", std::int64_t{16}}}),
            "task.keys: expected at least 16, got 8");
  EXPECT_EQ(refused("recall", {{"values", std::int64_t{1}}}), "task.values: expected at least 2, got 1");
  EXPECT_EQ(refused("recall", {{"overwritten", 1.5}}), "task.overwritten: expected at most 1, got 1.5");
  EXPECT_EQ(refused("recall", {{"overwritten", "half"}}), "task.overwritten: expected a number, got \"half\"");
  EXPECT_EQ(refused("recall", {{"pairs", std::int64_t{32}}}),
            "model.context: expected at least 113 for the task recall with pairs up to 32, got 64");
  EXPECT_EQ(refused("recall", {}, 3),
            "model.context: expected at least 4 for the task recall with pairs up to 1, got 3");
  EXPECT_EQ(refused("parity", {{"length", std::int64_t{65}}}),
            "model.context: expected at least 65 for the task parity with length up to 65, got 64");
  EXPECT_EQ(refused("parity", {{"length", std::int64_t{-1}}}), "task.length: expected at least 0, got -1");
  EXPECT_EQ(refused("permutations", {{"group", "S6"}}),
            "task.group: expected S5, S4, S3 (the nearest of 5 names), got S6");
  EXPECT_EQ(refused("permutations", {{"group", std::int64_t{5}}}), "task.group: expected a name, got 5");
  EXPECT_EQ(refused("parity", {{"group", "S5"}}), "task: key: expected one of length, steps, got group");
  EXPECT_EQ(refused("copying", {{"length", std::int64_t{33}}}),
            "model.context: expected at least 66 for the task copying with length up to 33, got 64");
}

// Runs from before the option can be resumed.
TEST(Copying, RecordsItsLengthOnlyWhereItIsGiven) {
  EXPECT_FALSE(Made(config_of("copying", {})).completed.task.values.contains("length"));
  EXPECT_TRUE(Made(config_of("copying", {{"length", std::int64_t{8}}})).completed.task.values.contains("length"));
}

}  // namespace
}  // namespace cogwheel::tasks::synthetic::sampled_tasks_test
