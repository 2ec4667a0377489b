#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cogwheel/cli/data_commands.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/interchange/language_tokenizer.h"
#include "cogwheel/text/learned_tokenizer.h"
#include "cogwheel/text/open_tokenizer.h"
#include "cogwheel/text/prepared/corpus_index.h"
#include "cogwheel/text/prepared/each_document.h"
#include "cogwheel/text/sentence_tokenizer.h"

namespace cogwheel::cli {
namespace fs = std::filesystem;
namespace {

struct TrainTokenizerArguments {
  std::vector<std::string> paths;
  std::string out, words = "gpt2", field = text::CorpusOptions().field;
  text::TokenizerLearning learning;
};

void train_tokenizer(TrainTokenizerArguments arguments) {
  if (arguments.words != "gpt2" && arguments.words != "llama3")
    throw UsageError(expected_got("--words", "gpt2 or llama3", arguments.words));
  arguments.learning.words = arguments.words == "gpt2" ? text::WordPattern::gpt2 : text::WordPattern::llama3;
  arguments.learning.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const fs::path out = arguments.out;
  const bool as_model = out.extension() == ".model";
  if (as_model && arguments.learning.kind != text::SentencePieceTokenizer::name)
    throw UsageError(expected_got(
        "--out", "a name that does not end with .model, for --kind " + arguments.learning.kind, arguments.out));
  expect_writable(out);
  const std::size_t more = arguments.paths.size() - 1;
  const std::string what = arguments.paths.front() + (more > 0 ? fmt::format(" and {} more", more) : "");
  const auto learned = text::learn_tokenizer(
      [&](const auto& take) {
        text::for_each_document({arguments.paths.begin(), arguments.paths.end()}, arguments.field, take);
      },
      arguments.learning, what);
  if (as_model)
    write_file(out, dynamic_cast<const text::SentencePieceTokenizer&>(*learned).model());
  else
    text::save_tokenizer(*learned, out);
  fmt::print("{}: {}, {} tokens\n", arguments.out, learned->kind(), learned->vocabulary());
}

void show_tokenizer(const std::string& path) {
  const auto tokenizer = text::open_tokenizer(path);
  const auto shown = [&](std::optional<Token> token) { return token ? fmt::format("token {}", *token) : "none"; };
  fmt::print("kind: {}\ntokens: {}\nbefore a text: {}\nafter a document: {}\n", tokenizer->kind(),
             tokenizer->vocabulary(), shown(tokenizer->beginning()), shown(tokenizer->end_of_document()));
  for (const text::SpecialToken& special : tokenizer->special_tokens())
    fmt::print("special: {} {}\n", special.token, one_line(special.name));
}

// A JSON value from each line of the standard input, with the number of the line; what it becomes, to the standard
// output.
void convert_lines(
    const std::function<nlohmann::json(const nlohmann::json& value, const std::string& where)>& convert) {
  std::string line;
  for (std::int64_t number = 1; std::getline(std::cin, line); ++number) {
    const std::string where = fmt::format("standard input, line {}", number);
    const nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
    fmt::print("{}\n", convert(value, where).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
}

void encode_lines(const std::string& path) {
  const auto tokenizer = text::open_tokenizer(path);
  convert_lines([&](const nlohmann::json& value, const std::string& where) -> nlohmann::json {
    if (!value.is_string()) throw Error(expected_got(where, "a JSON string", "something else"));
    return tokenizer->encode(value.get_ref<const std::string&>(), where);
  });
}

void decode_lines(const std::string& path) {
  const auto tokenizer = text::open_tokenizer(path);
  convert_lines([&](const nlohmann::json& value, const std::string& where) -> nlohmann::json {
    std::vector<Token> tokens;
    const std::string vocabulary = std::to_string(tokenizer->vocabulary());
    if (!value.is_array()) throw Error(expected_got(where, "a JSON array of tokens", "something else"));
    for (const nlohmann::json& token : value) {
      if (!token.is_number_integer() || token < 0 || token >= tokenizer->vocabulary())
        throw Error(expected_got(where, "tokens below " + vocabulary,
                                 one_line(token.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace))));
      tokens.push_back(token.get<Token>());
    }
    return tokenizer->decode(tokens);
  });
}

struct ExportTokenizerArguments {
  std::string path, out;
  bool overwrite = false;
};

void export_tokenizer(const ExportTokenizerArguments& arguments) {
  const auto tokenizer = text::open_tokenizer(arguments.path);
  constexpr std::int64_t any_length = 1 << 30;
  const interchange::ExportedTokenizer made =
      interchange::exported_tokenizer(*tokenizer, arguments.path, tokenizer->vocabulary(), any_length);
  const fs::path out = arguments.out;
  const auto lock = take_folder(out, "tokenizer", arguments.overwrite);
  for (const runs::RunFile& file : made.files) write_file(out / file.name, file.content);
  fmt::print("{}: {}, {} tokens\n", arguments.out, tokenizer->kind(), tokenizer->vocabulary() + made.added_rows);
}

constexpr const char* tokenizer_help =
    "tokenizer.json of a run or of Hugging Face's tokenizers, vocab.json and merges.txt, a .model of SentencePiece, "
    "or a folder with one of these";

void add_file_command(CLI::App& tokenizer, const char* name, const char* help, void (*run)(const std::string& path)) {
  CLI::App* command = tokenizer.add_subcommand(name, help);
  const auto path = std::make_shared<std::string>();
  command->add_option("file", *path, tokenizer_help)->required()->type_name("FILE");
  command->callback([path, run] { run(*path); });
}

}  // namespace

void add_data_tokenizer_command(CLI::App& data) {
  CLI::App* tokenizer = data.add_subcommand("tokenizer", "Learn a tokenizer from text, or use one");
  tokenizer->require_subcommand(1);
  const auto arguments = std::make_shared<TrainTokenizerArguments>();
  CLI::App* command = tokenizer->add_subcommand(
      "train", "Learn a tokenizer from files of any size, JSON lines and compressed ones too");
  command->add_option("paths", arguments->paths, "files and folders; a file or a line of JSON is a document")
      ->required()
      ->type_name("PATH");
  add_number(
      *command, "--vocabulary", arguments->learning.vocabulary, text::byte_pair_vocabularies,
      fmt::format("tokens (default: {}); of bpe, fewer where the text has no more", text::default_byte_pair_vocabulary))
      ->type_name("N");
  command->add_option("--field", arguments->field, "of JSON lines, the one with the text")
      ->capture_default_str()
      ->type_name("NAME");
  command
      ->add_option("--out", arguments->out,
                   "the file to write, as runs keep it; of sentencepiece, NAME.model is its own")
      ->required()
      ->type_name("FILE");
  command->add_option("--kind", arguments->learning.kind, "bpe: pairs of bytes; or sentencepiece")
      ->capture_default_str()
      ->type_name("KIND");
  command->add_option("--words", arguments->words, "of bpe: how text is cut into words first, gpt2 or llama3")
      ->capture_default_str()
      ->type_name("WORDS");
  command->callback([arguments] { train_tokenizer(*arguments); });
  add_file_command(*tokenizer, "show", "Print what a tokenizer is", show_tokenizer);
  add_file_command(*tokenizer, "encode", "Tokens of texts: a JSON string a line in, an array of tokens out",
                   encode_lines);
  add_file_command(*tokenizer, "decode", "Texts of tokens: an array a line in, a JSON string out", decode_lines);
  const auto exported = std::make_shared<ExportTokenizerArguments>();
  command = tokenizer->add_subcommand("export", "Write a tokenizer as AutoTokenizer of transformers reads it");
  command->add_option("file", exported->path, tokenizer_help)->required()->type_name("FILE");
  command
      ->add_option("--out", exported->out, "folder for tokenizer.json, tokenizer_config.json, generation_config.json")
      ->required()
      ->type_name("DIR");
  command->add_flag("--overwrite", exported->overwrite, "replace the export that --out holds");
  command->callback([exported] { export_tokenizer(*exported); });
}

}  // namespace cogwheel::cli
