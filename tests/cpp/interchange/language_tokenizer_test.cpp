// What files beside a tokenizer say of it, and an embedding with more rows than tokens.
#include "cogwheel/interchange/language_tokenizer.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/interchange/import_run.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/byte_pairs/byte_alphabet.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace cogwheel::interchange::language_tokenizers {
namespace {

// All bytes, and special tokens from 256 on.
nlohmann::json tokenizer_json(const std::vector<std::string>& special) {
  nlohmann::json vocab = nlohmann::json::object(), added = nlohmann::json::array();
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    vocab[text::printable_bytes({&text, 1})] = byte;
  }
  for (const std::string& name : special)
    added.push_back({{"id", 256 + added.size()}, {"content", name}, {"special", true}});
  return {{"added_tokens", added},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
}

struct Read {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::map<std::string, std::string> files;
  std::vector<std::string> notes;
};

Read read(const TemporaryFolder& folder, std::int64_t vocabulary) {
  const ImportedTokenizer imported = read_language_tokenizer(folder.path(), vocabulary);
  Read read{.tokenizer = nullptr, .files = {}, .notes = imported.notes};
  for (const runs::RunFile& file : imported.files) read.files[file.name] = file.content;
  const TemporaryFolder run;
  if (read.files.contains(runs::tokenizer_file))
    read.tokenizer = text::load_tokenizer(run.write(runs::tokenizer_file, read.files.at(runs::tokenizer_file)));
  return read;
}

TEST(LanguageTokenizer, EndsTextsAsTheFirstFileSaysThatDoes) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", tokenizer_json({"<a>", "<b>", "<c>"}).dump());
  EXPECT_EQ(read(folder, 259).tokenizer->end_of_document(), std::nullopt);
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<c>"}, "bos_token": "<a>"})");
  EXPECT_EQ(read(folder, 259).tokenizer->end_of_document(), 258);
  EXPECT_EQ(read(folder, 259).tokenizer->beginning(), std::nullopt);  // no post-processor puts it there
  folder.write("config.json", R"({"eos_token_id": 256})");
  EXPECT_EQ(read(folder, 259).tokenizer->end_of_document(), 256);
  EXPECT_EQ(read(folder, 259).notes, std::vector<std::string>());
  folder.write("generation_config.json", R"({"eos_token_id": [257, 258]})");
  EXPECT_EQ(read(folder, 259).tokenizer->end_of_document(), 258);  // which tokenizer_config.json names
  EXPECT_EQ(
      read(folder, 259).notes,
      std::vector<std::string>{"of the tokens 257, 258 that end a text in generation_config.json, 258 does here"});
  folder.write("generation_config.json", R"({"eos_token_id": 9})");
  EXPECT_EQ(read(folder, 259).tokenizer->end_of_document(), 256);
  EXPECT_EQ(read(folder, 259).notes,
            std::vector<std::string>{
                "eos_token_id 9 of generation_config.json is no special token of the tokenizer and ends no text"});
}

TEST(LanguageTokenizer, IsComparedWithTheEmbedding) {
  const TemporaryFolder folder;
  EXPECT_EQ(read(folder, 259).tokenizer, nullptr);
  EXPECT_EQ(read(folder, 259).notes.size(), 1U);
  folder.write("tokenizer.json", tokenizer_json({"<a>"}).dump());
  EXPECT_EQ(
      error_of([&] { read_language_tokenizer(folder.path(), 256); }),
      folder.path().string() + ": expected a tokenizer of at most 256 tokens, the rows of the embedding, got 257");
  EXPECT_EQ(
      read(folder, 300).notes,
      std::vector<std::string>{"of the 300 rows of the embedding, the tokenizer has 257: the others are never drawn"});
}

TEST(LanguageTokenizer, RefusesDamagedFilesInOneLine) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", tokenizer_json({"<a>"}).dump());
  const auto refused = [&](const char* name, const char* content, const std::string& expected) {
    const auto path = folder.write(name, content);
    EXPECT_EQ(error_of([&] { read_language_tokenizer(folder.path(), 300); }), path.string() + ": " + expected);
    std::filesystem::remove(path);
  };
  refused("tokenizer_config.json", "[1]", "expected a JSON object, got something else");
  refused("tokenizer_config.json", R"({"eos_token": 3})", "eos_token: expected the text of a token, got 3");
  refused("generation_config.json", R"({"eos_token_id": "a"})",
          "eos_token_id: expected a token, or a list of some, got \"a\"");
  refused("generation_config.json", R"({"eos_token_id": [1, -1]})",
          "eos_token_id: expected a token, or a list of some, got [1,-1]");
}

TEST(LanguageTokenizer, KeepsAChatTemplateAsItIs) {
  const TemporaryFolder folder, run;
  folder.write("tokenizer.json", tokenizer_json({"<a>"}).dump());
  const auto settings_of = [&] {
    for (const auto& [name, content] : read(folder, 300).files) run.write(name, content);
    for (const runs::RunFile& file : language_tokenizer_files(run.path(), 300, 64).files)
      if (file.name == "tokenizer_config.json") return nlohmann::json::parse(file.content);
    return nlohmann::json();
  };
  EXPECT_EQ(settings_of()["split_special_tokens"], true);
  const nlohmann::json list = {{{"name", "default"}, {"template", "{{ a }}\n"}}};
  folder.write("tokenizer_config.json", nlohmann::json{{"chat_template", list}}.dump());
  EXPECT_EQ(settings_of()["chat_template"], list);
  EXPECT_EQ(settings_of()["split_special_tokens"], false);  // a template writes their names
  const std::string jinja = "{% for m in messages %}\n  „{{ m }}“ {% endfor %}";
  folder.write("chat_template.jinja", jinja);
  EXPECT_EQ(settings_of()["chat_template"], jinja);
}

TEST(LanguageTokenizer, TakesARowThatIsThereForTheEndsOfTexts) {
  const TemporaryFolder run;
  const auto exported = [&](const std::string& json, std::int64_t vocabulary) {
    run.write(runs::tokenizer_file, json);
    return language_tokenizer_files(run.path(), vocabulary, 64);
  };
  EXPECT_EQ(exported(R"({"kind": "byte"})", 256).added_rows, 0);
  EXPECT_EQ(exported(R"({"kind": "character", "characters": "abc"})", 4).added_rows, 0);
  EXPECT_TRUE(exported(R"({"kind": "character", "characters": "abc"})", 4).notes.empty());
  EXPECT_EQ(exported(R"({"kind": "character", "characters": "abc"})", 3).added_rows, 1);
  EXPECT_EQ(exported(R"({"kind": "character", "characters": "abc"})", 3).notes.size(), 1U);
  EXPECT_EQ(exported(R"({"kind": "byte"})", 256).end, std::nullopt);  // nothing ends a text of bytes
  const std::string learned = text::make_tokenizer("bpe", "abab")->to_json();
  EXPECT_EQ(exported(learned, 258).end, 257);
  EXPECT_EQ(exported(learned, 258).added_rows, 0);
  EXPECT_EQ(error_of([&] { exported(learned, 257); }),
            (run.path() / runs::tokenizer_file).string() +
                ": expected at most 257 tokens, as many as the model has, got 258");
  std::filesystem::remove(run.path() / runs::tokenizer_file);
  EXPECT_EQ(language_tokenizer_files(run.path(), 3, 64).files.size(), 1U);
}

// At a temperature at which all rows are as likely, 300 draws would be of tokens without a text.
TEST(LanguageTokenizer, RowsWithoutATokenAreNeverDrawn) {
  const TemporaryFolder folder, runs;
  folder.write("tokenizer.json", tokenizer_json({"<a>"}).dump());
  ImportedModel imported{
      .architecture = "any", .config = {}, .weights = {}, .files = read_language_tokenizer(folder.path(), 2000).files};
  imported.config.model = tasks::language::LanguageModelOptions{
      .vocabulary = 2000, .context = 8, .layers = 1, .heads = 1, .width = 8, .feed_forward = 16};
  tasks::language::LanguageModel model(imported.config.model.as<tasks::language::LanguageModelOptions>());
  model->initialize(1);
  for (const auto& parameter : model->named_parameters())
    imported.weights[parameter.key()] = parameter.value().detach();
  const runs::RunFolder run = write_imported_run(imported, runs.path() / "run");
  // The data of the run have fewer tokens than the model.
  std::string text;
  for (int line = 0; line < 40; ++line) text += "line " + std::to_string(line) + "\n";
  imported.config.data.text = {folder.write("text/a.txt", text).string()};
  const auto task = runs::make_task(imported.config, run.path());
  EXPECT_EQ(runs::common(task->completed(imported.config).model).vocabulary_or_none(), 2000);
  for (const std::int64_t beam : {0, 4}) {
    runs::SampleRequest request;
    request.sampling.length = beam == 0 ? 300 : 6;
    request.sampling.temperature = 1000;
    request.beam = beam;
    text.clear();
    runs::find_task("language_modelling").sampler.sample(run, request, [&](std::string_view more) {
      text += more;
      return true;
    });
    EXPECT_FALSE(text.empty());
  }
}

}  // namespace
}  // namespace cogwheel::interchange::language_tokenizers
