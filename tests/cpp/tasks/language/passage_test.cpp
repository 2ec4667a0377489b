#include "cogwheel/tasks/language/passage.h"

#include <gtest/gtest.h>

namespace cogwheel::tasks::language {
namespace {

text::Dataset data_of(const std::string& held_out, std::string_view tokenizer = "character") {
  text::Dataset data;
  data.tokenizer = text::make_tokenizer(tokenizer, held_out);
  data.held_out = data.tokenizer->encode(held_out);
  data.training = data.held_out;
  return data;
}

std::string text_of(const text::Dataset& data, const std::vector<Token>& tokens) {
  return data.tokenizer->decode(tokens);
}

TEST(ChoosePassage, TakesTheFirstLineThatReadsAsText) {
  const text::Dataset data = data_of(
      "the end of a line that began before\n== 12 ==\nshort\n    for key, value in the items of this list:\nand so on "
      "for ever\n");
  EXPECT_EQ(text_of(data, choose_passage(data, 64)), "for key, value in the items of ");
  EXPECT_EQ(text_of(data, choose_passage(data, 12)), "for key, val");
}

TEST(ChoosePassage, FallsBackToTheBeginning) {
  const text::Dataset data = data_of("12345 67890\n12345 67890\n12345 67890\n12345 67890\n");
  EXPECT_EQ(text_of(data, choose_passage(data, 8)), "12345 67");
}

TEST(TokenLabel, BytesThatAreNoTextAreWrittenInHexadecimal) {
  const auto tokenizer = text::make_tokenizer("byte", "");
  EXPECT_EQ(token_label(*tokenizer, 0x41), "A");
  EXPECT_EQ(token_label(*tokenizer, 0xff), "\\xff");
  EXPECT_EQ(token_label(*tokenizer, 0x00), "\\x00");
  EXPECT_EQ(token_label(*tokenizer, '\n'), "\n");
}

}  // namespace
}  // namespace cogwheel::tasks::language
