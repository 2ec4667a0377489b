// What pages and terminals show: tables of text, and figures.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::pages {

struct TextTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each with as many cells as there are columns
};

struct Figure {
  std::string title;
  // An <svg> element or other HTML, made by this program: pages insert it as it stands, so that every text from data
  // is escaped in it. Colours are custom properties of report.css, so that it follows the theme of a page.
  std::string html;
  std::string caption = {};                    // text
  std::vector<std::string_view> scripts = {};  // JavaScript that draws it, which a page has once, in this order
};

// In a page, with styles of report.css.
std::string table_html(const TextTable& table);
std::string figure_html(const Figure& figure);

// On a screen: columns beside each other, each line with its newline.
std::string table_text(const TextTable& table);

}  // namespace cogwheel::pages
