#include "cogwheel/data/sentence_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/data/text_lines.h"

namespace cogwheel {
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

struct Columns {
  std::size_t first = 0, label = 0, count = 0;
  std::optional<std::size_t> second = {};
};

// Nothing where the fields are no header.
std::optional<Columns> header_of(const Fields& fields) {
  constexpr std::string_view sentences[] = {"sentence",   "text",     "sentence1", "sentence2", "premise",
                                            "hypothesis", "question", "question1", "question2"};
  std::vector<std::size_t> found;
  std::optional<std::size_t> label;
  for (std::size_t column = 0; column < fields.size(); ++column) {
    std::string name(without_outer_spaces(fields[column]));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (std::find(std::begin(sentences), std::end(sentences), name) != std::end(sentences)) found.push_back(column);
    if (!label && (name == "label" || name == "gold_label")) label = column;
  }
  if (!label || found.empty() || found.size() > 2) return {};
  Columns columns{.first = found[0], .label = *label, .count = fields.size()};
  if (found.size() == 2) columns.second = found[1];
  return columns;
}

}  // namespace

bool is_table_name(const std::filesystem::path& path) {
  const std::string kind = file_kind(path);
  return kind == ".tsv" || kind == ".csv";
}

SentenceTable read_sentence_table(const std::filesystem::path& path) {
  TextLines text = read_text_lines(path);
  SentenceTable table{.rows = {}, .bytes = text.bytes, .sha256 = std::move(text.sha256)};
  TableReader reader(path, std::move(text.lines));
  std::optional<Columns> columns;
  while (!reader.at_end()) {
    const std::int64_t line = reader.line();
    if (reader.skip_blank()) {
      ++table.blank;
      continue;
    }
    Fields fields = reader.record();
    if (!columns) {
      columns = header_of(fields);
      const bool header = columns.has_value();
      if (!header) {
        if (fields.size() != 2 && fields.size() != 3)
          reader.refuse(line, fmt::format("a sentence or two and a label, with {} between", reader.separator()),
                        fmt::format("{} field{}", fields.size(), fields.size() == 1 ? "" : "s"));
        columns = Columns{.first = 0, .label = fields.size() - 1, .count = fields.size()};
        if (fields.size() == 3) columns->second = 1;
      }
      table.two_sentences = columns->second.has_value();
      if (header) continue;
    }
    if (fields.size() != columns->count)
      reader.refuse(line, fmt::format("{} fields with {} between, as before", columns->count, reader.separator()),
                    std::to_string(fields.size()));
    const std::string_view label = without_outer_spaces(fields[columns->label]);
    if (label.empty()) reader.refuse(line, "a label", "");
    SentenceRow row{.first = std::move(fields[columns->first]), .label = std::string(label), .line = line};
    if (columns->second) row.second = std::move(fields[*columns->second]);
    table.rows.push_back(std::move(row));
  }
  return table;
}

SentenceTable read_sentence_lines(const std::filesystem::path& path) {
  TextLines text = read_text_lines(path);
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

}  // namespace cogwheel
