#include "cogwheel/pages/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/page_scripts.h"

namespace cogwheel::pages {
namespace {

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
