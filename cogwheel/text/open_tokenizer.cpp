#include "cogwheel/text/open_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/byte_pairs/byte_alphabet.h"
#include "cogwheel/text/byte_pairs/published_byte_pairs.h"
#include "cogwheel/text/byte_pairs/published_tokens.h"
#include "cogwheel/text/byte_tokenizer.h"
#include "cogwheel/text/character_tokenizer.h"
#include "cogwheel/text/piece_pair_tokenizer.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::text {
namespace fs = std::filesystem;
namespace {

std::shared_ptr<const Tokenizer> of_vocab_and_merges(const fs::path& folder) {
  for (const char* name : {"vocab.json", "merges.txt"})
    if (!path_exists(folder / name))
      throw Error(expected_got(folder.string(), "vocab.json and merges.txt", std::string("no ") + name));
  return std::make_shared<BytePairTokenizer>(vocab_and_merges(folder / "vocab.json", folder / "merges.txt"),
                                             (folder / "vocab.json").string());
}

// Of both, SentencePiece's own model, which the file of `tokenizers` was made of and does not always equal, unless that
// has tokens more.
std::shared_ptr<const Tokenizer> of_pieces(const fs::path& file, const fs::path& model) {
  auto pieces = open_tokenizer(model);
  try {
    auto others = open_tokenizer(file);
    if (others->kind() != PiecePairTokenizer::name || others->vocabulary() > pieces->vocabulary()) return others;
  } catch (const Error&) {
    // A kind of file that is not read; the model says the same.
  }
  return pieces;
}

std::shared_ptr<const Tokenizer> of_folder(const fs::path& folder) {
  const fs::path file = folder / "tokenizer.json", model = folder / "tokenizer.model";
  if (path_exists(file) && path_exists(model)) return of_pieces(file, model);
  for (const fs::path& path : {file, model})
    if (path_exists(path)) return open_tokenizer(path);
  if (path_exists(folder / "vocab.json") || path_exists(folder / "merges.txt")) return of_vocab_and_merges(folder);
  throw Error(
      expected_got(folder.string(), "tokenizer.json, tokenizer.model, or vocab.json and merges.txt", "none of them"));
}

// Characters, as cogwheel exports them: what is more, an added token, stands for no text.
std::shared_ptr<const Tokenizer> of_characters(const JsonPart& all) {
  const JsonPart model = all.at("model"), words = all.at("pre_tokenizer"), vocab = model.at("vocab");
  const auto refuse = [&] { model.refuse("BPE", model.type()); };
  if (words.type() != "Split" || !words.at("pattern").at("Regex").is(R"([\s\S])") || !all.at("normalizer").missing() ||
      !all.at("post_processor").missing() || all.at("decoder").type() != "Fuse" || !vocab.json().is_object())
    refuse();
  if (const JsonPart unknown = model.at("unk_token");
      !unknown.json().is_string() || vocab.json().contains(unknown.text()))
    refuse();
  TokensByNumber numbered;
  for (const auto& [text, number] : vocab.json().items()) numbered.add(text, number, vocab.what());
  std::vector<char32_t> characters;
  for (const std::string& text : numbered.in_order(vocab.what())) {
    const CodePoint character = text.empty() ? CodePoint{} : decode_utf8(text, 0);
    if (character.bytes == 0 || character.bytes != text.size() ||
        (!characters.empty() && character.value <= characters.back()))
      vocab.refuse("characters in their order", one_line(text));
    characters.push_back(character.value);
  }
  if (characters.empty()) vocab.refuse("characters", "none");
  return std::make_shared<CharacterTokenizer>(std::move(characters));
}

// Bytes, as cogwheel exports them: without merges, and without the last, which no text in UTF-8 has.
bool is_of_bytes(const JsonPart& all) {
  const JsonPart model = all.at("model"), vocab = model.at("vocab"), words = all.at("pre_tokenizer");
  if (words.type() != "ByteLevel" || !words.at("use_regex").is(false) || !model.at("merges").json().empty() ||
      !vocab.json().is_object() || vocab.json().size() != 256)
    return false;
  for (int byte = 0; byte < 255; ++byte) {
    const char text = static_cast<char>(byte);
    const auto found = vocab.json().find(printable_bytes({&text, 1}));
    if (found == vocab.json().end() || *found != byte) return false;
  }
  return true;
}

std::shared_ptr<const Tokenizer> of_hugging_face(const nlohmann::json& json, const std::string& what) {
  const JsonPart all(json, what);
  const JsonPart model = all.at("model");
  if (model.type() == "WordLevel") return of_characters(all);
  if (model.type() != "BPE") model.refuse("BPE", model.type());
  if (is_of_bytes(all)) return std::make_shared<ByteTokenizer>();
  const std::vector<JsonPart> words = all.at("pre_tokenizer").steps("pretokenizers");
  const bool bytes =
      std::any_of(words.begin(), words.end(), [](const auto& step) { return step.type() == "ByteLevel"; });
  if (bytes) return std::make_shared<BytePairTokenizer>(hugging_face_byte_pairs(json, what), what);
  return std::make_shared<PiecePairTokenizer>(hugging_face_piece_pairs(json, what), what);
}

}  // namespace

std::shared_ptr<const Tokenizer> open_tokenizer(const fs::path& path) {
  std::error_code problem;
  if (fs::is_directory(path, problem)) return of_folder(path);
  if (path.extension() == ".model") return std::make_shared<SentencePieceTokenizer>(read_file(path), path.string());
  if (path.filename() == "vocab.json" || path.filename() == "merges.txt")
    return of_vocab_and_merges(path.parent_path());
  const nlohmann::json json = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!json.is_object() || !json.contains("model") || !json["model"].is_object()) return load_tokenizer(path);
  return of_hugging_face(json, path.string());
}

}  // namespace cogwheel::text
