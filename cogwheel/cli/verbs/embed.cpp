#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/tasks/encoders/embedding.h"
#include "cogwheel/tasks/encoders/sentence_corpus.h"

namespace cogwheel::cli {
namespace {

struct EmbedArguments {
  std::string run, text, input, out;
  std::int64_t tokens = 0;
  Definitions definitions;
};

void embed(const EmbedArguments& arguments) {
  register_definitions(arguments.definitions);
  tasks::encoders::EmbeddingRequest request{
      .prompt = arguments.text, .input = arguments.input, .tokens = arguments.tokens};
  request.warn = [](const std::string& text) { fmt::print(stderr, "warning: {}\n", text); };
  tasks::encoders::write_embeddings(runs::RunFolder::open(arguments.run), request, arguments.out);
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void add_embed_command(CLI::App& app) {
  const auto arguments = std::make_shared<EmbedArguments>();
  CLI::App* command = app.add_subcommand("embed", "Write the vectors of texts, as a trained encoder sees them");
  command->add_option("run", arguments->run, "the folder of a run of sentences or masked_words")
      ->required()
      ->type_name("RUN");
  command->add_option("--prompt", arguments->text, "a text")->type_name("TEXT");
  command
      ->add_option("--input", arguments->input, "a file instead: each line is a text; of a .tsv or .csv its sentences")
      ->type_name("FILE");
  add_number(*command, "--tokens", arguments->tokens,
             Range<std::int64_t>{0, tasks::encoders::SentenceOptions::lengths.max},
             "tokens of each, [CLS] and [SEP] included; 0: of the longest")
      ->default_str(number_text(arguments->tokens))
      ->type_name("N");
  command->add_option("--out", arguments->out, "a .safetensors file: contexts, vectors, lengths")
      ->required()
      ->type_name("FILE");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { embed(*arguments); });
}

}  // namespace cogwheel::cli
