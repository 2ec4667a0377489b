// One shard of a corpus as it is written (ShardRecord): whole or not at all.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/text/prepared/corpus_index.h"

namespace cogwheel::text {

class ShardWriter {
 public:
  ShardWriter(const std::filesystem::path& folder, std::int64_t number, std::int64_t token_bytes);

  // A document, as the bytes of its tokens.
  void add(CorpusSide side, std::string_view tokens);
  std::int64_t tokens() const { return record_.sides[0].tokens + record_.sides[1].tokens; }
  std::int64_t documents() const { return record_.sides[0].documents + record_.sides[1].documents; }
  // Synced and under its name.
  ShardRecord finish();

 private:
  void write(std::string_view bytes);
  void flush();
  void write_ends(CorpusSide side);

  std::int64_t token_bytes_;
  AtomicFile file_;
  Sha256 hash_;
  ShardRecord record_;
  std::string waiting_;                             // to be written
  std::string held_out_;                            // tokens, which come after those to train on
  std::array<std::vector<std::uint64_t>, 2> ends_;  // by CorpusSide
  std::int64_t written_ = 0;
};

}  // namespace cogwheel::text
