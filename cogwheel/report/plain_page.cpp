#include "cogwheel/report/plain_page.h"

#include <fmt/format.h>

#include "cogwheel/report/embedded.h"
#include "cogwheel/report/html.h"

namespace cogwheel {

std::string plain_page(std::string_view title, std::string_view verdict, const std::vector<PlainSection>& sections) {
  std::string parts;
  for (std::size_t index = 0; index < sections.size(); ++index) {
    const PlainSection& section = sections[index];
    const std::string lead =
        section.lead.empty() ? "" : fmt::format("\n    <p class=\"lead\">{}</p>", escape_html(section.lead));
    parts += fmt::format(
        "<section aria-labelledby=\"section-{0}\">\n  <header><h2 "
        "id=\"section-{0}\">{1}</h2>{2}</header>\n{3}</section>\n",
        index + 1, escape_html(section.title), lead, section.body);
  }
  return fill_template(embedded::plain_page_html, {{"title", escape_html(title)},
                                                   {"verdict", escape_html(verdict)},
                                                   {"css", std::string(embedded::report_css)},
                                                   {"sections", parts}});
}

}  // namespace cogwheel
