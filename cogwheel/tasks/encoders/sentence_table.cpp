#include "cogwheel/tasks/encoders/sentence_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/text/text_lines.h"

namespace cogwheel::tasks::encoders {
namespace {

using Fields = std::vector<std::string>;

// "csv" of a.CSV.gz.
std::string file_kind(std::filesystem::path path) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  if (lower(path.extension().string()) == ".gz") path = path.stem();
  return lower(path.extension().string());
}

std::string_view without_outer_spaces(std::string_view text) {
  constexpr std::string_view spaces = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

// The records of a table, one after another.
class TableReader {
 public:
  TableReader(const std::filesystem::path& path, std::vector<std::string> lines)
      : path_(path), lines_(std::move(lines)), quoted_(file_kind(path) == ".csv") {}

  bool at_end() const { return next_ == lines_.size(); }
  std::int64_t line() const { return static_cast<std::int64_t>(next_) + 1; }  // of the next record, from 1
  // Where the next line has nothing but spaces, goes past it.
  bool skip_blank() {
    if (!without_outer_spaces(lines_[next_]).empty()) return false;
    ++next_;
    return true;
  }
  Fields record() { return quoted_ ? quoted_record() : plain_record(); }

  [[noreturn]] void refuse(std::int64_t line, std::string_view expected, std::string_view got) const {
    throw Error(expected_got(fmt::format("{}, line {}", path_.string(), line), expected, got));
  }
  std::string separator() const { return quoted_ ? "commas" : "tabs"; }

 private:
  Fields plain_record() {
    std::string_view rest = lines_[next_++];
    Fields fields;
    for (;;) {
      const std::size_t end = rest.find('\t');
      fields.emplace_back(rest.substr(0, end));
      if (end == std::string_view::npos) return fields;
      rest.remove_prefix(end + 1);
    }
  }

  // A quoted field may have commas, doubled quotes and ends of lines in it.
  Fields quoted_record() {
    const std::int64_t first_line = line();
    Fields fields(1);
    enum class State { begin, open, plain, closed } state = State::begin;
    for (;;) {
      for (const std::string_view text = lines_[next_]; const char c : text) {
        std::string& field = fields.back();
        if (state == State::open) {
          if (c == '"')
            state = State::closed;
          else
            field += c;
        } else if (c == ',') {
          fields.emplace_back();
          state = State::begin;
        } else if (state == State::closed) {
          if (c != '"') refuse(line(), "a comma after a quoted field", std::string(1, c));
          field += c;
          state = State::open;
        } else if (c == '"') {
          if (state == State::plain) refuse(line(), "quotes around a whole field", "one within " + field);
          state = State::open;
        } else {
          field += c;
          state = State::plain;
        }
      }
      ++next_;
      if (state != State::open) return fields;
      if (at_end()) refuse(first_line, "quotes that are closed", "the end of the file");
      fields.back() += '\n';
    }
  }

  const std::filesystem::path& path_;
  std::vector<std::string> lines_;
  bool quoted_;
  std::size_t next_ = 0;
};

struct Record {
  Fields fields;
  std::int64_t line;
};

struct Columns {
  std::size_t first = 0, label = 0, count = 0;
  std::optional<std::size_t> second = {};
  bool labels = true;  // whether there is a column of labels

  SentenceRow row(Record& record) const {
    SentenceRow row{.first = std::move(record.fields[first]), .line = record.line};
    if (second) row.second = std::move(record.fields[*second]);
    if (labels) row.label = std::string(without_outer_spaces(record.fields[label]));
    return row;
  }
};

std::string lower_name(std::string_view field) {
  std::string name(without_outer_spaces(field));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

// What data sets that are published call such columns; of labels, those before others come first.
constexpr std::string_view sentence_names[] = {
    "sentence",  "text",        "sentence1", "sentence2", "premise", "hypothesis", "question", "question1",
    "question2", "review",      "tweet",     "comment",   "content", "body",       "message",  "title",
    "headline",  "description", "text_a",    "text_b",    "s1",      "s2",         "query",    "utterance"};
constexpr std::string_view label_names[] = {"label",    "gold_label", "labels", "class",  "category", "sentiment",
                                            "polarity", "target",     "rating", "intent", "emotion",  "topic"};

// Columns by their names; nothing where the fields are no header that is known. `labels`: whether one has to be there.
std::optional<Columns> named_columns(const Fields& fields, bool labels) {
  std::vector<std::size_t> found;
  std::size_t best = std::size(label_names);
  Columns columns{.count = fields.size()};
  for (std::size_t column = 0; column < fields.size(); ++column) {
    const std::string name = lower_name(fields[column]);
    if (std::find(std::begin(sentence_names), std::end(sentence_names), name) != std::end(sentence_names))
      found.push_back(column);
    const auto place = static_cast<std::size_t>(std::find(std::begin(label_names), std::end(label_names), name) -
                                                std::begin(label_names));
    if (place < best) best = place, columns.label = column;
  }
  columns.labels = best < std::size(label_names);
  if ((labels && !columns.labels) || found.empty() || found.size() > 2) return {};
  columns.first = found[0];
  if (found.size() == 2) columns.second = found[1];
  return columns;
}

// Sentences first, then the label.
Columns columns_in_order(std::size_t count) {
  Columns columns{.first = 0, .label = count - 1, .count = count};
  if (count == 3) columns.second = 1;
  return columns;
}

// A short name of one word, such as "star_rating", and hardly a sentence.
bool is_like_a_name(std::string_view field) {
  constexpr std::size_t longest = 30;
  const std::string_view name = without_outer_spaces(field);
  if (name.empty() || name.size() > longest) return false;
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0 || c >= 0x80; };
  return is_letter(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(),
                     [&](unsigned char c) { return is_letter(c) || std::isdigit(c) != 0 || c == '_' || c == '-'; });
}

// Whether the first record of a table without names that are known can only be a header: names, and in the place of the
// label one that no row has, where each label of a row occurs twice.
bool is_header_by_its_label(const std::vector<Record>& records, const Columns& columns) {
  const Fields& first = records.front().fields;
  if (!std::all_of(first.begin(), first.end(), is_like_a_name)) return false;
  std::map<std::string_view, std::int64_t> labels;
  for (auto record = records.begin() + 1; record != records.end(); ++record) {
    if (record->fields.size() != columns.count) return false;
    ++labels[without_outer_spaces(record->fields[columns.label])];
  }
  return labels.size() > 1 && !labels.contains(without_outer_spaces(first[columns.label])) &&
         std::all_of(labels.begin(), labels.end(), [](const auto& each) { return each.second > 1; });
}

std::string header_text(const Record& record, const Columns& columns) {
  const auto name = [&](std::size_t column) { return std::string(without_outer_spaces(record.fields[column])); };
  std::string text = fmt::format("line {} names its columns: sentences of {}", record.line, name(columns.first));
  if (columns.second) text += " and " + name(*columns.second);
  return columns.labels ? text + ", labels of " + name(columns.label) : text;
}

std::vector<Record> records_of(TableReader& reader, std::int64_t& blank) {
  std::vector<Record> records;
  while (!reader.at_end()) {
    const std::int64_t line = reader.line();
    if (reader.skip_blank())
      ++blank;
    else
      records.push_back({reader.record(), line});
  }
  return records;
}

std::string fields_text(std::size_t count) { return fmt::format("{} field{}", count, count == 1 ? "" : "s"); }

struct FoundColumns {
  Columns columns;
  bool header = false;  // whether the first record is one
};

FoundColumns columns_with_labels(const std::vector<Record>& records, const TableReader& reader, const Fields& header) {
  const Record& first = records.front();
  if (const auto named = named_columns(first.fields, true)) return {*named, true};
  const std::size_t count = first.fields.size();
  if (count != 2 && count != 3)
    reader.refuse(
        first.line,
        fmt::format("a sentence or two and a label, with {} between, or a header that names them", reader.separator()),
        fields_text(count));
  const Columns columns = columns_in_order(count);
  return {columns, first.fields == header || is_header_by_its_label(records, columns)};
}

FoundColumns columns_to_read(const std::vector<Record>& records, const TableReader& reader,
                             const SentencesToRead& how) {
  const Record& first = records.front();
  const std::size_t count = first.fields.size();
  const auto is_class = [&](const Record& record) {
    return std::find(how.classes.begin(), how.classes.end(), without_outer_spaces(record.fields.back())) !=
           how.classes.end();
  };
  FoundColumns found;
  if (const auto named = named_columns(first.fields, false)) {
    found = {*named, true};
  } else {
    // What ends in the name of a class in each row has labels.
    const bool alone = records.size() == 1;
    const bool labels = count > 1 && std::all_of(records.begin() + (alone ? 0 : 1), records.end(), is_class);
    const std::size_t sentences = how.in_row != 0 ? static_cast<std::size_t>(how.in_row) : count - (labels ? 1 : 0);
    if (sentences > 2 || count < sentences || count > sentences + 1)
      reader.refuse(first.line,
                    fmt::format("{} and perhaps a label, with {} between",
                                how.in_row == 0   ? "a sentence or two"
                                : how.in_row == 1 ? "one sentence, as the model learned,"
                                                  : "two sentences, as the model learned,",
                                reader.separator()),
                    fields_text(count));
    found.columns = {.label = count - 1, .count = count, .labels = count > sentences};
    if (sentences == 2) found.columns.second = 1;
    found.header =
        labels && !alone && !is_class(first) && std::all_of(first.fields.begin(), first.fields.end(), is_like_a_name);
  }
  const bool two = found.columns.second.has_value();
  if (how.in_row != 0 && two != (how.in_row == 2))
    reader.refuse(first.line,
                  how.in_row == 1 ? "one column of sentences, as the model learned"
                                  : "two columns of sentences, as the model learned",
                  two ? "two" : "one");
  return found;
}

// `columns_of(records, reader)` says what the columns of records are, of which there is at least one.
template <class ColumnsOf>
SentenceTable read_table(const std::filesystem::path& path, const ColumnsOf& columns_of, bool need_labels) {
  text::TextLines text = text::read_text_lines(path);
  SentenceTable table{.rows = {}, .bytes = text.bytes, .sha256 = std::move(text.sha256)};
  TableReader reader(path, std::move(text.lines));
  std::vector<Record> records = records_of(reader, table.blank);
  if (records.empty()) return table;
  const auto [columns, header] = columns_of(records, reader);
  if (header) table.header = records.front().fields, table.header_text = header_text(records.front(), columns);
  table.two_sentences = columns.second.has_value();
  for (auto record = records.begin() + (header ? 1 : 0); record != records.end(); ++record) {
    if (record->fields.size() != columns.count)
      reader.refuse(record->line,
                    fmt::format("{} fields with {} between, as before", columns.count, reader.separator()),
                    std::to_string(record->fields.size()));
    table.rows.push_back(columns.row(*record));
    if (need_labels && table.rows.back().label.empty()) reader.refuse(record->line, "a label", "");
  }
  return table;
}

}  // namespace

bool is_table_name(const std::filesystem::path& path) {
  const std::string kind = file_kind(path);
  return kind == ".tsv" || kind == ".csv";
}

SentenceTable read_sentence_table(const std::filesystem::path& path, const std::vector<std::string>& header) {
  const auto columns = [&](const auto& records, const auto& reader) {
    return columns_with_labels(records, reader, header);
  };
  return read_table(path, columns, true);
}

SentenceTable read_sentences(const std::filesystem::path& path, const SentencesToRead& how) {
  if (is_table_name(path))
    return read_table(
        path, [&](const auto& records, const auto& reader) { return columns_to_read(records, reader, how); }, false);
  text::TextLines text = text::read_text_lines(path);
  SentenceTable table{.rows = {}, .bytes = text.bytes, .sha256 = std::move(text.sha256)};
  for (const std::string& line : text.lines) table.rows.push_back(sentences_in(line, how.in_row));
  for (std::size_t row = 0; row < table.rows.size(); ++row) table.rows[row].line = static_cast<std::int64_t>(row) + 1;
  return table;
}

SentenceRow sentences_in(std::string_view text, std::int64_t in_row) {
  const std::size_t tab = in_row == 1 ? std::string_view::npos : text.find('\t');
  if (tab == std::string_view::npos) return {.first = std::string(text)};
  return {.first = std::string(text.substr(0, tab)), .second = std::string(text.substr(tab + 1))};
}

SentenceTable read_sentence_lines(const std::filesystem::path& path) {
  text::TextLines text = text::read_text_lines(path);
  SentenceTable table{.rows = {}, .bytes = text.bytes, .sha256 = std::move(text.sha256)};
  std::int64_t line = 0;
  for (std::string& sentence : text.lines) {
    ++line;
    if (without_outer_spaces(sentence).empty())
      ++table.blank;
    else
      table.rows.push_back({.first = std::move(sentence), .line = line});
  }
  return table;
}

}  // namespace cogwheel::tasks::encoders
