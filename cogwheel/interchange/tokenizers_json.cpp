#include "cogwheel/interchange/tokenizers_json.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/byte_pairs/byte_alphabet.h"
#include "cogwheel/text/byte_pairs/published_byte_pairs.h"
#include "cogwheel/text/byte_tokenizer.h"
#include "cogwheel/text/character_tokenizer.h"
#include "cogwheel/text/piece_pair_tokenizer.h"
#include "cogwheel/text/sentence_tokenizer.h"
#include "cogwheel/text/sentencepiece/sentencepiece_model_check.h"

namespace cogwheel::interchange {
namespace {

using Json = nlohmann::json;

constexpr const char* end_of_text = "<|endoftext|>";

Json sequence(const char* list, Json parts) { return {{"type", "Sequence"}, {list, std::move(parts)}}; }

Json byte_level(bool cuts_words) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", cuts_words}};
}

Json split(const char* kind, std::string_view pattern, const char* behavior) {
  return {{"type", "Split"}, {"pattern", {{kind, pattern}}}, {"behavior", behavior}, {"invert", false}};
}

Json bpe(Json vocabulary, Json merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

Json word_level(Json vocabulary, std::string_view unknown) {
  return {{"type", "WordLevel"}, {"vocab", std::move(vocabulary)}, {"unk_token", unknown}};
}

TokenizersJson of_model(Json model, Json pre_tokenizer, Json decoder) {
  return {.all = {{"version", "1.0"},
                  {"truncation", nullptr},
                  {"padding", nullptr},
                  {"added_tokens", Json::array()},
                  {"normalizer", nullptr},
                  {"pre_tokenizer", std::move(pre_tokenizer)},
                  {"post_processor", nullptr},
                  {"decoder", std::move(decoder)},
                  {"model", std::move(model)}}};
}

void add_token(TokenizersJson& json, Token token, std::string_view name, bool special) {
  json.all["added_tokens"].push_back({{"id", token},
                                      {"content", name},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", special}});
}

// What a text begins with.
void add_beginning(TokenizersJson& json, const text::Tokenizer& tokenizer) {
  if (!tokenizer.beginning()) return;
  const std::string name = json.name_of(*tokenizer.beginning());
  const auto piece = [](const char* kind, std::string_view id, int type) -> Json {
    return {{kind, {{"id", id}, {"type_id", type}}}};
  };
  json.all["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {piece("SpecialToken", name, 0), piece("Sequence", "A", 0)}},
      {"pair",
       {piece("SpecialToken", name, 0), piece("Sequence", "A", 0), piece("SpecialToken", name, 1),
        piece("Sequence", "B", 1)}},
      {"special_tokens", {{name, {{"id", name}, {"ids", {*tokenizer.beginning()}}, {"tokens", {name}}}}}}};
}

// No two tokens may have one name.
void add_name(Json& vocabulary, const std::string& name, Token token, std::string_view what) {
  if (!vocabulary.emplace(name, token).second)
    throw Error(expected_got(what, "tokens of different names", "two of " + Json(name).dump()));
}

TokenizersJson of_byte_pairs(const text::BytePairTokenizer& tokenizer, std::string_view what) {
  const text::BytePairVocabulary& learned = tokenizer.learned();
  const auto holds = [](const std::vector<Token>& tokens, Token token) {
    return std::binary_search(tokens.begin(), tokens.end(), token);
  };
  // `tokenizers` numbers added tokens after the vocabulary, so those at its end are not in it: a word would be one of
  // them where whole words are looked up.
  auto end = static_cast<Token>(learned.tokens.size());
  while (end > 0 && (holds(learned.special, end - 1) || holds(learned.added, end - 1))) --end;
  Json vocabulary = Json::object(), merges = Json::array();
  std::vector<std::string> names;
  for (const std::string& bytes : learned.tokens) {
    const auto token = static_cast<Token>(names.size());
    const bool is_name = holds(learned.special, token) || holds(learned.added, token);
    names.push_back(is_name ? bytes : text::printable_bytes(bytes));
    if (token < end)
      add_name(vocabulary, names.back(), token, what);
    else if (vocabulary.contains(names.back()))
      throw Error(expected_got(what, "tokens of different names", "two of " + Json(names.back()).dump()));
  }
  for (const auto& [left, right] : learned.merges)
    merges.push_back({names[static_cast<std::size_t>(left)], names[static_cast<std::size_t>(right)]});
  Json model = bpe(std::move(vocabulary), std::move(merges));
  model["ignore_merges"] = learned.whole_words;
  Json words = byte_level(true);
  if (learned.words == text::WordPattern::gpt2_digits)
    words = sequence("pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, words});
  else if (learned.words != text::WordPattern::gpt2)
    words = sequence("pretokenizers",
                     {split("Regex", text::word_expression(learned.words), "Isolated"), byte_level(false)});
  TokenizersJson json = of_model(std::move(model), std::move(words), byte_level(true));
  if (learned.nfc) json.all["normalizer"] = {{"type", "NFC"}};
  for (std::size_t token = 0; token < names.size(); ++token) {
    const auto number = static_cast<Token>(token);
    if (holds(learned.special, number) || holds(learned.added, number))
      add_token(json, number, names[token], holds(learned.special, number));
  }
  add_beginning(json, tokenizer);
  return json;
}

TokenizersJson of_bytes() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 255; ++byte) {
    const char text = static_cast<char>(byte);
    vocabulary[text::printable_bytes({&text, 1})] = byte;
  }
  vocabulary[end_of_text] = 255;
  TokenizersJson json = of_model(bpe(std::move(vocabulary), Json::array()), byte_level(false), byte_level(true));
  json.unused = end_of_text;
  add_token(json, 255, end_of_text, true);
  return json;
}

TokenizersJson of_characters(const text::CharacterTokenizer& tokenizer) {
  Json vocabulary = Json::object();
  for (Token token = 0; token < tokenizer.vocabulary(); ++token) vocabulary[tokenizer.decode({&token, 1})] = token;
  // Its name is in no vocabulary, so that `tokenizers` refuses a character that has no token.
  return of_model(word_level(std::move(vocabulary), "<|unknown|>"), split("Regex", R"([\s\S])", "Isolated"),
                  {{"type", "Fuse"}});
}

TokenizersJson of_words(const text::WordTokenizer& tokenizer, std::string_view what) {
  Json vocabulary = Json::object();
  std::vector<std::string> names;
  for (Token token = 0; token < tokenizer.vocabulary(); ++token) {
    // With a space, which no word has, names inside a text are words like others.
    const bool special = token < text::SentenceTokens::count && token != text::SentenceTokens::unknown;
    names.push_back((special ? " " : "") + tokenizer.piece(token));
    add_name(vocabulary, names.back(), token, what);
  }
  TokenizersJson json = of_model(word_level(std::move(vocabulary), names[text::SentenceTokens::unknown]),
                                 split("String", " ", "Removed"), nullptr);
  for (const Token token : {text::SentenceTokens::padding, text::SentenceTokens::begin, text::SentenceTokens::end})
    add_token(json, token, names[static_cast<std::size_t>(token)], true);
  add_beginning(json, tokenizer);
  return json;
}

TokenizersJson of_piece_pairs(const text::PiecePairVocabulary& learned, const text::Tokenizer& tokenizer,
                              std::string_view what) {
  using text::LeadingSpace;
  Json vocabulary = Json::object(), merges = Json::array();
  const auto name = [&](Token token) -> const std::string& { return learned.tokens[static_cast<std::size_t>(token)]; };
  for (std::size_t token = 0; token < learned.tokens.size(); ++token)
    add_name(vocabulary, learned.tokens[token], static_cast<Token>(token), what);
  for (const auto& [left, right] : learned.merges) merges.push_back({name(left), name(right)});
  Json model = bpe(std::move(vocabulary), std::move(merges));
  if (learned.unknown) model["unk_token"] = name(*learned.unknown);
  model["fuse_unk"] = true;
  model["byte_fallback"] = learned.bytes;
  model["ignore_merges"] = learned.whole_words;
  Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (learned.drops_leading) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const Json shown = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const bool by_words =
      learned.leading == LeadingSpace::where_missing || learned.leading == LeadingSpace::first_if_missing;
  Json words = nullptr;
  if (by_words)
    words = {{"type", "Metaspace"},
             {"replacement", "▁"},
             {"prepend_scheme", learned.leading == LeadingSpace::where_missing ? "always" : "first"},
             {"split", false}};
  TokenizersJson json = of_model(std::move(model), std::move(words), sequence("decoders", std::move(decoders)));
  if (!by_words) {
    Json normalizers = Json::array();
    if (learned.leading == LeadingSpace::always) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
    normalizers.push_back(shown);
    json.all["normalizer"] = sequence("normalizers", std::move(normalizers));
  }
  for (std::size_t index = 0; index < learned.tokens.size(); ++index) {
    const auto token = static_cast<Token>(index);
    const bool special = std::binary_search(learned.special.begin(), learned.special.end(), token);
    if (special || std::binary_search(learned.added.begin(), learned.added.end(), token))
      add_token(json, token, name(token), special);
  }
  add_beginning(json, tokenizer);
  return json;
}

// All pairs of pieces that make a piece, the best piece first. Several of one piece are of equal worth to
// SentencePiece, which takes the first in the text, and here follow each other.
std::vector<std::pair<Token, Token>> merges_by_score(const std::vector<text::ModelPiece>& pieces,
                                                     std::string_view what) {
  std::unordered_map<std::string_view, Token> found;
  std::vector<std::size_t> order;
  for (std::size_t index = 0; index < pieces.size(); ++index)
    if (pieces[index].kind == text::PieceKind::text) {
      found.emplace(pieces[index].text, static_cast<Token>(index));
      order.push_back(index);
    }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t one, std::size_t other) { return pieces[one].score > pieces[other].score; });
  std::vector<std::pair<Token, Token>> merges;
  const text::ModelPiece* last = nullptr;
  for (const std::size_t index : order) {
    const std::string_view piece = pieces[index].text;
    std::vector<std::pair<Token, Token>> pairs;
    for (std::size_t at = 0, bytes = 0; at < piece.size(); at += bytes) {
      bytes = std::max<std::size_t>(1, decode_utf8(piece, at).bytes);
      if (piece.size() == bytes) break;
      if (!found.contains(piece.substr(at, bytes)))
        throw Error(expected_got(what, "pieces whose characters are pieces, for `tokenizers`", std::string(piece)));
      const auto left = found.find(piece.substr(0, at)), right = found.find(piece.substr(at));
      if (left != found.end() && right != found.end()) pairs.emplace_back(left->second, right->second);
    }
    if (pairs.empty()) continue;
    if (last != nullptr && last->score == pieces[index].score)
      throw Error(expected_got(what, "pieces of different scores, for `tokenizers`",
                               "one score of " + std::string(last->text) + " and " + std::string(piece)));
    last = &pieces[index];
    std::sort(pairs.begin(), pairs.end());
    merges.insert(merges.end(), pairs.begin(), pairs.end());
  }
  return merges;
}

TokenizersJson of_pieces(const text::SentencePieceTokenizer& tokenizer, std::string_view what) {
  const text::ModelSettings settings = text::sentencepiece_model_settings(tokenizer.model());
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    throw Error(expected_got(what, expected, got));
  };
  if (!settings.byte_pairs)
    refuse("a SentencePiece model of byte pairs, which `tokenizers` cuts alike", "another kind");
  if (settings.normalizes)
    refuse("a SentencePiece model that leaves characters as they are", "one that normalises them");
  if (settings.drops_spaces) refuse("a SentencePiece model that keeps every space", "one that drops some");
  if (settings.space_after) refuse("a SentencePiece model with spaces before words", "one with spaces after them");
  if (!settings.shows_spaces) refuse("a SentencePiece model that shows spaces as ▁", "one that does not");
  text::PiecePairVocabulary learned{
      .bytes = settings.bytes,
      .leading = settings.space_before ? text::LeadingSpace::always : text::LeadingSpace::never,
      .drops_leading = settings.space_before};
  for (const text::ModelPiece& piece : settings.pieces) {
    if (piece.kind == text::PieceKind::unused || piece.user_defined)
      refuse("pieces that were learned",
             "one that " + std::string(piece.user_defined ? "a user defined" : "is unused"));
    if (piece.kind == text::PieceKind::unknown) learned.unknown = static_cast<Token>(learned.tokens.size());
    learned.tokens.emplace_back(piece.text);
  }
  learned.merges = merges_by_score(settings.pieces, what);
  for (const text::SpecialToken& special : tokenizer.special_tokens()) learned.special.push_back(special.token);
  return of_piece_pairs(learned, tokenizer, what);
}

}  // namespace

std::string TokenizersJson::name_of(Token token) const {
  for (const Json& added : all["added_tokens"])
    if (added["id"] == token) return added["content"].get<std::string>();
  throw Error(expected_got("token " + std::to_string(token), "a special one", "one of texts"));
}

std::string TokenizersJson::add_end(Token token) {
  add_token(*this, token, end_of_text, true);
  return end_of_text;
}

std::string TokenizersJson::text() const { return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

TokenizersJson tokenizers_json(const text::Tokenizer& tokenizer, std::string_view what) {
  if (const auto* pairs = dynamic_cast<const text::BytePairTokenizer*>(&tokenizer)) return of_byte_pairs(*pairs, what);
  if (dynamic_cast<const text::ByteTokenizer*>(&tokenizer) != nullptr) return of_bytes();
  if (const auto* characters = dynamic_cast<const text::CharacterTokenizer*>(&tokenizer))
    return of_characters(*characters);
  if (const auto* words = dynamic_cast<const text::WordTokenizer*>(&tokenizer)) return of_words(*words, what);
  if (const auto* pieces = dynamic_cast<const text::SentencePieceTokenizer*>(&tokenizer))
    return of_pieces(*pieces, what);
  if (const auto* pairs = dynamic_cast<const text::PiecePairTokenizer*>(&tokenizer))
    return of_piece_pairs(pairs->learned(), tokenizer, what);
  throw Error(expected_got(what, "a tokenizer of texts", tokenizer.kind()));
}

}  // namespace cogwheel::interchange
