#include "cogwheel/tasks/encoders/sentence_corpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/class_matching.h"
#include "cogwheel/tasks/encoders/sentence_table.h"
#include "cogwheel/text/held_out_tenth.h"

namespace cogwheel::tasks::encoders {
namespace {

// Of a file without a held-out one: a tenth of its rows, but no more than this.
constexpr std::int64_t most_held_out_rows = 1000;

std::string row_text(const SentenceRow& row) { return row.second.empty() ? row.first : row.first + " " + row.second; }

SentenceTable read_part(const std::filesystem::path& path, bool labels, SentenceCorpus& corpus,
                        const std::vector<std::string>& header = {}) {
  SentenceTable table = labels || is_table_name(path) ? read_sentence_table(path, header) : read_sentence_lines(path);
  if (!table.header_text.empty()) corpus.taken_as.push_back(path.filename().string() + ": " + table.header_text);
  corpus.files.push_back({path, corpus.bytes, table.bytes, table.sha256});
  corpus.bytes += table.bytes;
  return table;
}

std::string content_of(const SentenceRow& row) {
  const std::string first = text::text_content(row.first), second = text::text_content(row.second);
  return second.empty() ? first : first + "\n" + second;
}

// The same rows whether labels are learned or words that are hidden, so that an encoder of words is no leak into what
// its sentences are classified on.
std::vector<bool> held_out_rows(const SentenceTable& table, const std::string& name) {
  std::map<std::string, std::int64_t> numbers;
  for (const SentenceRow& row : table.rows) numbers.emplace(row.label, 0);
  for (std::int64_t next = 0; auto& [label, number] : numbers) number = next++;
  std::vector<std::string> contents;
  std::vector<std::int64_t> classes;
  for (const SentenceRow& row : table.rows) {
    contents.push_back(content_of(row));
    classes.push_back(numbers[row.label]);
  }
  std::vector<bool> held_out = text::held_out_tenth({.keys = contents, .classes = classes, .most = most_held_out_rows});
  const bool some = std::any_of(contents.begin(), contents.end(), [](const auto& each) { return !each.empty(); });
  if (some && std::find(held_out.begin(), held_out.end(), true) == held_out.end())
    throw Error(expected_got(name, "two different rows or more, one to hold out", "only equal ones"));
  return held_out;
}

SentenceTable take_held_out_rows(SentenceTable& table, const std::vector<bool>& held_out) {
  SentenceTable taken{.rows = {}, .two_sentences = table.two_sentences};
  std::vector<SentenceRow> kept;
  for (std::size_t row = 0; row < table.rows.size(); ++row)
    (held_out[row] ? taken.rows : kept).push_back(std::move(table.rows[row]));
  table.rows = std::move(kept);
  return taken;
}

// The names of a table's labels, sorted.
std::vector<std::string> classes_of(const SentenceTable& table, const std::string& name, SentenceCorpus& corpus,
                                    std::int64_t least) {
  std::map<std::string, std::vector<std::int64_t>> lines;
  for (const SentenceRow& row : table.rows) lines[row.label].push_back(row.line);
  if (std::ssize(lines) < least)
    throw Error(expected_got(name, least == 1 ? "rows" : "rows with two labels at least",
                             lines.empty() ? "no rows" : "only " + lines.begin()->first));
  if (std::ssize(lines) > SentenceOptions::most_classes)
    throw Error(expected_got(name, fmt::format("{} different labels at most", SentenceOptions::most_classes),
                             std::to_string(lines.size())));
  std::vector<std::string> classes, alone;
  for (const auto& [label, all] : lines) {
    classes.push_back(label);
    if (all.size() == 1) alone.push_back(fmt::format("{} (line {})", label, all.front()));
  }
  constexpr std::size_t shown = 3;
  if (!alone.empty())
    corpus.taken_as.push_back(fmt::format(
        "{}: classes of one row: {}{}", corpus.name,
        fmt::join(alone.begin(), alone.begin() + static_cast<std::ptrdiff_t>(std::min(shown, alone.size())), ", "),
        alone.size() > shown ? fmt::format(" and {} more", alone.size() - shown) : ""));
  return classes;
}

// What labels mean.
using LabelNumbers = std::map<std::string, std::int64_t>;

// Sets the classes of a corpus: the known ones of a model, to which those of the table are matched, or its own.
LabelNumbers number_classes(const SentenceTable& table, const std::string& name, const SentenceOptions& options,
                            SentenceCorpus& corpus) {
  const std::vector<std::string> own = classes_of(table, name, corpus, options.classes.empty() ? 2 : 1);
  LabelNumbers numbers;
  corpus.classes = options.classes.empty() ? own : options.classes;
  const runs::ClassMatch match = runs::match_classes(corpus.classes, own, name + ": labels");
  if (!match.note.empty()) corpus.taken_as.push_back(corpus.name + ": " + match.note);
  for (std::size_t label = 0; label < own.size(); ++label) numbers.emplace(own[label], match.places[label]);
  // The other file may have those that this one lacks.
  if (match.note.empty())
    for (std::size_t label = 0; label < corpus.classes.size(); ++label)
      numbers.emplace(corpus.classes[label], static_cast<std::int64_t>(label));
  return numbers;
}

// Whether there is anything to hide and predict.
bool has_words(const text::WordPieceTokenizer& tokenizer, std::span<const Token> tokens) {
  return std::any_of(tokens.begin(), tokens.end(), [&](Token token) { return !tokenizer.is_special(token); });
}

// So many tokens at most, and no word in two, unless it is longer than that.
std::size_t whole_words(const text::WordPieceTokenizer& tokenizer, std::span<const Token> tokens, std::size_t most) {
  if (tokens.size() <= most) return tokens.size();
  for (std::size_t size = most; size > 0; --size)
    if (!tokenizer.continues(tokens[size])) return size;
  return most;
}

SentenceRows encode_labelled(const SentenceTable& table, const SentenceCorpus& corpus, const std::string& name,
                             const LabelNumbers& numbers) {
  SentenceRows rows;
  rows.tokens.empty = table.blank;
  for (const SentenceRow& row : table.rows) {
    const auto label = numbers.find(row.label);
    if (label == numbers.end())
      throw Error(expected_got(
          fmt::format("{}, line {}", name, row.line),
          fmt::format("a label of {}: {:.80}", name.ends_with(corpus.name) ? "the rows to learn from" : corpus.name,
                      fmt::format("{}", fmt::join(corpus.classes, ", "))),
          row.label));
    const EncodedRow encoded = encode_row(*corpus.tokenizer, row.first, row.second, corpus.longest);
    if (encoded.first.empty() || (table.two_sentences && encoded.second.empty())) {
      ++rows.tokens.empty;
    } else {
      rows.cut += encoded.cut ? 1 : 0;
      rows.tokens.add(encoded.first, encoded.second, row.line - 1);
      rows.labels.push_back(label->second);
      rows.texts.push_back(row_text(row));
    }
  }
  return rows;
}

SentenceRows encode_text(const SentenceTable& table, const SentenceCorpus& corpus) {
  SentenceRows rows;
  rows.tokens.empty = table.blank;
  const text::WordPieceTokenizer& tokenizer = *corpus.tokenizer;
  const auto add = [&](std::span<const Token> first, std::span<const Token> second, std::int64_t line) {
    if (has_words(tokenizer, first) || has_words(tokenizer, second))
      rows.tokens.add(first, second, line);
    else
      ++rows.tokens.empty;
  };
  for (const SentenceRow& row : table.rows) {
    if (table.two_sentences) {
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
    throw Error(expected_got(what, "sentences to learn from",
                             rows.tokens.empty == 0 ? "none" : fmt::format("{} empty", rows.tokens.empty)));
}

}  // namespace

std::int64_t encoded_length(std::span<const Token> first, std::span<const Token> second) {
  return std::ssize(first) + 2 + (second.empty() ? 0 : std::ssize(second) + 1);
}

std::int64_t SentenceRows::length(std::int64_t row) const {
  return encoded_length(tokens.source(row), tokens.target(row));
}

EncodedRow encode_row(const text::WordPieceTokenizer& tokenizer, std::string_view first, std::string_view second,
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
                                    std::shared_ptr<const text::WordPieceTokenizer> tokenizer) {
  if (options.training.empty()) throw UsageError(expected_got("sentences", "a file to learn from", "none"));
  expect_within("longest row", options.longest, SentenceOptions::lengths);
  expect_within("vocabulary", options.vocabulary, text::WordPieceTokenizer::vocabularies);

  SentenceCorpus corpus;
  corpus.name = options.training.filename().string();
  corpus.longest = options.longest;
  SentenceTable training = read_part(options.training, options.labels, corpus);
  const bool of_training = options.held_out.empty();
  if (of_training && training.rows.size() < 10)
    throw Error(expected_got(options.training.string(), "10 sentences at least, of which a tenth is held out",
                             std::to_string(training.rows.size())));
  const std::string training_name = options.training.string(),
                    held_out_name = of_training ? training_name : options.held_out.string();
  LabelNumbers numbers;
  if (options.labels) numbers = number_classes(training, training_name, options, corpus);
  const std::vector<bool> sides = of_training ? held_out_rows(training, training_name) : std::vector<bool>();
  const SentenceTable held_out = of_training ? take_held_out_rows(training, sides)
                                             : read_part(options.held_out, options.labels, corpus, training.header);
  if (training.two_sentences != held_out.two_sentences)
    throw Error(
        expected_got(options.held_out.string(),
                     fmt::format("{} in a row, as {} has", training.two_sentences ? "two sentences" : "one sentence",
                                 options.training.string()),
                     held_out.two_sentences ? "two" : "one"));
  Sha256 all;
  for (const text::CorpusFile& file : corpus.files) all.add(file.sha256);
  corpus.sha256 = all.digits();
  if (of_training) corpus.sha256 = text::sha256_of_split(corpus.sha256, sides);
  corpus.two_sentences = training.two_sentences;

  if (tokenizer == nullptr && !options.vocab.empty())
    tokenizer = text::WordPieceTokenizer::read(options.vocab, options.cased);
  if (tokenizer == nullptr) {
    std::vector<std::string_view> lines;
    for (const SentenceRow& row : training.rows) {
      lines.push_back(row.first);
      lines.push_back(row.second);
    }
    tokenizer = text::WordPieceTokenizer::learn(lines, options.vocabulary, options.cased, training_name);
  }
  corpus.tokenizer = std::move(tokenizer);

  corpus.training =
      options.labels ? encode_labelled(training, corpus, training_name, numbers) : encode_text(training, corpus);
  corpus.held_out =
      options.labels ? encode_labelled(held_out, corpus, held_out_name, numbers) : encode_text(held_out, corpus);
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
  add(rows.cut, fmt::format("cut to {} tokens", corpus.longest));
  return text.empty() ? "" : "sentences: " + text;
}

}  // namespace cogwheel::tasks::encoders
