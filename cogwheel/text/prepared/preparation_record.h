// What an unfinished preparation leaves in its folder, so that the same command goes on after the last whole shard:
// preparation.json, which says what is prepared, and beside each shard
//   shard-00000.hashes   the first 16 bytes of the SHA-256 of each document in it, in order
//   shard-00000.json     its record, what was counted up to its end, and where in the sources that is; written last, so
//                        that a shard with one is whole
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/text/prepared/corpus_index.h"
#include "cogwheel/text/prepared/seen_documents.h"
#include "cogwheel/text/prepared/source.h"

namespace cogwheel::text {

// Where a preparation stands.
struct PreparationState {
  std::vector<ShardRecord> shards;
  std::vector<SourceRecord> sources;  // that were read to their end
  CorpusCounts counts;
  std::int64_t documents = 0;  // of the source after these, that were taken or left out
};

class PreparationRecord {
 public:
  // In a folder that is locked. Goes on with what lies there, or writes preparation.json where there is no shard yet.
  // Throws UsageError where shards are there of another preparation, Error where a source has changed since, or what
  // lies there is damaged.
  PreparationRecord(std::filesystem::path folder, const CorpusOptions& options, const TokenizerRecord& tokenizer,
                    const std::vector<Source>& sources);

  const PreparationState& state() const { return state_; }
  // The hashes of documents in shards that were there.
  const std::vector<DocumentHash>& seen() const { return seen_; }
  void forget_seen() { seen_ = {}; }

  // A shard that lies in the folder now, with everything up to its end.
  void add(const ShardRecord& shard, const std::vector<DocumentHash>& hashes, const PreparationState& state);
  // Removes the files, once there is an index.
  static void remove(const std::filesystem::path& folder, std::int64_t shards);

 private:
  void read_shards();

  std::filesystem::path folder_;
  std::vector<SourceRecord> expected_;  // sources
  PreparationState state_;
  std::vector<DocumentHash> seen_;
};

}  // namespace cogwheel::text
