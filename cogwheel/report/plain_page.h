// A page in the style of the report that needs no script, for what is all text, tables and figures.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel {

struct PlainSection {
  std::string title, lead;  // text; the lead may be empty
  std::string body;         // HTML
};

// One file that opens offline. `verdict`: what there is to see, in a sentence or two.
std::string plain_page(std::string_view title, std::string_view verdict, const std::vector<PlainSection>& sections);

}  // namespace cogwheel
