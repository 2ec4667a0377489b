#include "cogwheel/tasks/language/windows.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <set>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "support/temporary_folder.h"

namespace cogwheel::text {
namespace {

constexpr std::int64_t context = 8, batch = 5;

// Two consecutive bytes identify their position.
Corpus counting_corpus(std::int64_t bytes) {
  Corpus corpus{.name = "counting", .text = {}, .sha256 = {}, .files = {}};
  for (std::int64_t index = 0; index < bytes; ++index)
    corpus.text.push_back(static_cast<char>(index % 2 == 0 ? index / 2 % 256 : index / 512));
  corpus.sha256 = sha256(corpus.text);
  return corpus;
}

TEST(Dataset, HoldsOutTheLastTenth) {
  const Dataset data = make_dataset(counting_corpus(1005), "byte", context);
  EXPECT_EQ(data.training.size(), 904u);
  EXPECT_EQ(data.held_out.size(), 101u);
  const auto whole = data.tokenizer->encode(counting_corpus(1005).text);
  EXPECT_TRUE(std::equal(data.training.begin(), data.training.end(), whole.begin()));
  EXPECT_TRUE(std::equal(data.held_out.begin(), data.held_out.end(), whole.begin() + 904));
}

TEST(Dataset, RefusesTextShorterThanOneContext) {
  EXPECT_NO_THROW(make_dataset(counting_corpus(90), "byte", context));
  try {
    make_dataset(counting_corpus(80), "byte", context);
    ADD_FAILURE() << "accepted 80 tokens";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "counting: expected at least 90 tokens, for a context of 8 in the tenth that is held out, got 80");
  }
}

TEST(Dataset, NamesTheFileThatIsNoText) {
  const TemporaryFolder folder;
  folder.write("a.txt", std::string(500, 'x'));
  folder.write("b.bin", "y\xff");
  try {
    make_dataset(load_corpus({folder.path()}), "character", context);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("b.bin: expected text in UTF-8"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("byte 0xFF at offset 1"), std::string::npos) << error.what();
  }
}

TEST(TrainingWindows, DependOnSeedAndStepAlone) {
  const Dataset data = make_dataset(counting_corpus(5000), "byte", context);
  const auto draw = [&](std::uint64_t seed, std::int64_t step) {
    return tasks::language::training_windows(data, context, batch, seed, step).inputs;
  };
  EXPECT_TRUE(draw(1, 7).equal(draw(1, 7)));
  EXPECT_FALSE(draw(1, 7).equal(draw(1, 8)));
  EXPECT_FALSE(draw(1, 7).equal(draw(2, 7)));
}

// Fixed numbers: a seed means the same data order on every machine.
TEST(TrainingWindows, StartWhereTheyAlwaysDid) {
  Dataset data;
  for (Token token = 0; token < 1000; ++token) data.training.push_back(token);
  const at::Tensor starts = tasks::language::training_windows(data, 10, 4, 1337, 3).inputs.select(1, 0);
  EXPECT_TRUE(starts.equal(at::tensor(std::vector<std::int64_t>{327, 156, 550, 537})));
}

TEST(TrainingWindows, CoverTheTrainingPartAndNoMore) {
  Dataset data;
  for (Token token = 0; token < 100; ++token) data.training.push_back(token);
  std::set<std::int64_t> starts;
  for (std::int64_t step = 0; step < 500; ++step) {
    const tasks::language::Windows windows = tasks::language::training_windows(data, context, batch, 3, step);
    EXPECT_TRUE(windows.targets.equal(at::add(windows.inputs, 1)));
    EXPECT_LE(windows.targets.max().item<std::int64_t>(), 99);
    for (std::int64_t row = 0; row < batch; ++row) starts.insert(windows.inputs[row][0].item<std::int64_t>());
  }
  // 92 places to start: 0 to 91, whose last target is the last token of the training part.
  EXPECT_EQ(starts.size(), 92u);
}

TEST(HeldOutWindows, AreAllThatDoNotOverlap) {
  Dataset data;
  for (Token token = 0; token < 8 * 4 + 5; ++token) data.held_out.push_back(token);
  const tasks::language::Windows windows = tasks::language::held_out_windows(data, context);
  EXPECT_EQ(windows.inputs.sizes(), at::IntArrayRef({4, context}));
  EXPECT_TRUE(windows.inputs.flatten().equal(at::arange(32)));
  EXPECT_TRUE(windows.targets.flatten().equal(at::arange(1, 33)));
}

TEST(Dataset, SpreadsSomeOfTheHeldOutWindowsEvenly) {
  Dataset data;
  for (Token token = 0; token < 101; ++token) data.held_out.push_back(token);  // 10 windows of 10
  const auto starts = [&](std::int64_t tokens) {
    const at::Tensor first = tasks::language::held_out_windows(data, 10, tokens).inputs.select(1, 0).contiguous();
    return std::vector<std::int64_t>(first.const_data_ptr<std::int64_t>(),
                                     first.const_data_ptr<std::int64_t>() + first.numel());
  };
  EXPECT_EQ(starts(0).size(), 10u);
  EXPECT_EQ(starts(30), (std::vector<std::int64_t>{0, 30, 60}));
  EXPECT_EQ(starts(39), starts(30));
  EXPECT_EQ(starts(5), std::vector<std::int64_t>{0});
  EXPECT_EQ(starts(1000), starts(0));
}

}  // namespace
}  // namespace cogwheel::text
