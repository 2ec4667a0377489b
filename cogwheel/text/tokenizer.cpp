#include "cogwheel/text/tokenizer.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "cogwheel/core/encoding/base64.h"
#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/byte_pairs/byte_pair_learning.h"
#include "cogwheel/text/byte_tokenizer.h"
#include "cogwheel/text/character_tokenizer.h"
#include "cogwheel/text/piece_pair_tokenizer.h"
#include "cogwheel/text/sentence_tokenizer.h"
#include "cogwheel/text/word_piece.h"

namespace cogwheel::text {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view got) {
  throw Error(expected_got(path.string(), "a tokenizer as cogwheel writes it", got));
}

std::shared_ptr<const Tokenizer> character_tokenizer(const std::filesystem::path& path, std::string_view text) {
  std::vector<char32_t> characters;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint code_point = decode_utf8(text, offset);
    if (code_point.bytes == 0) refuse(path, "invalid UTF-8");
    if (!characters.empty() && code_point.value <= characters.back()) refuse(path, "characters out of order");
    characters.push_back(code_point.value);
    offset += code_point.bytes;
  }
  if (characters.empty()) refuse(path, "no characters");
  return std::make_shared<CharacterTokenizer>(std::move(characters));
}

// Where the file has them, they are others than the model's own.
std::optional<TextEnds> kept_ends(const nlohmann::json& json, const std::filesystem::path& path) {
  if (!json.contains("beginning") || !json.contains("end_of_document")) return std::nullopt;
  const auto token = [&](const char* key) -> std::optional<Token> {
    if (json[key].is_null()) return std::nullopt;
    if (!json[key].is_number_integer() || json[key] < 0 || json[key] > std::numeric_limits<Token>::max())
      refuse(path, std::string(key) + " that is no token");
    return json[key].get<Token>();
  };
  return TextEnds{token("beginning"), token("end_of_document")};
}

}  // namespace

std::string Tokenizer::decode_next(std::span<const Token>, Token next) const { return decode(std::span(&next, 1)); }

std::shared_ptr<const Tokenizer> make_tokenizer(std::string_view kind, std::string_view text, std::string_view what,
                                                std::int64_t vocabulary) {
  if (kind == "character") return std::make_shared<CharacterTokenizer>(CharacterTokenizer::of_text(text, what));
  if (kind == "byte") return std::make_shared<ByteTokenizer>();
  if (kind == BytePairTokenizer::name) {
    ByteWordCounts counts;
    counts.add(std::span(&text, 1), SerialExecutor());
    return std::make_shared<BytePairTokenizer>(learn_byte_pairs(counts, vocabulary, what), what);
  }
  throw UsageError(expected_got("tokenizer", expected_names(kind, tokenizer_names()), kind));
}

void save_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& path) {
  write_file(path, tokenizer.to_json());
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const nlohmann::json json = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) refuse(path, "something else");
  const auto kind = json["kind"].get<std::string>();
  if (kind == "byte") return std::make_shared<ByteTokenizer>();
  if (kind == "character" && json.contains("characters") && json["characters"].is_string())
    return character_tokenizer(path, json["characters"].get<std::string>());
  if (kind == SentencePieceTokenizer::name && json.contains("model") && json["model"].is_string()) {
    auto model = from_base64(json["model"].get<std::string>());
    // SentencePiece ends the process over some damaged models.
    if (!model || !json.contains("sha256") || json["sha256"] != sha256(*model)) refuse(path, "a damaged model");
    return std::make_shared<SentencePieceTokenizer>(std::move(*model), path.string(), kept_ends(json, path));
  }
  if (kind == BytePairTokenizer::name)
    return std::make_shared<BytePairTokenizer>(byte_pair_vocabulary_of(json, path.string()), path.string());
  if (kind == PiecePairTokenizer::name)
    return std::make_shared<PiecePairTokenizer>(piece_pair_vocabulary_of(json, path.string()), path.string());
  const auto texts = [&](const char* key) {
    std::vector<std::string> all;
    for (const auto& text : json[key]) {
      if (!text.is_string()) refuse(path, "a word that is no text");
      all.push_back(text.get<std::string>());
    }
    return all;
  };
  if (kind == WordTokenizer::name && json.contains("words") && json["words"].is_array())
    return std::make_shared<WordTokenizer>(texts("words"));
  if (kind == WordPieceTokenizer::name && json.contains("pieces") && json["pieces"].is_array() &&
      json.contains("cased") && json["cased"].is_boolean())
    return std::make_shared<WordPieceTokenizer>(texts("pieces"), json["cased"].get<bool>(), path.string());
  refuse(path, "kind \"" + kind + "\"");
}

}  // namespace cogwheel::text
