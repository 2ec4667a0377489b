#include "cogwheel/text/prepared/preparation_record.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"

namespace cogwheel::text {
namespace fs = std::filesystem;
namespace {

using RecordJson = nlohmann::ordered_json;

const std::string preparation_file = "preparation.json";

std::vector<std::string> files_of_shard(std::int64_t number) {
  return {shard_name(number, "json"), shard_name(number, "hashes"), shard_name(number)};
}

RecordJson preparation_json(const CorpusOptions& options, const TokenizerRecord& tokenizer,
                            const std::vector<Source>& sources) {
  RecordJson files = RecordJson::array();
  for (const Source& each : sources)
    files.push_back({{"name", each.name}, {"bytes", each.bytes}, {"changed", each.changed}});
  return {{"version", CorpusIndex::version},
          {"options", to_json(options)},
          {"tokenizer", to_json(tokenizer)},
          {"sources", std::move(files)}};
}

// Throws where the record of a preparation that has begun differs from what is asked for now.
void expect_same_preparation(const fs::path& folder, const RecordJson& begun, const RecordJson& asked) {
  const auto refuse = [&](const std::string& key, const RecordJson& expected, const RecordJson& got) {
    const auto text = [](const RecordJson& value) {
      if (value.is_null()) return std::string("none");
      if (!value.is_object()) return value.dump();
      return value.value("name", std::string()) + " with " + std::to_string(value.value("bytes", std::int64_t{0})) +
             " bytes";
    };
    const bool changed = expected.is_object() && got.is_object() &&
                         expected.value("name", RecordJson()) == got.value("name", RecordJson());
    throw UsageError(expected_got(
        folder.string() + ": " + key + " of the corpus that was begun there", text(expected),
        text(got) + (changed ? ", changed since; remove " : "; remove ") + folder.string() + " to begin anew"));
  };
  if (begun.value("version", RecordJson()) != asked["version"])
    refuse("version", begun.value("version", RecordJson()), asked["version"]);
  for (const char* part : {"options", "tokenizer"})
    for (const auto& [key, value] : asked[part].items()) {
      const RecordJson before = begun.value(part, RecordJson::object()).value(key, RecordJson());
      if (before != value) refuse((part == std::string("tokenizer") ? "tokenizer." : "") + key, before, value);
    }
  const RecordJson before = begun.value("sources", RecordJson::array());
  const RecordJson& now = asked["sources"];
  for (std::size_t index = 0; index < std::max(before.size(), now.size()); ++index) {
    const RecordJson old = index < before.size() ? before[index] : RecordJson(),
                     found = index < now.size() ? now[index] : RecordJson();
    if (old != found) refuse("source", old, found);
  }
}

}  // namespace

PreparationRecord::PreparationRecord(fs::path folder, const CorpusOptions& options, const TokenizerRecord& tokenizer,
                                     const std::vector<Source>& sources)
    : folder_(std::move(folder)) {
  for (const Source& each : sources) expected_.push_back({.name = each.name, .bytes = each.bytes});
  const RecordJson asked = preparation_json(options, tokenizer, sources);
  const fs::path path = folder_ / preparation_file;
  // What has no shard yet has nothing to lose.
  if (path_exists(path) && path_exists(folder_ / shard_name(0, "json"))) {
    const RecordJson begun = RecordJson::parse(read_file(path), nullptr, false);
    if (!begun.is_object()) throw Error(expected_got(path.string(), "the record of a preparation", "something else"));
    expect_same_preparation(folder_, begun, asked);
  } else {
    write_file(path, asked.dump(1, ' ', false, RecordJson::error_handler_t::replace) + "\n");
  }
  remove_leftovers(folder_, {preparation_file, corpus_index_file, corpus_tokenizer_file});
  read_shards();
  // What the shard that comes next left, up to where it was killed.
  remove_files(folder_, files_of_shard(std::ssize(state_.shards)));
}

void PreparationRecord::read_shards() {
  for (;;) {
    const std::int64_t number = std::ssize(state_.shards);
    const fs::path path = folder_ / shard_name(number, "json");
    if (!path_exists(path)) return;
    const auto refuse = [&](const std::string& got) {
      throw Error(expected_got(path.string(), "the record of a shard",
                               got + "; remove " + folder_.string() + " to begin anew"));
    };
    try {
      const RecordJson json = RecordJson::parse(read_file(path));
      state_.shards.push_back(shard_record(json.at("shard"), path.string()));
      state_.counts = corpus_counts(json.at("counts"), path.string());
      state_.documents = json.at("documents").get<std::int64_t>();
      for (const RecordJson& each : json.at("sources")) {
        if (state_.sources.size() == expected_.size()) refuse("more sources than there are");
        SourceRecord source = expected_[state_.sources.size()];
        source.sha256 = each.at("sha256").get<std::string>();
        source.documents = each.at("documents").get<std::int64_t>();
        state_.sources.push_back(std::move(source));
      }
    } catch (const nlohmann::json::exception& problem) {
      refuse(one_line(problem.what()));
    }
    const ShardRecord& shard = state_.shards.back();
    const std::string hashes = read_file(folder_ / shard_name(number, "hashes"));
    const auto documents = static_cast<std::size_t>(shard.sides[0].documents + shard.sides[1].documents);
    if (shard.file != shard_name(number) || hashes.size() != documents * sizeof(DocumentHash)) refuse("another");
    const std::size_t before = seen_.size();
    seen_.resize(before + documents);
    std::memcpy(seen_.data() + before, hashes.data(), hashes.size());
  }
}

void PreparationRecord::add(const ShardRecord& shard, const std::vector<DocumentHash>& hashes,
                            const PreparationState& state) {
  const std::int64_t number = std::ssize(state_.shards);
  write_file(folder_ / shard_name(number, "hashes"),
             {reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(DocumentHash)});
  RecordJson ended = RecordJson::array();
  for (std::size_t index = state_.sources.size(); index < state.sources.size(); ++index)
    ended.push_back({{"sha256", state.sources[index].sha256}, {"documents", state.sources[index].documents}});
  const RecordJson json{{"shard", to_json(shard)},
                        {"counts", to_json(state.counts)},
                        {"documents", state.documents},
                        {"sources", std::move(ended)}};
  write_file(folder_ / shard_name(number, "json"), json.dump(1) + "\n");
  state_.shards.push_back(shard);
  state_.sources = state.sources;
}

void PreparationRecord::remove(const fs::path& folder, std::int64_t shards) {
  std::vector<std::string> names;
  for (std::int64_t number = 0; number <= shards; ++number)
    for (const char* ending : {"json", "hashes"}) names.push_back(shard_name(number, ending));
  names.push_back(preparation_file);
  remove_files(folder, names);
  remove_leftovers(folder, {corpus_index_file, corpus_tokenizer_file});
}

}  // namespace cogwheel::text
