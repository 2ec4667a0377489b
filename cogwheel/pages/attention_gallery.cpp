#include "cogwheel/pages/attention_gallery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/pages/attention_map_code.h"
#include "cogwheel/pages/embedded.h"

namespace cogwheel::pages {

Figure attention_gallery_figure(const AttentionGallery& gallery) {
  std::size_t most = 1;
  for (const auto& layer : gallery.heads) most = std::max(most, layer.size());
  std::string html =
      fmt::format("<style>{}</style><div class=\"scroll\"><div class=\"gallery-of-heads\" style=\"--heads:{}\">",
                  embedded::gallery_css, most);
  const auto tokens = static_cast<std::size_t>(gallery.tokens);
  for (std::size_t layer = 0; layer < gallery.heads.size(); ++layer)
    for (std::size_t head = 0; head < most; ++head) {
      if (head >= gallery.heads[layer].size()) {
        html += "<span></span>";
        continue;
      }
      const std::vector<float>& weights = gallery.heads[layer][head];
      if (weights.size() != tokens * tokens) throw std::logic_error("attention_gallery_figure: weights");
      const auto last = weights.end() - gallery.tokens;
      const auto strongest =
          std::max_element(last, weights.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
      const std::string name = head_name(static_cast<std::int64_t>(layer), static_cast<std::int64_t>(head));
      html += fmt::format(
          "<figure><figcaption>{0}</figcaption><canvas role=\"img\" aria-label=\"{0}: the last token weighs token {1} "
          "most, by "
          "{2:.2f}\" data-tokens=\"{3}\" data-whole=\"{4}\" data-map=\"{5}\"></canvas><canvas "
          "aria-hidden=\"true\"></canvas>"
          "</figure>",
          name, strongest - last, *strongest, tokens, gallery.whole ? 1 : 0,
          encode_attention_map(weights, gallery.tokens, gallery.whole));
    }
  return {.title = gallery.title,
          .html = html + "</div></div>",
          .caption = gallery.caption,
          .scripts = {embedded::page_js, embedded::attention_maps_js, embedded::gallery_js}};
}

}  // namespace cogwheel::pages
