// What tokenizer.json of Hugging Face's `tokenizers` says alike of every BPE: tokens, merges, what is added.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/text/byte_pairs/json_part.h"

namespace cogwheel::text {

// Tokens and their numbers, as they are read.
class TokensByNumber {
 public:
  // Throws Error that names `what` for what is no number, and a number that has another text.
  void add(const std::string& text, const nlohmann::json& number, const std::string& what);
  // In the order of their numbers. Throws unless these are 0, 1 and so on.
  std::vector<std::string> in_order(const std::string& what) const;

 private:
  std::map<std::int64_t, std::string> by_number_;
};

// The other way. `tokens` must outlive it.
class TokensByText {
 public:
  explicit TokensByText(const std::vector<std::string>& tokens);
  // Throws Error that names `what` where there is none.
  Token operator()(std::string_view text, const std::string& what) const;
  std::optional<Token> find(std::string_view text) const;
  // Two tokens with a space between them.
  std::pair<Token, Token> merge(std::string_view line, const std::string& what) const;

 private:
  std::unordered_map<std::string_view, Token> tokens_;
};

struct PublishedTokens {
  std::vector<std::string> tokens = {};  // as the file writes them
  std::vector<std::pair<Token, Token>> merges = {};
  std::vector<Token> special = {}, added = {};    // ascending; the second are not special
  bool whole_words = false;                       // ignore_merges
  std::optional<Token> beginning = {}, end = {};  // what a post-processor puts around a text
};

// Throws Error for a model that is no BPE, one with dropout or affixes, added tokens that take spaces with them, and a
// post-processor other than ByteLevel and TemplateProcessing.
PublishedTokens published_tokens(const JsonPart& all);

}  // namespace cogwheel::text
