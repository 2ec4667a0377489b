#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cogwheel/cli/data_commands.h"
#include "cogwheel/cli/interrupt.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/text/prepared/corpus_check.h"

namespace cogwheel::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Range<std::int64_t> shown_samples_range{0, 1000};

struct CorpusInspection {
  std::string folder;
  std::int64_t samples = 0;
  bool verify = false, json = false;
};

constexpr std::array<std::string_view, 2> names_of_sides{"training", "held out"};

Json lengths_json(const text::DocumentLengths& lengths) {
  return {{"shortest", lengths.shortest},
          {"mean", lengths.mean},
          {"longest", lengths.longest},
          {"by_power_of_two", lengths.by_power_of_two}};
}

Json samples_json(const text::PreparedCorpus& corpus, text::CorpusSide side, std::int64_t count) {
  constexpr std::int64_t most_tokens = 200;
  Json samples = Json::array();
  for (const text::SampleDocument& each : text::sample_documents(corpus, side, count, most_tokens))
    samples.push_back(
        {{"document", each.document}, {"tokens", each.tokens}, {"text", each.text}, {"cut", each.is_cut}});
  return samples;
}

Json corpus_json(const text::PreparedCorpus& corpus, const CorpusInspection& arguments) {
  const text::CorpusIndex& index = corpus.index();
  const text::CorpusCounts& counts = index.counts;
  Json json{{"name", index.name},
            {"sha256", corpus.sha256()},
            {"tokenizer", text::to_json(index.tokenizer)},
            {"options", text::to_json(index.options)},
            {"sources", index.sources.size()},
            {"shards", index.shards.size()},
            {"counts", text::to_json(counts)},
            {"bytes_per_token", static_cast<double>(counts.text_bytes) / static_cast<double>(counts.all().tokens)}};
  for (const text::CorpusSide side : text::corpus_sides) {
    const char* name = side == text::CorpusSide::training ? "training" : "held_out";
    json[name] = {{"lengths", lengths_json(text::document_lengths(corpus.part(side)))}};
    if (arguments.samples > 0) json[name]["samples"] = samples_json(corpus, side, arguments.samples);
  }
  if (arguments.verify) json["verified"] = true;
  return json;
}

std::string document_lengths_text(const Json& lengths) {
  std::string text = fmt::format("{} to {} tokens, {:.1f} on average;", lengths["shortest"].get<std::int64_t>(),
                                 lengths["longest"].get<std::int64_t>(), lengths["mean"].get<double>());
  std::int64_t from = 1;
  for (const Json& count : lengths["by_power_of_two"]) {
    if (count != 0) text += fmt::format(" {} of {}+", count.get<std::int64_t>(), from);
    from *= 2;
  }
  return text;
}

void print_corpus(const text::PreparedCorpus& corpus, const Json& json) {
  const text::CorpusCounts& counts = corpus.index().counts;
  const text::TokenizerRecord& tokenizer = corpus.index().tokenizer;
  fmt::print("{}: {} from {} sources in {} shards\n", corpus.folder().string(), one_line(corpus.index().name),
             json["sources"].get<std::size_t>(), json["shards"].get<std::size_t>());
  fmt::print("SHA-256 {}\n", corpus.sha256());
  fmt::print("tokenizer: {}, {} tokens{}\n", tokenizer.kind, tokenizer.vocabulary,
             tokenizer.end_of_document ? fmt::format(", {} after each document", *tokenizer.end_of_document)
                                       : ", none after a document");
  for (std::size_t side = 0; side < names_of_sides.size(); ++side) {
    const Json& each = json[side == 0 ? "training" : "held_out"];
    fmt::print("{}: {} documents, {} tokens\n", names_of_sides[side], counts.sides[side].documents,
               counts.sides[side].tokens);
    if (counts.sides[side].documents > 0) fmt::print("  lengths: {}\n", document_lengths_text(each["lengths"]));
  }
  fmt::print("{:.3f} bytes a token\n", json["bytes_per_token"].get<double>());
  fmt::print("left out: {} duplicates, {} empty, {} not in UTF-8; {} mended\n", counts.duplicates, counts.empty,
             counts.invalid_utf8_dropped, counts.invalid_utf8_replaced);
  for (std::size_t side = 0; side < names_of_sides.size(); ++side)
    if (const Json& each = json[side == 0 ? "training" : "held_out"]; each.contains("samples"))
      for (const Json& sample : each["samples"])
        fmt::print("\n{}, document {}, {} tokens{}:\n{}\n", names_of_sides[side],
                   sample["document"].get<std::int64_t>(), sample["tokens"].get<std::int64_t>(),
                   sample["cut"].get<bool>() ? ", its beginning" : "", sample["text"].get<std::string>());
  if (json.contains("verified")) fmt::print("verified: every hash, document and token\n");
}

void inspect_corpus(const CorpusInspection& arguments) {
  const text::PreparedCorpus corpus(arguments.folder);
  if (arguments.verify)
    text::verify_corpus(corpus, [](std::int64_t) {
      if (stop_flag()) throw Interrupted("interrupted before everything was verified");
    });
  const Json json = corpus_json(corpus, arguments);
  if (arguments.json)
    fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
  else
    print_corpus(corpus, json);
}

}  // namespace

void add_data_inspect_command(CLI::App& data) {
  const auto arguments = std::make_shared<CorpusInspection>();
  CLI::App* command = data.add_subcommand("inspect", "Say what a prepared corpus holds, and whether it is whole");
  command->add_option("corpus", arguments->folder, "its folder")->required()->type_name("DIR");
  add_number(*command, "--samples", arguments->samples, shown_samples_range,
             "show so many documents of each side, as text")
      ->type_name("N");
  command->add_flag("--verify", arguments->verify, "read all of it and compare every hash");
  command->add_flag("--json", arguments->json, "print it as JSON");
  command->callback([arguments] { inspect_corpus(*arguments); });
}

}  // namespace cogwheel::cli
