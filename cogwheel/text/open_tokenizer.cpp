#include "cogwheel/text/open_tokenizer.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/byte_pairs/published_byte_pairs.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::text {
namespace fs = std::filesystem;
namespace {

bool is_there(const fs::path& path) {
  std::error_code problem;
  return fs::exists(path, problem);
}

std::shared_ptr<const Tokenizer> of_vocab_and_merges(const fs::path& folder) {
  for (const char* name : {"vocab.json", "merges.txt"})
    if (!is_there(folder / name))
      throw Error(expected_got(folder.string(), "vocab.json and merges.txt", std::string("no ") + name));
  return std::make_shared<BytePairTokenizer>(vocab_and_merges(folder / "vocab.json", folder / "merges.txt"),
                                             (folder / "vocab.json").string());
}

std::shared_ptr<const Tokenizer> of_folder(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (is_there(folder / name)) return open_tokenizer(folder / name);
  if (is_there(folder / "vocab.json") || is_there(folder / "merges.txt")) return of_vocab_and_merges(folder);
  throw Error(
      expected_got(folder.string(), "tokenizer.json, tokenizer.model, or vocab.json and merges.txt", "none of them"));
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
  return std::make_shared<BytePairTokenizer>(hugging_face_byte_pairs(json, path.string()), path.string());
}

}  // namespace cogwheel::text
