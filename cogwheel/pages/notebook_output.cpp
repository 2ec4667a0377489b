#include "cogwheel/pages/notebook_output.h"

#include <fmt/format.h>

#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/scoped_style.h"

namespace cogwheel::pages {

std::string notebook_html(std::string_view part, std::string_view scripted) {
  const std::string sheet = fmt::format("{}\n{}", embedded::report_css, embedded::notebook_css);
  return fmt::format("<div class=\"cogwheel\">\n<style>\n{}</style>\n{}</div>\n",
                     scoped_style(sheet, fmt::format("{}{}", part, scripted)), part);
}

}  // namespace cogwheel::pages
