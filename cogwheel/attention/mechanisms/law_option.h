// What a law's layer does only if it is asked to (law_options.h).
#pragma once
#include <string_view>

namespace cogwheel {

struct LawOption {
  std::string_view name;       // as in `model.<name>` of a configuration
  std::string_view parameter;  // which the layer then gives doubled
};

}  // namespace cogwheel
