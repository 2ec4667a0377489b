// Every head of a model at once: layer by layer, maps in signed colours, and below each the last query's row as bars.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/pages/exhibits.h"

namespace cogwheel::pages {

struct AttentionGallery {
  std::string title;
  std::int64_t tokens = 0;
  std::vector<std::vector<std::vector<float>>> heads = {};  // [layers][heads][tokens · tokens]
  bool whole = false;                                       // tokens see later ones too
  std::string caption = {};
};

// Throws std::logic_error where a map has not tokens² weights.
Figure attention_gallery_figure(const AttentionGallery& gallery);

}  // namespace cogwheel::pages
