// Files of sentences: tables with a label for each sentence, or for each pair of sentences, and plain text.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::tasks::encoders {

struct SentenceRow {
  std::string first, second = {};  // `second` only in tables of two sentences
  std::string label = {};          // not in plain text
  std::int64_t line = 0;           // where it begins, from 1
};

struct SentenceTable {
  std::vector<SentenceRow> rows = {};
  bool two_sentences = false;
  std::int64_t blank = 0;                // lines without anything, which are no rows
  std::int64_t bytes = 0;                // of the text, not of a compressed file
  std::string sha256 = {};               // of those bytes
  std::vector<std::string> header = {};  // the fields of the first line where that is no row; else none
  std::string header_text = {};  // what it was taken as: "line 1 names its columns: sentences of a, labels of b"
};

// A table, compressed by gzip or not. The name says which kind: .csv and .csv.gz have fields between commas, quoted
// where need be (RFC 4180); all others have tabs between fields, and quotes are text.
//
// The first line is a header where
//   - it names a column of labels and one or two of sentences as many data sets do (`label`, `class`, `sentiment`, …;
//     `sentence`, `text`, `premise`, `review`, …), in any case of letters; other columns are not read;
//   - it is `header`, that of another file of the same data;
//   - it has two or three short names, the last of which is the label of no row, while every label of a row occurs
//     twice or more.
// But in the first case, rows are (sentence, label) or (sentence, sentence, label), as the first line is. Spaces around
// a label are no part of it.
//
// Throws Error that names the file, and the line where there is one: what read_text_lines throws, another number of
// fields than the first line has, no label, and for .csv a quote that is not closed, or within a field without quotes.
SentenceTable read_sentence_table(const std::filesystem::path& path, const std::vector<std::string>& header = {});

// How a trained model takes what it is given.
struct SentencesToRead {
  std::int64_t in_row = 0;                // sentences that it learned from in a row, 1 or 2; 0: not known
  std::vector<std::string> classes = {};  // names that it tells apart; none: it does not classify
};

// Sentences without labels: of plain text a line each, blank ones too; of a table those of its rows, whose labels,
// where it has any, are kept apart. Where it is not known how many are in a row, a last column in which all rows have
// names of classes is one of labels, and the others are sentences. Throws as read_sentence_table, and for another
// number.
SentenceTable read_sentences(const std::filesystem::path& path, const SentencesToRead& how);

// A text, or, unless there is one in a row, two with a tab between.
SentenceRow sentences_in(std::string_view text, std::int64_t in_row);

// Plain text, one sentence a line. Throws what read_text_lines throws.
SentenceTable read_sentence_lines(const std::filesystem::path& path);

// Whether the name is that of a table, not of plain text: .tsv or .csv, .gz or not.
bool is_table_name(const std::filesystem::path& path);

}  // namespace cogwheel::tasks::encoders
