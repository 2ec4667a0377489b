#include "cogwheel/text/sentence_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "cogwheel/core/encoding/base64.h"
#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/text/piece_pair_tokenizer.h"
#include "cogwheel/text/sentencepiece/sentencepiece_model_check.h"
#include "cogwheel/text/sentencepiece/sentencepiece_module.h"

namespace cogwheel::text {
namespace {

void keep_text(void* to, const char* text, std::size_t bytes) { static_cast<std::string*>(to)->assign(text, bytes); }

void keep_tokens(void* to, const int* tokens, std::size_t count) {
  static_cast<std::vector<Token>*>(to)->assign(tokens, tokens + count);
}

void expect_token(Token token, std::int64_t vocabulary) {
  if (token < 0 || token >= vocabulary)
    throw Error(expected_got("token", "below " + std::to_string(vocabulary), std::to_string(token)));
}

std::optional<Token> token_or_none(int token) { return token < 0 ? std::nullopt : std::optional<Token>(token); }

// The number after the last occurrence of `before`; nothing where there is none.
std::string number_after(std::string_view text, std::string_view before) {
  const std::size_t place = text.rfind(before);
  if (place == std::string_view::npos) return "";
  text.remove_prefix(place + before.size());
  const std::size_t end = text.find_first_not_of("0123456789");
  return std::string(text.substr(0, end));
}

// Byte pairs are merged by counts, which are whole numbers, by one thread and over every line in its order: the same
// text gives the same bytes. For 29,000 pairs of sentences it takes a third of the time of SentencePiece's default,
// unigram, and needs fewer pieces.
std::vector<TrainingOption> training_options(SentencePieceStyle style, const std::string& vocabulary) {
  std::vector<TrainingOption> options{{"model_type", "bpe"},
                                      {"vocab_size", vocabulary.c_str()},
                                      {"num_threads", "1"},
                                      {"input_sentence_size", "0"},
                                      {"shuffle_input_sentence", "false"}};
  const auto add = [&](std::initializer_list<TrainingOption> more) {
    options.insert(options.end(), more.begin(), more.end());
  };
  static_assert(SentenceTokens::padding == 0 && SentenceTokens::unknown == 1 && SentenceTokens::begin == 2 &&
                SentenceTokens::end == 3);
  // Every character of the text becomes a piece: in a small text, SentencePiece's default would drop letters that occur
  // twenty times.
  if (style == SentencePieceStyle::sentences)
    add({{"character_coverage", "1.0"}, {"pad_id", "0"}, {"unk_id", "1"}, {"bos_id", "2"}, {"eos_id", "3"}});
  // As Llama's: what is rare is bytes, and text comes back as it was.
  if (style == SentencePieceStyle::documents)
    add({{"byte_fallback", "true"},
         {"normalization_rule_name", "identity"},
         {"remove_extra_whitespaces", "false"},
         {"allow_whitespace_only_pieces", "true"},
         {"split_digits", "true"},
         {"max_sentence_length", "1073741824"}});
  return options;
}

}  // namespace

std::shared_ptr<const SentencePieceTokenizer> SentencePieceTokenizer::train(std::span<const std::string_view> lines,
                                                                            std::int64_t vocabulary,
                                                                            std::string_view what, bool fewer_will_do,
                                                                            SentencePieceStyle style) {
  if (std::all_of(lines.begin(), lines.end(), [](std::string_view line) { return line.empty(); }))
    throw Error(expected_got(what, "text for a vocabulary", "none"));
  std::vector<const char*> texts;
  std::vector<std::size_t> bytes;
  for (const std::string_view line : lines) texts.push_back(line.data()), bytes.push_back(line.size());
  const std::string size = std::to_string(vocabulary);
  const std::vector<TrainingOption> options = training_options(style, size);
  std::string result;
  if (sentencepiece().train(texts.data(), bytes.data(), lines.size(), options.data(), options.size(),
                            {keep_text, &result}))
    return std::make_shared<SentencePieceTokenizer>(std::move(result), what);
  const std::string got = std::to_string(vocabulary);
  if (const std::string most = number_after(result, "a value <= "); !most.empty()) {
    if (fewer_will_do) return train(lines, std::stoll(most), what, false, style);
    throw Error(expected_got(what, "text for a vocabulary of " + got + " pieces", "text for " + most + " at most"));
  }
  if (const std::string least = number_after(result, got + " vs "); !least.empty())
    throw Error(expected_got(what, "a vocabulary of " + least + " pieces at least, for its characters", got));
  throw Error(expected_got(what, "text that SentencePiece can learn from", one_line(result)));
}

SentencePieceTokenizer::SentencePieceTokenizer(std::string model, std::string_view what, std::optional<TextEnds> ends)
    : model_(std::move(model)) {
  std::string problem = sentencepiece_model_problem(model_);
  if (problem.empty()) loaded_ = sentencepiece().load(model_.data(), model_.size(), {keep_text, &problem});
  if (loaded_ == nullptr) throw Error(expected_got(what, "a SentencePiece model", one_line(problem)));
  specials_ = sentencepiece().special(loaded_);
  ends_ = {token_or_none(specials_.begin), token_or_none(specials_.end)};
  if (!ends || *ends == ends_) return;
  for (const std::optional<Token>& token : {ends->beginning, ends->end})
    if (token && (*token < 0 || *token >= vocabulary() || piece_kind(*token) != PieceKind::control)) {
      sentencepiece().unload(std::exchange(loaded_, nullptr));
      throw Error(
          expected_got(what, "control pieces at the beginning and end of texts", "token " + std::to_string(*token)));
    }
  ends_ = *ends;
  other_ends_ = true;
}

SentencePieceTokenizer::~SentencePieceTokenizer() { sentencepiece().unload(loaded_); }

std::int64_t SentencePieceTokenizer::vocabulary() const { return sentencepiece().vocabulary(loaded_); }

std::vector<Token> SentencePieceTokenizer::encode(std::string_view text, std::string_view) const {
  std::vector<Token> tokens;
  sentencepiece().encode(loaded_, text.data(), text.size(), {keep_tokens, &tokens});
  return tokens;
}

std::string SentencePieceTokenizer::decode(std::span<const Token> tokens) const {
  for (const Token token : tokens) expect_token(token, vocabulary());
  std::string text;
  sentencepiece().decode(loaded_, tokens.data(), tokens.size(), {keep_text, &text});
  return text;
}

std::string SentencePieceTokenizer::decode_next(std::span<const Token> before, Token next) const {
  expect_token(next, vocabulary());
  const PieceKind kind = piece_kind(next);
  if (kind == PieceKind::byte)
    return std::string(1, static_cast<char>(std::stoi(piece(next).substr(3, 2), nullptr, 16)));
  // Of what came before it matters only whether it has text: the first piece that has some loses its space.
  const auto with_next = [&](std::span<const Token> some) {
    std::vector<Token> tokens(some.begin(), some.end());
    tokens.push_back(next);
    return decode(tokens);
  };
  const std::size_t few = 8;
  const auto start = before.first(std::min(few, before.size()));
  if (const std::string text = decode(start); !text.empty()) return with_next(start).substr(text.size());
  return with_next(before).substr(decode(before).size());
}

std::optional<Token> SentencePieceTokenizer::end_of_document() const { return ends_.end; }

std::optional<Token> SentencePieceTokenizer::beginning() const { return ends_.beginning; }

std::vector<SpecialToken> SentencePieceTokenizer::special_tokens() const {
  std::vector<SpecialToken> all;
  for (Token token = 0; token < vocabulary(); ++token)
    if (const PieceKind kind = piece_kind(token); kind == PieceKind::control || kind == PieceKind::unknown)
      all.push_back({piece(token), token});
  return all;
}

std::string SentencePieceTokenizer::piece(Token token) const {
  expect_token(token, vocabulary());
  std::string text;
  sentencepiece().piece(loaded_, token, {keep_text, &text});
  return text;
}

std::string SentencePieceTokenizer::to_json() const {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(model_.data());
  nlohmann::ordered_json json{{"kind", kind()}, {"sha256", sha256(model_)}};
  const auto token = [](const std::optional<Token>& end) { return end ? nlohmann::ordered_json(*end) : nullptr; };
  if (other_ends_) json["beginning"] = token(ends_.beginning), json["end_of_document"] = token(ends_.end);
  json["model"] = base64({bytes, model_.size()});
  return json.dump(2) + "\n";
}

PieceKind SentencePieceTokenizer::piece_kind(Token token) const { return sentencepiece().kind(loaded_, token); }

WordTokenizer::WordTokenizer(std::vector<std::string> words) : words_(std::move(words)) {
  std::vector<std::pair<std::string, Token>> sorted;
  for (std::size_t index = 0; index < words_.size(); ++index)
    sorted.emplace_back(words_[index], static_cast<Token>(index) + SentenceTokens::count);
  std::sort(sorted.begin(), sorted.end());
  for (auto& [word, token] : sorted) sorted_.push_back(std::move(word)), token_of_sorted_.push_back(token);
}

std::int64_t WordTokenizer::vocabulary() const {
  return static_cast<std::int64_t>(words_.size()) + SentenceTokens::count;
}

std::vector<Token> WordTokenizer::encode(std::string_view text, std::string_view) const {
  std::vector<Token> tokens;
  for (std::size_t start = text.find_first_not_of(' '); start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const std::string_view word = text.substr(start, end - start);
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), word);
    tokens.push_back(found == sorted_.end() || *found != word
                         ? SentenceTokens::unknown
                         : token_of_sorted_[static_cast<std::size_t>(found - sorted_.begin())]);
    start = text.find_first_not_of(' ', end);
  }
  return tokens;
}

std::string WordTokenizer::decode(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens) {
    expect_token(token, vocabulary());
    if (token < SentenceTokens::count && token != SentenceTokens::unknown) continue;
    text += (text.empty() ? "" : " ") + piece(token);
  }
  return text;
}

std::string WordTokenizer::decode_next(std::span<const Token> before, Token next) const {
  const std::string word = decode(std::span(&next, 1));
  const bool first = std::all_of(before.begin(), before.end(), [](Token token) {
    return token < SentenceTokens::count && token != SentenceTokens::unknown;
  });
  return word.empty() || first ? word : " " + word;
}

std::string WordTokenizer::piece(Token token) const {
  expect_token(token, vocabulary());
  // As SentencePiece shows them.
  constexpr const char* first[] = {"<pad>", "<unk>", "<s>", "</s>"};
  return token < SentenceTokens::count ? first[token] : words_[static_cast<std::size_t>(token - SentenceTokens::count)];
}

std::string WordTokenizer::to_json() const {
  return nlohmann::ordered_json{{"kind", kind()}, {"words", words_}}.dump(2) + "\n";
}

std::shared_ptr<const SentenceTokenizer> load_sentence_tokenizer(const std::filesystem::path& path) {
  const std::shared_ptr<const Tokenizer> loaded = load_tokenizer(path);
  if (const auto* pieces = dynamic_cast<const SentencePieceTokenizer*>(loaded.get());
      pieces && !pieces->is_of_sentences())
    throw Error(expected_got(path.string(), "tokens 0 to 3 for padding, unknown, begin and end", "others"));
  if (auto tokenizer = std::dynamic_pointer_cast<const SentenceTokenizer>(loaded);
      tokenizer && loaded->kind() != PiecePairTokenizer::name)
    return tokenizer;
  throw Error(expected_got(path.string(), "a tokenizer of sentences, sentencepiece or words", loaded->kind()));
}

}  // namespace cogwheel::text
