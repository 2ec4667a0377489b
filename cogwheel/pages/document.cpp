#include "cogwheel/pages/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/page_scripts.h"

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

// A column's head stands where its cells do.
std::string table_html(const TextTable& table) {
  std::string heads, rows;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    bool numbers = column > 0 && !table.rows.empty();
    for (const auto& row : table.rows) numbers = numbers && reads_as_number(row[column]);
    heads += fmt::format("<th scope=\"col\"{}>{}</th>", numbers ? " class=\"right\"" : "",
                         escape_html(table.columns[column]));
  }
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

std::string section_html(const DocumentSection& section, std::size_t index) {
  std::string tables, figures, remarks;
  for (const TextTable& table : section.tables) tables += table_html(table);
  for (const Figure& figure : section.figures) figures += figure_html(figure);
  for (const auto& [words, meaning] : section.remarks)
    remarks +=
        fmt::format("      <li><strong>{}</strong> {}</li>\n", escape_html(words), escape_html(with_powers(meaning)));
  if (!remarks.empty()) remarks = "    <ul class=\"limits\">\n" + remarks + "    </ul>\n";
  return fill_template(
      embedded::document_section_html,
      {{"index", std::to_string(index)},
       {"title", escape_html(section.title)},
       {"lead", section.lead.empty() ? "" : fmt::format("      <p class=\"lead\">{}</p>\n", escape_html(section.lead))},
       {"tables", tables},
       {"figures", figures},
       {"remarks", remarks}});
}

}  // namespace

std::string document_page(const Document& document) {
  std::string facts, contents, sections, reproduce;
  for (const DocumentFact& fact : document.facts)
    facts += fmt::format("    <div><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", escape_html(fact.name),
                         escape_html(fact.value), escape_html(fact.detail));
  std::vector<std::string_view> scripts;
  for (const DocumentSection& section : document.sections)
    for (const Figure& figure : section.figures)
      for (const std::string_view script : figure.scripts)
        if (std::find(scripts.begin(), scripts.end(), script) == scripts.end()) scripts.push_back(script);
  for (std::size_t index = 0; index < document.sections.size(); ++index) {
    contents += fmt::format("    <li><a href=\"#section-{}\">{}</a></li>\n", index,
                            escape_html(document.sections[index].title));
    sections += section_html(document.sections[index], index);
  }
  if (!document.command.empty()) {
    contents += "    <li><a href=\"#reproduce\">Reproduce</a></li>\n";
    reproduce = fmt::format(
        "  <section id=\"reproduce\" aria-labelledby=\"reproduce-title\">\n"
        "    <header><h2 id=\"reproduce-title\">Reproduce</h2></header>\n"
        "    <div class=\"command\"><pre>{}</pre></div>\n  </section>\n",
        escape_html(document.command));
  }
  PageScripts code;
  if (!scripts.empty()) code.add(fmt::format("{}", fmt::join(scripts, "\n")));
  return fill_template(embedded::document_html, {{"generator", escape_html("Cogwheel " + document.version)},
                                                 {"created", escape_html(document.created)},
                                                 {"date", escape_html(date_text(document.created))},
                                                 {"title", escape_html(document.title)},
                                                 {"kind", escape_html(document.kind)},
                                                 {"verdict", escape_html(with_powers(document.verdict))},
                                                 {"css", std::string(embedded::report_css)},
                                                 {"facts", facts},
                                                 {"contents", contents},
                                                 {"sections", sections},
                                                 {"reproduce", reproduce},
                                                 {"written_by", escape_html(document.written_by)},
                                                 {"no_script", code.empty() ? ", no script" : ""},
                                                 {"policy", code.policy()},
                                                 {"scripts", code.html()}});
}

}  // namespace cogwheel::pages
