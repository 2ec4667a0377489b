#include "cogwheel/pages/exhibits.h"

#include <fmt/format.h>

#include <algorithm>

#include "cogwheel/pages/html.h"

namespace cogwheel::pages {
namespace {

// Numbers stand at the right, below each other. The first cell of a row is its head.
std::string row_html(const std::vector<std::string>& cells) {
  std::string html = fmt::format("<th scope=\"row\">{}</th>", escape_html(cells.front()));
  for (std::size_t cell = 1; cell < cells.size(); ++cell)
    html += fmt::format("<td{}>{}</td>", reads_as_number(cells[cell]) ? " class=\"right num\"" : "",
                        cell_html(cells[cell]));
  return "        <tr>" + html + "</tr>\n";
}

// Whether a column's cells are numbers, which stand at the right.
bool of_numbers(const TextTable& table, std::size_t column) {
  if (column == 0 || table.rows.empty()) return false;
  return std::all_of(table.rows.begin(), table.rows.end(),
                     [&](const auto& row) { return reads_as_number(row[column]); });
}

// Of UTF-8, whose characters take one column each but for a few that tables hardly have.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

}  // namespace

std::string table_html(const TextTable& table) {
  std::string heads, rows;
  for (std::size_t column = 0; column < table.columns.size(); ++column)
    heads += fmt::format("<th scope=\"col\"{}>{}</th>", of_numbers(table, column) ? " class=\"right\"" : "",
                         escape_html(table.columns[column]));
  for (const auto& row : table.rows) rows += row_html(row);
  const std::string title = table.title.empty() ? "" : fmt::format("    <h3>{}</h3>\n", escape_html(table.title));
  return fmt::format(
      "{}    <div class=\"scroll\"><table class=\"trials\">\n      <thead><tr>{}</tr></thead>\n      <tbody>\n{}"
      "      </tbody>\n    </table></div>\n",
      title, heads, rows);
}

std::string figure_html(const Figure& figure) {
  return fmt::format(
      "    <figure class=\"exhibit\"><h3>{}</h3>\n{}\n{}</figure>\n", escape_html(figure.title), figure.html,
      figure.caption.empty() ? "" : fmt::format("<figcaption>{}</figcaption>", escape_html(figure.caption)));
}

std::string table_text(const TextTable& table) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    widths.push_back(columns_of(table.columns[column]));
    for (const auto& row : table.rows) widths.back() = std::max(widths.back(), columns_of(row[column]));
  }
  std::string text = table.title.empty() ? "" : table.title + "\n";
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string room(widths[column] - columns_of(cells[column]), ' ');
      line += (column > 0 ? "  " : "") + (of_numbers(table, column) ? room + cells[column] : cells[column] + room);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add(table.columns);
  for (const auto& row : table.rows) add(row);
  return text;
}

}  // namespace cogwheel::pages
