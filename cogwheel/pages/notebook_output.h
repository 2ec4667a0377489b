// What a notebook shows: HTML that stands among other outputs, looks as the report does, needs no network, and says as
// text the same where there is no HTML.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::pages {

struct NotebookOutput {
  std::string html, text;
};

// The part with the styles of report.css that it needs, confined to it. `scripted` is text of a script that makes more
// elements of it.
std::string notebook_html(std::string_view part, std::string_view scripted = "");

// Attention maps, signed, as the report and the viewer draw them: by a script, confined to its output.
struct NotebookHeads {
  std::vector<std::string> tokens;
  std::vector<std::vector<std::vector<float>>> layers;  // [layers][heads][tokens · tokens]; NaN or −∞: a hidden key
};
// Throws std::logic_error where a map has not tokens² weights.
NotebookOutput notebook_heads(const NotebookHeads& heads);

}  // namespace cogwheel::pages
