#include "cogwheel/interchange/architectures/bert_vocabulary.h"

#include <string>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/interchange/foreign_config.h"

namespace cogwheel::interchange {
namespace {

constexpr const char *vocabulary_file = "vocab.txt", *settings_file = "tokenizer_config.json",
                     *whole_file = "tokenizer.json";

// Of an object in a file: a switch that is `otherwise` where it is missing.
bool yes(const nlohmann::json& object, const std::filesystem::path& path, const char* key, bool otherwise) {
  if (!object.contains(key) || object[key].is_null()) return otherwise;
  if (!object[key].is_boolean())
    throw Error(expected_got(path.string() + ": " + key, "true or false", object[key].dump()));
  return object[key].get<bool>();
}

void expect(const nlohmann::json& object, const std::filesystem::path& path, const char* key, const std::string& word) {
  if (object.value(key, nlohmann::json()) != word)
    throw Error(expected_got(path.string() + ": " + key, word,
                             object.contains(key) ? object[key].dump() : std::string("none")));
}

void expect_switch(const nlohmann::json& object, const std::filesystem::path& path, const char* key, bool wanted) {
  if (yes(object, path, key, wanted) != wanted)
    throw Error(expected_got(path.string() + ": " + key, wanted ? "true" : "false", wanted ? "false" : "true"));
}

bool cased_by_settings(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return false;  // as transformers takes it
  const nlohmann::json settings = json_object(path);
  const bool lower = yes(settings, path, "do_lower_case", true);
  expect_switch(settings, path, "strip_accents", lower);
  expect_switch(settings, path, "tokenize_chinese_chars", true);
  expect_switch(settings, path, "do_basic_tokenize", true);
  return !lower;
}

std::shared_ptr<const text::WordPieceTokenizer> read_whole(const std::filesystem::path& path) {
  const nlohmann::json json = json_object(path);
  const auto part = [&](const char* key) {
    if (!json.contains(key) || !json[key].is_object())
      throw Error(expected_got(path.string() + ": " + key, "an object", "none"));
    return json[key];
  };
  const nlohmann::json model = part("model"), normalizer = part("normalizer");
  expect(model, path, "type", "WordPiece");
  expect(model, path, "unk_token", "[UNK]");
  expect(model, path, "continuing_subword_prefix", "##");
  expect(normalizer, path, "type", "BertNormalizer");
  const bool lower = yes(normalizer, path, "lowercase", true);
  expect_switch(normalizer, path, "strip_accents", lower);
  expect_switch(normalizer, path, "handle_chinese_chars", true);
  expect_switch(normalizer, path, "clean_text", true);
  const nlohmann::json vocabulary = model.value("vocab", nlohmann::json::object());
  std::vector<std::string> pieces(vocabulary.size());
  for (const auto& [piece, token] : vocabulary.items()) {
    if (!token.is_number_unsigned() || token.get<std::uint64_t>() >= pieces.size() ||
        !pieces[token.get<std::size_t>()].empty())
      throw Error(expected_got(path.string() + ": vocab", "a token of its own for each piece, from 0 on",
                               nlohmann::json(piece).dump() + ": " + token.dump()));
    pieces[token.get<std::size_t>()] = piece;
  }
  return std::make_shared<text::WordPieceTokenizer>(std::move(pieces), !lower, path.string());
}

}  // namespace

std::shared_ptr<const text::WordPieceTokenizer> read_bert_vocabulary(const std::filesystem::path& folder,
                                                                     std::int64_t vocabulary) {
  const bool lines = std::filesystem::exists(folder / vocabulary_file);
  if (!lines && !std::filesystem::exists(folder / whole_file))
    throw Error(expected_got(folder.string(), "vocab.txt or tokenizer.json", "neither"));
  auto tokenizer =
      lines ? text::WordPieceTokenizer::read(folder / vocabulary_file, cased_by_settings(folder / settings_file))
            : read_whole(folder / whole_file);
  if (tokenizer->vocabulary() != vocabulary)
    throw Error(expected_got((folder / (lines ? vocabulary_file : whole_file)).string(),
                             std::to_string(vocabulary) + " pieces, as vocab_size of config.json says",
                             std::to_string(tokenizer->vocabulary())));
  return tokenizer;
}

std::vector<runs::RunFile> bert_vocabulary_files(const text::WordPieceTokenizer& tokenizer, std::int64_t context) {
  nlohmann::ordered_json settings = {{"tokenizer_class", "BertTokenizer"},
                                     {"do_lower_case", !tokenizer.cased()},
                                     {"strip_accents", nullptr},
                                     {"tokenize_chinese_chars", true},
                                     {"model_max_length", context}};
  const char* const keys[] = {"pad_token", "unk_token", "cls_token", "sep_token", "mask_token"};
  for (std::size_t special = 0; special < std::size(keys); ++special)
    settings[keys[special]] = text::WordPieceTokenizer::special_pieces[special];
  return {{vocabulary_file, tokenizer.vocabulary_text()}, {settings_file, settings.dump(2) + "\n"}};
}

}  // namespace cogwheel::interchange
