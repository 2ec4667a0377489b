#include "cogwheel/text/byte_pairs/published_byte_pairs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/text/byte_pairs/byte_alphabet.h"
#include "cogwheel/text/byte_pairs/published_tokens.h"

namespace cogwheel::text {
namespace {

constexpr std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

WordPattern pattern_of(const JsonPart& part) {
  constexpr const char* expected =
      "ByteLevel, Digits and ByteLevel, or Split by the expression of GPT-2, Llama 3 or Qwen 2 and ByteLevel";
  const std::vector<JsonPart> steps = part.steps("pretokenizers");
  if (steps.empty() || steps.size() > 2) part.refuse(expected, part.type());
  for (const JsonPart& step : steps)
    if (const bool last = &step == &steps.back();
        last ? step.type() != "ByteLevel" : step.type() != "Split" && step.type() != "Digits")
      part.refuse(expected, step.type());
  const JsonPart& bytes = steps.back();
  bytes.expect("add_prefix_space", false);
  if (steps.size() == 1 || steps.front().type() == "Digits") {
    bytes.expect_if_there("use_regex", true);
    if (steps.size() == 1) return WordPattern::gpt2;
    steps.front().expect("individual_digits", true);
    return WordPattern::gpt2_digits;
  }
  bytes.expect("use_regex", false);
  const JsonPart& split = steps.front();
  // These expressions leave nothing between their matches, so that removing what does not match is the same.
  if (split.at("behavior").is("Removed"))
    split.expect("invert", true);
  else
    split.expect("behavior", "Isolated");
  const JsonPart expression = split.at("pattern").at("Regex");
  if (expression.is(gpt2_expression)) return WordPattern::gpt2;
  if (expression.is(llama3_expression)) return WordPattern::llama3;
  if (expression.is(qwen2_expression)) return WordPattern::qwen2;
  expression.refuse("that of GPT-2, Llama 3 or Qwen 2", expression.shown());
}

// Tokens that are neither special nor added from printable characters to bytes.
void decode_printable(BytePairVocabulary& vocabulary, const std::string& what) {
  for (std::size_t token = 0; token < vocabulary.tokens.size(); ++token) {
    if (std::binary_search(vocabulary.special.begin(), vocabulary.special.end(), static_cast<Token>(token)) ||
        std::binary_search(vocabulary.added.begin(), vocabulary.added.end(), static_cast<Token>(token)))
      continue;
    auto bytes = bytes_of_printable(vocabulary.tokens[token]);
    if (!bytes)
      throw Error(expected_got(what, "tokens of a byte-level vocabulary", one_line(vocabulary.tokens[token])));
    vocabulary.tokens[token] = std::move(*bytes);
  }
}

}  // namespace

std::string_view word_expression(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::llama3:
      return llama3_expression;
    case WordPattern::qwen2:
      return qwen2_expression;
    case WordPattern::gpt2:
    case WordPattern::gpt2_digits:
      break;
  }
  return gpt2_expression;
}

BytePairVocabulary hugging_face_byte_pairs(const nlohmann::json& json, std::string_view what) {
  const JsonPart all(json, std::string(what));
  all.at("model").expect_if_there("byte_fallback", false);
  for (const JsonPart& part : all.at("decoder").steps("decoders"))
    if (part.type() != "ByteLevel") part.refuse("ByteLevel", part.type());
  BytePairVocabulary vocabulary;
  for (const JsonPart& part : all.at("normalizer").steps("normalizers")) {
    if (part.type() != "NFC") part.refuse("none, or NFC", part.type());
    vocabulary.nfc = true;
  }
  PublishedTokens published = published_tokens(all);
  vocabulary.words = pattern_of(all.at("pre_tokenizer"));
  vocabulary.tokens = std::move(published.tokens);
  vocabulary.merges = std::move(published.merges);
  vocabulary.special = std::move(published.special);
  vocabulary.added = std::move(published.added);
  vocabulary.whole_words = published.whole_words;
  vocabulary.beginning = published.beginning;
  vocabulary.end_of_document = published.end;
  decode_printable(vocabulary, std::string(what) + ": vocab");
  if (!vocabulary.end_of_document)
    vocabulary.end_of_document = named_end_of_document(vocabulary.tokens, vocabulary.special);
  return vocabulary;
}

BytePairVocabulary vocab_and_merges(const std::filesystem::path& vocab, const std::filesystem::path& merges) {
  const nlohmann::json json = nlohmann::json::parse(read_file(vocab), nullptr, false);
  if (!json.is_object()) throw Error(expected_got(vocab.string(), "tokens and their numbers", "something else"));
  TokensByNumber numbered;
  for (const auto& [text, number] : json.items()) numbered.add(text, number, vocab.string());
  BytePairVocabulary vocabulary;
  vocabulary.tokens = numbered.in_order(vocab.string());
  const std::vector<std::string> printable = vocabulary.tokens;
  const TokensByText tokens(printable);
  const std::string contents = read_file(merges);
  std::vector<bool> made(printable.size());
  std::size_t number = 0;
  for (std::string_view rest = contents; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (line.empty() || line.starts_with("#version")) continue;
    const std::string place = merges.string() + ", line " + std::to_string(number);
    const auto [left, right] = vocabulary.merges.emplace_back(tokens.merge(line, place));
    made[static_cast<std::size_t>(
        tokens(printable[static_cast<std::size_t>(left)] + printable[static_cast<std::size_t>(right)], place))] = true;
  }
  for (std::size_t token = 0; token < printable.size(); ++token)
    if (const auto bytes = bytes_of_printable(printable[token]); !made[token] && (!bytes || bytes->size() != 1))
      vocabulary.special.push_back(static_cast<Token>(token));
  decode_printable(vocabulary, vocab.string());
  vocabulary.end_of_document = named_end_of_document(vocabulary.tokens, vocabulary.special);
  return vocabulary;
}

}  // namespace cogwheel::text
