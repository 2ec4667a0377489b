#include "cogwheel/text/byte_pairs/published_byte_pairs.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/text/byte_pairs/byte_alphabet.h"

namespace cogwheel::text {
namespace {

constexpr std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A part of a file, with its name for messages.
class Part {
 public:
  Part(const nlohmann::json& json, std::string what) : json_(json), what_(std::move(what)) {}

  [[noreturn]] void refuse(std::string_view expected, std::string_view got) const {
    throw Error(expected_got(what_, expected, got));
  }
  // null where it is missing.
  Part at(const char* key) const {
    static const nlohmann::json none;
    const auto found = json_.is_object() ? json_.find(key) : json_.end();
    return {json_.is_object() && found != json_.end() ? *found : none, what_ + ": " + key};
  }
  bool missing() const { return json_.is_null(); }
  bool is(const nlohmann::json& value) const { return json_ == value; }
  const nlohmann::json& json() const { return json_; }
  // The kind of a part; "none" where there is no part.
  std::string type() const {
    if (missing()) return "none";
    const Part type = at("type");
    return type.json_.is_string() ? type.json_.get<std::string>() : "a part without type";
  }
  std::string shown() const {
    return missing() ? "none" : one_line(json_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  void expect(const char* key, const nlohmann::json& value) const {
    if (const Part part = at(key); !part.is(value)) part.refuse(value.dump(), part.shown());
  }
  // The values of a list; none where it is missing.
  std::vector<Part> each() const {
    if (!missing() && !json_.is_array()) refuse("a list", shown());
    std::vector<Part> parts;
    for (const nlohmann::json& json : json_) parts.emplace_back(json, what_);
    return parts;
  }
  const std::string& text() const {
    if (!json_.is_string()) refuse("text", shown());
    return json_.get_ref<const std::string&>();
  }

 private:
  const nlohmann::json& json_;
  std::string what_;
};

// The parts of a sequence, or the one part; none where there is none.
std::vector<Part> steps_of(const Part& part, const char* list) {
  if (part.missing()) return {};
  return part.type() == "Sequence" ? part.at(list).each() : std::vector<Part>{part};
}

WordPattern pattern_of(const Part& part) {
  constexpr const char* expected =
      "ByteLevel, Digits and ByteLevel, or Split by the expression of GPT-2, Llama 3 or Qwen 2 and ByteLevel";
  const std::vector<Part> steps = steps_of(part, "pretokenizers");
  if (steps.empty() || steps.size() > 2) part.refuse(expected, part.type());
  for (const Part& step : steps)
    if (const bool last = &step == &steps.back();
        last ? step.type() != "ByteLevel" : step.type() != "Split" && step.type() != "Digits")
      part.refuse(expected, step.type());
  const Part& bytes = steps.back();
  bytes.expect("add_prefix_space", false);
  if (steps.size() == 1 || steps.front().type() == "Digits") {
    if (const Part own = bytes.at("use_regex"); !own.missing()) bytes.expect("use_regex", true);
    if (steps.size() == 1) return WordPattern::gpt2;
    steps.front().expect("individual_digits", true);
    return WordPattern::gpt2_digits;
  }
  bytes.expect("use_regex", false);
  const Part& split = steps.front();
  // These expressions leave nothing between their matches, so that removing what does not match is the same.
  if (split.at("behavior").is("Removed"))
    split.expect("invert", true);
  else
    split.expect("behavior", "Isolated");
  const Part expression = split.at("pattern").at("Regex");
  if (expression.is(gpt2_expression)) return WordPattern::gpt2;
  if (expression.is(llama3_expression)) return WordPattern::llama3;
  if (expression.is(qwen2_expression)) return WordPattern::qwen2;
  expression.refuse("that of GPT-2, Llama 3 or Qwen 2", expression.shown());
}

// In the order of their numbers. Throws unless these are 0, 1 and so on.
std::vector<std::string> in_order(const std::map<std::int64_t, std::string>& texts, const std::string& what) {
  std::vector<std::string> all;
  for (const auto& [number, text] : texts) {
    if (number != std::ssize(all))
      throw Error(expected_got(what, "tokens without a gap", "no token " + std::to_string(all.size())));
    all.push_back(text);
  }
  return all;
}

class Published {
 public:
  void add(const std::string& text, const nlohmann::json& number, const std::string& what) {
    if (!number.is_number_integer() || number < 0) throw Error(expected_got(what, "numbers of tokens", number.dump()));
    const auto id = number.get<std::int64_t>();
    const auto [found, is_new] = by_number_.emplace(id, text);
    if (!is_new && found->second != text)
      throw Error(expected_got(what, "a text for each token", "two for " + std::to_string(id)));
  }
  std::vector<std::string> tokens(const std::string& what) const { return in_order(by_number_, what); }

 private:
  std::map<std::int64_t, std::string> by_number_;
};

class TokensByText {
 public:
  explicit TokensByText(const std::vector<std::string>& tokens) {
    for (std::size_t token = 0; token < tokens.size(); ++token)
      tokens_.emplace(tokens[token], static_cast<Token>(token));
  }
  Token operator()(std::string_view text, const std::string& what) const {
    const auto found = tokens_.find(text);
    if (found == tokens_.end()) throw Error(expected_got(what, "tokens of the vocabulary", one_line(text)));
    return found->second;
  }

 private:
  std::unordered_map<std::string_view, Token> tokens_;
};

std::pair<Token, Token> merge_of(std::string_view line, const TokensByText& tokens, const std::string& what) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) throw Error(expected_got(what, "two tokens", one_line(line)));
  return {tokens(line.substr(0, space), what), tokens(line.substr(space + 1), what)};
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

// What a post-processor puts around a text.
void read_template(const Part& part, BytePairVocabulary& vocabulary, const TokensByText& tokens) {
  bool text = false;
  for (const Part& piece : part.at("single").each()) {
    if (!piece.at("Sequence").missing()) {
      if (text) part.refuse("a text once", part.shown());
      text = true;
      continue;
    }
    const Part name = piece.at("SpecialToken").at("id");
    auto& place = text ? vocabulary.end_of_document : vocabulary.beginning;
    if (place) part.refuse("one token at most on each side of a text", "another, " + name.shown());
    place = tokens(name.text(), part.type());
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
  const Part all(json, std::string(what));
  const Part model = all.at("model");
  if (model.type() != "BPE") model.refuse("BPE", model.type());
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    if (const Part part = model.at(key); !part.missing() && !part.is("") && !part.is(0.0))
      part.refuse("none", part.shown());
  if (const Part part = model.at("byte_fallback"); !part.missing()) model.expect("byte_fallback", false);
  for (const Part& part : steps_of(all.at("decoder"), "decoders"))
    if (part.type() != "ByteLevel") part.refuse("ByteLevel", part.type());

  BytePairVocabulary vocabulary;
  for (const Part& part : steps_of(all.at("normalizer"), "normalizers")) {
    if (part.type() != "NFC") part.refuse("none, or NFC", part.type());
    vocabulary.nfc = true;
  }
  vocabulary.words = pattern_of(all.at("pre_tokenizer"));
  if (const Part whole = model.at("ignore_merges"); whole.is(true))
    vocabulary.whole_words = true;
  else if (!whole.missing())
    model.expect("ignore_merges", false);

  Published published;
  const Part vocab = model.at("vocab");
  if (!vocab.json().is_object()) vocab.refuse("tokens and their numbers", vocab.shown().substr(0, 40));
  const std::string vocab_name = std::string(what) + ": vocab";
  for (const auto& [text, number] : vocab.json().items()) published.add(text, number, vocab_name);
  for (const Part& added : all.at("added_tokens").each()) {
    const Part content = added.at("content"), number = added.at("id");
    published.add(content.text(), number.json(), std::string(what) + ": added_tokens");
    const bool special = added.at("special").is(true);
    // What is looked for in a text must be found as it stands there.
    if (!special)
      for (const char* const key : {"lstrip", "rstrip", "single_word", "normalized"})
        if (const Part part = added.at(key); part.is(true))
          part.refuse("false of a token that is not special", "true of " + content.shown());
    if (const auto id = number.json().get<std::int64_t>(); id < std::numeric_limits<Token>::max())
      (special ? vocabulary.special : vocabulary.added).push_back(static_cast<Token>(id));
  }
  for (std::vector<Token>* const tokens : {&vocabulary.special, &vocabulary.added}) {
    std::sort(tokens->begin(), tokens->end());
    tokens->erase(std::unique(tokens->begin(), tokens->end()), tokens->end());
  }
  vocabulary.tokens = published.tokens(vocab_name);

  const std::vector<std::string> printable = vocabulary.tokens;
  const TokensByText tokens(printable);
  const std::string merges_name = std::string(what) + ": merges";
  for (const Part& merge : model.at("merges").each()) {
    if (merge.json().is_string()) {
      vocabulary.merges.push_back(merge_of(merge.text(), tokens, merges_name));
      continue;
    }
    const std::vector<Part> pair = merge.each();
    if (pair.size() != 2) merge.refuse("two tokens", merge.shown());
    vocabulary.merges.emplace_back(tokens(pair[0].text(), merges_name), tokens(pair[1].text(), merges_name));
  }
  decode_printable(vocabulary, vocab_name);
  for (const Part& part : steps_of(all.at("post_processor"), "processors")) {
    if (part.type() == "TemplateProcessing")
      read_template(part, vocabulary, tokens);
    else if (part.type() != "ByteLevel")
      part.refuse("ByteLevel or TemplateProcessing", part.type());
  }
  if (!vocabulary.end_of_document) vocabulary.end_of_document = named_end_of_document(vocabulary);
  return vocabulary;
}

BytePairVocabulary vocab_and_merges(const std::filesystem::path& vocab, const std::filesystem::path& merges) {
  const nlohmann::json json = nlohmann::json::parse(read_file(vocab), nullptr, false);
  if (!json.is_object()) throw Error(expected_got(vocab.string(), "tokens and their numbers", "something else"));
  Published published;
  for (const auto& [text, number] : json.items()) published.add(text, number, vocab.string());
  BytePairVocabulary vocabulary;
  vocabulary.tokens = published.tokens(vocab.string());
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
    const auto [left, right] = vocabulary.merges.emplace_back(merge_of(line, tokens, place));
    made[static_cast<std::size_t>(
        tokens(printable[static_cast<std::size_t>(left)] + printable[static_cast<std::size_t>(right)], place))] = true;
  }
  for (std::size_t token = 0; token < printable.size(); ++token)
    if (const auto bytes = bytes_of_printable(printable[token]); !made[token] && (!bytes || bytes->size() != 1))
      vocabulary.special.push_back(static_cast<Token>(token));
  decode_printable(vocabulary, vocab.string());
  vocabulary.end_of_document = named_end_of_document(vocabulary);
  return vocabulary;
}

}  // namespace cogwheel::text
