#include "cogwheel/evaluate/inspect.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cogwheel/evaluate/machine.h"
#include "cogwheel/models/language_model.h"

namespace cogwheel {
namespace {

Dataset data_of(const std::string& held_out, std::string_view tokenizer = "character") {
  Dataset data;
  data.tokenizer = make_tokenizer(tokenizer, held_out);
  data.held_out = data.tokenizer->encode(held_out);
  data.training = data.held_out;
  return data;
}

std::string text_of(const Dataset& data, const std::vector<Token>& tokens) { return data.tokenizer->decode(tokens); }

TEST(ChoosePassage, TakesTheFirstLineThatReadsAsText) {
  const Dataset data = data_of(
      "the end of a line that began before\n== 12 ==\nshort\n    for key, value in the items of this list:\nand so on "
      "for ever\n");
  EXPECT_EQ(text_of(data, choose_passage(data, 64)), "for key, value in the items of ");
  EXPECT_EQ(text_of(data, choose_passage(data, 12)), "for key, val");
}

TEST(ChoosePassage, FallsBackToTheBeginning) {
  const Dataset data = data_of("12345 67890\n12345 67890\n12345 67890\n12345 67890\n");
  EXPECT_EQ(text_of(data, choose_passage(data, 8)), "12345 67");
}

TEST(TokenLabel, BytesThatAreNoTextAreWrittenInHexadecimal) {
  const auto tokenizer = make_tokenizer("byte", "");
  EXPECT_EQ(token_label(*tokenizer, 0x41), "A");
  EXPECT_EQ(token_label(*tokenizer, 0xff), "\\xff");
  EXPECT_EQ(token_label(*tokenizer, 0x00), "\\x00");
  EXPECT_EQ(token_label(*tokenizer, '\n'), "\n");
}

TEST(Inspect, MapsOfEveryLayerAndHeadAndASampleThatRepeats) {
  const Dataset data = data_of("so\nthe cat sat on the mat and the dog ran\nto the sea\n");
  LanguageModelOptions options;
  options.vocabulary = data.tokenizer->vocabulary();
  options.context = 16;
  options.layers = 2;
  options.heads = 2;
  options.width = 32;
  for (const char* mechanism : {"softmax", "cog", "differential"}) {
    options.mechanism = mechanism;
    LanguageModel model(options);
    model->initialize(1);
    const Inspection inspection = inspect(model, data, mechanism, 1);
    const std::size_t size = inspection.tokens.size();
    ASSERT_EQ(size, 16U);
    ASSERT_EQ(inspection.maps.size(), 2U);
    for (const auto& layer : inspection.maps) {
      ASSERT_EQ(layer.size(), std::string_view(mechanism) == "differential" ? 1U : 2U);
      for (const AttentionMap& map : layer)
        for (std::size_t query = 0; query < size; ++query) {
          double sum = 0;
          for (std::size_t key = 0; key < size; ++key) {
            const float weight = map.weights.at(query * size + key);
            if (key > query) {
              EXPECT_EQ(weight, 0);
            }
            sum += std::string_view(mechanism) == "cog" ? std::abs(weight) : weight;
          }
          if (std::string_view(mechanism) != "differential") {
            EXPECT_NEAR(sum, 1, 1e-5);
          }
        }
    }
    EXPECT_EQ(inspection.prompt, "the cat sat on t");
    EXPECT_FALSE(inspection.sample.empty());
    EXPECT_EQ(inspect(model, data, mechanism, 1).sample, inspection.sample);
  }
}

TEST(Machine, PeakMemoryFollowsWhatIsTouched) {
  if (!reset_peak_memory()) GTEST_SKIP() << "this system does not let a process reset its peak memory";
  constexpr std::int64_t touched = 64 << 20, most = 60 << 20;
  const std::int64_t before = peak_memory_bytes().value();
  {
    const std::vector<char> block(touched, 1);
    EXPECT_EQ(block.back(), 1);
  }
  EXPECT_GE(peak_memory_bytes().value() - before, most);  // freed, and still the peak
  ASSERT_TRUE(reset_peak_memory());
  EXPECT_LT(peak_memory_bytes().value() - before, most);
}

TEST(Machine, SaysWhatItIs) {
  const Comparison::Machine machine = this_machine();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_GE(machine.cores, 1);
  EXPECT_GE(machine.threads, 1);
  EXPECT_GT(machine.memory_bytes, 1 << 20);
}

}  // namespace
}  // namespace cogwheel
