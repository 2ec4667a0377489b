#include "cogwheel/text/piece_pair_tokenizer.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/text/byte_pairs/published_tokens.h"

namespace cogwheel::text {
namespace {

constexpr std::string_view space_piece = "▁";

std::string byte_piece(int byte) { return "<0x" + hexadecimal(static_cast<std::uint32_t>(byte), 2) + ">"; }

std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string result;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + what.size()) {
    end = std::min(text.find(what, begin), text.size());
    result.append(text, begin, end - begin);
    if (end < text.size()) result += with;
  }
  return result;
}

// Whether the piece has a ▁ after another character.
bool goes_across_a_space(std::string_view piece) {
  for (std::size_t at = piece.find(space_piece, 1); at != std::string_view::npos; at = piece.find(space_piece, at + 1))
    if (!piece.substr(0, at).ends_with(space_piece)) return true;
  return false;
}

// In the order of LeadingSpace.
constexpr std::string_view leading_names[] = {"always", "where_missing", "first_if_missing", "never"};

}  // namespace

PiecePairTokenizer::PiecePairTokenizer(PiecePairVocabulary vocabulary, std::string_view what)
    : learned_(std::move(vocabulary)),
      merges_(learned_.merges.size()),
      added_(learned_.tokens, expect_tokens(learned_, what)) {
  const auto refuse = [&](std::string_view expected, const std::string& got) {
    throw Error(expected_got(what, expected, got));
  };
  for (std::size_t token = 0; token < learned_.tokens.size(); ++token)
    by_text_.emplace(learned_.tokens[token], static_cast<Token>(token));
  is_special_.resize(learned_.tokens.size());
  for (const Token token : learned_.special) is_special_[static_cast<std::size_t>(token)] = true;
  for (const auto& token : {learned_.beginning, learned_.end_of_document})
    if (token && (*token < 0 || *token >= this->vocabulary() || !is_special_[static_cast<std::size_t>(*token)]))
      refuse("a special token at the beginning and end of texts", "token " + std::to_string(*token));
  byte_of_.resize(learned_.tokens.size());
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = by_text_.find(byte_piece(byte));
    // Decoding takes them for bytes also where encoding never makes them.
    if (found != by_text_.end()) byte_of_[static_cast<std::size_t>(found->second)] = static_cast<char>(byte);
    if (!learned_.bytes) continue;
    if (found == by_text_.end()) refuse("a token for each byte", "no " + byte_piece(byte));
    bytes_[static_cast<std::size_t>(byte)] = found->second;
  }
  cuts_at_spaces_ = by_text_.contains(space_piece) && !learned_.whole_words;
  for (std::size_t merge = 0; merge < learned_.merges.size(); ++merge) {
    const auto [left, right] = learned_.merges[merge];
    const auto made = by_text_.find(learned_.tokens[static_cast<std::size_t>(left)] +
                                    learned_.tokens[static_cast<std::size_t>(right)]);
    if (made == by_text_.end()) refuse("merges that make tokens", "another in merge " + std::to_string(merge + 1));
    merges_.set(left, right, static_cast<std::uint32_t>(merge));
    merged_.push_back(made->second);
    cuts_at_spaces_ = cuts_at_spaces_ && !goes_across_a_space(made->first);
  }
}

// Returns the added tokens, once every token that the vocabulary names is one of it.
std::span<const Token> PiecePairTokenizer::expect_tokens(const PiecePairVocabulary& vocabulary, std::string_view what) {
  const auto expect = [&](Token token) {
    if (token < 0 || token >= std::ssize(vocabulary.tokens))
      throw Error(expected_got(what, "tokens of the vocabulary", "token " + std::to_string(token)));
  };
  for (const auto* tokens : {&vocabulary.special, &vocabulary.added})
    for (const Token token : *tokens) expect(token);
  for (const auto& [left, right] : vocabulary.merges) expect(left), expect(right);
  if (vocabulary.unknown) expect(*vocabulary.unknown);
  return vocabulary.added;
}

std::vector<Token> PiecePairTokenizer::encode(std::string_view text, std::string_view what) const {
  if (text.size() > 0x3fffffff)
    throw Error(expected_got(what, "a text below 1 GiB", std::to_string(text.size()) + " bytes"));
  std::vector<Token> tokens;
  added_.split(text, tokens,
               [&](std::string_view part, std::size_t offset) { encode_part(part, offset == 0, tokens); });
  return tokens;
}

void PiecePairTokenizer::encode_part(std::string_view text, bool first, std::vector<Token>& tokens) const {
  if (text.empty()) return;
  std::string spaced = replaced(text, " ", space_piece);
  const bool has_one = spaced.starts_with(space_piece);
  const LeadingSpace leading = learned_.leading;
  if (leading == LeadingSpace::always || (leading == LeadingSpace::where_missing && !has_one) ||
      (leading == LeadingSpace::first_if_missing && first && !has_one))
    spaced.insert(0, space_piece);
  std::string_view rest = spaced;
  while (!rest.empty()) {
    std::size_t end = rest.size();
    if (cuts_at_spaces_) {
      std::size_t at = 0;
      while (rest.substr(at).starts_with(space_piece)) at += space_piece.size();
      end = std::min(rest.find(space_piece, at), rest.size());
    }
    encode_word(rest.substr(0, end), tokens);
    rest.remove_prefix(end);
  }
}

void PiecePairTokenizer::encode_word(std::string_view word, std::vector<Token>& tokens) const {
  if (learned_.whole_words)
    if (const auto found = by_text_.find(word); found != by_text_.end()) return tokens.push_back(found->second);
  std::vector<Token> pieces;
  bool after_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = std::max<std::size_t>(1, decode_utf8(word, at).bytes);
    const std::string_view character = word.substr(at, bytes);
    at += bytes;
    const auto found = by_text_.find(character);
    const bool unknown = found == by_text_.end() && !learned_.bytes;
    if (found != by_text_.end())
      pieces.push_back(found->second);
    else if (learned_.bytes)
      for (const char byte : character) pieces.push_back(bytes_[static_cast<unsigned char>(byte)]);
    else if (learned_.unknown && !after_unknown)
      pieces.push_back(*learned_.unknown);
    after_unknown = unknown;
  }
  merge_in_order(pieces, merges_, merged_, tokens);
}

std::string PiecePairTokenizer::text_of(Token token) const {
  const auto index = static_cast<std::size_t>(token);
  if (token < 0 || token >= vocabulary())
    throw Error(expected_got("token", "below " + std::to_string(vocabulary()), std::to_string(token)));
  if (is_special_[index]) return "";
  if (byte_of_[index]) return std::string(1, *byte_of_[index]);
  return replaced(learned_.tokens[index], space_piece, " ");
}

std::string PiecePairTokenizer::decode(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens) text += text_of(token);
  if (learned_.drops_leading && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::string PiecePairTokenizer::decode_next(std::span<const Token> before, Token next) const {
  std::string text = text_of(next);
  const bool first = std::all_of(before.begin(), before.end(), [&](Token token) { return text_of(token).empty(); });
  if (first && learned_.drops_leading && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::vector<SpecialToken> PiecePairTokenizer::special_tokens() const {
  std::vector<SpecialToken> all;
  for (const Token token : learned_.special) all.push_back({learned_.tokens[static_cast<std::size_t>(token)], token});
  return all;
}

std::string PiecePairTokenizer::piece(Token token) const {
  text_of(token);  // refuses what is no token
  return learned_.tokens[static_cast<std::size_t>(token)];
}

std::string PiecePairTokenizer::to_json() const {
  const auto token = [](const std::optional<Token>& one) {
    return one ? nlohmann::ordered_json(*one) : nlohmann::ordered_json(nullptr);
  };
  std::vector<Token> merges;
  for (const auto& [left, right] : learned_.merges) merges.insert(merges.end(), {left, right});
  return nlohmann::ordered_json{{"kind", kind()},
                                {"leading_space", leading_names[static_cast<std::size_t>(learned_.leading)]},
                                {"drops_leading_space", learned_.drops_leading},
                                {"bytes", learned_.bytes},
                                {"whole_words", learned_.whole_words},
                                {"unknown", token(learned_.unknown)},
                                {"beginning", token(learned_.beginning)},
                                {"end_of_document", token(learned_.end_of_document)},
                                {"special", learned_.special},
                                {"added", learned_.added},
                                {"tokens", learned_.tokens},
                                {"merges", merges}}
             .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

PiecePairVocabulary piece_pair_vocabulary_of(const nlohmann::json& json, std::string_view what) {
  const JsonPart all(json, std::string(what));
  const auto token = [](const JsonPart& part) -> Token {
    if (!part.json().is_number_integer() || part.json() < 0 || part.json() > std::numeric_limits<Token>::max())
      part.refuse("a token", part.shown());
    return part.json().get<Token>();
  };
  const auto token_or_none = [&](const char* key) {
    const JsonPart part = all.at(key);
    return part.missing() ? std::nullopt : std::optional(token(part));
  };
  const auto tokens = [&](const char* key) {
    std::vector<Token> list;
    for (const JsonPart& part : all.at(key).each()) list.push_back(token(part));
    return list;
  };
  const auto yes = [&](const char* key) {
    const JsonPart part = all.at(key);
    if (!part.json().is_boolean()) part.refuse("true or false", part.shown());
    return part.json().get<bool>();
  };
  PiecePairVocabulary vocabulary{.special = tokens("special"),
                                 .added = tokens("added"),
                                 .unknown = token_or_none("unknown"),
                                 .bytes = yes("bytes"),
                                 .whole_words = yes("whole_words"),
                                 .drops_leading = yes("drops_leading_space"),
                                 .beginning = token_or_none("beginning"),
                                 .end_of_document = token_or_none("end_of_document")};
  const std::string& leading = all.at("leading_space").text();
  const auto* const named = std::find(std::begin(leading_names), std::end(leading_names), leading);
  if (named == std::end(leading_names)) all.at("leading_space").refuse("one that cogwheel writes", leading);
  vocabulary.leading = static_cast<LeadingSpace>(named - std::begin(leading_names));
  for (const JsonPart& part : all.at("tokens").each()) vocabulary.tokens.push_back(part.text());
  const std::vector<Token> merges = tokens("merges");
  if (merges.size() % 2 != 0) all.at("merges").refuse("pairs", "half a merge");
  for (std::size_t at = 0; at < merges.size(); at += 2) vocabulary.merges.emplace_back(merges[at], merges[at + 1]);
  return vocabulary;
}

}  // namespace cogwheel::text
