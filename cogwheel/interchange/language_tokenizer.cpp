#include "cogwheel/interchange/language_tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/interchange/foreign_config.h"
#include "cogwheel/interchange/tokenizers_json.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/open_tokenizer.h"
#include "cogwheel/text/piece_pair_tokenizer.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::interchange {
namespace {

using Path = std::filesystem::path;

constexpr const char *tokenizer_settings = "tokenizer_config.json", *generation_settings = "generation_config.json",
                     *model_settings = "config.json", *chat_template_text = "chat_template.jinja",
                     *pieces_file = "tokenizer.model", *tokenizers_file = "tokenizer.json";

// Without keys where the folder lacks the file.
nlohmann::json settings_in(const Path& path) {
  return path_exists(path) ? json_object(path) : nlohmann::json::object();
}

// The tokens under a key: a number, or a list of some; none where it is missing.
std::vector<Token> token_ids(const Path& path, const nlohmann::json& settings, const char* key) {
  if (!settings.contains(key) || settings[key].is_null()) return {};
  const nlohmann::json given = settings[key].is_array() ? settings[key] : nlohmann::json::array({settings[key]});
  std::vector<Token> ids;
  for (const nlohmann::json& id : given) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<Token>::max())
      throw Error(
          expected_got(path.string() + ": " + key, "a token, or a list of some", one_line(settings[key].dump())));
    ids.push_back(id.get<Token>());
  }
  return ids;
}

// The name of a token in tokenizer_config.json, which may be in an object with its flags.
std::optional<std::string> token_name(const Path& path, const nlohmann::json& settings, const char* key) {
  if (!settings.contains(key) || settings[key].is_null()) return std::nullopt;
  const nlohmann::json& given = settings[key];
  if (given.is_string()) return given.get<std::string>();
  if (given.is_object() && given.contains("content") && given["content"].is_string())
    return given["content"].get<std::string>();
  throw Error(expected_got(path.string() + ": " + key, "the text of a token", one_line(given.dump())));
}

std::optional<Token> token_named(const text::Tokenizer& tokenizer, const std::optional<std::string>& name) {
  if (name)
    for (const text::SpecialToken& special : tokenizer.special_tokens())
      if (special.name == *name) return special.token;
  return std::nullopt;
}

bool is_special(const text::Tokenizer& tokenizer, Token token) {
  const std::vector<text::SpecialToken> all = tokenizer.special_tokens();
  return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.token == token; });
}

// The token that ends a text, by the files in the order that the header says; nothing where none of them names one.
std::optional<Token> foreign_end(const Path& folder, const nlohmann::json& settings, const text::Tokenizer& tokenizer,
                                 std::vector<std::string>& notes) {
  const std::optional<Token> named =
      token_named(tokenizer, token_name(folder / tokenizer_settings, settings, "eos_token"));
  for (const char* const file : {generation_settings, model_settings}) {
    const std::vector<Token> ids = token_ids(folder / file, settings_in(folder / file), "eos_token_id");
    if (ids.empty()) continue;
    const bool has_named = named && std::find(ids.begin(), ids.end(), *named) != ids.end();
    const Token end = has_named ? *named : ids.front();
    if (!is_special(tokenizer, end)) {
      notes.push_back(
          fmt::format("eos_token_id {} of {} is no special token of the tokenizer and ends no text", end, file));
      continue;
    }
    if (ids.size() > 1)
      notes.push_back(
          fmt::format("of the tokens {} that end a text in {}, {} does here", fmt::join(ids, ", "), file, end));
    return end;
  }
  return named;
}

bool switched_off(const Path& path, const nlohmann::json& settings, const char* key) {
  if (!settings.contains(key) || settings[key].is_null()) return false;
  if (!settings[key].is_boolean())
    throw Error(expected_got(path.string() + ": " + key, "true or false", one_line(settings[key].dump())));
  return !settings[key].get<bool>();
}

std::shared_ptr<const text::Tokenizer> with_ends(std::shared_ptr<const text::Tokenizer> tokenizer, text::TextEnds ends,
                                                 const std::string& what) {
  if (const auto* pairs = dynamic_cast<const text::BytePairTokenizer*>(tokenizer.get())) {
    text::BytePairVocabulary learned = pairs->learned();
    learned.beginning = ends.beginning;
    learned.end_of_document = ends.end;
    return std::make_shared<text::BytePairTokenizer>(std::move(learned), what);
  }
  if (const auto* pairs = dynamic_cast<const text::PiecePairTokenizer*>(tokenizer.get())) {
    text::PiecePairVocabulary learned = pairs->learned();
    learned.beginning = ends.beginning;
    learned.end_of_document = ends.end;
    return std::make_shared<text::PiecePairTokenizer>(std::move(learned), what);
  }
  if (const auto* pieces = dynamic_cast<const text::SentencePieceTokenizer*>(tokenizer.get()))
    return std::make_shared<text::SentencePieceTokenizer>(pieces->model(), what, ends);
  return tokenizer;
}

std::optional<runs::RunFile> chat_template(const Path& folder, const nlohmann::json& settings) {
  nlohmann::ordered_json kept;
  if (path_exists(folder / chat_template_text))
    kept = read_file(folder / chat_template_text);
  else if (settings.contains("chat_template") && !settings["chat_template"].is_null())
    kept = settings["chat_template"];
  else
    return std::nullopt;
  return runs::RunFile{runs::chat_template_file, nlohmann::ordered_json{{"chat_template", kept}}.dump(
                                                     2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                                                     "\n"};
}

}  // namespace

ImportedTokenizer read_language_tokenizer(const Path& folder, std::int64_t vocabulary) {
  ImportedTokenizer read;
  const auto any_of = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return path_exists(folder / name); });
  };
  if (!any_of({tokenizers_file, pieces_file, "vocab.json", "merges.txt"})) {
    read.notes.push_back(
        "the folder has no tokenizer (tokenizer.json, tokenizer.model, or vocab.json and merges.txt): the run "
        "has weights alone and reads no text");
    return read;
  }
  const nlohmann::json settings = settings_in(folder / tokenizer_settings);
  std::shared_ptr<const text::Tokenizer> tokenizer = text::open_tokenizer(folder);
  if (tokenizer->vocabulary() > vocabulary)
    throw Error(expected_got(folder.string(),
                             fmt::format("a tokenizer of at most {} tokens, the rows of the embedding", vocabulary),
                             std::to_string(tokenizer->vocabulary())));
  if (tokenizer->vocabulary() < vocabulary)
    read.notes.push_back(
        fmt::format("of the {} rows of the embedding, the tokenizer has {}: the others are never drawn", vocabulary,
                    tokenizer->vocabulary()));
  text::TextEnds ends{tokenizer->beginning(), tokenizer->end_of_document()};
  if (const auto end = foreign_end(folder, settings, *tokenizer, read.notes)) ends.end = end;
  // A tokenizer.json says by itself what begins a text.
  if (tokenizer->kind() == text::SentencePieceTokenizer::name &&
      switched_off(folder / tokenizer_settings, settings, "add_bos_token"))
    ends.beginning.reset();
  if (ends != text::TextEnds{tokenizer->beginning(), tokenizer->end_of_document()})
    tokenizer = with_ends(tokenizer, ends, folder.string());
  read.kind = tokenizer->kind();
  read.files.push_back({runs::tokenizer_file, tokenizer->to_json()});
  if (auto kept = chat_template(folder, settings)) read.files.push_back(std::move(*kept));
  return read;
}

namespace {

runs::RunFile generation_file(const ExportedTokenizer& made) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  if (made.beginning) settings["bos_token_id"] = *made.beginning;
  if (made.end) settings["eos_token_id"] = *made.end;
  return {generation_settings, settings.dump(2) + "\n"};
}

}  // namespace

ExportedTokenizer exported_tokenizer(const text::Tokenizer& tokenizer, std::string_view what, std::int64_t vocabulary,
                                     std::int64_t context, const nlohmann::json& chat_template) {
  if (tokenizer.vocabulary() > vocabulary)
    throw Error(expected_got(what, fmt::format("at most {} tokens, as many as the model has", vocabulary),
                             std::to_string(tokenizer.vocabulary())));
  ExportedTokenizer made;
  TokenizersJson json = tokenizers_json(tokenizer, what);
  made.beginning = tokenizer.beginning();
  made.end = tokenizer.end_of_document();
  // Both have names, since evaluation asks for one of them.
  std::string end_name;
  if (made.end || made.beginning) {
    end_name = json.name_of(made.end ? *made.end : *made.beginning);
  } else if (json.unused) {
    end_name = *json.unused;
  } else {
    end_name = json.add_end(static_cast<Token>(tokenizer.vocabulary()));
    if (tokenizer.vocabulary() == vocabulary) {
      made.added_rows = 1;
      made.notes.push_back(fmt::format(
          "no token of the run begins or ends texts: the export has one row more, {}, for {}", vocabulary, end_name));
    }
  }
  nlohmann::ordered_json settings{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                  {"bos_token", made.beginning ? json.name_of(*made.beginning) : end_name},
                                  {"eos_token", end_name},
                                  {"clean_up_tokenization_spaces", false},
                                  {"model_max_length", context},
                                  // Names of special tokens in a text are text, but for a template, which writes them.
                                  {"split_special_tokens", chat_template.is_null()}};
  if (!chat_template.is_null()) settings["chat_template"] = chat_template;
  made.files.push_back({tokenizers_file, json.text()});
  made.files.push_back(
      {tokenizer_settings, settings.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"});
  made.files.push_back(generation_file(made));
  // With it the import of the export is the model that it was.
  if (const auto* pieces = dynamic_cast<const text::SentencePieceTokenizer*>(&tokenizer))
    made.files.push_back({pieces_file, pieces->model()});
  return made;
}

ExportedTokenizer language_tokenizer_files(const Path& run, std::int64_t vocabulary, std::int64_t context) {
  const Path path = run / runs::tokenizer_file, template_path = run / runs::chat_template_file;
  if (!path_exists(path)) {
    ExportedTokenizer made;
    made.notes.push_back("the run has no tokenizer: the export has weights alone");
    made.files.push_back(generation_file(made));
    return made;
  }
  nlohmann::json chat_template;
  if (path_exists(template_path)) {
    const nlohmann::json kept = json_object(template_path);
    if (!kept.contains("chat_template")) throw Error(expected_got(template_path.string(), "a chat template", "none"));
    chat_template = kept["chat_template"];
  }
  return exported_tokenizer(*text::load_tokenizer(path), path.string(), vocabulary, context, chat_template);
}

}  // namespace cogwheel::interchange
