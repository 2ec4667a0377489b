#include "cogwheel/data/sentence_corpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/sha256.h"
#include "cogwheel/data/sentence_table.h"

namespace cogwheel {
namespace {

// Of a file without a held-out one: a tenth of its rows, but no more than this.
constexpr std::int64_t most_held_out_rows = 1000;

std::string row_text(const SentenceRow& row) { return row.second.empty() ? row.first : row.first + " " + row.second; }

SentenceTable read_part(const std::filesystem::path& path, bool labels, SentenceCorpus& corpus) {
  SentenceTable table = labels || is_table_name(path) ? read_sentence_table(path) : read_sentence_lines(path);
  corpus.files.push_back({path, corpus.bytes, table.bytes, table.sha256});
  corpus.bytes += table.bytes;
  return table;
}

// Moves rows, evenly spread, from a table to another.
SentenceTable take_held_out_rows(SentenceTable& table) {
  const auto all = std::ssize(table.rows);
  const std::int64_t count = std::min(most_held_out_rows, all / 10);
  SentenceTable taken{.rows = {}, .two_sentences = table.two_sentences};
  std::vector<SentenceRow> kept;
  for (std::int64_t row = 0, next = 0; row < all; ++row) {
    const bool held_out = next < count && row == next * all / count;
    next += held_out ? 1 : 0;
    (held_out ? taken.rows : kept).push_back(std::move(table.rows[static_cast<std::size_t>(row)]));
  }
  table.rows = std::move(kept);
  return taken;
}

std::vector<std::string> classes_of(const SentenceTable& table, const std::string& name) {
  std::set<std::string> found;
  for (const SentenceRow& row : table.rows) found.insert(row.label);
  if (found.size() < 2)
    throw Error(
        expected_got(name, "rows with two labels at least", found.empty() ? "no rows" : "only " + *found.begin()));
  if (std::ssize(found) > SentenceOptions::most_classes)
    throw Error(expected_got(name, fmt::format("{} different labels at most", SentenceOptions::most_classes),
                             std::to_string(found.size())));
  return {found.begin(), found.end()};
}

// Whether there is anything to hide and predict.
bool has_words(const WordPieceTokenizer& tokenizer, std::span<const Token> tokens) {
  return std::any_of(tokens.begin(), tokens.end(), [&](Token token) { return !tokenizer.is_special(token); });
}

// So many tokens at most, and no word in two, unless it is longer than that.
std::size_t whole_words(const WordPieceTokenizer& tokenizer, std::span<const Token> tokens, std::size_t most) {
  if (tokens.size() <= most) return tokens.size();
  for (std::size_t size = most; size > 0; --size)
    if (!tokenizer.continues(tokens[size])) return size;
  return most;
}

SentenceRows encode_labelled(const SentenceTable& table, const SentenceCorpus& corpus, const std::string& name,
                             const std::unordered_set<std::string>& held_out = {}) {
  SentenceRows rows;
  rows.tokens.empty = table.blank;
  for (const SentenceRow& row : table.rows) {
    const auto label = std::lower_bound(corpus.classes.begin(), corpus.classes.end(), row.label);
    if (label == corpus.classes.end() || *label != row.label)
      throw Error(expected_got(
          fmt::format("{}, line {}", name, row.line),
          fmt::format("a label of {}: {:.80}", name.ends_with(corpus.name) ? "the rows to learn from" : corpus.name,
                      fmt::format("{}", fmt::join(corpus.classes, ", "))),
          row.label));
    const EncodedRow encoded = encode_row(*corpus.tokenizer, row.first, row.second, corpus.longest);
    if (encoded.first.empty() || (table.two_sentences && encoded.second.empty())) {
      ++rows.tokens.empty;
    } else if (held_out.contains(row_text(row))) {
      ++rows.tokens.held_out;
    } else {
      rows.cut += encoded.cut ? 1 : 0;
      rows.tokens.add(encoded.first, encoded.second, row.line - 1);
      rows.labels.push_back(label - corpus.classes.begin());
      rows.texts.push_back(row_text(row));
    }
  }
  return rows;
}

SentenceRows encode_text(const SentenceTable& table, const SentenceCorpus& corpus,
                         const std::unordered_set<std::string>& held_out = {}) {
  SentenceRows rows;
  rows.tokens.empty = table.blank;
  const WordPieceTokenizer& tokenizer = *corpus.tokenizer;
  const auto add = [&](std::span<const Token> first, std::span<const Token> second, std::int64_t line) {
    if (has_words(tokenizer, first) || has_words(tokenizer, second))
      rows.tokens.add(first, second, line);
    else
      ++rows.tokens.empty;
  };
  for (const SentenceRow& row : table.rows) {
    if (held_out.contains(row_text(row))) {
      ++rows.tokens.held_out;
    } else if (table.two_sentences) {
      const EncodedRow encoded = encode_row(tokenizer, row.first, row.second, corpus.longest);
      rows.cut += encoded.cut ? 1 : 0;
      add(encoded.first, encoded.second, row.line - 1);
    } else {
      const std::vector<Token> tokens = tokenizer.encode(row.first);
      const auto most = static_cast<std::size_t>(corpus.longest - 2);
      rows.cut += tokens.size() > most ? 1 : 0;
      std::span<const Token> rest = tokens;
      do {
        const auto part = rest.first(whole_words(tokenizer, rest, most));
        add(part, {}, row.line - 1);
        rest = rest.subspan(part.size());
      } while (!rest.empty());
    }
  }
  return rows;
}

void expect_rows(std::string_view what, const SentenceRows& rows) {
  if (rows.size() == 0)
    throw Error(
        expected_got(what, "sentences to learn from",
                     fmt::format("{} empty and {} that are also held out", rows.tokens.empty, rows.tokens.held_out)));
}

}  // namespace

std::int64_t encoded_length(std::span<const Token> first, std::span<const Token> second) {
  return std::ssize(first) + 2 + (second.empty() ? 0 : std::ssize(second) + 1);
}

std::int64_t SentenceRows::length(std::int64_t row) const {
  return encoded_length(tokens.source(row), tokens.target(row));
}

EncodedRow encode_row(const WordPieceTokenizer& tokenizer, std::string_view first, std::string_view second,
                      std::int64_t longest) {
  EncodedRow row{.first = tokenizer.encode(first), .second = tokenizer.encode(second)};
  const std::int64_t most = longest - (row.second.empty() ? 2 : 3);
  while (std::ssize(row.first) + std::ssize(row.second) > most) {
    (row.first.size() >= row.second.size() ? row.first : row.second).pop_back();
    row.cut = true;
  }
  return row;
}

SentenceCorpus load_sentence_corpus(const SentenceOptions& options,
                                    std::shared_ptr<const WordPieceTokenizer> tokenizer) {
  if (options.training.empty()) throw UsageError(expected_got("sentences", "a file to learn from", "none"));
  expect_within("longest row", options.longest, SentenceOptions::lengths);
  expect_within("vocabulary", options.vocabulary, WordPieceTokenizer::vocabularies);

  SentenceCorpus corpus;
  corpus.name = options.training.filename().string();
  corpus.longest = options.longest;
  SentenceTable training = read_part(options.training, options.labels, corpus);
  const bool of_training = options.held_out.empty();
  if (of_training && training.rows.size() < 10)
    throw Error(expected_got(options.training.string(), "10 sentences at least, of which a tenth is held out",
                             std::to_string(training.rows.size())));
  const SentenceTable held_out =
      of_training ? take_held_out_rows(training) : read_part(options.held_out, options.labels, corpus);
  if (training.two_sentences != held_out.two_sentences)
    throw Error(
        expected_got(options.held_out.string(),
                     fmt::format("{} in a row, as {} has", training.two_sentences ? "two sentences" : "one sentence",
                                 options.training.string()),
                     held_out.two_sentences ? "two" : "one"));
  Sha256 all;
  for (const CorpusFile& file : corpus.files) all.add(file.sha256);
  corpus.sha256 = all.digits();

  const std::string training_name = options.training.string(),
                    held_out_name = of_training ? training_name : options.held_out.string();
  if (options.labels) corpus.classes = classes_of(training, training_name);
  if (tokenizer == nullptr && !options.vocab.empty())
    tokenizer = WordPieceTokenizer::read(options.vocab, options.cased);
  if (tokenizer == nullptr) {
    std::vector<std::string_view> lines;
    for (const SentenceRow& row : training.rows) {
      lines.push_back(row.first);
      lines.push_back(row.second);
    }
    tokenizer = WordPieceTokenizer::learn(lines, options.vocabulary, options.cased, training_name);
  }
  corpus.tokenizer = std::move(tokenizer);

  std::unordered_set<std::string> known;
  if (of_training)
    for (const SentenceRow& row : held_out.rows) known.insert(row_text(row));
  corpus.training =
      options.labels ? encode_labelled(training, corpus, training_name, known) : encode_text(training, corpus, known);
  corpus.held_out = options.labels ? encode_labelled(held_out, corpus, held_out_name) : encode_text(held_out, corpus);
  expect_rows(training_name, corpus.training);
  expect_rows(of_training ? held_out_name + ", held-out part" : held_out_name, corpus.held_out);
  return corpus;
}

SentenceCorpus load_sentence_corpus(const SentenceOptions& options) { return load_sentence_corpus(options, nullptr); }

std::string dropped_text(const SentenceCorpus& corpus) {
  const SentenceRows& rows = corpus.training;
  std::string text;
  const auto add = [&](std::int64_t count, const std::string& why) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, why);
  };
  add(rows.tokens.empty, "empty and dropped");
  add(rows.tokens.held_out, "also held out and dropped");
  add(rows.cut, fmt::format("cut to {} tokens", corpus.longest));
  return text.empty() ? "" : "sentences: " + text;
}

}  // namespace cogwheel
