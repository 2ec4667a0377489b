#include "cogwheel/text/byte_pairs/published_tokens.h"

#include <algorithm>
#include <limits>

#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

// What a post-processor puts around a text.
void read_template(const JsonPart& part, PublishedTokens& published, const TokensByText& tokens) {
  bool text = false;
  for (const JsonPart& piece : part.at("single").each()) {
    if (!piece.at("Sequence").missing()) {
      if (text) part.refuse("a text once", part.shown());
      text = true;
      continue;
    }
    const JsonPart name = piece.at("SpecialToken").at("id");
    auto& place = text ? published.end : published.beginning;
    if (place) part.refuse("one token at most on each side of a text", "another, " + name.shown());
    place = tokens(name.text(), part.type());
  }
}

}  // namespace

void TokensByNumber::add(const std::string& text, const nlohmann::json& number, const std::string& what) {
  if (!number.is_number_integer() || number < 0 || number > std::numeric_limits<Token>::max())
    throw Error(expected_got(what, "numbers of tokens", one_line(number.dump())));
  const auto id = number.get<std::int64_t>();
  const auto [found, is_new] = by_number_.emplace(id, text);
  if (!is_new && found->second != text)
    throw Error(expected_got(what, "a text for each token", "two for " + std::to_string(id)));
}

std::vector<std::string> TokensByNumber::in_order(const std::string& what) const {
  std::vector<std::string> all;
  for (const auto& [number, text] : by_number_) {
    if (number != std::ssize(all))
      throw Error(expected_got(what, "tokens without a gap", "no token " + std::to_string(all.size())));
    all.push_back(text);
  }
  return all;
}

TokensByText::TokensByText(const std::vector<std::string>& tokens) {
  for (std::size_t token = 0; token < tokens.size(); ++token) tokens_.emplace(tokens[token], static_cast<Token>(token));
}

std::optional<Token> TokensByText::find(std::string_view text) const {
  const auto found = tokens_.find(text);
  return found == tokens_.end() ? std::nullopt : std::optional(found->second);
}

Token TokensByText::operator()(std::string_view text, const std::string& what) const {
  const std::optional<Token> token = find(text);
  if (!token) throw Error(expected_got(what, "tokens of the vocabulary", one_line(text)));
  return *token;
}

std::pair<Token, Token> TokensByText::merge(std::string_view line, const std::string& what) const {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) throw Error(expected_got(what, "two tokens", one_line(line)));
  return {(*this)(line.substr(0, space), what), (*this)(line.substr(space + 1), what)};
}

PublishedTokens published_tokens(const JsonPart& all) {
  const JsonPart model = all.at("model");
  if (model.type() != "BPE") model.refuse("BPE", model.type());
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    if (const JsonPart part = model.at(key); !part.missing() && !part.is("") && !part.is(0.0))
      part.refuse("none", part.shown());
  PublishedTokens published;
  if (const JsonPart whole = model.at("ignore_merges"); whole.is(true))
    published.whole_words = true;
  else
    model.expect_if_there("ignore_merges", false);

  TokensByNumber numbered;
  const JsonPart vocab = model.at("vocab");
  if (!vocab.json().is_object()) vocab.refuse("tokens and their numbers", vocab.shown().substr(0, 40));
  const std::string vocab_name = all.what() + ": vocab";
  for (const auto& [text, number] : vocab.json().items()) numbered.add(text, number, vocab_name);
  for (const JsonPart& added : all.at("added_tokens").each()) {
    const JsonPart content = added.at("content"), number = added.at("id");
    numbered.add(content.text(), number.json(), all.what() + ": added_tokens");
    const bool special = added.at("special").is(true);
    // What is looked for in a text must be found as it stands there.
    for (const char* const key : {"lstrip", "rstrip", "single_word", "normalized"})
      if (const JsonPart part = added.at(key); !special && part.is(true))
        part.refuse("false of a token that is not special", "true of " + content.shown());
    (special ? published.special : published.added).push_back(number.json().get<Token>());
  }
  for (std::vector<Token>* const tokens : {&published.special, &published.added}) {
    std::sort(tokens->begin(), tokens->end());
    tokens->erase(std::unique(tokens->begin(), tokens->end()), tokens->end());
  }
  published.tokens = numbered.in_order(vocab_name);

  const TokensByText tokens(published.tokens);
  const std::string merges_name = all.what() + ": merges";
  for (const JsonPart& merge : model.at("merges").each()) {
    if (merge.json().is_string()) {
      published.merges.push_back(tokens.merge(merge.text(), merges_name));
      continue;
    }
    const std::vector<JsonPart> pair = merge.each();
    if (pair.size() != 2) merge.refuse("two tokens", merge.shown());
    published.merges.emplace_back(tokens(pair[0].text(), merges_name), tokens(pair[1].text(), merges_name));
  }
  for (const JsonPart& part : all.at("post_processor").steps("processors")) {
    if (part.type() == "TemplateProcessing")
      read_template(part, published, tokens);
    else if (part.type() != "ByteLevel")
      part.refuse("ByteLevel or TemplateProcessing", part.type());
  }
  return published;
}

}  // namespace cogwheel::text
