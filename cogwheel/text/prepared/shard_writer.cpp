#include "cogwheel/text/prepared/shard_writer.h"

#include <bit>

namespace cogwheel::text {

static_assert(std::endian::native == std::endian::little, "shards hold the lowest byte first");

ShardWriter::ShardWriter(const std::filesystem::path& folder, std::int64_t number, std::int64_t token_bytes)
    : token_bytes_(token_bytes), file_(folder / shard_name(number)), record_{.file = shard_name(number)} {}

void ShardWriter::write(std::string_view bytes) {
  constexpr std::size_t at_once = 1 << 20;
  waiting_ += bytes;
  written_ += std::ssize(bytes);
  if (waiting_.size() >= at_once) flush();
}

void ShardWriter::flush() {
  hash_.add(waiting_);
  file_.write(waiting_);
  waiting_.clear();
}

void ShardWriter::add(CorpusSide side, std::string_view tokens) {
  DocumentsAndTokens& counts = record_.sides[static_cast<std::size_t>(side)];
  counts.tokens += std::ssize(tokens) / token_bytes_;
  ++counts.documents;
  ends_[static_cast<std::size_t>(side)].push_back(static_cast<std::uint64_t>(counts.tokens));
  if (side == CorpusSide::training)
    write(tokens);
  else
    held_out_ += tokens;
}

void ShardWriter::write_ends(CorpusSide side) {
  write(std::string(static_cast<std::size_t>((8 - written_ % 8) % 8), '\0'));
  const auto& ends = ends_[static_cast<std::size_t>(side)];
  write({reinterpret_cast<const char*>(ends.data()), 8 * ends.size()});
}

ShardRecord ShardWriter::finish() {
  write_ends(CorpusSide::training);
  write(held_out_);
  write_ends(CorpusSide::held_out);
  flush();
  file_.commit();
  record_.sha256 = hash_.digits();
  return record_;
}

}  // namespace cogwheel::text
