#include "cogwheel/text/prepared/prepare_corpus.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/text/prepared/document_blocks.h"
#include "cogwheel/text/prepared/in_order.h"
#include "cogwheel/text/prepared/json_line.h"
#include "cogwheel/text/prepared/preparation_record.h"
#include "cogwheel/text/prepared/seen_documents.h"
#include "cogwheel/text/prepared/shard_writer.h"
#include "cogwheel/text/prepared/utf8_policy.h"

namespace cogwheel::text {
namespace fs = std::filesystem;
namespace {

// A document as tokens, or why it is left out.
struct EncodedDocument {
  enum class Fate { kept, empty, dropped } fate = Fate::kept;
  bool replaced = false, held_out = false;
  DocumentHash hash = {};
  std::int64_t number = 0, text_bytes = 0;
  std::size_t offset = 0, bytes = 0;  // of its tokens
};

struct Work {
  DocumentBlock block;
  std::vector<EncodedDocument> documents;
  std::string tokens;
  // Of the documents before the first that is refused; thrown after they were written.
  std::exception_ptr failure;
  std::int64_t bytes_read = 0;  // of all files, after this block
};

// Kinds whose tokens are characters by themselves, so that a text can be cut anywhere.
bool encodes_characters(const Tokenizer& tokenizer) {
  return tokenizer.kind() == "byte" || tokenizer.kind() == "character";
}

class DocumentEncoder {
 public:
  DocumentEncoder(const CorpusRequest& request, const std::vector<Source>& sources, const TokenizerRecord& record)
      : sources_(sources),
        tokenizer_(*request.tokenizer),
        record_(record),
        options_(request.options),
        policy_(invalid_utf8_named(request.options.invalid_utf8, "--invalid-utf8")),
        token_bytes_(record.token_bytes()) {}

  void operator()(Work& work) {
    try {
      for (const DocumentBlock::Document& document : work.block.documents) encode(work, document);
    } catch (const Error&) {
      work.failure = std::current_exception();
    }
    work.block.bytes = {};
  }

 private:
  void encode(Work& work, const DocumentBlock::Document& document) {
    const Source& source = sources_[static_cast<std::size_t>(work.block.source)];
    std::string_view text = work.block.text(document);
    EncodedDocument encoded{.number = document.number};
    const bool lines = source.form == SourceForm::json_lines;
    const std::string what =
        lines ? source.path.string() + ", line " + std::to_string(document.number + 1) : source.path.string();
    std::string replaced;
    if (lines) {
      if (text.find_first_not_of(" \t\r") == std::string_view::npos) return;
      const JsonLineReader::Field field = json_.field(text, options_.field, policy_, what);
      text = field.text;
      encoded.replaced = field.replaced;
      if (field.dropped) encoded.fate = EncodedDocument::Fate::dropped;
    } else if (const std::size_t offset = find_invalid_utf8(text); offset != std::string_view::npos) {
      if (policy_ == InvalidUtf8::refuse) throw Error(expected_got(what, "UTF-8", invalid_byte(text, offset)));
      if (policy_ == InvalidUtf8::drop) {
        encoded.fate = EncodedDocument::Fate::dropped;
      } else {
        text = replaced = with_invalid_utf8_replaced(text);
        encoded.replaced = true;
      }
    }
    if (encoded.fate == EncodedDocument::Fate::kept) {
      if (text.empty()) encoded.fate = EncodedDocument::Fate::empty;
      encoded.text_bytes = std::ssize(text);
      Sha256 sha256;
      sha256.add(text);
      const std::array<std::uint8_t, 32> hash = sha256.bytes();
      std::memcpy(&encoded.hash, hash.data(), sizeof encoded.hash);
      encoded.held_out = is_held_out(hash, options_.held_out);
      encoded.offset = work.tokens.size();
      if (encoded.fate == EncodedDocument::Fate::kept) append_tokens(work.tokens, text, what);
      encoded.bytes = work.tokens.size() - encoded.offset;
      // A tokenizer may make nothing of some text, such as spaces.
      if (encoded.bytes == 0) encoded.fate = EncodedDocument::Fate::empty;
    }
    work.documents.push_back(encoded);
  }

  static std::string invalid_byte(std::string_view text, std::size_t offset) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(text[offset]);
    return std::string("byte 0x") + digits[byte >> 4] + digits[byte & 0xf] + " at offset " + std::to_string(offset);
  }

  void append_tokens(std::string& out, std::string_view text, const std::string& what) const {
    if (record_.beginning) append(out, {&*record_.beginning, 1});
    // In parts where that changes nothing, so that a long document is not held as tokens of 4 bytes.
    constexpr std::size_t part = 1 << 20;
    while (encodes_characters(tokenizer_) && text.size() > part) {
      std::size_t end = part;
      while ((text[end] & 0xc0) == 0x80) --end;  // a character begins at most three bytes before
      append(out, tokenizer_.encode(text.substr(0, end), what));
      text.remove_prefix(end);
    }
    append(out, tokenizer_.encode(text, what));
    if (record_.end_of_document) append(out, {&*record_.end_of_document, 1});
  }

  void append(std::string& out, std::span<const Token> tokens) const {
    const std::size_t start = out.size();
    if (token_bytes_ == 4) {
      out.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
      return;
    }
    out.resize(start + 2 * tokens.size());
    char* place = out.data() + start;
    for (const Token token : tokens) {
      const auto narrow = static_cast<std::uint16_t>(token);
      std::memcpy(place, &narrow, 2);
      place += 2;
    }
  }
  void append(std::string& out, const std::vector<Token>& tokens) const { append(out, std::span(tokens)); }

  const std::vector<Source>& sources_;
  const Tokenizer& tokenizer_;
  const TokenizerRecord& record_;
  const CorpusOptions& options_;
  InvalidUtf8 policy_;
  std::int64_t token_bytes_;
  JsonLineReader json_;
};

// Writes what the encoders give it, in order.
class CorpusWriter {
 public:
  CorpusWriter(const CorpusRequest& request, const std::vector<Source>& sources, const TokenizerRecord& tokenizer,
               PreparationRecord& record)
      : request_(request),
        sources_(sources),
        token_bytes_(tokenizer.token_bytes()),
        record_(record),
        state_(record.state()) {
    for (const DocumentHash& hash : record.seen()) seen_.insert(hash);
    record.forget_seen();
    for (const Source& source : sources) bytes_in_all_ += source.bytes;
  }

  void take(const Work& work) {
    for (const EncodedDocument& document : work.documents)
      take(document, std::string_view(work.tokens).substr(document.offset, document.bytes));
    if (work.failure) std::rethrow_exception(work.failure);
    if (work.block.ends_source()) {
      const Source& source = sources_[static_cast<std::size_t>(work.block.source)];
      state_.sources.push_back({source.name, source.bytes, work.block.documents_in_source, work.block.sha256});
      state_.documents = 0;
    }
    if (request_.go_on && !request_.go_on({work.bytes_read, bytes_in_all_, state_.counts.all()}))
      throw Interrupted("interrupted after " + std::to_string(state_.shards.size()) + " whole shards in " +
                        request_.folder.string() + "; the same command continues");
  }

  const PreparationState& finish() {
    if (shard_) end_shard();
    return state_;
  }

 private:
  void take(const EncodedDocument& document, std::string_view tokens) {
    CorpusCounts& counts = state_.counts;
    state_.documents = document.number + 1;
    if (document.fate == EncodedDocument::Fate::dropped) {
      ++counts.invalid_utf8_dropped;
    } else if (document.fate == EncodedDocument::Fate::empty) {
      ++counts.empty;
    } else if (!seen_.insert(document.hash)) {
      ++counts.duplicates;
    } else {
      counts.invalid_utf8_replaced += document.replaced ? 1 : 0;
      counts.text_bytes += document.text_bytes;
      const CorpusSide side = document.held_out ? CorpusSide::held_out : CorpusSide::training;
      DocumentsAndTokens& kept = counts.sides[static_cast<std::size_t>(side)];
      ++kept.documents;
      kept.tokens += std::ssize(tokens) / token_bytes_;
      if (!shard_) shard_.emplace(request_.folder, std::ssize(state_.shards), token_bytes_);
      shard_->add(side, tokens);
      hashes_.push_back(document.hash);
      if (shard_->tokens() >= request_.options.shard_tokens) end_shard();
    }
  }

  void end_shard() {
    state_.shards.push_back(shard_->finish());
    shard_.reset();
    record_.add(state_.shards.back(), hashes_, state_);
    hashes_.clear();
  }

  const CorpusRequest& request_;
  const std::vector<Source>& sources_;
  std::int64_t token_bytes_;
  PreparationRecord& record_;
  PreparationState state_;
  SeenDocuments seen_;
  std::optional<ShardWriter> shard_;
  std::vector<DocumentHash> hashes_;  // of the documents in it
  std::int64_t bytes_in_all_ = 0;
};

void expect_right_request(const CorpusRequest& request) {
  expect_within("--held-out", request.options.held_out, held_out_share_range);
  expect_within("--shard-tokens", request.options.shard_tokens, shard_tokens_range);
  expect_within<std::int64_t>("--threads", request.threads, {preparing_threads_range.min, preparing_threads_range.max});
  invalid_utf8_named(request.options.invalid_utf8, "--invalid-utf8");
  if (find_invalid_utf8(request.options.field) != std::string::npos)
    throw UsageError(expected_got("--field", "a name in UTF-8", request.options.field));
}

// Throws UsageError where the corpus that lies there is not the one that is asked for.
CorpusIndex expect_same_corpus(const CorpusRequest& request, const TokenizerRecord& tokenizer, const Sources& sources) {
  const fs::path path = request.folder / corpus_index_file;
  CorpusIndex index = parse_corpus_index(read_file(path), path.string());
  const auto refuse = [&](const std::string& got) {
    throw UsageError(expected_got(request.folder.string(), "a new or empty folder, or this corpus", "a corpus " + got));
  };
  if (index.options != request.options) refuse("prepared with other options");
  if (index.tokenizer != tokenizer) refuse("of another tokenizer");
  if (index.sources.size() != sources.files.size()) refuse("of other sources");
  for (std::size_t place = 0; place < index.sources.size(); ++place) {
    const SourceRecord& then = index.sources[place];
    const Source& now = sources.files[place];
    if (then.name != now.name) refuse("of other sources: " + then.name);
    if (then.bytes != now.bytes || then.sha256 != sha256_of_file(now.path)) refuse("of other contents of " + then.name);
  }
  return index;
}

// The folder as one that this program fills, and locked.
std::shared_ptr<const FolderLock> take_corpus_folder(const fs::path& folder) {
  if (folder.empty()) throw UsageError(expected_got("--out", "a folder", "an empty name"));
  if (folder_kind(folder) != corpus_kind) return take_folder(folder, corpus_kind, false);
  return std::make_shared<const FolderLock>(folder, corpus_kind);
}

}  // namespace

bool is_held_out(const std::array<std::uint8_t, 32>& hash, double share) {
  std::uint64_t number = 0;
  for (int byte = 0; byte < 8; ++byte) number = number << 8 | hash[static_cast<std::size_t>(byte)];
  // The upper 53 bits, which a double holds.
  return static_cast<double>(number >> 11) * 0x1p-53 < share;
}

TokenizerRecord tokenizer_record(const Tokenizer& tokenizer) {
  return {.kind = std::string(tokenizer.kind()),
          .sha256 = sha256(tokenizer.to_json()),
          .vocabulary = tokenizer.vocabulary(),
          .beginning = tokenizer.beginning(),
          .end_of_document = tokenizer.end_of_document()};
}

PreparedFolder prepare_corpus(const CorpusRequest& request) {
  expect_right_request(request);
  const TokenizerRecord tokenizer = tokenizer_record(*request.tokenizer);
  const auto lock = take_corpus_folder(request.folder);
  const Sources sources = find_sources(request.paths);
  if (std::error_code problem; fs::exists(request.folder / corpus_index_file, problem)) {
    PreparedFolder prepared{.index = expect_same_corpus(request, tokenizer, sources), .was_there = true};
    PreparationRecord::remove(request.folder, std::ssize(prepared.index.shards));
    return prepared;
  }
  PreparationRecord record(request.folder, request.options, tokenizer, sources.files);
  write_file(request.folder / corpus_tokenizer_file, request.tokenizer->to_json());
  const std::int64_t begun = std::ssize(record.state().shards);
  CorpusWriter writer(request, sources.files, tokenizer, record);
  DocumentBlocks blocks(sources.files, std::ssize(record.state().sources), record.state().documents);
  std::vector<std::unique_ptr<DocumentEncoder>> encoders;
  for (int worker = 0; worker < request.threads; ++worker)
    encoders.push_back(std::make_unique<DocumentEncoder>(request, sources.files, tokenizer));
  InOrder<Work> in_order;
  in_order.read = [&]() -> std::optional<Work> {
    std::optional<DocumentBlock> block = blocks.next();
    if (!block) return std::nullopt;
    Work work;
    work.block = std::move(*block);
    work.bytes_read = blocks.bytes_read();
    return work;
  };
  in_order.work = [&](Work& work, int worker) { (*encoders[static_cast<std::size_t>(worker)])(work); };
  in_order.take = [&](Work&& work) { writer.take(work); };
  // With as many bytes of tokens, or twice that.
  in_order.size = [](const Work& work) { return 3 * work.block.bytes.size(); };
  in_order.run(request.threads);

  const PreparationState& state = writer.finish();
  const DocumentsAndTokens all = state.counts.all();
  if (all.documents == 0)
    throw Error(expected_got(request.paths.front().string(), "documents", "none that is not empty"));
  PreparedFolder prepared{.gone_on_from = begun};
  prepared.index = {.name = sources.files.front().name,
                    .options = request.options,
                    .tokenizer = tokenizer,
                    .counts = state.counts,
                    .sources = state.sources,
                    .left_out = sources.left_out,
                    .shards = state.shards};
  if (sources.files.size() > 1) prepared.index.name += " and " + std::to_string(sources.files.size() - 1) + " more";
  write_file(request.folder / corpus_index_file, to_json(prepared.index));
  PreparationRecord::remove(request.folder, std::ssize(state.shards));
  return prepared;
}

}  // namespace cogwheel::text
