// index.json of a prepared corpus: what lies in its folder, where it came from, and the hashes of both.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/text/corpus.h"

namespace cogwheel::text {

inline constexpr std::string_view corpus_kind = "corpus";  // of its folder (core/files/folder_lock.h)
inline constexpr const char* corpus_index_file = "index.json";
inline constexpr const char* corpus_tokenizer_file = "tokenizer.json";

enum class CorpusSide { training, held_out };
inline constexpr std::array<CorpusSide, 2> corpus_sides{CorpusSide::training, CorpusSide::held_out};

struct DocumentsAndTokens {
  std::int64_t documents = 0, tokens = 0;
  bool operator==(const DocumentsAndTokens&) const = default;
};

// A file of tokens. It holds, one after another and each from a multiple of 8 bytes on, with zeros between:
//   the tokens of the documents to train on, each as an unsigned number of `token_bytes` bytes, the lowest byte first
//   for each of these documents, where it ends: 8 bytes, a count of tokens from the first one of this file
//   the same two of the documents that are held out
struct ShardRecord {
  std::string file = {};
  std::string sha256 = {};
  std::array<DocumentsAndTokens, 2> sides = {};  // by CorpusSide

  struct Places {
    std::int64_t tokens, ends;  // in bytes from the start
  };
  Places places(CorpusSide side, std::int64_t token_bytes) const;
  std::int64_t bytes(std::int64_t token_bytes) const;
  bool operator==(const ShardRecord&) const = default;
};

struct SourceRecord {
  std::string name = {};
  std::int64_t bytes = 0;      // of the file
  std::int64_t documents = 0;  // in it
  std::string sha256 = {};     // of the file as it lay there
  bool operator==(const SourceRecord&) const = default;
};

// What became of the documents that were read.
struct CorpusCounts {
  std::array<DocumentsAndTokens, 2> sides = {};  // by CorpusSide
  std::int64_t text_bytes = 0;                   // of the documents on both sides
  std::int64_t duplicates = 0;                   // left out: a document before them has the same bytes
  std::int64_t empty = 0;                        // left out
  std::int64_t invalid_utf8_dropped = 0;         // left out
  std::int64_t invalid_utf8_replaced = 0;        // among those on both sides

  DocumentsAndTokens all() const {
    return {sides[0].documents + sides[1].documents, sides[0].tokens + sides[1].tokens};
  }
  bool operator==(const CorpusCounts&) const = default;
};

// What was asked for, of which every byte of the corpus follows together with sources and tokenizer.
struct CorpusOptions {
  std::string field = "text";  // of JSON lines
  double held_out = 0.001;     // the share of documents, decided by the SHA-256 of each
  std::string invalid_utf8 = "refuse";
  std::int64_t shard_tokens = std::int64_t{1} << 26;  // a shard ends with the document that reaches it
  bool operator==(const CorpusOptions&) const = default;
};

struct TokenizerRecord {
  std::string kind = {};
  std::string sha256 = {};  // of tokenizer.json
  std::int64_t vocabulary = 0;
  std::optional<Token> beginning = {}, end_of_document = {};  // of each document

  std::int64_t token_bytes() const { return vocabulary <= (1 << 16) ? 2 : 4; }  // on disk
  bool operator==(const TokenizerRecord&) const = default;
};

struct CorpusIndex {
  static constexpr int version = 1;

  std::string name = {};  // of its first source, for display
  CorpusOptions options = {};
  TokenizerRecord tokenizer = {};
  CorpusCounts counts = {};
  std::vector<SourceRecord> sources = {};
  std::vector<LeftOut> left_out = {};  // by name
  std::vector<ShardRecord> shards = {};
};

// "shard-00012.bin", and other endings beside it.
std::string shard_name(std::int64_t number, std::string_view ending = "bin");

std::string to_json(const CorpusIndex& index);
// Throws Error that names `what` for anything but what to_json writes: another version, missing values, counts that do
// not add up.
CorpusIndex parse_corpus_index(std::string_view json, const std::string& what);

// The parts of an index that records of an unfinished preparation share with it.
nlohmann::ordered_json to_json(const CorpusOptions& options);
nlohmann::ordered_json to_json(const TokenizerRecord& tokenizer);
nlohmann::ordered_json to_json(const CorpusCounts& counts);
nlohmann::ordered_json to_json(const ShardRecord& shard);
// Throw nlohmann::json::exception for missing or other kinds of values, Error that names `what` for negative counts.
CorpusCounts corpus_counts(const nlohmann::ordered_json& json, const std::string& what);
ShardRecord shard_record(const nlohmann::ordered_json& json, const std::string& what);

}  // namespace cogwheel::text
