#include "cogwheel/text/prepared/corpus_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view corpus_format = "cogwheel corpus";
constexpr std::array<const char*, 2> side_keys{"training", "held_out"};

std::int64_t up_to_eight(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }

// Below 2⁴⁸, so that no sum or product of a few overflows.
std::int64_t whole_count(const OrderedJson& json, const char* key, const std::string& what) {
  const OrderedJson& value = json.at(key);
  constexpr std::int64_t most = std::int64_t{1} << 48;
  const bool whole = value.is_number_unsigned() || value.is_number_integer();
  const std::int64_t number =
      !whole ? -1
      : value.is_number_unsigned()
          ? static_cast<std::int64_t>(std::min<std::uint64_t>(value.get<std::uint64_t>(), most + 1))
          : value.get<std::int64_t>();
  if (number < 0 || number > most) throw Error(expected_got(what + ": " + key, "a count", value.dump()));
  return number;
}

std::string hash_text(const OrderedJson& json, const char* key, const std::string& what) {
  const std::string text = json.at(key).get<std::string>();
  if (text.size() != 64 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Error(expected_got(what + ": " + key, "64 hexadecimal digits", OrderedJson(text).dump()));
  return text;
}

OrderedJson sides_json(const std::array<DocumentsAndTokens, 2>& sides) {
  OrderedJson json;
  for (const CorpusSide side : corpus_sides) {
    const auto index = static_cast<std::size_t>(side);
    json[side_keys[index]] = {{"documents", sides[index].documents}, {"tokens", sides[index].tokens}};
  }
  return json;
}

std::array<DocumentsAndTokens, 2> sides_of(const OrderedJson& json, const std::string& what) {
  std::array<DocumentsAndTokens, 2> sides;
  for (std::size_t side = 0; side < sides.size(); ++side) {
    const OrderedJson& each = json.at(side_keys[side]);
    sides[side] = {whole_count(each, "documents", what), whole_count(each, "tokens", what)};
  }
  return sides;
}

OrderedJson token_or_null(const std::optional<Token>& token) { return token ? OrderedJson(*token) : OrderedJson(); }

std::optional<Token> optional_token(const OrderedJson& json, const char* key, std::int64_t vocabulary,
                                    const std::string& what) {
  if (json.at(key).is_null()) return std::nullopt;
  const std::int64_t token = whole_count(json, key, what);
  if (token >= vocabulary)
    throw Error(expected_got(what + ": " + key, "a token of the vocabulary", std::to_string(token)));
  return static_cast<Token>(token);
}

SourceRecord source_record(const OrderedJson& json, const std::string& what) {
  return {.name = json.at("name").get<std::string>(),
          .bytes = whole_count(json, "bytes", what),
          .documents = whole_count(json, "documents", what),
          .sha256 = hash_text(json, "sha256", what)};
}

CorpusIndex index_of(const OrderedJson& json, const std::string& what) {
  CorpusIndex index;
  index.name = json.at("name").get<std::string>();
  const OrderedJson& options = json.at("options");
  index.options = {.field = options.at("field").get<std::string>(),
                   .held_out = options.at("held_out").get<double>(),
                   .invalid_utf8 = options.at("invalid_utf8").get<std::string>(),
                   .shard_tokens = whole_count(options, "shard_tokens", what)};
  const OrderedJson& tokenizer = json.at("tokenizer");
  index.tokenizer.kind = tokenizer.at("kind").get<std::string>();
  index.tokenizer.sha256 = hash_text(tokenizer, "sha256", what);
  const std::int64_t vocabulary = index.tokenizer.vocabulary = whole_count(tokenizer, "vocabulary", what);
  if (vocabulary < 1 || vocabulary > std::numeric_limits<Token>::max())
    throw Error(expected_got(what + ": vocabulary", "a count of tokens", std::to_string(vocabulary)));
  index.tokenizer.beginning = optional_token(tokenizer, "beginning", vocabulary, what);
  index.tokenizer.end_of_document = optional_token(tokenizer, "end_of_document", vocabulary, what);
  index.counts = corpus_counts(json.at("counts"), what);
  for (const OrderedJson& each : json.at("sources")) index.sources.push_back(source_record(each, what));
  for (const OrderedJson& each : json.at("left_out"))
    index.left_out.push_back({each.at("name").get<std::string>(), each.at("what").get<std::string>()});
  std::array<DocumentsAndTokens, 2> sums;
  for (const OrderedJson& each : json.at("shards")) {
    const ShardRecord shard = shard_record(each, what);
    // A name, not a path: an index says nothing of other folders.
    if (shard.file != shard_name(std::ssize(index.shards)))
      throw Error(expected_got(what + ": file", shard_name(std::ssize(index.shards)), OrderedJson(shard.file).dump()));
    for (std::size_t side = 0; side < sums.size(); ++side) {
      sums[side].documents += shard.sides[side].documents;
      sums[side].tokens += shard.sides[side].tokens;
    }
    index.shards.push_back(shard);
  }
  if (sums != index.counts.sides) throw Error(expected_got(what, "counts that are the sums of its shards", "others"));
  return index;
}

}  // namespace

ShardRecord::Places ShardRecord::places(CorpusSide side, std::int64_t token_bytes) const {
  std::int64_t start = 0;
  for (const CorpusSide each : corpus_sides) {
    const DocumentsAndTokens& of = sides[static_cast<std::size_t>(each)];
    const std::int64_t ends = start + up_to_eight(of.tokens * token_bytes);
    if (each == side) return {start, ends};
    start = ends + 8 * of.documents;
  }
  return {start, start};
}

std::int64_t ShardRecord::bytes(std::int64_t token_bytes) const {
  return places(CorpusSide::held_out, token_bytes).ends + 8 * sides.back().documents;
}

std::string shard_name(std::int64_t number, std::string_view ending) {
  return fmt::format("shard-{:05}.{}", number, ending);
}

OrderedJson to_json(const CorpusOptions& options) {
  return {{"field", options.field},
          {"held_out", options.held_out},
          {"invalid_utf8", options.invalid_utf8},
          {"shard_tokens", options.shard_tokens}};
}

OrderedJson to_json(const TokenizerRecord& tokenizer) {
  return {{"kind", tokenizer.kind},
          {"sha256", tokenizer.sha256},
          {"vocabulary", tokenizer.vocabulary},
          {"beginning", token_or_null(tokenizer.beginning)},
          {"end_of_document", token_or_null(tokenizer.end_of_document)}};
}

OrderedJson to_json(const CorpusCounts& counts) {
  OrderedJson json = sides_json(counts.sides);
  json["text_bytes"] = counts.text_bytes;
  json["duplicates"] = counts.duplicates;
  json["empty"] = counts.empty;
  json["invalid_utf8_dropped"] = counts.invalid_utf8_dropped;
  json["invalid_utf8_replaced"] = counts.invalid_utf8_replaced;
  return json;
}

OrderedJson to_json(const ShardRecord& shard) {
  OrderedJson json{{"file", shard.file}, {"sha256", shard.sha256}};
  json.update(sides_json(shard.sides));
  return json;
}

CorpusCounts corpus_counts(const OrderedJson& json, const std::string& what) {
  return {.sides = sides_of(json, what),
          .text_bytes = whole_count(json, "text_bytes", what),
          .duplicates = whole_count(json, "duplicates", what),
          .empty = whole_count(json, "empty", what),
          .invalid_utf8_dropped = whole_count(json, "invalid_utf8_dropped", what),
          .invalid_utf8_replaced = whole_count(json, "invalid_utf8_replaced", what)};
}

ShardRecord shard_record(const OrderedJson& json, const std::string& what) {
  return {.file = json.at("file").get<std::string>(),
          .sha256 = hash_text(json, "sha256", what),
          .sides = sides_of(json, what)};
}

std::string to_json(const CorpusIndex& index) {
  OrderedJson sources = OrderedJson::array(), left_out = OrderedJson::array(), shards = OrderedJson::array();
  for (const SourceRecord& each : index.sources)
    sources.push_back(
        {{"name", each.name}, {"bytes", each.bytes}, {"documents", each.documents}, {"sha256", each.sha256}});
  for (const LeftOut& each : index.left_out) left_out.push_back({{"name", each.path.string()}, {"what", each.what}});
  for (const ShardRecord& each : index.shards) shards.push_back(to_json(each));
  const OrderedJson json{{"format", corpus_format},
                         {"version", CorpusIndex::version},
                         {"name", index.name},
                         {"options", to_json(index.options)},
                         {"tokenizer", to_json(index.tokenizer)},
                         {"token_bytes", index.tokenizer.token_bytes()},
                         {"counts", to_json(index.counts)},
                         {"sources", std::move(sources)},
                         {"left_out", std::move(left_out)},
                         {"shards", std::move(shards)}};
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

CorpusIndex parse_corpus_index(std::string_view text, const std::string& what) {
  const auto refuse = [&](const std::string& got) {
    throw Error(expected_got(what, "the index of a corpus, as `cogwheel data prepare` writes it", got));
  };
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  if (!json.is_object() || json.value("format", OrderedJson()) != corpus_format) refuse("something else");
  const OrderedJson version = json.value("version", OrderedJson());
  if (version != CorpusIndex::version) {
    const bool number = version.is_number_integer();
    throw Error(expected_got(what, "version " + std::to_string(CorpusIndex::version),
                             number ? "version " + version.dump() : "none"));
  }
  try {
    return index_of(json, what);
  } catch (const nlohmann::json::exception& problem) {
    refuse(one_line(problem.what()));
  }
  return {};
}

}  // namespace cogwheel::text
