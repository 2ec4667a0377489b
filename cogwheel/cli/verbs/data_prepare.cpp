#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cogwheel/cli/data_commands.h"
#include "cogwheel/cli/interrupt.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/cli/progress.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/count_text.h"
#include "cogwheel/text/byte_tokenizer.h"
#include "cogwheel/text/open_tokenizer.h"
#include "cogwheel/text/prepared/prepare_corpus.h"

namespace cogwheel::cli {
namespace {

struct PrepareArguments {
  std::vector<std::string> paths;
  std::string tokenizer, out;
  text::CorpusOptions options;
  std::int64_t threads = 0;
};

// "1,234 documents of 5.6 M tokens, 2 of them held out; 3 duplicates, 1 empty".
std::string corpus_counts_text(const text::CorpusCounts& counts) {
  const auto& held_out = counts.sides[static_cast<std::size_t>(text::CorpusSide::held_out)];
  std::string text = fmt::format("{} documents, {} tokens, of which {} and {} held out", counts.all().documents,
                                 counts.all().tokens, held_out.documents, held_out.tokens);
  const auto left_out = [&](std::int64_t count, const char* what) {
    if (count > 0) text += fmt::format("; {} {} left out", count, what);
  };
  left_out(counts.duplicates, "duplicates");
  left_out(counts.empty, "empty");
  left_out(counts.invalid_utf8_dropped, "not in UTF-8");
  if (counts.invalid_utf8_replaced > 0) text += fmt::format("; {} not in UTF-8 mended", counts.invalid_utf8_replaced);
  return text;
}

void prepare_in_folder(const PrepareArguments& arguments) {
  text::CorpusRequest request{.paths = {arguments.paths.begin(), arguments.paths.end()},
                              .tokenizer = arguments.tokenizer == "byte" ? std::make_shared<text::ByteTokenizer>()
                                                                         : text::open_tokenizer(arguments.tokenizer),
                              .folder = arguments.out,
                              .options = arguments.options,
                              .threads = static_cast<int>(arguments.threads)};
  Progress progress("", "bytes");
  const std::string name = std::filesystem::path(arguments.out).lexically_normal().string();
  request.go_on = [&](const text::PreparationProgress& at) {
    const double share = at.bytes_in_all > 0 ? static_cast<double>(at.bytes) / static_cast<double>(at.bytes_in_all) : 1;
    ProgressWords words;
    words.step = fmt::format("{}B of {}B", count_text(static_cast<double>(at.bytes)),
                             count_text(static_cast<double>(at.bytes_in_all)));
    words.measured = fmt::format("{} documents, {} tokens", count_text(static_cast<double>(at.all.documents)),
                                 count_text(static_cast<double>(at.all.tokens)));
    progress.show(name, share, words);
    return !stop_flag();
  };
  const text::PreparedFolder prepared = text::prepare_corpus(request);
  progress.clear();
  if (!prepared.index.left_out.empty())
    fmt::print(stderr, "left out of the sources: {} ({}{})\n", prepared.index.left_out.size(),
               one_line(prepared.index.left_out.front().path.string()),
               prepared.index.left_out.size() > 1 ? ", …" : "");
  if (prepared.was_there) fmt::print(stderr, "note: {} was there already, whole\n", arguments.out);
  if (prepared.gone_on_from > 0)
    fmt::print(stderr, "note: {} whole shards were there already\n", prepared.gone_on_from);
  fmt::print("{}: {}\n", arguments.out, corpus_counts_text(prepared.index.counts));
}

}  // namespace

void add_data_prepare_command(CLI::App& data) {
  const auto arguments = std::make_shared<PrepareArguments>();
  CLI::App* command = data.add_subcommand("prepare", "Write files as a corpus of tokens to train on");
  command
      ->add_option("path", arguments->paths,
                   "files and folders: .jsonl, .ndjson and .json are JSON lines, a document a line; anything else is "
                   "text, a document a file; each may be compressed as .gz or .zst")
      ->required()
      ->type_name("PATH");
  command->add_option("--tokenizer", arguments->tokenizer, "a tokenizer's file, or byte for one token a byte")
      ->required()
      ->type_name("FILE");
  command->add_option("--out", arguments->out, "folder of the corpus; one that was begun is continued")
      ->required()
      ->type_name("DIR");
  text::CorpusOptions& options = arguments->options;
  command->add_option("--field", options.field, "of JSON lines: where the text is")
      ->capture_default_str()
      ->type_name("NAME");
  add_number(*command, "--held-out", options.held_out, text::held_out_share_range,
             "share of the documents to hold out, decided by the hash of each (default: 0.001)")
      ->type_name("SHARE");
  command
      ->add_option("--invalid-utf8", options.invalid_utf8,
                   "of documents: refuse them, replace each broken byte by U+FFFD, or drop the document")
      ->capture_default_str()
      ->type_name("KIND");
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  arguments->threads = cores;
  add_number(*command, "--threads", arguments->threads,
             Range<std::int64_t>{text::preparing_threads_range.min, text::preparing_threads_range.max},
             "the corpus is the same for any number (default: one a core)")
      ->type_name("N");
  add_number(*command, "--shard-tokens", options.shard_tokens, text::shard_tokens_range,
             "a file ends with the document that reaches so many tokens; what is lost when this is killed (default: "
             "67108864)")
      ->type_name("N");
  command->callback([arguments] { prepare_in_folder(*arguments); });
}

}  // namespace cogwheel::cli
