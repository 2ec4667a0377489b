// Files of sentences: tables with a label for each sentence, or for each pair of sentences, and plain text.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cogwheel {

struct SentenceRow {
  std::string first, second = {};  // `second` only in tables of two sentences
  std::string label = {};          // not in plain text
  std::int64_t line = 0;           // where it begins, from 1
};

struct SentenceTable {
  std::vector<SentenceRow> rows = {};
  bool two_sentences = false;
  std::int64_t blank = 0;   // lines without anything, which are no rows
  std::int64_t bytes = 0;   // of the text, not of a compressed file
  std::string sha256 = {};  // of those bytes
};

// A table, compressed by gzip or not. The name says which kind: .csv and .csv.gz have fields between commas, quoted
// where need be (RFC 4180); all others have tabs between fields, and quotes are text.
//
// The first line is a header where it names a column `label` or `gold_label`, and one or two columns of sentences:
// `sentence`, `text`, `sentence1`, `sentence2`, `premise`, `hypothesis`, `question`, `question1`, `question2`, in any
// case of letters. Other columns are not read. Without a header, rows are (sentence, label) or (sentence, sentence,
// label), as the first row is. Spaces around a label are no part of it.
//
// Throws Error that names the file, and the line where there is one: what read_text_lines throws, another number of
// fields than the first line has, no label, and for .csv a quote that is not closed, or within a field without quotes.
SentenceTable read_sentence_table(const std::filesystem::path& path);

// Plain text, one sentence a line. Throws what read_text_lines throws.
SentenceTable read_sentence_lines(const std::filesystem::path& path);

// Whether the name is that of a table, not of plain text: .tsv or .csv, .gz or not.
bool is_table_name(const std::filesystem::path& path);

}  // namespace cogwheel
