#include "cogwheel/text/byte_pairs/byte_pair_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/text/byte_pairs/byte_alphabet.h"

namespace cogwheel::text {
namespace {

// In the order of WordPattern.
constexpr std::string_view word_pattern_names[] = {"gpt2", "llama3", "qwen2", "gpt2_digits"};

// Whether the file has the token as it is.
bool is_name(const BytePairVocabulary& vocabulary, Token token) {
  return std::binary_search(vocabulary.special.begin(), vocabulary.special.end(), token) ||
         std::binary_search(vocabulary.added.begin(), vocabulary.added.end(), token);
}

}  // namespace

std::string byte_pair_json(const BytePairVocabulary& vocabulary) {
  nlohmann::ordered_json json{{"kind", byte_pair_kind},
                              {"words", word_pattern_names[static_cast<std::size_t>(vocabulary.words)]},
                              {"unicode", character_classes_unicode()},
                              {"whole_words", vocabulary.whole_words},
                              {"beginning", nullptr},
                              {"end_of_document", nullptr},
                              {"special", vocabulary.special}};
  if (vocabulary.beginning) json["beginning"] = *vocabulary.beginning;
  if (vocabulary.end_of_document) json["end_of_document"] = *vocabulary.end_of_document;
  if (!vocabulary.added.empty()) json["added"] = vocabulary.added;
  if (vocabulary.nfc) json["nfc"] = true;
  std::vector<std::string> tokens;
  for (const std::string& bytes : vocabulary.tokens) {
    const auto token = static_cast<Token>(tokens.size());
    tokens.push_back(is_name(vocabulary, token) ? bytes : printable_bytes(bytes));
  }
  json["tokens"] = std::move(tokens);
  std::vector<Token> merges;
  for (const auto& [left, right] : vocabulary.merges) merges.insert(merges.end(), {left, right});
  json["merges"] = std::move(merges);
  return json.dump() + "\n";
}

BytePairVocabulary byte_pair_vocabulary_of(const nlohmann::json& json, std::string_view what) {
  const auto refuse = [&](std::string_view got) {
    throw Error(expected_got(what, "byte pairs as cogwheel writes them", got));
  };
  const auto value = [&](const char* key) -> const nlohmann::json& {
    const auto found = json.find(key);
    if (found == json.end()) refuse("no " + std::string(key));
    return *found;
  };
  const auto token = [&](const nlohmann::json& number, const char* key) -> Token {
    if (!number.is_number_integer()) refuse(std::string(key) + " with something else than a token");
    const auto read = number.is_number_unsigned() && number.get<std::uint64_t>() > 0x7fffffff
                          ? std::int64_t{-1}
                          : number.get<std::int64_t>();
    if (read < 0 || read > std::numeric_limits<Token>::max()) refuse(std::string(key) + " out of range");
    return static_cast<Token>(read);
  };
  const auto array = [&](const char* key) -> const nlohmann::json& {
    const nlohmann::json& found = value(key);
    if (!found.is_array()) refuse(std::string(key) + " that are no list");
    return found;
  };
  BytePairVocabulary vocabulary;
  const nlohmann::json &words = value("words"), &whole_words = value("whole_words");
  const auto* const pattern = std::find_if(std::begin(word_pattern_names), std::end(word_pattern_names),
                                           [&](std::string_view name) { return words == name; });
  if (pattern == std::end(word_pattern_names)) refuse("other words");
  vocabulary.words = static_cast<WordPattern>(pattern - std::begin(word_pattern_names));
  if (!whole_words.is_boolean()) refuse("whole_words neither true nor false");
  vocabulary.whole_words = whole_words.get<bool>();
  if (!value("beginning").is_null()) vocabulary.beginning = token(value("beginning"), "beginning");
  if (!value("end_of_document").is_null())
    vocabulary.end_of_document = token(value("end_of_document"), "end_of_document");
  for (const auto& each : array("special")) vocabulary.special.push_back(token(each, "special"));
  if (json.contains("added"))
    for (const auto& each : array("added")) vocabulary.added.push_back(token(each, "added"));
  if (!std::is_sorted(vocabulary.added.begin(), vocabulary.added.end())) refuse("added tokens out of order");
  if (json.contains("nfc")) {
    if (!json["nfc"].is_boolean()) refuse("nfc neither true nor false");
    vocabulary.nfc = json["nfc"].get<bool>();
  }
  if (!std::is_sorted(vocabulary.special.begin(), vocabulary.special.end())) refuse("special tokens out of order");
  for (const auto& each : array("tokens")) {
    if (!each.is_string()) refuse("a token that is no text");
    const auto number = static_cast<Token>(vocabulary.tokens.size());
    const auto& written = each.get_ref<const std::string&>();
    const auto bytes = is_name(vocabulary, number) ? std::optional(written) : bytes_of_printable(written);
    if (!bytes) refuse("a token of other characters: " + written);
    vocabulary.tokens.push_back(*bytes);
  }
  const nlohmann::json& merges = array("merges");
  if (merges.size() % 2 != 0) refuse("half a merge");
  for (std::size_t at = 0; at < merges.size(); at += 2)
    vocabulary.merges.emplace_back(token(merges[at], "merges"), token(merges[at + 1], "merges"));
  return vocabulary;
}

}  // namespace cogwheel::text
