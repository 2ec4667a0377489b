#include "cogwheel/pages/page_scripts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>

#include "cogwheel/core/encoding/base64.h"
#include "cogwheel/core/encoding/sha256.h"

namespace cogwheel::pages {

void PageScripts::add(std::string_view text) {
  html_ += fmt::format("<script>{}</script>\n", text);
  const std::string digits = sha256(text);
  std::vector<std::uint8_t> bytes;
  for (std::size_t at = 0; at < digits.size(); at += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(at, 2), nullptr, 16)));
  sources_.push_back(fmt::format("'sha256-{}'", base64(bytes)));
}

std::string PageScripts::policy(std::string_view connect) const {
  return fmt::format(
      "default-src 'none'; style-src 'unsafe-inline'; script-src {}; img-src data: blob:; connect-src {}; base-uri "
      "'none'; form-action 'none'",
      sources_.empty() ? "'none'" : fmt::format("{}", fmt::join(sources_, " ")), connect);
}

}  // namespace cogwheel::pages
