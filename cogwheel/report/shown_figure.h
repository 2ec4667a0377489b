// Figures that tasks describe as data: as a page shows them, and as files keep them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "cogwheel/core/exhibits.h"
#include "cogwheel/train/shown_figure.h"

namespace cogwheel {

Figure drawn_figure(const ShownFigure& figure);

nlohmann::ordered_json figure_to_json(const ShownFigure& figure);
// Throws Error that begins with `what` for what figure_to_json does not write, and nlohmann's exceptions.
ShownFigure figure_from_json(const nlohmann::ordered_json& json, std::string_view what);

}  // namespace cogwheel
